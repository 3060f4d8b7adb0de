"""Make the files of CIFAR-10-C or CIFAR-100-C from a prepared test set, and verify what is there.

Every file is written next to its place and moved there when it is complete, so an interruption
leaves complete files only and the next run continues with the others. ``made.json`` lists the files
made here, from which images, with their checksums; files that it does not name are the user's own
(the official ones), which are checked and never changed.
"""

import hashlib
import io
import json
import os
import shutil
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedseg.datasets.arrays import StoredImages
from fedseg.datasets.corrupted import (
    CORRUPTIONS,
    LABELS,
    RECORD,
    SEVERITIES,
    CorruptedImages,
    chosen_corruptions,
    read_corruption,
    read_labels,
    read_record,
)
from fedseg.errors import DataError
from fedseg.files import atomic_writer, make_folder, remove_temporaries, sha256, write_text
from fedseg.units import format_bytes

from .corruption_parts import SIZE
from .corruptions import VERSION, corrupt
from .description import Outcome
from .image_sets import CorruptionOptions
from .parallel import in_processes, track

FIX = "put the official file there, or delete it and run this again"
CHUNK = 250  # images that a process corrupts at once; the bytes do not depend on it


@dataclass
class CorruptedFiles:
    """The files that are there and that were made; lists hold corruptions."""

    folder: Path
    images: int  # in one severity of one file
    official: list[str] = field(default_factory=list)  # the user's own files, verified
    kept: list[str] = field(default_factory=list)  # made by an earlier run, verified
    made: list[str] = field(default_factory=list)  # made by this run
    replaced: list[str] = field(default_factory=list)  # of other images, deleted


def prepare(_: None, root: Path, options: CorruptionOptions) -> Outcome:
    """Make or verify the corrupted test set of a prepared folder, and say what was done."""
    files = make_corrupted(root, options)
    for names, action in (
        (files.replaced, "made from other images or with other options, deleted"),
        (files.official, "official, verified"),
        (files.kept, "made earlier, verified"),
        (files.made, "made"),
    ):
        if names:
            print(f"{len(names)} {action}: {', '.join(names)}")
    print(f"{files.folder}: 5 severities of {files.images} images each")
    dataset = CorruptedImages(root, options.folder, options.corruptions)
    sheet = files.folder / "contact_sheet.png"
    note = (
        "\nImages that were made here have their own noise, and frost is drawn: for published "
        "results use the official files."
    )
    return Outcome(charts=[(dataset, sheet)], closing=f"{sheet}{note if dataset.generated else ''}")


