"""Dice of the foreground against its definition, whatever the batches, groups and workers."""

import json

import numpy as np
import pytest
import torch
import toyseg

from fedseg.errors import ConfigError, DataError
from fedseg.evaluation import ForegroundDice
from fedseg.evaluation.counting import Grouped
from fedseg.leaderboard.verify import verify

FUNDUS = {"disc": [1, 2], "cup": [2]}


class Slices:
    """Twelve label maps of four cases; the first case has no cup, the second nothing at all."""

    cases = ["p7", "p1", "p3", "p5"] * 3
    metainfo = {"classes": ("background", "rim", "cup")}

    def __init__(self):
        rng = np.random.default_rng(0)
        self.truth = rng.integers(0, 3, (12, 6, 7))
        self.guess = rng.integers(0, 3, (12, 6, 7))
        self.guess[1::4] = self.truth[1::4] = 0
        self.truth[0::4] = np.minimum(self.truth[0::4], 1)
        self.guess[0:8:4] = np.minimum(self.guess[0:8:4], 1)
        self.truth[3, :2] = 255

    def __len__(self):
        return 12


def metric(data, **options):
    made = ForegroundDice(FUNDUS, **options)
    made.dataset_meta = data.metainfo
    made.prepare(data)
    return made


def process(made, data, indices):
    labels, guess = (torch.from_numpy(side[indices]) for side in (data.truth, data.guess))
    made.process(indices, {"data_samples": labels}, guess)


def by_definition(data, units):
    means = {}
    for name, ids in FUNDUS.items():
        values = []
        for unit in sorted(set(units)):
            chosen = np.array([other == unit for other in units])
            known = data.truth[chosen] != 255
            truth = np.isin(data.truth[chosen], ids) & known
            guess = np.isin(data.guess[chosen], ids) & known
            if truth.any() or guess.any():
                values.append(200 * (truth & guess).sum() / (truth.sum() + guess.sum()))
        means[name] = np.mean(values)
    return means


@pytest.mark.parametrize("by", ["image", "case"])
def test_against_the_definition_in_any_order_of_batches(by):
    data = Slices()
    units = data.cases if by == "case" else list(range(12))
    expected = by_definition(data, units)
    values = []
    for order, size in ((np.arange(12), 12), (np.arange(12)[::-1], 5), (np.arange(12), 1)):
        made, other = metric(data, by=by), metric(data, by=by)
        for number, start in enumerate(range(0, 12, size)):
            process((made, other)[number % 2], data, order[start : start + size])
        if other.counts is not None:
            made.add(other.counts)  # as of another worker
        assert made.details()["fgDice_by_class"] == pytest.approx(expected, rel=1e-12)
        values.append(made.evaluate())
    assert values[0] == values[1] == values[2]
    assert values[0]["fgDice"] == pytest.approx(np.mean(list(expected.values())), rel=1e-12)


def test_groups_are_means_of_their_images():
    data, groups = Slices(), {"a": np.arange(6), "b": np.arange(6, 12)}
    whole, grouped = metric(data), Grouped(metric(data), groups, 12)
    for indices in (np.arange(4), np.arange(4, 9), np.arange(9, 12)):
        process(whole, data, indices)
        process(grouped, data, indices)
    values = grouped.evaluate()
    assert values["fgDice"] == whole.evaluate()["fgDice"]
    for group, indices in groups.items():
        part = metric(data)
        process(part, data, indices)
        assert grouped.table[group]["fgDice"] == part.evaluate()["fgDice"]


def test_mistakes_are_named():
    data = Slices()
    with pytest.raises(DataError, match="no image has a pixel of the classes"):
        empty = metric(data)
        process(empty, data, np.array([1, 5]))
        empty.evaluate()
    for classes, message in (({}, r"dict\(lesion=\[1\]\), not \{\}"), ({"a": []}, "not")):
        with pytest.raises(ConfigError, match=rf"val_evaluator\.classes: must .*{message}"):
            ForegroundDice(classes)
    data.metainfo = {"classes": ("background", "rim")}
    with pytest.raises(ConfigError, match=r"classes: has the class id 2, .* has 2 classes"):
        metric(data)
    with pytest.raises(ConfigError, match=r"val_evaluator\.by: is 'case', and list .*'image'"):
        made = ForegroundDice({"a": [1]}, by="case", num_classes=2)
        made.prepare([0, 1, 2])


def test_in_a_run_beside_miou(tmp_path):
    """For all images, by domain, for clients, in the results, and found again by a test."""
    dice = {"type": "ForegroundDice", "classes": {"y": [1], "y or z": [1, 2]}}
    config = toyseg.settings(
        tmp_path,
        val_evaluator=[{"type": "IoUMetric"}, dice],
        averaging=None,
        train_cfg={"max_rounds": 1},
        val_cfg={"spread": True, "views": ["by_domain", "personal"]},
    )
    final = toyseg.train(config).results["final"]
    table = json.loads((tmp_path / "run" / "clients.json").read_text())["sets"]
    for view in ("seen", "seen_by_domain", "seen_personal"):
        assert set(final[view]["fgDice_by_class"]) == {"y", "y or z"}
        assert 0 < final[view]["fgDice"] < 100 and 0 < final[view]["mIoU"] < 100
        rows = table[view].values()
        assert final[view]["fgDice_worst"] == min(row["fgDice"] for row in rows)
    assert verify(tmp_path / "run", trust=["toyseg"]).passed
