"""CIFAR's clients from the split files that were released with the ECCV 2022 and FedGloSS papers.

``federated_train_alpha_<alpha>.json`` lists the images of each client, ``test.json`` the test
images, in the form of :mod:`fedseg.partition.split_files` with numbers for clients and labels.
CIFAR-10's names are ``img_<index>_label_<label>.png``, with the index of the image in the archive;
CIFAR-100's are the archive's own, two of which belong to two images of different classes. What is
written has indices of images, as :class:`fedseg.partition.ReleasedPartition` reads them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedseg.datasets.arrays import INDEX, StoredImages, read_index
from fedseg.errors import DataError
from fedseg.files import read_json, sha256, write_text
from fedseg.partition.natural import RELEASED, RELEASED_NOTE, released_file
from fedseg.partition.split_files import Sample, check_content

from .cifar_files import VERIFIED, read_archive_names
from .facts import ImageSet

TRAIN = "federated_train_alpha_"
Clients = dict[str, list[int]]


@dataclass(frozen=True)
class FoundFiles:
    """The released files in a folder."""

    train: Mapping[float, Path]  # by alpha, ascending
    test: Path


def find_released(published: ImageSet, folder: Path) -> FoundFiles:
    """Find the released files in a folder, or deeper as in the papers' repositories.

    Where the folder has one that is named after the data set, only that is searched.
    """
    base = folder / published.name.lower()
    if not base.is_dir():
        base = folder
    files: dict[float, Path] = {}
    for file in sorted(base.rglob(f"{TRAIN}*.json")):
        try:
            alpha = float(file.stem.removeprefix(TRAIN))
        except ValueError as error:
            raise DataError(f"{file}: has no number after {TRAIN!r}: rename it") from error
        if alpha in files:
            raise DataError(f"{file}: {files[alpha]} has the same alpha: remove one of them")
        files[alpha] = file
    tests = sorted(base.rglob("test.json"))
    if not files or len(tests) != 1:
        raise DataError(
            f"{base}: must have {TRAIN}*.json and one test.json, has {len(files)} and "
            f"{len(tests)}: name the folder with the released files by --from"
        )
    return FoundFiles(dict(sorted(files.items())), tests[0])


def write_released(
    published: ImageSet,
    train: StoredImages,
    test: StoredImages,
    files: FoundFiles,
    archive: Path,
    overwrite: bool,
) -> list[Path]:
    """Write every released split for prepared images, below ``splits/released``.

    Args:
        archive: folder of the official files.
        overwrite: replace splits that differ.

    Returns:
        The files that were written.
    """
    root = Path(train.data_root)
    origin = read_index(root / INDEX).get("source")
    if origin != VERIFIED:
        raise DataError(
            f"{root}: has images of {origin or 'an unknown source'}, and the released "
            "files count in the archive's order: prepare them from the archive (--overwrite)"
        )
    names = _names(published, archive, train, test)
    _, test_note = _assign(published, files.test, test, names["test"])
    splits: dict[str, Clients] = {}
    notes: dict[str, Any] = {}
    for alpha, file in files.train.items():
        clients, note = _assign(published, file, train, names["train"])
        classes = [len(set(train.labels[indices])) for indices in clients.values()]
        if alpha == 0 and max(classes) > 1:
            raise DataError(f"{file}: with alpha 0 a client must have one class: get it again")
        splits[released_file(alpha)] = clients
        notes[released_file(alpha)] = {**note, "classes_per_client": _summarize(classes)}
    for name, clients in splits.items():
        _write_clients(root / RELEASED / name, clients, overwrite)
    about = {
        "made": "from the released split files: tools/prepare_cifar.py --from",
        "dataset": published.name,
        "images": origin,
        "images_sha256": train.split_checksum,
        "train": notes,
        "test": test_note,
    }
    write_text(root / RELEASED / RELEASED_NOTE, json.dumps(about, indent=2) + "\n")
    return [root / RELEASED / name for name in splits]


def _names(
    published: ImageSet, archive: Path, train: StoredImages, test: StoredImages
) -> dict[str, list[str]]:
    """Name the images as the released files do, by split, in the archive's order."""
    if published.released.archive_names:
        return read_archive_names(published, archive)
    return {
        images.split: [f"img_{i}_label_{label}.png" for i, label in enumerate(images.labels)]
        for images in (train, test)
    }


def _assign(
    published: ImageSet, file: Path, images: StoredImages, names: Sequence[str]
) -> tuple[Clients, dict[str, Any]]:
    """Give each client of a released file the indices of its images; the second is a note of it."""
    labels = map(str, images.labels.tolist())
    rest = {sample: index for index, sample in enumerate(zip(names, labels, strict=True))}
    clients: Clients = {}
    for user, samples in _read_released(file).items():
        clients[user] = []
        for sample in samples:
            if sample not in rest:
                raise DataError(
                    f"{file}: client {user!r}: image {sample[0]!r} with label {sample[1]} is not "
                    f"in the {images.split} images of the archive, or is held by a client already"
                )
            clients[user].append(rest.pop(sample))
    if len(rest) > published.released.left_out[images.split]:
        name, label = next(iter(rest))
        raise DataError(
            f"{file}: {len(rest)} {images.split} images of the archive are missing, e.g. {name}, "
            f"class {label}, in the released file {published.released.left_out[images.split]}: "
            "get it again"
        )
    sizes = [len(indices) for indices in clients.values()]
    note = {
        "file": file.name,
        "sha256": sha256(file),
        "clients": len(clients),
        "images": sum(sizes),
        "left_out": [f"{name}, class {label}" for name, label in rest],
        "images_per_client": _summarize(sizes),
    }
    return clients, note


def _read_released(file: Path) -> dict[str, list[Sample]]:
    """Read clients and their samples (name, label), in the order of a released file."""
    data = read_json(file)
    try:
        data["users"] = [str(user) for user in data["users"]]
        for samples in data["user_data"].values():
            samples["y"] = [str(label) for label in samples["y"]]
    except (LookupError, TypeError, AttributeError) as error:
        raise DataError(f"{file}: must have users and user_data: get it again") from error
    return check_content(file, data)


def _write_clients(file: Path, clients: Clients, overwrite: bool) -> None:
    """Write clients and their indices unless the same file is there, and print which it was."""
    # One client a line: short files that can still be compared.
    lines = [f"{json.dumps(client)}: {json.dumps(indices)}" for client, indices in clients.items()]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    if file.is_file() and file.read_bytes() == text.encode():
        print(f"{file}: already exists, unchanged")
        return
    if file.exists() and not overwrite:
        raise DataError(
            f"{file}: has another split: give --overwrite to replace it, or another --root"
        )
    write_text(file, text)
    print(f"{file}: written")


def _summarize(values: Sequence[int]) -> dict[str, float]:
    """Least, median, mean and largest of numbers."""
    return {
        "min": min(values),
        "median": float(np.median(values)),
        "mean": float(np.mean(values)),
        "max": max(values),
    }
