"""CIFAR's clients from the split files that were released with the ECCV 2022 and FedGloSS papers.

``federated_train_alpha_<alpha>.json`` lists the images of each client, ``test.json`` the test
images::

    {"users": [id, ...], "num_samples": [n, ...],
     "user_data": {"id": {"x": [name, ...], "y": [label, ...]}, ...}}

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

from data_prep.cifar import IN_ORDER, Cifar
from data_prep.classification import ImageOptions, find_source, prepare
from data_prep.image_partitions import spread, write_clients
from fedseg.datasets.arrays import INDEX, SPLITS, StoredImages, read_index
from fedseg.errors import DataError
from fedseg.files import sha256, write_text
from fedseg.partition.released import FOLDER, NOTE, released_file
from fedseg.partition.split_files import unique_keys

TRAIN = "federated_train_alpha_"
KEYS = ("users", "num_samples", "user_data")
Sample = tuple[str, int]  # name and label
Places = Mapping[str, Mapping[int, list[int]]]  # name -> label -> indices of the images


@dataclass(frozen=True)
class Released:
    """What is known of the files of a data set."""

    name: re.Pattern[str]  # of an image, without ".png"; a second group is its label
    left_out: Mapping[str, int]  # images of the archive that the files do not list
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


def prepare_released(kind: Cifar, options: ImageOptions, folder: Path) -> list[Path]:
    """Prepare the images and write every released split for them.

    Args:
        kind, options: as of :func:`data_prep.classification.prepare`.
        folder: with the released files, or with a folder named after the data set that has them;
            they may lie deeper, as in the papers' repositories.

    Returns:
        The files of clients below ``options.root``.

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
    places = _places(kind, options, parts)
    released = RELEASED[kind.name]
    tested = read_released(test_file)
    _, test_note = assign(test_file, tested, places["test"], released, "test")
    test_names = {name for samples in tested.values() for name, _ in samples}
    made, notes, shared = {}, {}, set()
    for alpha, file in files.items():
        users = read_released(file)
        clients, note = assign(file, users, places["train"], released, "train")
        _check_classes(file, clients, parts["train"].labels, alpha, kind)
        made[released_file(alpha)], notes[released_file(alpha)] = (
            clients,
            {
                **note,
                "classes_per_client": spread(
                    [len(set(parts["train"].labels[i])) for i in clients.values()]
                ),
            },
        )
        shared |= {name for samples in users.values() for name, _ in samples} & test_names
    target = options.root / FOLDER
    for name, clients in made.items():
        existed = write_clients(target / name, clients, options.overwrite)
        print(f"{target / name}: {'is there already, the same' if existed else 'written'}")
    about = {
        "made": "from the released split files: tools/prepare_cifar.py --from",
        "dataset": kind.name,
        "images": source,
        "images_sha256": parts["train"].split_checksum,
        "names_in_train_and_test": len(shared),
        "train": notes,
        "test": test_note,
    }
    write_text(target / NOTE, json.dumps(about, indent=2) + "\n")
    return [target / name for name in made]


