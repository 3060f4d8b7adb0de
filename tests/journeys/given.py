"""What the reader of a page has already: small data in place of real ones, photographs."""

import shutil
from pathlib import Path

import cv2
import numpy as np

from fedseg.data_prep.synthetic_shapes import write_shapes
from fedseg.datasets.arrays import write_images

CIFAR10 = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def shapes(folder: Path) -> None:
    """The shapes that ``fedseg prepare cifar --synthetic`` renders, fewer of them."""
    write_shapes(folder / "data" / "demo_shapes", train=1000, test=100)


def cifar10(folder: Path) -> None:
    """A prepared ``data/cifar10`` of noise: ten images for each of 100 clients."""
    rng = np.random.default_rng(0)

    def images(count: int) -> tuple[np.ndarray, np.ndarray]:
        return rng.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8), np.arange(count) % 10

    write_images(folder / "data" / "cifar10", "CIFAR10", CIFAR10, images(1000), images(100))


def streets(small_config: Path, root: Path) -> None:
    """The streets of ``small_config`` in IDDA's layout, with the split of the rainy setting."""
    shutil.copytree(small_config.parent / "data" / "IDDAsmall", root / "IDDAsmall")
    splits = small_config.parent / "data" / "splits"
    shutil.copytree(splits, root / "splits" / "heterogeneous" / "rainy")


def photograph(path: Path, width: int = 96, height: int = 64) -> None:
    """A photograph of nothing in particular."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    assert cv2.imwrite(str(path), pixels)
