"""Small data sets on disk."""

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

from fedseg.partition.split_files import Split, write_split

DOMAINS = ("T01_CN_A", "T01_HRN_A", "T02_CS_B")


def picture(seed: int, height: int = 36, width: int = 64) -> np.ndarray:
    """A smooth random color image, uint8 [H, W, 3]."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(20, 236, (4, 6, 3), dtype=np.uint8)
    return cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)


def label_map(seed: int, ids: int, height: int = 36, width: int = 64) -> np.ndarray:
    """Blocks of ids below ``ids``, uint8 [H, W]."""
    coarse = np.random.default_rng(seed).integers(0, ids, (4, 8), dtype=np.uint8)
    return cv2.resize(coarse, (width, height), interpolation=cv2.INTER_NEAREST)


def save(path: Path, array: np.ndarray) -> Path:
    """Write an image (RGB) or a label map."""
    path.parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(str(path), array[..., ::-1] if array.ndim == 3 else array)
    return path


def write(root: Path, users: dict, ids: int, images: str = "", labels: str = "") -> Path:
    """Images and label maps of these users below a root, and their split ``train``."""
    samples = [sample for own in users.values() for sample in own]
    for number, (image, label) in enumerate(samples):
        save(root / images / image, picture(number))
        save(root / labels / label, label_map(number, ids))
    write_split(root / "train", Split(users))
    return root


@pytest.fixture
def idda(tmp_path: Path) -> Path:
    """An IDDA root with 3 domains of 4 images; split ``train`` has a user a domain."""
    users = {
        d: [(f"{d}/RGB/{i}_{d}.jpg", f"{d}/Semantic/{i}_{d}.png") for i in range(4)]
        for d in DOMAINS
    }
    return write(tmp_path, users, 24, "IDDAsmall", "IDDAsmall")


@pytest.fixture
def cityscapes(tmp_path: Path) -> Path:
    """A Cityscapes root with one image in each of two cities; split ``train``."""
    names = {city: f"train/{city}/{city}_0_0_" for city in ("aachen", "ulm")}
    ends = ("leftImg8bit.png", "gtFine_labelIds.png")
    users = {city: [tuple(name + end for end in ends)] for city, name in names.items()}
    return write(tmp_path, users, 34, "leftImg8bit", "gtFine")


@pytest.fixture
def camvid(tmp_path: Path) -> Path:
    """A CamVid root with one frame of two recordings; split ``train``."""
    names = ("0006R0_f00930", "Seq05VD_f00000")
    users = {
        f"client_{i}": [(f"train/{n}.jpg", f"trainannot/{n}.png")] for i, n in enumerate(names)
    }
    return write(tmp_path, users, 12)


@pytest.fixture
def make_picture() -> Callable[..., np.ndarray]:
    return picture


@pytest.fixture
def save_image() -> Callable[[Path, np.ndarray], Path]:
    return save
