"""Accuracy by client: that of the classes, weighted by the client's class mix."""

import numpy as np
import pytest
from mmengine.config import Config

from fedseg.datasets.arrays import StoredImages, write_images
from fedseg.registry import DATASETS
from fedseg.runner.runner import FederatedRunner

NORMALIZE = {"type": "Normalize", "mean": [0.5] * 3, "std": [0.5] * 3}
CLIENTS = {"a": [0, 1, 2, 3], "b": [4, 5, 6], "c": [7, 8, 9, 10, 11]}


@pytest.fixture
def run(tmp_path):
    rng = np.random.default_rng(0)

    def images(count: int) -> tuple[np.ndarray, np.ndarray]:
        return rng.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8), np.arange(count) % 3

    write_images(tmp_path / "data", "three", list("xyz"), images(12), images(10))

    def train(**training) -> dict:
        data = {"type": "StoredImages", "data_root": str(tmp_path / "data")}
        config = Config(
            {
                "model": {"type": "CNN", "num_classes": 3},
                "train_dataloader": {
                    "type": "ResidentData",
                    "batch_size": 4,
                    "dataset": {**data, **training},
                    "partition": {"type": "FixedPartition", "clients": CLIENTS},
                    "transforms": [NORMALIZE],
                },
                "val_dataloader": {
                    "test": {
                        "type": "ResidentData",
                        "batch_size": 4,
                        "dataset": {**data, "split": "test"},
                        "transforms": [NORMALIZE],
                    }
                },
                "val_evaluator": {"type": "Accuracy"},
                "train_cfg": {"max_rounds": 2, "val_interval": 1},
                "client_sampler": {"type": "UniformSampler", "clients_per_round": 2},
                "optim_wrapper": {"optimizer": {"type": "SGD", "lr": 0.05}},
                "default_hooks": {
                    "progress": None,
                    "pictures": None,
                    "client_accuracy": {"type": "ClientAccuracyHook"},
                },
                "work_dir": str(tmp_path / "run"),
            }
        )
        runner = FederatedRunner.from_cfg(config)
        runner.train()
        return runner

    return train


def test_test_images_in_each_clients_class_mix(run):
    runner = run()
    found = runner.results["client_accuracy"]
    by_class = list(runner.results["final"]["test"]["accuracy_by_class"].values())
    labels = runner.data.dataset.labels
    expected = [np.mean([by_class[labels[i]] for i in own]) for own in CLIENTS.values()]
    assert found["rounds"] == [1, 2]
    assert found["clients"] == list(CLIENTS)
    assert found["accuracy"][-1] == pytest.approx(expected)
    assert runner.history.read()[-1]["client_accuracy"] == pytest.approx(expected)
    assert found["main_class"] == [0, 0, 1]  # ties go to the first class


@DATASETS.register_module()
class Unnamed(StoredImages):
    """Training images of a user's own, whose partition needs labels and nobody names of classes."""

    classes = ("x", "y", "z")

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.metainfo = None


def test_training_images_without_names_of_classes_have_none(run):
    """The test images name theirs."""
    runner = run(type="Unnamed")
    assert "accuracy_by_class" in runner.results["final"]["test"]
    assert "client_accuracy" not in runner.results