def find_released(folder: Path, dataset: str) -> tuple[dict[float, Path], Path]:
    """The released files: those of the clients by alpha, ascending, and that of the test images.

    Raises:
        DataError: there is none, or one twice.
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
    """Clients and their samples, in the order of a released file.

    Raises:
        DataError: it is not readable, or its lists do not fit together.
    """
    try:
        data = json.loads(file.read_text(encoding="utf-8"), object_pairs_hook=unique_keys)
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{file}: is not readable as JSON ({error}): get it again") from error
    if not isinstance(data, dict) or any(key not in data for key in KEYS):
        raise DataError(f"{file}: is no released split: it needs the keys {', '.join(KEYS)}")
    users, counts, held = (data[key] for key in KEYS)
    if not isinstance(users, list) or not isinstance(held, dict):
        raise DataError(f"{file}: 'users' must be a list and 'user_data' an object: get it again")
    names = [str(user) for user in users]
    if not names or len(set(names)) < len(names) or set(names) != set(held):
        raise DataError(f"{file}: 'users' must name each client of 'user_data' once: get it again")
    if not isinstance(counts, list) or len(counts) != len(names):
        raise DataError(f"{file}: 'num_samples' must have a number for each of 'users'")
    return {
        name: _samples(f"{file}: client {name!r}", count, held[name])
        for name, count in zip(names, counts, strict=True)
    }


def _samples(where: str, count: Any, data: Any) -> list[Sample]:
    lists = [data.get(key) if isinstance(data, dict) else None for key in ("x", "y")]
    if not all(isinstance(values, list) for values in lists):
        raise DataError(f"{where}: must have a list 'x' of names and a list 'y' of labels")
    images, labels = lists
    if not len(images) == len(labels) == count or not images:
        raise DataError(
            f"{where}: 'num_samples' is {count!r}, but 'x' has {len(images)} names and 'y' "
            f"{len(labels)} labels: get the file again"
        )
    for image, label in zip(images, labels, strict=True):
        if not isinstance(image, str) or type(label) is not int:
            raise DataError(f"{where}: {image!r} with label {label!r} is no name and number")
    return list(zip(images, labels, strict=True))


def assign(
    file: Path, users: Mapping[str, Sequence[Sample]], places: Places, known: Released, split: str
) -> tuple[dict[str, list[int]], dict[str, Any]]:
    """Indices of each client's images, and the note on the file.

    Args:
        file: for messages and the note.
        users: as of :func:`read_released`.
        places: where the images of the split are.
        known, split: what the file may leave out.

    Raises:
        DataError: a name is unknown, has another label or is held twice; or more images than in
            the released file are nobody's.
    """
    free = {
        (name, label): list(indices)
        for name, own in places.items()
        for label, indices in own.items()
    }
    holder: dict[tuple[str, int], str] = {}
    clients: dict[str, list[int]] = {}
    for user, samples in users.items():
        clients[user] = []
        for image, label in samples:
            where = f"{file}: client {user!r}: image {image!r}"
            match = known.name.fullmatch(image.removesuffix(".png"))
            name = match[1] if match else ""
            if name not in places:
                raise DataError(f"{where} is not in the {split} images of the archive")
            wrong = {label, *map(int, match.groups()[1:])} - places[name].keys()
            if wrong:
                raise DataError(
                    f"{where} has label {min(wrong)}, in the archive "
                    f"{', '.join(map(str, places[name]))}: is it another order or data set?"
                )
            if not free[name, label]:
                raise DataError(f"{where} is held by client {holder[name, label]!r} already")
            holder[name, label] = user
            clients[user].append(free[name, label].pop(0))
    rest = [f"{name} of class {label}" for (name, label), indices in free.items() if indices]
    missing = sum(map(len, free.values()))
    if missing > known.left_out[split]:
        raise DataError(
            f"{file}: {missing} {split} images of the archive are missing ({', '.join(rest[:3])}"
            f"{', ...' if len(rest) > 3 else ''}), in the released file {known.left_out[split]}: "
            "get it again"
        )
    note = {
        "file": file.name,
        "sha256": sha256(file),
        "clients": len(clients),
        "images": sum(map(len, clients.values())),
        "left_out": rest,
        "images_per_client": spread([len(i) for i in clients.values()]),
    }
    return clients, note


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
        found: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for index, (name, label) in enumerate(zip(names[split], labels, strict=True)):
            found[name][label].append(index)
        places[split] = {name: dict(own) for name, own in found.items()}
    return places


def _check_classes(
    file: Path, clients: Mapping[str, list[int]], labels: np.ndarray, alpha: float, kind: Cifar
) -> None:
    """Compare clients and their classes with what is known of the released files."""
    held = [len(set(labels[indices])) for indices in clients.values()]
    if alpha == 0 and max(held) > 1:
        raise DataError(f"{file}: a client has {max(held)} classes, with alpha 0 it is one")
    if len(labels) != sum(kind.counts["train"]):
        return  # a selection of the images
    known = RELEASED[kind.name]
    if len(clients) != known.clients:
        raise DataError(f"{file}: has {len(clients)} clients, released are {known.clients}")
    mean, published = float(np.mean(held)), known.classes_per_client.get(alpha)
    if published is not None and round(mean, 2) != published:
        raise DataError(
            f"{file}: clients have {mean:.2f} classes on average, in the released file {published}"
        )
