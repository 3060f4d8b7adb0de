"""Top-1 accuracy of ids and of logits."""

import pytest
import torch

from fedseg.errors import DataError, TrainingError
from fedseg.evaluation import Accuracy
from fedseg.models.segmentor import class_map


def test_ids_and_logits_agree():
    labels = torch.tensor([0, 1, 2, 1, 0, 2, 2])
    logits = torch.nn.functional.one_hot(torch.tensor([0, 1, 1, 1, 2, 2, 2]), 3).float()
    for predictions in (logits, logits.argmax(1)):
        metric = Accuracy()
        for part in (slice(0, 4), slice(4, 7)):
            metric.process([], {"data_samples": labels[part]}, predictions[part])
        assert metric.evaluate() == {"accuracy": 100 * 5 / 7}
        assert metric.counts.sum(dim=1).tolist() == [5, 7]


def test_bad_use():
    with pytest.raises(DataError, match="Accuracy"):
        Accuracy().evaluate()
    with pytest.raises(DataError, match="shape"):
        Accuracy().process([], {"data_samples": torch.tensor([0, 1])}, torch.tensor([0]))


def test_labels_that_are_no_classes():
    for labels in ([0, 3], [2, 0], [-1, 0], [0.0, 1.0]):
        metric = Accuracy()
        metric.dataset_meta = {"classes": ("a", "b")}
        with pytest.raises(DataError, match="Accuracy: labels"):
            metric.process([], {"data_samples": torch.tensor(labels)}, torch.tensor([0, 1]))


def test_labels_of_any_integer_dtype():
    for dtype in (torch.uint8, torch.int16, torch.uint16, torch.int64):
        metric = Accuracy()
        metric.dataset_meta = {"classes": tuple(map(str, range(200)))}
        labels = torch.tensor([150, 3]).to(dtype)
        metric.process([], {"data_samples": labels}, torch.tensor([150, 4]))
        assert metric.per_class()["150"] == 100 and metric.per_class()["3"] == 0
    with pytest.raises(DataError, match="Accuracy: labels must be class ids"):
        Accuracy().process([], {"data_samples": torch.zeros(2)}, torch.tensor([0, 0]))


def test_by_class():
    metric = Accuracy()
    metric.dataset_meta = {"classes": ("a", "b", "c", "d")}
    assert metric.per_class() == {}
    labels = torch.tensor([0, 1, 2, 1, 0, 2, 2])
    predictions = torch.tensor([0, 1, 1, 1, 2, 2, 3])
    for part in (slice(0, 3), slice(3, 4), slice(4, 7)):
        metric.process([], {"data_samples": labels[part]}, predictions[part])
    # class d is predicted once and has no image
    assert metric.per_class() == {"a": 50.0, "b": 100.0, "c": 100 / 3, "d": None}
    assert metric.evaluate() == {"accuracy": 100 * 4 / 7}
    assert metric.per_class()["c"] == 100 / 3, "still readable"
    metric.process([], {"data_samples": labels[:2]}, predictions[:2])
    assert metric.per_class() == {"a": 100.0, "b": 100.0, "c": None, "d": None}, "starts anew"


def test_without_class_names_there_is_the_whole_only():
    for meta in (None, {}, {"classes": None}, {"classes": ()}):
        metric = Accuracy()
        metric.dataset_meta = meta
        metric.process([], {"data_samples": torch.tensor([0, 7])}, torch.tensor([0, 1]))
        assert metric.per_class() == {}
        assert metric.evaluate() == {"accuracy": 50.0}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_logits_that_are_not_finite_are_never_scored(value):
    logits = torch.tensor([[0.1, value], [0.3, 0.2]])
    size = torch.Size([2, 2])
    for score in (
        lambda: Accuracy().count(torch.tensor([0, 0]), logits),
        lambda: class_map(logits[:, :, None, None].expand(2, 2, 2, 2), size),
    ):
        with pytest.raises(TrainingError, match="logits that are not finite"):
            score()
