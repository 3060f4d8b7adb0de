"""Accuracy by client: that of the classes, weighted by the client's class mix."""

import numpy as np
import pytest
import toycls
import toyseg

from fedseg.datasets.arrays import StoredImages
from fedseg.registry import DATASETS


def train(tmp_path, **training):
    """A run with the hook; ``training`` changes the config of its training images."""
    root = toycls.write_data(tmp_path / "data")
    config = toycls.settings(
        tmp_path,
        root,
        train_dataloader={"dataset": training},
        default_hooks={"client_accuracy": {"type": "ClientAccuracyHook"}},
        averaging=None,
        train_cfg={"max_rounds": 2, "val_interval": 1},
    )
    return toyseg.train(config)


def test_test_images_in_each_clients_class_mix(tmp_path):
    runner = train(tmp_path)
    found = runner.results["client_accuracy"]
    by_class = list(runner.results["final"]["test"]["accuracy_by_class"].values())
    labels, clients = runner.data.dataset.labels, toycls.partition()
    expected = [np.mean([by_class[labels[i]] for i in own]) for own in clients.values()]
    assert found["rounds"] == [1, 2]
    assert found["clients"] == list(clients)
    assert found["accuracy"][-1] == pytest.approx(expected)
    assert runner.history.read()[-1]["client_accuracy"] == pytest.approx(expected)
    # ties go to the first class
    main = [np.bincount(labels[own]).argmax() for own in clients.values()]
    assert found["main_class"] == main


@DATASETS.register_module()
class Unnamed(StoredImages):
    """Training images of a user's own, whose partition needs labels and nobody names of classes."""

    classes = ("w", "x", "y", "z")

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.metainfo = None


def test_training_images_without_names_of_classes_have_none(tmp_path):
    """The test images name theirs."""
    runner = train(tmp_path, type="Unnamed")
    assert "accuracy_by_class" in runner.results["final"]["test"]
    assert "client_accuracy" not in runner.results
