"""IoU against an independent count, its rules for absent classes, and exactness."""

import json

import cv2
import numpy as np
import pytest
import torch
import toyseg

from fedseg.errors import ConfigError, DataError
from fedseg.evaluation import BoundaryIoU, DiceMetric, IoUMetric
from fedseg.leaderboard.verify import verify

CLASSES = ("road", "car", "sky", "bus")


def metric(**kwargs):
    metric = IoUMetric(**kwargs)
    metric.dataset_meta = {"classes": CLASSES, "ignore_index": 255}
    return metric


def run(metric, truth, prediction):
    metric.process([], {"data_samples": torch.as_tensor(truth)}, torch.as_tensor(prediction))


def test_against_a_count_pixel_by_pixel():
    generator = np.random.default_rng(0)
    truth = generator.integers(0, 4, (5, 9, 11))
    truth[generator.random(truth.shape) < 0.2] = 255
    prediction = generator.integers(0, 4, truth.shape)
    m = metric()
    for part in (slice(0, 2), slice(2, 5)):
        run(m, truth[part], prediction[part])
    metrics = m.evaluate()

    pairs = [(t, p) for t, p in zip(truth.flat, prediction.flat, strict=True) if t != 255]
    for t in range(4):
        for p in range(4):
            assert int(m.confusion[t, p]) == pairs.count((t, p))
    iou, recall = [], []
    for c in range(4):
        both = sum(t == c and p == c for t, p in pairs)
        iou.append(both / sum(t == c or p == c for t, p in pairs))
        recall.append(both / sum(t == c for t, p in pairs))
    assert metrics["mIoU"] == pytest.approx(100 * np.mean(iou), rel=1e-14)
    assert metrics["mAcc"] == pytest.approx(100 * np.mean(recall), rel=1e-14)
    assert metrics["aAcc"] == pytest.approx(100 * sum(t == p for t, p in pairs) / len(pairs))
    assert list(m.per_class()) == list(CLASSES)
    assert list(m.per_class().values()) == pytest.approx([100 * x for x in iou], rel=1e-14)


def test_absent_classes_are_left_out_but_wrong_predictions_count():
    """Truth has road and car only; one road pixel is taken for a bus."""
    m = metric()
    run(m, [[0, 0, 0, 1, 255]], [[0, 0, 3, 1, 2]])
    metrics = m.evaluate()
    assert m.per_class() == {"road": pytest.approx(200 / 3), "car": 100.0, "sky": None, "bus": None}
    assert metrics["mIoU"] == pytest.approx((200 / 3 + 100) / 2)
    assert metrics["aAcc"] == 75.0
    json.dumps([metrics, m.per_class()], allow_nan=False)
    assert all(type(value) is float for value in metrics.values())


def test_sums_are_exact_beyond_float32():
    m = metric()
    run(m, [[0, 1]], [[0, 0]])
    m.counts = m.counts * (2**60) + 1  # float64 could not tell these from multiples of 2^60
    run(m, [[0, 1]], [[0, 0]])
    assert int(m.confusion[0, 0]) == 2**60 + 2
    assert int(m.confusion[1, 0]) == 2**60 + 2
    assert int(m.confusion[2, 2]) == 1


def test_reset_and_a_second_evaluation_start_from_zero():
    m = metric()
    run(m, [[0, 1]], [[0, 0]])
    first = m.evaluate()
    assert m.evaluate() == first  # still readable
    run(m, [[2, 2]], [[2, 2]])
    assert m.evaluate()["mIoU"] == 100.0
    m.reset()
    assert int(m.confusion.sum()) == 0


def test_ids_out_of_range_or_of_another_size():
    for truth, prediction, message in (
        ([[0, 1]], [[0, 4]], "predictions"),
        ([[0, 1]], [[0, -1]], "predictions"),
        ([[0, 9]], [[0, 0]], "labels hold class ids 0 to 9"),
        ([[0, 1]], [[0, 1, 1]], "shape"),
    ):
        with pytest.raises(DataError, match=message):
            run(metric(), truth, prediction)


