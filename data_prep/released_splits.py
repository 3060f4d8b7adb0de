"""CIFAR's clients from the split files that were released with the ECCV 2022 and FedGloSS papers.

``federated_train_alpha_<alpha>.json`` lists the images of each client, ``test.json`` the test
images, in the form of :mod:`fedseg.partition.split_files` with numbers for clients and labels.
CIFAR-10's names are ``img_<index>_label_<label>.png``, with the index of the image in the archive;
CIFAR-100's are the archive's own, two of which belong to two images of different classes. What is
written has indices of images, as :class:`fedseg.partition.ReleasedPartition` reads them.
"""

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedseg.datasets.arrays import INDEX, SPLITS, StoredImages, read_index
from fedseg.errors import DataError
from fedseg.files import read_json, sha256, write_text
from fedseg.partition.released import FOLDER, NOTE, released_file
from fedseg.partition.split_files import Sample, check_content

from .cifar import IN_ORDER, Cifar
from .classification import ImageOptions, find_source, prepare
from .image_partitions import spread, write_clients

TRAIN = "federated_train_alpha_"
Clients = dict[str, list[int]]
Places = Mapping[str, Mapping[str, list[int]]]  # name -> label -> indices of the images


@dataclass(frozen=True)
class Released:
    """What is known of the files of a data set."""

    name: re.Pattern[str]  # of an image, without ".png"; a second group is its label
    left_out: Mapping[str, int]  # images of the archive that are not listed, at most
    classes_per_client: Mapping[float, float]  # by alpha, the mean
    clients: int = 100


RELEASED = {
    "CIFAR10": Released(
        re.compile(r"(img_\d+)_label_(\d+)"),
        {"train": 1, "test": 1},
        {0: 1.0, 0.05: 1.32, 100: 9.9},
    ),
    "CIFAR100": Released(
        re.compile(r"(.+)"), {"train": 0, "test": 1}, {0: 1.0, 0.5: 5.13, 1000: 98.82}
    ),
}


def prepare_released(kind: Cifar, options: ImageOptions, folder: Path) -> None:
    """Prepare the images and write every released split for them, below ``splits/released``.

    ``folder`` has the released files, or a folder named after the data set that has them; they may
    lie deeper, as in the papers' repositories.

    Raises:
        DataError: as ``prepare``; or the images are not in the order of the archive, a released
            file is damaged or does not fit them, or another split is there already.
    """
    files, test_file = find_released(folder, kind.name)
    parts = {"train": prepare(kind, options), "test": kind.dataset(options.root, "test")}
    source = read_index(options.root / INDEX).get("source")
    if source not in IN_ORDER:
        raise DataError(
            f"{options.root}: holds images of {source or 'an unknown source'}, and the released "
            "files count in the archive's order: prepare them from the archive (--source, "
            "--overwrite)"
        )
    places, known = _places(kind, options, parts), RELEASED[kind.name]
    labels = parts["train"].labels
    tested = read_released(test_file)
    test_note = _note(test_file, *assign(test_file, tested, places["test"], known, "test"))
    made: dict[str, Clients] = {}
    notes: dict[str, dict[str, Any]] = {}
    names = set()
    for alpha, file in files.items():
        users = read_released(file)
        clients, left_out = assign(file, users, places["train"], known, "train")
        classes = [len(set(labels[indices])) for indices in clients.values()]
        _check_classes(file, classes, alpha, len(labels) == sum(kind.counts["train"]), known)
        made[released_file(alpha)] = clients
        notes[released_file(alpha)] = {
            **_note(file, clients, left_out),
            "classes_per_client": spread(classes),
        }
        names |= _names(users)
    target = options.root / FOLDER
    for name, clients in made.items():
        write_clients(target / name, clients, options.overwrite)
    about = {
        "made": "from the released split files: tools/prepare_cifar.py --from",
        "dataset": kind.name,
        "images": source,
        "images_sha256": parts["train"].split_checksum,
        "names_in_train_and_test": len(names & _names(tested)),
        "train": notes,
        "test": test_note,
    }
    write_text(target / NOTE, json.dumps(about, indent=2) + "\n")


def find_released(folder: Path, dataset: str) -> tuple[dict[float, Path], Path]:
    """The released files: those of the clients by alpha, ascending, and that of the test images.

    Raises:
        DataError: one is missing or there twice.
    """
    own = folder / dataset.lower()
    base = own if own.is_dir() else folder
    found: dict[float, Path] = {}
    for file in sorted(base.rglob(f"{TRAIN}*.json")):
        try:
            alpha = float(file.stem.removeprefix(TRAIN))
        except ValueError as error:
            raise DataError(f"{file}: has no number after {TRAIN!r}: rename it") from error
        if alpha in found:
            raise DataError(f"{file}: {found[alpha]} has the same alpha: remove one of them")
        found[alpha] = file
    tests = sorted(base.rglob("test.json"))
    if not found or len(tests) != 1:
        raise DataError(
            f"{base}: must hold {TRAIN}*.json and one test.json, has {len(found)} and "
            f"{len(tests)}: name the folder with the released files by --from"
        )
    return dict(sorted(found.items())), tests[0]


