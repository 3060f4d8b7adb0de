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
from pathlib import Path
from typing import Any

import numpy as np

from fedseg.datasets.arrays import INDEX, StoredImages, read_index
from fedseg.errors import ConfigError, DataError
from fedseg.files import read_json, sha256, write_text
from fedseg.partition.released import FOLDER, NOTE, released_file
from fedseg.partition.split_files import Sample, check_content

from .description import ImageSet, ReleasedFiles
from .image_files import VERIFIED, find_source, official_files
from .image_partitions import spread, write_clients

TRAIN = "federated_train_alpha_"
Clients = dict[str, list[int]]
Places = Mapping[str, Mapping[str, list[int]]]  # name -> label -> indices of the images


def write_released(
    published: ImageSet,
    train: StoredImages,
    test: StoredImages,
    files: tuple[Mapping[float, Path], Path],
    source: Path | None = None,
    overwrite: bool = False,
) -> list[Path]:
    """Write every released split for prepared images, below ``splits/released``.

    Args:
        train, test: the prepared images.
        files: those of :func:`find_released`.
        source: the archive, if it is not in the root.

    Raises:
        DataError: the images are not in the order of the archive, a released file is damaged or
            does not fit them, or another split is there already.
    """
    root, known, (train_files, test_file) = Path(train.data_root), published.released, files
    origin = read_index(root / INDEX).get("source")
    if origin != VERIFIED:
        raise DataError(
            f"{root}: holds images of {origin or 'an unknown source'}, and the released "
            "files count in the archive's order: prepare them from the archive (--source, "
            "--overwrite)"
        )
    names = {}
    if known.archive_names:
        archive = find_source(published, root, source)
        names = official_files(published).names(archive)
    places = {images.split: _places(images, names.get(images.split)) for images in (train, test)}
    tested = read_released(test_file)
    test_note = _note(test_file, *assign(test_file, tested, places["test"], known, "test"))
    splits: dict[str, Clients] = {}
    notes: dict[str, dict[str, Any]] = {}
    trained: set[str] = set()
    for alpha, file in train_files.items():
        users = read_released(file)
        clients, left_out = assign(file, users, places["train"], known, "train")
        classes = [len(set(train.labels[indices])) for indices in clients.values()]
        _check_classes(file, classes, alpha, len(train) == sum(published.counts["train"]), known)
        splits[released_file(alpha)] = clients
        notes[released_file(alpha)] = {
            **_note(file, clients, left_out),
            "classes_per_client": spread(classes),
        }
        trained |= _names(users)
    for name, clients in splits.items():
        write_clients(root / FOLDER / name, clients, overwrite)
    about = {
        "made": "from the released split files: tools/prepare_cifar.py --from",
        "dataset": published.name,
        "images": origin,
        "images_sha256": train.split_checksum,
        "names_in_train_and_test": len(trained & _names(tested)),
        "train": notes,
        "test": test_note,
    }
    write_text(root / FOLDER / NOTE, json.dumps(about, indent=2) + "\n")
    return [root / FOLDER / name for name in splits]


def find_released(published: ImageSet, folder: Path) -> tuple[dict[float, Path], Path]:
    """The released files: those of the clients by alpha, ascending, and that of the test images.

    ``folder`` has them, or a folder named after the data set that has them; they may lie deeper, as
    in the papers' repositories.

    Raises:
        ConfigError: no split of this data set was released.
        DataError: a file is missing or there twice.
    """
    if published.released is None:
        raise ConfigError(f"--from: no split files of {published.name} were released")
    base = folder / published.name.lower()
    base = base if base.is_dir() else folder
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
            f"{base}: must hold {TRAIN}*.json and one test.json, has {len(files)} and "
            f"{len(tests)}: name the folder with the released files by --from"
        )
    return dict(sorted(files.items())), tests[0]


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
    file: Path,
    users: Mapping[str, Sequence[Sample]],
    places: Places,
    known: ReleasedFiles,
    split: str,
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
            match = re.fullmatch(known.image_name, image.removesuffix(".png"))
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


def _places(images: StoredImages, names: Sequence[str] | None) -> Places:
    """Where the images of a name and label are; without names they are called by their index."""
    labels = images.labels.tolist()
    names = [f"img_{i}" for i in range(len(labels))] if names is None else names
    if len(names) != len(labels):
        raise DataError(
            f"{images.data_root}: has {len(labels)} {images.split} images, the archive names "
            f"{len(names)}: prepare them again from it (--source, --overwrite)"
        )
    places: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for index, (name, label) in enumerate(zip(names, labels, strict=True)):
        places[name][str(label)].append(index)
    return places


def _check_classes(
    file: Path, classes: Sequence[int], alpha: float, complete: bool, known: ReleasedFiles
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