def test_nothing_counted():
    with pytest.raises(DataError, match="IoUMetric"):
        metric().evaluate()
    m = metric()
    run(m, [[255]], [[0]])
    with pytest.raises(DataError, match="IoUMetric"):
        m.evaluate()


def test_number_of_classes():
    with pytest.raises(ConfigError, match="num_classes"):
        run(IoUMetric(), [[0]], [[0]])
    m = IoUMetric(num_classes=3)
    run(m, [[0, 2]], [[0, 2]])
    assert m.per_class() == {"0": 100.0, "1": None, "2": 100.0}


def by_erosion(areas, reach):
    """The published definition: an area without what is left of it after so many erosions."""
    padded = np.pad(areas.astype(np.uint8), 1)
    left = cv2.erode(padded, np.ones((3, 3), np.uint8), iterations=reach)[1:-1, 1:-1]
    return areas & (left == 0)


@pytest.mark.parametrize("width", [0.02, 0.1])
def test_dice_and_boundary_iou_against_their_definitions(width):
    rng, (height, width_), classes = np.random.default_rng(0), (30, 40), range(len(CLASSES))
    blocks = rng.integers(0, 3, (2, 2, 6, 8)).repeat(5, 2).repeat(5, 3)  # no bus
    (truth, guess), reach = blocks.copy(), max(1, round(width * np.hypot(height, width_)))
    guess[0, :4] = 3
    truth[:, 10:13, 5:30] = 255
    meters = BoundaryIoU(width), DiceMetric()
    for one in meters:
        one.dataset_meta = {"classes": CLASSES}
        for number in range(2):
            run(one, truth[number : number + 1], guess[number : number + 1])
    known, expected, dice = truth != 255, {}, {}
    for c in classes:
        near = [
            np.stack([by_erosion(image == c, reach) for image in side]) & known
            for side in (truth, np.where(known, guess, 255))
        ]
        both, union = (near[0] & near[1]).sum(), (near[0] | near[1]).sum()
        sides = [(side == c) & known for side in (truth, guess)]
        overlap = 200 * (sides[0] & sides[1]).sum() / max(1, sides[0].sum() + sides[1].sum())
        expected[CLASSES[c]] = 100 * both / union if near[0].any() else None
        dice[CLASSES[c]] = overlap if sides[0].any() else None
    for one, name, values in zip(meters, ("BIoU", "Dice"), (expected, dice), strict=True):
        assert one.details()[name] == pytest.approx(values) and values["bus"] is None
        mean = np.mean([value for value in values.values() if value is not None])
        assert one.evaluate() == {f"m{name}": pytest.approx(mean)} and 10 < mean < 90
        one.reset()
        run(one, truth, np.where(known, truth, 0))  # what is predicted for ignored pixels is free
        assert one.evaluate() == {f"m{name}": 100.0}


def test_dice_and_boundary_iou_by_domain_and_client(tmp_path):
    """In a run: by class, by domain, for clients, in its results, and found again by a test."""
    kinds = ({"type": "IoUMetric"}, {"type": "DiceMetric"}, {"type": "BoundaryIoU"})
    config = toyseg.settings(
        tmp_path,
        val_evaluator=list(kinds),
        averaging=None,
        train_cfg={"max_rounds": 1},
        val_cfg={"spread": True, "views": ["by_domain", "personal"]},
    )
    final = toyseg.train(config).results["final"]
    table = json.loads((tmp_path / "run" / "clients.json").read_text())["sets"]
    for name, by_class in (("mIoU", "IoU"), ("mDice", "Dice"), ("mBIoU", "BIoU")):
        for view in ("seen", "seen_by_domain", "seen_personal"):
            assert set(final[view][by_class]) == set("xyz") and 0 < final[view][name] < 100
            rows = table[view].values()
            assert final[view][f"{name}_worst"] == min(row[name] for row in rows)
            assert all(set(row[by_class]) == set("xyz") for row in rows)
    assert verify(tmp_path / "run", trust=["toyseg"]).passed
