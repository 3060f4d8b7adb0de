"""results.json: what distinguishes runs, what data they had, and their curves."""

import json
from pathlib import Path

import numpy as np
import pytest
import toyseg
from mmengine.config import Config

from fedseg.datasets.arrays import ImageArrays, content_checksum
from fedseg.runs.config import experiment_digest, loader_facts, recipe_of
from fedseg.runs.history import Curves, draw_curves
from fedseg.runs.results import dataset_facts
from fedseg.runs.schema import read_results


def config(**changes) -> Config:
    base = {
        "randomness": {"seed": 0},
        "train_cfg": {"max_rounds": 6, "val_interval": 2},
        "train_dataloader": {
            "num_workers": 1,
            "dataset": {"type": "IDDADataset", "data_root": "data/idda"},
        },
        "optim_wrapper": {"optimizer": {"lr": 0.1}},
    }
    made = Config(base)
    made.merge_from_dict(changes)
    return made


def test_seeds_of_an_experiment_share_a_digest_and_others_do_not():
    for same, changes in (
        (True, {"randomness.seed": 3}),
        (True, {"work_dir": "elsewhere"}),
        (True, {"train_dataloader.num_workers": 4}),
        (True, {"train_dataloader.dataset.data_root": "data/other"}),
        (True, {"train_cfg.val_interval": 1}),
        (False, {"train_cfg.max_rounds": 7}),
        (False, {"optim_wrapper.optimizer.lr": 0.2}),
        (False, {"averaging": {"type": "SWA"}}),
        (False, {"train_dataloader.dataset.style": {"type": "LABStyle"}}),
    ):
        found = experiment_digest(config(**changes)) == experiment_digest(config())
        assert found == same, changes


def test_curves_of_the_evaluated_rounds():
    def line(round_, loss, **more):
        return {"round": round_, "loss": loss, "bytes_down": 10, "bytes_up": 5, **more}

    history = [
        line(1, 4.0),
        line(2, 2.0, metrics={"test/accuracy": 30.0}),
        line(3, None),  # no accepted client had a loss
        line(4, None, metrics={"test/accuracy": 40.0, "corrupted/accuracy": 20.0}),
        line(5, 1.0),
    ]
    assert draw_curves(history) == {
        "rounds": [2, 4],
        "bytes": [30, 60],
        "loss": [3.0, None],
        "figures": {"test/accuracy": [30.0, 40.0], "corrupted/accuracy": [None, 20.0]},
    }
    assert draw_curves([]) == {"rounds": [], "bytes": [], "loss": [], "figures": {}}


def test_means_over_the_last_rounds():
    figures = {"a/mIoU": [10.0, 90.0, 95.0, 100.0], "b/mIoU": [1.0, 1.0, None, None]}
    curves = Curves(rounds=[10, 90, 95, 100], bytes=[0] * 4, loss=[None] * 4, figures=figures)
    assert curves.average(100, 10) == {
        "final_round": 100,
        "last_rounds": {
            **{"rounds": 10, "evaluations": 2, "mean": {"a/mIoU": 97.5}, "std": {"a/mIoU": 2.5}}
        },
    }
    assert curves.average(100, 1000)["last_rounds"]["rounds"] == 100


def test_what_is_known_of_a_data_set():
    images, labels = np.zeros((3, 2, 2, 1), np.uint8), np.array([0, 1, 0])
    dataset = ImageArrays(images, labels, ["a", "b"])
    facts = dataset_facts(dataset)
    assert facts["samples"] == 3 and facts["split_checksum"] == dataset.split_checksum
    assert facts["content_sha256"] == content_checksum(images, labels)
    assert facts["synthetic"] is False
    assert dataset_facts([1, 2])["content_sha256"] is None


def test_what_a_loader_says_of_its_data():
    steps = [{"type": "Normalize", "mean": [0.5]}]
    facts = loader_facts({"dataset": {"split": "train", "style": "ready"}, "transforms": steps})
    assert facts == {"split": "train", "steps": steps, "style": {"type": "ready"}}
    assert loader_facts({"dataset": "ready"}) == {"split": None, "steps": [], "style": None}


def test_a_partition_is_recorded_as_its_recipe():
    recipe = {"type": "DirichletPartition", "alpha": 0.05, "num_clients": 100}
    assert recipe_of(recipe) == recipe
    listed = {"type": "FixedPartition", "clients": {"a": [0, 1]}}
    assert recipe_of(listed) == {"type": "FixedPartition"}
    assert recipe_of(object()) == {"type": "object"}


@pytest.mark.parametrize("year", [2024, None])
def test_the_year_is_that_of_the_last_round(tmp_path, monkeypatch, year):
    """Results that are written again keep it; those of an earlier version get none."""
    config = toyseg.settings(tmp_path, train_cfg={"max_rounds": 1, "val_interval": 1})
    monkeypatch.setattr("fedseg.runs.results.date", Day)
    Day.year = 2024
    assert toyseg.train(config).results["year"] == 2024
    path = Path(config["work_dir"]) / "results.json"
    results = json.loads(path.read_text())
    results["year"] = year
    path.write_text(json.dumps(results))
    assert not read_results(path).edited  # a time, as seconds are
    Day.year = 2025
    assert toyseg.train(config, resume=True).results["year"] == year
    longer = toyseg.merge(config, {"train_cfg": {"max_rounds": 2}})
    assert toyseg.train(longer, resume=True).results["year"] == 2025


class Day:
    """The day of a test."""

    year = 0

    @classmethod
    def today(cls):
        return cls
