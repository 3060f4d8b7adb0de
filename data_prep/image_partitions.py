"""Partitions of labeled images into clients, written to files.

``<root>/splits/<name>.json`` is the object that
:class:`fedseg.partition.FixedPartition` reads (client id -> indices of training images). Next to it
``<name>.note.json`` says how it was made and for which images.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from fedseg.config.schema import check_arguments
from fedseg.datasets.arrays import ImageArrays
from fedseg.errors import ConfigError, DataError
from fedseg.files import read_bytes, write_text
from fedseg.partition import (
    DirichletClassPartition,
    DirichletPartition,
    HomogeneousPartition,
    NaturalPartition,
    PachinkoPartition,
    check_clients,
)

# By their name on the command line.
PARTITIONERS = {
    "dirichlet": DirichletPartition,
    "dirichlet-class": DirichletClassPartition,
    "pachinko": PachinkoPartition,
    "homogeneous": HomogeneousPartition,
    "natural": NaturalPartition,
}
COLUMNS = ("user_id", "image_id", "class")  # of a CSV file with the client of each image
# How a file's name says its options.
FORMS = {"alpha": "alpha{}", "beta": "beta{}", "num_clients": "{}clients", "seed": "seed{}"}


@dataclass(frozen=True)
class NamedPartition:
    """A split that is asked for."""

    partition: str  # one of PARTITIONERS
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
        """Client id -> indices of ``dataset``.

        Raises:
            ConfigError: the options make no sense for these images.
            DataError: the CSV file does not fit them.
        """
        if self.users is not None:
            users = read_users(self.users, dataset.labels)
            dataset = ImageArrays(dataset.images, dataset.labels, dataset.classes, users=users)
        divide = PARTITIONERS[self.partition](**self.options)
        return check_clients(divide(dataset), len(dataset))


def named_partitions(
    partition: str,
    alphas: Iterable[float] = (),
    users: Path | None = None,
    **options: Any,
) -> list[NamedPartition]:
    """The splits of one command, one for each alpha, checked before the images are read.

    A partition takes of alphas, ``num_clients``, ``beta``, ``seed`` and ``key`` what it has.

    Raises:
        ConfigError: a value makes no sense, or ``users`` is not for this partition.
    """
    if users is not None and partition != "natural":
        raise ConfigError(f"--users: is for --partition natural, not for {partition}")
    names = signature(PARTITIONERS[partition]).parameters
    known = {name: options[name] for name in names if name in options}
    each = [{"alpha": alpha} for alpha in dict.fromkeys(alphas)] if "alpha" in names else [{}]
    for alpha in each:
        check_arguments(PARTITIONERS[partition], {**known, **alpha}, "partition")
    return [NamedPartition(partition, {**known, **alpha}, users) for alpha in each]


def save_split(
    root: Path,
    one: NamedPartition,
    dataset: ImageArrays,
    clients: Mapping[str, np.ndarray],
    overwrite: bool = False,
) -> Path:
    """Write a split and its note; returns the JSON file.

    Raises:
        DataError: another split of that name exists and ``overwrite`` is not given.
    """
    file = root / "splits" / f"{one.name}.json"
    write_clients(file, clients, overwrite)
    about = {
        "partition": PARTITIONERS[one.partition].__name__,
        **one.options,
        **({} if one.users is None else {"users": one.users.name}),
        "clients": len(clients),
        "images": sum(map(len, clients.values())),
        "images_per_client": spread([len(i) for i in clients.values()]),
        "classes_per_client": spread([len(set(dataset.labels[i])) for i in clients.values()]),
        "images_sha256": dataset.split_checksum,
    }
    write_text(file.with_suffix(".note.json"), json.dumps(about, indent=2) + "\n")
    return file


def write_clients(
    file: Path, clients: Mapping[str, Sequence[int] | np.ndarray], overwrite: bool = False
) -> None:
    """Write clients and their indices, unless the same file is there, and print which it was.

    Raises:
        DataError: another one is there and ``overwrite`` is not given.
    """
    # One client a line: short files that can still be compared.
    lines = [f"{json.dumps(c)}: {json.dumps(np.asarray(i).tolist())}" for c, i in clients.items()]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    if file.is_file() and file.read_bytes() == text.encode():
        print(f"{file}: is there already, the same")
        return
    if file.exists() and not overwrite:
        raise DataError(
            f"{file}: holds another split: give --overwrite to replace it, or another --root"
        )
    write_text(file, text)
    print(f"{file}: written")


def read_users(path: Path, labels: np.ndarray) -> list[str]:
    """The client of each training image, from a CSV file with a header.

    Columns: ``user_id``; ``image_id``, the index of the image (without it, rows are images in
    order); ``class``, which must agree with the labels. This is the form in which Hsu et al. (2020)
    have published their splits of CIFAR.

    Raises:
        DataError: the file cannot be read, or does not give each image one client.
    """
    try:
        reader = csv.DictReader(io.StringIO(read_bytes(path).decode("utf-8-sig"), newline=""))
        reader.fieldnames = names = [name.strip() for name in reader.fieldnames or []]
        rows = list(reader)
    except (OSError, ValueError, csv.Error) as error:
        raise DataError(f"{path}: cannot be read as CSV ({error})") from error
    if not rows or "user_id" not in names:
        raise DataError(f"{path}: needs a header line with user_id, and rows")
    for name in filter(None, names):
        if name not in COLUMNS:  # perhaps one of them by another name
            raise DataError(
                f"{path}: has a column {name!r}, which is none of {', '.join(COLUMNS)}: rename or "
                "remove it"
            )
        if names.count(name) > 1:
            raise DataError(f"{path}: has more than one column {name!r}: remove the others")
    users: dict[int, str] = {}
    for number, row in enumerate(rows):
        try:
            index = _number(row, "image_id") if "image_id" in names else number
            label = _number(row, "class") if "class" in names else None
            if not row.get("user_id"):
                raise ValueError("has no user_id")
            if not 0 <= index < len(labels):
                raise ValueError(f"is out of range: 0 to {len(labels) - 1}")
            if index in users:
                raise ValueError("has a user already")
            if label not in (None, labels[index]):
                raise ValueError(f"is of class {labels[index]}, not {label}: is the order another?")
        except ValueError as error:
            where = f"{path}: row {number + 1}: image_id {row.get('image_id')!r}"
            raise DataError(f"{where}: {error}") from error
        users[index] = row["user_id"]
    if missing := set(range(len(labels))) - set(users):
        raise DataError(
            f"{path}: {len(missing)} of {len(labels)} images have no user, e.g. {min(missing)}"
        )
    return [users[index] for index in range(len(labels))]


def _number(row: Mapping[str, Any], column: str) -> int:
    text = (row[column] or "").strip()
    if not re.fullmatch("[0-9]{1,9}", text):
        raise ValueError(f"needs a whole number as {column}, not {text!r}")
    return int(text)


def spread(values: list[int]) -> dict[str, float]:
    """Least, median, mean and largest of some numbers."""
    return {
        "min": min(values),
        "median": float(np.median(values)),
        "mean": float(np.mean(values)),
        "max": max(values),
    }
