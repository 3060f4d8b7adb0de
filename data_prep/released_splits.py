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
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from fedseg.datasets.arrays import INDEX, StoredImages, read_index
from fedseg.errors import DataError
from fedseg.files import read_json, sha256, write_text
from fedseg.partition.natural import RELEASED, RELEASED_NOTE, released_file
from fedseg.partition.split_files import Sample, check_content

from .description import ImageSet
from .image_files import VERIFIED, find_source, official_files
from .image_partitions import summarize, write_clients
from .image_sets import ImageOptions

TRAIN = "federated_train_alpha_"
Clients = dict[str, list[int]]
Places = Mapping[Sample, list[int]]  # name and label -> indices of the images


def find_released(published: ImageSet, folder: Path) -> tuple[dict[float, Path], Path]:
    """The released files: those of the clients by alpha, ascending, and that of the test images.

    ``folder`` has them, or a folder named after the data set that has them; they may lie deeper, as
    in the papers' repositories.
    """
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
            f"{base}: must have {TRAIN}*.json and one test.json, has {len(files)} and "
            f"{len(tests)}: name the folder with the released files by --from"
        )
    return dict(sorted(files.items())), tests[0]


def write_released(
    published: ImageSet,
    train: StoredImages,
    test: StoredImages,
    files: tuple[Mapping[float, Path], Path],
    options: ImageOptions,
) -> list[Path]:
    """Write every released split for prepared images, below ``splits/released``.

    Args:
        files: those of :func:`find_released`.
        options: where the archive is, and whether other splits are replaced.
    """
    root, known, (train_files, test_file) = Path(train.data_root), published.released, files
    origin = read_index(root / INDEX).get("source")
    if origin != VERIFIED:
        raise DataError(
            f"{root}: has images of {origin or 'an unknown source'}, and the released "
            "files count in the archive's order: prepare them from the archive (--source, "
            "--overwrite)"
        )
    archive = {}
    if known.archive_names:
        archive = official_files(published).read(find_source(published, root, options.source)).parts
    places: dict[str, Places] = {}
    for images in (train, test):
        names = [f"img_{i}" for i in range(len(images))]
        if images.split in archive:
            names = archive[images.split].names
        if len(names) != len(images):
            raise DataError(
                f"{root}: has {len(images)} {images.split} images, the archive {len(names)}: "
                "prepare them again from it (--source, --overwrite)"
            )
        places[images.split] = indices = defaultdict(list)
        for index, (name, label) in enumerate(zip(names, images.labels.tolist(), strict=True)):
            indices[name, str(label)].append(index)

    def assign_images(file: Path, split: str) -> tuple[Clients, dict[str, Any]]:
        clients = _find_indices(file, places[split], known.image_name, split)
        held = {index for indices in clients.values() for index in indices}
        rest = [f"{n}, class {c}" for (n, c), i in places[split].items() for _ in set(i) - held]
        if len(rest) > known.left_out[split]:
            raise DataError(
                f"{file}: {len(rest)} {split} images of the archive are missing, e.g. {rest[0]}, "
                f"in the released file {known.left_out[split]}: get it again"
            )
        sizes = [len(indices) for indices in clients.values()]
        note = {
            "file": file.name,
            "sha256": sha256(file),
            "clients": len(clients),
            "images": sum(sizes),
            "left_out": rest,
            "images_per_client": summarize(sizes),
        }
        return clients, note

    _, test_note = assign_images(test_file, "test")
    splits, notes = {}, {}
    for alpha, file in train_files.items():
        clients, note = assign_images(file, "train")
        classes = [len(set(train.labels[indices])) for indices in clients.values()]
        mean, expected = round(float(np.mean(classes)), 2), known.classes_per_client.get(alpha)
        complete = len(train) == sum(published.counts["train"])
        if (alpha == 0 and max(classes) > 1) or (
            complete and (len(clients) != known.clients or expected not in (None, mean))
        ):
            raise DataError(
                f"{file}: {len(clients)} clients have {mean} classes on average and {max(classes)} "
                f"at most; released with alpha {alpha:g} are {known.clients} of {expected}: get it "
                "again"
            )
        splits[released_file(alpha)] = clients
        notes[released_file(alpha)] = {**note, "classes_per_client": summarize(classes)}
    for name, clients in splits.items():
        write_clients(root / RELEASED / name, clients, options.overwrite)
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


def _read_released(file: Path) -> dict[str, list[Sample]]:
    """Clients and their samples (name, label), in the order of a released file."""
    data = read_json(file)
    with suppress(LookupError, TypeError, AttributeError):  # of another form, which is told below
        numbered = [(data, "users"), *((own, "y") for own in data["user_data"].values())]
        for part, key in numbered:  # whole numbers as texts
            part[key] = [str(value) if type(value) is int else value for value in part[key]]
    return check_content(file, data)


def _find_indices(file: Path, places: Places, pattern: str, split: str) -> Clients:
    """Indices of each client's images; ``pattern`` has the name and perhaps the label of one."""
    free = {sample: [*indices] for sample, indices in places.items()}
    names = {name for name, _ in places}
    clients: Clients = {}
    for user, samples in _read_released(file).items():
        clients[user] = []
        for image, label in samples:
            where = f"{file}: client {user!r}: image {image!r}"
            match = re.fullmatch(pattern, image.removesuffix(".png"))
            name = match[1] if match else ""
            if name not in names:
                raise DataError(f"{where} is not in the {split} images of the archive")
            if (name, label) not in free or {label, *match.groups()[1:]} != {label}:
                raise DataError(
                    f"{where} does not have label {label} in the archive: is it another order or "
                    "data set?"
                )
            if not free[name, label]:
                raise DataError(f"{where} is held by a client already")
            clients[user].append(free[name, label].pop(0))
    return clients
