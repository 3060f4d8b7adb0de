"""Small CIFAR and MNIST files in each of their published forms, made of noise."""

import gzip
import hashlib
import io
import pickle
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from fedseg.data_prep import cifar

SPLITS = ("train", "test")


class OldPickler(pickle._Pickler):
    """Pickles as Python 2 did, in which the official batches were written: texts are bytes."""

    dispatch = dict(pickle._Pickler.dispatch)

    def _save_text(self, text):
        data = text.encode("latin1") if isinstance(text, str) else text
        self.write(pickle.BINSTRING + len(data).to_bytes(4, "little") + data)
        self.memoize(text)

    dispatch[bytes] = dispatch[str] = _save_text


def old_pickle(content) -> bytes:
    """The bytes of an official batch with this content."""
    file = io.BytesIO()
    OldPickler(file, protocol=2).dump(content)
    # NumPy has moved the function since
    return file.getvalue().replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")


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


def batches(kind: cifar.Cifar, images) -> dict[str, dict]:
    """File name -> content, in the official form."""
    found = {}
    for split in SPLITS:
        names = list(kind.batches[split])
        for name, own in zip(
            names, np.array_split(np.arange(len(images[split][1])), len(names)), strict=True
        ):
            pixels, labels = (array[own] for array in images[split])
            content = {
                "batch_label": name,
                kind.labels_key: labels.tolist(),
                "data": pixels.transpose(0, 3, 1, 2).reshape(len(own), -1),
                "filenames": [f"{i}.png" for i in own],
            }
            if kind.coarse_of is not None:
                groups = [kind.coarse_of[name] for name in kind.classes]
                content["coarse_labels"] = [groups[i] for i in labels]
            found[name] = content
    meta = kind.torchvision.meta
    found[meta["filename"]] = {meta["key"]: list(kind.classes)}
    return found


def write_batches(folder: Path, kind: cifar.Cifar, images, change=None) -> Path:
    """The folder that the official archive unpacks to; ``change`` may spoil the contents."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = batches(kind, images)
    if change is not None:
        change(contents)
    for name, content in contents.items():
        data = content if isinstance(content, bytes) else old_pickle(content)
        (folder / name).write_bytes(data)
    return folder


def write_archive(path: Path, kind: cifar.Cifar, images, change=None, members=()) -> Path:
    """An archive of the official form; ``members`` are (TarInfo, bytes) put in front."""
    folder = write_batches(path.parent / "to_pack", kind, images, change)
    with tarfile.open(path, "w:gz") as archive:
        for member, data in members:
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        for file in sorted(folder.iterdir()):
            archive.add(file, f"{kind.torchvision.base_folder}/{file.name}")
    return path


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


def published_as(
    kind: cifar.Cifar, folder: Path, images, archive: Path | None = None
) -> cifar.Cifar:
    """A kind whose official files are those of a folder, and whose counts those of the images."""

    def md5(path):
        return hashlib.md5(path.read_bytes()).hexdigest()

    theirs = kind.torchvision
    changes = {
        "train_list": [[name, md5(folder / name)] for name, _ in theirs.train_list],
        "test_list": [[name, md5(folder / name)] for name, _ in theirs.test_list],
        "meta": {**theirs.meta, "md5": md5(folder / theirs.meta["filename"])},
    }
    if archive is not None:
        changes["tgz_md5"] = md5(archive)
    classes = len(kind.classes)
    counts = {s: tuple(np.bincount(images[s][1], minlength=classes).tolist()) for s in SPLITS}
    own = type("Own", (theirs,), changes)
    return replace(kind, torchvision=own, counts=counts)


def idx_bytes(array: np.ndarray) -> bytes:
    """An idx file of unsigned bytes."""
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
            path = folder / f"{prefix}-{name}"
            if compressed:
                path.with_name(path.name + ".gz").write_bytes(gzip.compress(data))
            else:
                path.write_bytes(data)
    return folder
