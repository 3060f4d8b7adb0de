"""Small CIFAR and MNIST files of noise in the forms that are read."""

import hashlib
import pickle
from pathlib import Path

import numpy as np
import pytest
from torchvision import datasets

from fedseg.data_prep import mnist_files
from fedseg.data_prep.facts import ImageSet

SPLITS = ("train", "test")


def noise(count: int, shape=(32, 32, 3), seed: int = 0) -> np.ndarray:
    """Images uint8 [count, *shape]."""
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


def image_set(classes: int, train: int = 4, test: int = 2, shape=(32, 32, 3)):
    """``{split: (images, labels)}`` with so many images per class, in mixed order."""
    made = {}
    for number, (split, each) in enumerate(zip(SPLITS, (train, test), strict=True)):
        labels = np.random.default_rng(number).permutation(np.repeat(np.arange(classes), each))
        made[split] = noise(len(labels), shape, seed=10 + number), labels.astype(np.int64)
    return made


def write_batches(root: Path, kind: ImageSet, images, names=None) -> Path:
    """The folder below a root that CIFAR's archive unpacks to.

    Args:
        names: the names of the images, by split.
    """
    official = getattr(datasets, kind.name)
    folder = root / official.base_folder
    folder.mkdir(parents=True, exist_ok=True)
    key = "labels" if kind.coarse_labels is None else "fine_labels"
    for split, batches in zip(SPLITS, (official.train_list, official.test_list), strict=True):
        pixels, labels = images[split]
        known = names[split] if names else [f"{i}.png" for i in range(len(labels))]
        parts = np.array_split(np.arange(len(labels)), len(batches))
        for (batch, _), indices in zip(batches, parts, strict=True):
            content = {
                "data": pixels[indices].transpose(0, 3, 1, 2).reshape(len(indices), -1),
                key: labels[indices].tolist(),
                "filenames": [known[i] for i in indices],
            }
            (folder / batch).write_bytes(pickle.dumps(content, 2))
    meta = official.meta
    (folder / meta["filename"]).write_bytes(pickle.dumps({meta["key"]: list(kind.classes)}, 2))
    return folder


def publish(patch: pytest.MonkeyPatch, kind: ImageSet, folder: Path) -> None:
    """Let the batches in a folder be CIFAR's official files."""
    official = getattr(datasets, kind.name)
    for key in ("train_list", "test_list"):
        files = [[name, _md5(folder / name)] for name, _ in getattr(official, key)]
        patch.setattr(official, key, files)
    md5 = _md5(folder / official.meta["filename"])
    patch.setattr(official, "meta", {**official.meta, "md5": md5})


def _md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes()).hexdigest()


def write_npz(folder: Path, images, classes, /, **more) -> Path:
    """train.npz and test.npz; ``more`` replaces arrays of the training file."""
    folder.mkdir(parents=True, exist_ok=True)
    for split in SPLITS:
        pixels, labels = images[split]
        content = {"images": pixels, "labels": labels, "classes": np.array(classes)}
        np.savez(folder / f"{split}.npz", **{**content, **(more if split == "train" else {})})
    return folder


def write_mnist(patch: pytest.MonkeyPatch, root: Path, images) -> Path:
    """Four idx files below a root, of images uint8 [N, 28, 28, 1]; they are the official ones."""
    folder = root / "MNIST" / "raw"
    folder.mkdir(parents=True)
    for split, prefix in zip(SPLITS, ("train", "t10k"), strict=True):
        pixels, labels = images[split]
        _write_idx(patch, folder / f"{prefix}-images-idx3-ubyte", pixels[..., 0])
        _write_idx(patch, folder / f"{prefix}-labels-idx1-ubyte", labels.astype(np.uint8))
    return folder


def _write_idx(patch: pytest.MonkeyPatch, path: Path, array: np.ndarray) -> None:
    shape = b"".join(length.to_bytes(4, "big") for length in array.shape)
    data = bytes([0, 0, 8, array.ndim]) + shape + array.tobytes()
    path.write_bytes(data)
    patch.setitem(mnist_files.SHA256, path.name, hashlib.sha256(data).hexdigest())