def read_released(file: Path) -> dict[str, list[Sample]]:
    """Clients and their samples (name, label), in the order of a released file.

    Raises:
        DataError: it is not readable, or its lists do not fit together.
    """
    data = read_json(file)
    if isinstance(data, dict) and isinstance(data.get("user_data"), dict):
        data["users"] = _texts(data.get("users"))
        for own in data["user_data"].values():
            if isinstance(own, dict):
                own["y"] = _texts(own.get("y"))
    return check_content(file, data)


def assign(
    file: Path, users: Mapping[str, Sequence[Sample]], places: Places, known: Released, split: str
) -> tuple[Clients, list[str]]:
    """Indices of each client's images, and the names of images that no client holds.

    Raises:
        DataError: a name is unknown, has another label or is held twice; or more images than in
            the released file are nobody's.
    """
    free = {(name, label): [*i] for name, own in places.items() for label, i in own.items()}
    holder: dict[Sample, str] = {}
    clients: Clients = {}
    for user, samples in users.items():
        clients[user] = []
        for image, label in samples:
            where = f"{file}: client {user!r}: image {image!r}"
            match = known.name.fullmatch(image.removesuffix(".png"))
            name = match[1] if match else ""
            if name not in places:
                raise DataError(f"{where} is not in the {split} images of the archive")
            wrong = {label, *match.groups()[1:]} - places[name].keys()
            if wrong:
                raise DataError(
                    f"{where} has label {min(wrong)}, in the archive {', '.join(places[name])}: "
                    "is it another order or data set?"
                )
            if not free[name, label]:
                raise DataError(f"{where} is held by client {holder[name, label]!r} already")
            holder[name, label] = user
            clients[user].append(free[name, label].pop(0))
    rest = [f"{name}, class {label}" for (name, label), i in free.items() for _ in i]
    if len(rest) > known.left_out[split]:
        raise DataError(
            f"{file}: {len(rest)} {split} images of the archive are missing, e.g. {rest[0]}, in "
            f"the released file {known.left_out[split]}: get it again"
        )
    return clients, rest


def _places(
    kind: Cifar, options: ImageOptions, parts: Mapping[str, StoredImages]
) -> dict[str, Places]:
    """For each split, where the image of a name and label is."""
    names = {s: [f"img_{i}" for i in range(len(parts[s]))] for s in SPLITS}
    if kind.name == "CIFAR100":
        names = kind.file_names(find_source(kind, options))
    places: dict[str, Places] = {}
    for split in SPLITS:
        labels = parts[split].labels.tolist()
        if len(names[split]) != len(labels):
            raise DataError(
                f"{options.root}: has {len(labels)} {split} images, the archive names "
                f"{len(names[split])}: prepare them again from it (--source, --overwrite)"
            )
        found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for index, (name, label) in enumerate(zip(names[split], labels, strict=True)):
            found[name][str(label)].append(index)
        places[split] = found
    return places


def _check_classes(
    file: Path, classes: Sequence[int], alpha: float, complete: bool, known: Released
) -> None:
    """Compare the number of clients and of their classes with what is known, of all images."""
    if alpha == 0 and max(classes) > 1:
        raise DataError(f"{file}: a client has {max(classes)} classes, with alpha 0 it is one")
    if not complete:
        return
    if len(classes) != known.clients:
        raise DataError(f"{file}: has {len(classes)} clients, released are {known.clients}")
    mean, published = float(np.mean(classes)), known.classes_per_client.get(alpha)
    if published not in (None, round(mean, 2)):
        raise DataError(
            f"{file}: clients have {mean:.2f} classes on average, in the released file {published}"
        )


def _note(file: Path, clients: Clients, left_out: Sequence[str]) -> dict[str, Any]:
    sizes = [len(indices) for indices in clients.values()]
    return {
        "file": file.name,
        "sha256": sha256(file),
        "clients": len(clients),
        "images": sum(sizes),
        "left_out": list(left_out),
        "images_per_client": spread(sizes),
    }


def _names(users: Mapping[str, Sequence[Sample]]) -> set[str]:
    return {name for samples in users.values() for name, _ in samples}


def _texts(values: Any) -> Any:
    """A list's whole numbers as texts; anything else as it is."""
    if not isinstance(values, list):
        return values
    return [str(value) if type(value) is int else value for value in values]
