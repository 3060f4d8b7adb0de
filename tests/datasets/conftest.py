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


@pytest.fixture
def idda(tmp_path: Path) -> Path:
    """An IDDA root with 3 domains of 4 images; split ``train`` has a user a domain."""
    users = {}
    for d, domain in enumerate(DOMAINS):
        users[domain] = []
        for i in range(4):
            x, y = f"{domain}/RGB/{i}_{domain}.jpg", f"{domain}/Semantic/{i}_{domain}.png"
            save(tmp_path / "IDDAsmall" / x, picture(10 * d + i))
            save(tmp_path / "IDDAsmall" / y, label_map(10 * d + i, 24))
            users[domain].append((x, y))
    write_split(tmp_path / "train", Split(users))
    return tmp_path


@pytest.fixture
def cityscapes(tmp_path: Path) -> Path:
    """A Cityscapes root with one image in each of two cities; split ``train``."""
    users = {}
    for i, city in enumerate(("aachen", "ulm")):
        x = f"train/{city}/{city}_0_0_leftImg8bit.png"
        y = f"train/{city}/{city}_0_0_gtFine_labelIds.png"
        save(tmp_path / "leftImg8bit" / x, picture(i))
        save(tmp_path / "gtFine" / y, label_map(i, 34))
        users[city] = [(x, y)]
    write_split(tmp_path / "train", Split(users))
    return tmp_path


@pytest.fixture
def camvid(tmp_path: Path) -> Path:
    """A CamVid root with one frame of two recordings; split ``train``."""
    users = {}
    for i, name in enumerate(("0006R0_f00930", "Seq05VD_f00000")):
        x, y = f"train/{name}.jpg", f"trainannot/{name}.png"
        save(tmp_path / x, picture(i))
        save(tmp_path / y, label_map(i, 12))
        users[f"client_{i}"] = [(x, y)]
    write_split(tmp_path / "train", Split(users))
    return tmp_path


@pytest.fixture
def make_picture() -> Callable[..., np.ndarray]:
    return picture


@pytest.fixture
def save_image() -> Callable[[Path, np.ndarray], Path]:
    return save
