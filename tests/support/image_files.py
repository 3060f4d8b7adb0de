"""Small CIFAR and MNIST files in each of their forms, made of noise."""

import gzip
import hashlib
import pickle
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torchvision import datasets

from fedseg.data_prep.description import ImageSet
from fedseg.data_prep.image_files import official_files

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


def write_batches(folder: Path, kind: ImageSet, images, names=None) -> Path:
    """The folder that CIFAR's archive unpacks to; ``names`` are those of the images by split."""
    folder.mkdir(parents=True, exist_ok=True)
    key = "labels" if kind.coarse_labels is None else "fine_labels"
    for split, batches in official_files(kind).batches.items():
        pixels, labels = images[split]
        known = names[split] if names else [f"{i}.png" for i in range(len(labels))]
        for (batch, _), indices in zip(
            batches, np.array_split(np.arange(len(labels)), len(batches)), strict=True
        ):
            content = {
                "data": pixels[indices].transpose(0, 3, 1, 2).reshape(len(indices), -1),
                key: labels[indices].tolist(),
                "filenames": [known[i] for i in indices],
            }
            (folder / batch).write_bytes(pickle.dumps(content, 2))
    meta = getattr(datasets, kind.torchvision).meta
    (folder / meta["filename"]).write_bytes(pickle.dumps({meta["key"]: list(kind.classes)}, 2))
    return folder


def write_archive(path: Path, kind: ImageSet, images, names=None) -> Path:
    """An archive of CIFAR's official form."""
    folder = write_batches(path.parent / "to_pack", kind, images, names)
    with tarfile.open(path, "w:gz") as archive:
        for file in sorted(folder.iterdir()):
            archive.add(file, f"{getattr(datasets, kind.torchvision).base_folder}/{file.name}")
    return path


def publish(
    patch: pytest.MonkeyPatch, kind: ImageSet, folder: Path, images, archive: Path | None = None
) -> ImageSet:
    """Let the batches of a folder be CIFAR's official files; a set with the images' counts."""

    def md5(path):
        return hashlib.md5(path.read_bytes()).hexdigest()

    official = getattr(datasets, kind.torchvision)
    for key in ("train_list", "test_list"):
        files = [[name, md5(folder / name)] for name, _ in getattr(official, key)]
        patch.setattr(official, key, files)
    meta = official.meta
    patch.setattr(official, "meta", {**meta, "md5": md5(folder / meta["filename"])})
    if archive is not None:
        patch.setattr(official, "tgz_md5", md5(archive))
    classes = len(kind.classes)
    counts = {s: tuple(np.bincount(images[s][1], minlength=classes).tolist()) for s in SPLITS}
    return replace(kind, counts=counts)


def write_npz(folder: Path, images, classes, /, **more) -> Path:
    """train.npz and test.npz; ``more`` replaces or adds arrays of the training file."""
    folder.mkdir(parents=True, exist_ok=True)
    for split in SPLITS:
        pixels, labels = images[split]
        content = {"images": pixels, "labels": labels, "classes": np.array(classes)}
        np.savez(folder / f"{split}.npz", **{**content, **(more if split == "train" else {})})
    return folder


def write_folders(folder: Path, images, classes) -> Path:
    """{train,test}/<class>/*.png."""
    for split in SPLITS:
        for number, (pixels, label) in enumerate(zip(*images[split], strict=True)):
            path = folder / split / classes[label] / f"{number:04d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(path)
    return folder


def idx_bytes(array: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, array.ndim])
    return head + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.tobytes()


def write_mnist(folder: Path, images, compressed: bool = True) -> Path:
    """The four idx files of images uint8 [N, 28, 28, 1]."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, prefix in (("train", "train"), ("test", "t10k")):
        pixels, labels = images[split]
        for name, array in (
            ("images-idx3-ubyte", pixels[..., 0]),
            ("labels-idx1-ubyte", labels.astype(np.uint8)),
        ):
            data = idx_bytes(array)
            if compressed:
                (folder / f"{prefix}-{name}.gz").write_bytes(gzip.compress(data))
            else:
                (folder / f"{prefix}-{name}").write_bytes(data)
    return folder
