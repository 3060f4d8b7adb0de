"""A small Landmarks-User-160k: annotation files and photographs of noise."""

from pathlib import Path

import cv2
import numpy as np

TRAIN, TEST = "federated_train.csv", "test.csv"


def image_id(number: int) -> str:
    """Sixteen hexadecimal digits, as in Google Landmarks."""
    return f"{0x9E3779B97F4A7C15 * (number + 1) % 2**64:016x}"


def write_photo(path: Path, seed: int, height: int = 90, width: int = 120) -> Path:
    """A smooth random JPEG."""
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(str(path), cv2.resize(coarse, (width, height)))
    return path


def rows(users: int = 3, each: int = 4, test: int = 5, classes: int = 4):
    """Training rows (user, image, class) and test rows (image, class)."""
    train = [(f"{i // each}", image_id(i), i % classes) for i in range(users * each)]
    return train, [(image_id(1000 + i), i % classes) for i in range(test)]


def write_annotations(root: Path, train, test, names=(TRAIN, TEST)) -> None:
    root.mkdir(parents=True, exist_ok=True)
    for name, header, lines in (
        (names[0], "user_id,image_id,class", train),
        (names[1], "image_id,class", test),
    ):
        text = "\n".join(",".join(map(str, line)) for line in lines)
        (root / name).write_text(f"{header}\n{text}\n")


def write_landmarks(root: Path, **options) -> Path:
    """A whole root; images lie below folders of three characters."""
    train, test = rows(**options)
    write_annotations(root, train, test)
    for number, image in enumerate([*(row[1] for row in train), *(row[0] for row in test)]):
        write_photo((root / "images").joinpath(*image[:3], f"{image}.jpg"), number)
    return root
