"""A trained model is hurt more by every further severity, in the mean over the 19 corruptions."""

from pathlib import Path

import numpy as np
import pytest
import torch
from data_prep.embedded_images import labels_of, render_images
from PIL import Image
from torch import nn

from data_prep.corruptions import corrupt
from fedseg.datasets.corrupted import CORRUPTIONS, SEVERITIES

CIFAR10 = Path(__file__).parents[3] / "shared" / "data" / "cifar10"

Labelled = tuple[np.ndarray, np.ndarray]


def embedded() -> tuple[Labelled, Labelled]:
    train, test = range(4000), range(300)
    return (
        (render_images(train), labels_of(train)),
        (render_images(test, "test"), labels_of(test)),
    )


def cifar10() -> tuple[Labelled, Labelled]:
    if not CIFAR10.is_dir():
        pytest.skip("needs CIFAR-10, ../shared/data")
    return mosaics("train", 600), mosaics("test", 30)


def mosaics(split: str, per_class: int) -> Labelled:
    """The first images of every class, from mosaics of 32x32 tiles."""
    images, labels = [], []
    for label, path in enumerate(sorted((CIFAR10 / split).glob("*.webp"))):
        mosaic = np.asarray(Image.open(path).convert("RGB"))
        rows, columns = (side // 32 for side in mosaic.shape[:2])
        tiles = mosaic.reshape(rows, 32, columns, 32, 3).transpose(0, 2, 1, 3, 4)
        images.append(tiles.reshape(-1, 32, 32, 3)[:per_class])
        labels.append(np.full(per_class, label))
    return np.concatenate(images), np.concatenate(labels)


class Classifier:
    """A small convolutional network, trained for a few epochs."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, epochs: int = 6) -> None:
        self.mean, self.std = images.mean((0, 1, 2)), images.std((0, 1, 2))
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.network = nn.Sequential(
                *(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU()),
                *(nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU()),
                *(nn.Conv2d(32, 32, 3, 1, 1), nn.ReLU()),
                *(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 10)),
            )
        optimizer = torch.optim.Adam(self.network.parameters(), lr=1e-3)
        inputs, targets = self.inputs(images), torch.from_numpy(labels)
        rng = np.random.default_rng(0)
        for _ in range(epochs):
            for batch in torch.from_numpy(rng.permutation(len(images))).split(50):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(self.network(inputs[batch]), targets[batch])
                loss.backward()
                optimizer.step()

    def inputs(self, images: np.ndarray) -> torch.Tensor:
        scaled = ((images - self.mean) / self.std).astype(np.float32)
        return torch.from_numpy(scaled).permute(0, 3, 1, 2).contiguous()

    @torch.no_grad()
    def accuracy(self, images: np.ndarray, labels: np.ndarray) -> float:
        return 100 * float((self.network(self.inputs(images)).argmax(1).numpy() == labels).mean())


@pytest.mark.parametrize("source", [embedded, cifar10], ids=["embedded", "cifar10"])
def test_mean_accuracy_falls_with_every_severity(source):
    train, (images, labels) = source()
    model = Classifier(*train)
    clean = model.accuracy(images, labels)
    assert clean > 40  # chance is 10
    by_severity = [
        np.mean([model.accuracy(corrupt(images, name, s), labels) for name in CORRUPTIONS])
        for s in SEVERITIES
    ]
    assert [clean, *by_severity] == sorted([clean, *by_severity], reverse=True)
    steps = -np.diff([clean, *by_severity])
    assert (steps > 0.3).all(), by_severity
    assert by_severity[-1] > 20  # CIFAR-C is mild: the highest severity is far from chance