def make_corrupted(root: Path, options: CorruptionOptions) -> CorruptedFiles:
    """Verify the corrupted test set of a prepared folder, and make what it lacks.

    The test images must be 32x32 RGB.
    """
    test = StoredImages(root, "test")
    shape = test.images.shape[1:]
    if shape != (SIZE, SIZE, 3):
        raise DataError(
            f"{root / 'test_images.npy'}: images of shape {list(shape)}: the corruptions' "
            f"parameters are for {SIZE}x{SIZE} RGB, such as CIFAR-10 and CIFAR-100"
        )
    count = len(test.labels)
    limit = min(options.limit or count, count)
    # At equal distances in the order of classes: however the set is sorted, all keep their share.
    by_class = np.argsort(test.labels, kind="stable")
    indices = np.sort(by_class[np.arange(limit) * count // limit])
    place = root / options.folder
    make_folder(place)
    remove_temporaries(place)
    files = CorruptedFiles(place, len(indices))
    record = {
        "tool": "tools/prepare_cifar_c.py",  # a mark: files of every version have it
        "version": VERSION,
        "seed": options.seed,
        "test_sha256": test.split_checksum,
        "images": len(indices),
        "files": {},
    }
    files.replaced = _take_over(place, record)
    labels = np.tile(test.labels[indices], len(SEVERITIES))
    _check_labels(place / LABELS, labels, len(test.classes), record)
    missing = []
    for name in chosen_corruptions(options.corruptions):
        path = place / f"{name}.npy"
        if not path.is_file():
            missing.append(name)
            continue
        read_corruption(path, len(labels), shape, FIX)
        if path.name in record["files"]:
            _check_unchanged(path, record["files"])
            files.kept.append(name)
        else:
            files.official.append(name)
    needed, free = len(missing) * len(labels) * int(np.prod(shape)), shutil.disk_usage(place).free
    if needed > free:
        raise DataError(
            f"{place}: needs {format_bytes(needed)}, but the disk has {format_bytes(free)} left: "
            "make room, or choose fewer with --corruptions or --limit"
        )
    work = partial(_corrupt_some, root / "test_images.npy", options.seed)
    some = np.split(indices, range(CHUNK, len(indices), CHUNK))
    jobs = [(name, severity, part) for name in missing for severity in SEVERITIES for part in some]
    workers = options.workers
    workers = min(os.cpu_count() or 1, 8) if workers is None else workers
    results = in_processes(work, jobs, workers)
    with closing(track(results, len(jobs), "corrupting images", bool(jobs))) as images:
        for name in missing:
            parts = [next(images) for _ in range(len(SEVERITIES) * len(some))]
            _write(place / f"{name}.npy", np.concatenate(parts), record)
            files.made.append(name)
        next(images, None)  # fills the bar
    return files


def _corrupt_some(source: Path, seed: int, job: tuple[str, int, np.ndarray]) -> np.ndarray:
    """Some images under one corruption and severity; runs in a worker."""
    name, severity, indices = job
    return corrupt(np.load(source, mmap_mode="r")[indices], name, severity, indices, seed)


def _write(path: Path, array: np.ndarray, record: dict[str, Any]) -> None:
    """Write an array, and its checksum into the record."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    data = buffer.getbuffer()
    with atomic_writer(path, "wb", sync=True) as file:
        file.write(data)
        # Before the file is in its place: one without a record is the user's.
        record["files"][path.name] = hashlib.sha256(data).hexdigest()
        write_text(path.with_name(RECORD), json.dumps(record, indent=2) + "\n", sync=True)


def _take_over(place: Path, record: dict[str, Any]) -> list[str]:
    """Copy the files of the earlier record that are still there; delete those of other images."""
    earlier = read_record(place)
    names = [LABELS, *(f"{corruption}.npy" for corruption in CORRUPTIONS)]
    files = {
        name: earlier["files"][name]
        for name in names
        if name in earlier.get("files", {}) and (place / name).is_file()
    }
    if {**earlier, "files": {}} == record:
        record["files"] = files
        return []
    for name in files:  # first: a refusal leaves everything as it is
        _check_unchanged(place / name, files)
    for name in files:
        (place / name).unlink()
    (place / RECORD).unlink(missing_ok=True)
    return [name for name in files if name != LABELS]


def _check_unchanged(path: Path, digests: dict[str, str]) -> None:
    if sha256(path) != digests[path.name]:
        raise DataError(
            f"{path}: is not what was made here, by the checksum in {RECORD}: delete it to have it "
            "made again, or keep official files in a folder of their own"
        )


def _check_labels(path: Path, labels: np.ndarray, classes: int, record: dict[str, Any]) -> None:
    """Check ``labels.npy`` against the test set, or write it."""
    if path.is_file():
        if not np.array_equal(read_labels(path, FIX), labels):
            raise DataError(
                f"{path}: its labels are not those of the test set, {len(labels)} in this order: "
                "keep files of another test set in a folder of their own (--folder)"
            )
        return
    for name in CORRUPTIONS:
        if f"{name}.npy" not in record["files"] and path.with_name(f"{name}.npy").is_file():
            raise DataError(
                f"{path}: is missing, but {name}.npy is there and was not made here: put its "
                "labels.npy next to it, which fixes the order of its images"
            )
    dtype = np.uint8 if classes <= 256 else np.int64  # bytes as in the official file
    _write(path, labels.astype(dtype), record)
