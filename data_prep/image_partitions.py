"""Partitions of labeled images into clients, written to files.

``<root>/splits/<name>.json`` is the object that
:class:`fedseg.partition.FixedPartition` reads (client id -> indices of training images). Next to it
``<name>.note.json`` says how it was made and for which images.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from fedseg.config.arguments import check_arguments
from fedseg.datasets.arrays import ImageArrays
from fedseg.datasets.landmarks import read_rows
from fedseg.errors import ConfigError, DataError
from fedseg.files import write_text
from fedseg.partition import check_clients
from fedseg.registry import PARTITIONS

# How a file's name says its options.
FORMS = {"alpha": "alpha{}", "beta": "beta{}", "num_clients": "{}clients", "seed": "seed{}"}


def find_partition(name: str) -> type:
    """The class of a partition from its name on the command line: dirichlet-class, for example."""
    return PARTITIONS.get("".join(map(str.title, name.split("-"))) + "Partition")


@dataclass(frozen=True)
class NamedPartition:
    """A split that is asked for."""

    partition: str  # as the command line calls it
    options: Mapping[str, Any]  # arguments of the class
    users: Path | None = None  # a CSV file with the client of each image, for natural

    @property
    def name(self) -> str:
        """Of the file: partition, options and seed."""
        shown = {o: repr(v).removesuffix(".0") for o, v in self.options.items()}
        parts = [form.format(shown[o]) for o, form in FORMS.items() if o in shown]
        if self.partition == "natural":
            parts.append(self.options["key"] if self.users is None else self.users.stem)
        return "_".join([self.partition, *parts])

    def clients(self, dataset: ImageArrays) -> dict[str, np.ndarray]:
        """Client id -> indices of ``dataset``."""
        if self.users is not None:
            users = read_users(self.users, dataset.labels)
            dataset = ImageArrays(dataset.images, dataset.labels, dataset.classes, users=users)
        divide = find_partition(self.partition)(**self.options)
        return check_clients(divide(dataset), len(dataset))


def named_partitions(
    partition: str, alphas: Iterable[float] = (), users: Path | None = None, **options: Any
) -> list[NamedPartition]:
    """The splits of one command, one for each alpha, checked before the images are read.

    A partition takes of alphas, ``num_clients``, ``beta``, ``seed`` and ``key`` what it has.
    """
    if users is not None and partition != "natural":
        raise ConfigError(f"--users: is for --partition natural, not for {partition}")
    kind = find_partition(partition)
    names = signature(kind).parameters
    known = {name: options[name] for name in names if name in options}
    choices = [{"alpha": a} for a in dict.fromkeys(alphas)] if "alpha" in names else [{}]
    for choice in choices:
        check_arguments(kind, {**known, **choice}, "partition")
    return [NamedPartition(partition, {**known, **choice}, users) for choice in choices]


def save_split(
    root: Path,
    split: NamedPartition,
    dataset: ImageArrays,
    clients: Mapping[str, np.ndarray],
    overwrite: bool = False,
) -> Path:
    """Write a split and its note; returns the JSON file."""
    file = root / "splits" / f"{split.name}.json"
    write_clients(file, clients, overwrite)
    note = {
        "partition": find_partition(split.partition).__name__,
        **split.options,
        **({} if split.users is None else {"users": split.users.name}),
        "clients": len(clients),
        "images": sum(map(len, clients.values())),
        "images_per_client": summarize([len(i) for i in clients.values()]),
        "classes_per_client": summarize([len(set(dataset.labels[i])) for i in clients.values()]),
        "images_sha256": dataset.split_checksum,
    }
    write_text(file.with_suffix(".note.json"), json.dumps(note, indent=2) + "\n")
    return file


def write_clients(
    file: Path, clients: Mapping[str, Sequence[int] | np.ndarray], overwrite: bool = False
) -> None:
    """Write clients and their indices, unless the same file is there, and print which it was."""
    # One client a line: short files that can still be compared.
    lines = [f"{json.dumps(c)}: {json.dumps(np.asarray(i).tolist())}" for c, i in clients.items()]
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


def read_users(path: Path, labels: np.ndarray) -> list[str]:
    """The client of each training image, from a CSV file with a header.

    Columns: ``user_id``; ``image_id``, the index of the image (without it, rows are images in
    order); ``class``, which must agree with the labels. This is the form in which Hsu et al. (2020)
    have published their splits of CIFAR.
    """
    users: dict[int, str] = {}
    rows = read_rows(path, ["user_id"], ["image_id", "class"])
    for number, (line, row) in enumerate(rows):
        cells = {name: (row[name] or "").strip() for name in row if name}
        image, mistake = cells.get("image_id", str(number)), None
        index = int(image) if image.isdecimal() and len(image) < 10 else -1
        if not cells["user_id"]:
            mistake = "has no user_id"
        elif not 0 <= index < len(labels):
            mistake = f"must be a whole number from 0 to {len(labels) - 1}"
        elif index in users:
            mistake = "has a user already"
        elif (label := cells.get("class")) not in (None, str(labels[index])):
            mistake = f"is of class {labels[index]}, not {label!r}: is the order another?"
        if mistake:
            raise DataError(f"{path}, line {line}: image_id {image!r} {mistake}")
        users[index] = cells["user_id"]
    if missing := set(range(len(labels))) - set(users):
        raise DataError(
            f"{path}: {len(missing)} of {len(labels)} images have no user, e.g. {min(missing)}"
        )
    return [users[index] for index in range(len(labels))]


def summarize(values: Sequence[int]) -> dict[str, float]:
    """Least, median, mean and largest of some numbers."""
    return {
        "min": min(values),
        "median": float(np.median(values)),
        "mean": float(np.mean(values)),
        "max": max(values),
    }
