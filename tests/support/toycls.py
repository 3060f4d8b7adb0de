"""A classification problem of a second for tests of the engine: images, a network, configs.

Like :mod:`toyseg`, whose runs, comparisons and hooks it shares: small noisy pictures of four
classes in a prepared folder, six clients of unequal sizes (one has fewer images than a batch), the
test images under two corruptions in the official layout.
"""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch
import toyseg
from torch import Tensor, nn

from fedseg.datasets.arrays import write_images
from fedseg.datasets.corrupted import CorruptedImages
from fedseg.engine.executor import InProcessExecutor, train_block
from fedseg.models.classifier import Classifier
from fedseg.registry import DATASETS, EXECUTORS, MODELS

SIDE, CLASSES = 8, 4
CLIENTS = {"a": 5, "b": 17, "c": 8, "d": 3, "e": 12, "f": 15}  # client -> images
TRAIN, TEST = sum(CLIENTS.values()), 22
CORRUPTIONS = ("fog", "contrast")
MEAN, STD = (0.45, 0.5, 0.55), (0.2, 0.25, 0.3)
NORMALIZE = {"type": "Normalize", "mean": MEAN, "std": STD}
CROP_AND_FLIP = [{"type": "RandomCrop", "padding": 1}, {"type": "RandomFlip"}, NORMALIZE]
AUGMENTED = [*CROP_AND_FLIP, {"type": "Cutout", "size": 3}, {"type": "Mixup", "alpha": 0.5}]


# ---------------------------------------------------------------- data


def pictures(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """uint8 [count, 8, 8, 3] and labels: a blob in the class's color and place, and noise."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(count) % CLASSES)
    images = rng.normal(100, 35, (count, SIDE, SIDE, 3))
    for image, label in zip(images, labels, strict=True):
        image[2 + label : 5 + label, 2:6, label % 3] += 110
    return images.clip(0, 255).astype(np.uint8), labels


def corrupted(images: np.ndarray, number: int, severity: int) -> np.ndarray:
    """What stands for a corruption of some severity: fading to gray."""
    keep = 1 - severity / (6 + number)
    return (128 + (images - 128.0) * keep).astype(np.uint8)


def write_data(root: Path) -> Path:
    """A prepared folder with its ``corrupted`` files."""
    test, labels = pictures(TEST, 1)
    names = [f"class {i}" for i in range(CLASSES)]
    write_images(root, "Toy", names, pictures(TRAIN, 0), (test, labels), synthetic=True)
    folder = root / "corrupted"
    folder.mkdir()
    for number, name in enumerate(CORRUPTIONS):
        stacked = np.concatenate([corrupted(test, number, s) for s in range(1, 6)])
        np.save(folder / f"{name}.npy", stacked)
    np.save(folder / "labels.npy", np.tile(labels, 5))
    return root


@DATASETS.register_module()
class ToyCorrupted(CorruptedImages):
    def __init__(self, corruptions: Any = CORRUPTIONS, **kwargs: Any) -> None:
        super().__init__(corruptions=corruptions, **kwargs)


# ---------------------------------------------------------------- network and executor


@MODELS.register_module()
class ToyClassifier(Classifier):
    """A convolution, a hidden layer, the last one. dropout: rate between the two."""

    def __init__(self, dropout: float = 0.0, data_preprocessor: Any = None) -> None:
        super().__init__(CLASSES, data_preprocessor=data_preprocessor)
        self.conv = nn.Conv2d(3, 6, 3, stride=2, padding=1)
        self.hidden = nn.Linear(6 * (SIDE // 2) ** 2, 12)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(12, CLASSES)

    def features(self, inputs: Tensor) -> Tensor:
        x = torch.relu(self.conv(inputs))
        return self.dropout(torch.relu(self.hidden(x.flatten(1))))


@EXECUTORS.register_module()
class BackwardExecutor(InProcessExecutor):
    """Trains the clients from the last to the first, and then gives outcomes in client order."""

    def run(self, tasks, message):
        outcomes = {}
        for task in reversed(tasks):
            (outcome,) = train_block(self.trainer, [task], message)
            outcomes[task.client] = copy.deepcopy(outcome)  # the next one overwrites the model
        for task in tasks:
            yield outcomes[task.client]


# ---------------------------------------------------------------- configs


def partition() -> dict[str, list[int]]:
    """Client -> indices, in no order."""
    order = np.random.default_rng(4).permutation(TRAIN)
    parts = np.split(order, np.cumsum(list(CLIENTS.values()))[:-1])
    return {name: part.tolist() for name, part in zip(CLIENTS, parts, strict=True)}


def settings(folder: Path, root: Path, **changes: Any) -> dict[str, Any]:
    """A config: FedASAM + SWA with mixup and cutout, 6 rounds, three of six clients, seed 0.

    Args:
        folder: the run writes to ``folder / "run"``. root: the prepared folder.
        changes: merged over it, as in :func:`toyseg.settings`.
    """
    test = {"type": "StoredImages", "data_root": str(root), "split": "test"}
    base = {
        "custom_imports": {"imports": ["toyseg", "toycls"], "allow_failed_imports": False},
        "model": {"_delete_": True, "type": "ToyClassifier"},
        "train_dataloader": {
            "_delete_": True,
            "type": "ResidentData",
            "batch_size": 8,
            "dataset": {**test, "split": "train"},
            "partition": {"type": "FixedPartition", "clients": partition()},
            "transforms": AUGMENTED,
        },
        "val_dataloader": {
            "_delete_": True,
            "test": {
                "type": "ResidentData",
                "batch_size": 1000,
                "dataset": test,
                "transforms": [NORMALIZE],
            },
            "corrupted": {
                "type": "CorruptedData",
                "batch_size": 1000,
                "final_only": True,
                "optional": True,
                "dataset": {"type": "ToyCorrupted", "data_root": str(root)},
                "transforms": [NORMALIZE],
            },
        },
        "val_evaluator": {"type": "Accuracy"},
        "personal": None,
    }
    return toyseg.merge(toyseg.settings(folder, **base), changes)


def run(folder: Path, root: Path, **changes: Any) -> dict[str, Any]:
    """Train with :func:`settings`; returns the config."""
    config = settings(folder, root, **changes)
    toyseg.train(config)
    return config
