"""Make the files of CIFAR-10-C or CIFAR-100-C from a prepared test set, and verify what is there.

Every file is written next to its place and moved there when it is complete, so an interruption
leaves complete files only and the next run continues with the others. ``made.json`` lists the files
made here, from which images, with their checksums; files that it does not name are the user's own
(the official ones), which are checked and never changed.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from data_prep.corruption_parts import SIZE
from data_prep.corruptions import VERSION, corrupt
from data_prep.parallel import in_processes, progress_bar
from fedseg.checks import check_int
from fedseg.datasets.arrays import StoredImages
from fedseg.datasets.corrupted import (
    CORRUPTIONS,
    FOLDER,
    LABELS,
    RECORD,
    SEVERITIES,
    TOOL,
    chosen_corruptions,
    read_corruption,
    read_labels,
    read_record,
)
from fedseg.errors import DataError
from fedseg.files import TEMPORARY, sha256, sync_folder, write_text
from fedseg.units import format_bytes

CHUNK = 250
"""Images that a process corrupts at once; the bytes do not depend on it."""


@dataclass
class Outcome:
    """What a run found and did; lists hold corruptions."""

    folder: Path
    images: int  # in one severity of one file
    official: list[str] = field(default_factory=list)  # the user's own files, verified
    kept: list[str] = field(default_factory=list)  # made by an earlier run, verified
    made: list[str] = field(default_factory=list)  # made by this run
    replaced: list[str] = field(default_factory=list)  # file names, of other images, deleted


@dataclass(frozen=True)
class _Job:
    """Some images under one corruption and severity."""

    source: Path
    name: str
    severity: int
    indices: tuple[int, ...]
    seed: int


def make_corrupted(
    root: str | Path,
    folder: str = FOLDER,
    corruptions: Sequence[str] | None = None,
    limit: int | None = None,
    seed: int = 0,
    workers: int | None = None,
    progress: bool = True,
) -> Outcome:
    """Verify the corrupted test set of a prepared folder, and make what it lacks.

    Args:
        root: the prepared folder; its test images must be 32x32 RGB.
        folder: for the files, in ``root``.
        corruptions: which; None for all 19.
        limit: corrupt only so many test images, of each class its share; for a quick look, not
            for published results. None for all.
        seed: of everything random.
        workers: processes; below 2 everything runs in this one. None: one per core, at most 8.
        progress: show a progress bar with the time left.

    Raises:
        ConfigError: an unknown corruption; a limit below 1.
        DataError: there is no prepared folder, or not of 32x32 RGB images; a file there has another
            length, shape, dtype or other labels than the test set demands, or was changed since it
            was made; the disk is too full.
    """
    root = Path(root)
    names = chosen_corruptions(corruptions, "--corruptions")
    test = StoredImages(root, "test")
    if test.images.shape[1:] != (SIZE, SIZE, 3):
        raise DataError(
            f"{root / 'test_images.npy'}: images of shape {list(test.images.shape[1:])}: the "
            f"corruptions' parameters are for {SIZE}x{SIZE} RGB, such as CIFAR-10 and CIFAR-100"
        )
    indices = _chosen_indices(test.labels, limit)
    place = root / folder
    place.mkdir(parents=True, exist_ok=True)
    for name in CORRUPTIONS:  # of a run that was killed
        _temporary(place / f"{name}.npy").unlink(missing_ok=True)
    identity = {
        "tool": TOOL,
        "version": VERSION,
        "seed": seed,
        "test_sha256": test.split_checksum,
        "images": len(indices),
    }
    outcome = Outcome(place, len(indices))
    record = _current_record(place, identity, outcome)
    labels = np.tile(test.labels[indices], len(SEVERITIES))
    _check_labels(place, labels, len(test.classes), root, record)
    shape = test.images.shape[1:]
    missing = []
    for name in names:
        path = place / f"{name}.npy"
        if not path.is_file():
            missing.append(name)
            continue
        read_corruption(path, len(labels), shape, root)
        if path.name not in record["files"]:
            outcome.official.append(name)
            continue
        _check_unchanged(path, record["files"])
        outcome.kept.append(name)
    _check_space(place, len(missing) * len(labels) * int(np.prod(shape)))
    workers = min(_cores(), 8) if workers is None else workers
    jobs = [
        _Job(root / "test_images.npy", name, severity, tuple(some.tolist()), seed)
        for name in missing
        for severity in SEVERITIES
        for some in np.split(indices, range(CHUNK, len(indices), CHUNK))
    ]
    with (
        closing(in_processes(_work, jobs, workers)) as images,
        progress_bar(progress and bool(missing)) as bar,
    ):
        task = bar.add_task("corrupting images", total=len(labels) * len(missing))
        for name in missing:
            path = place / f"{name}.npy"
            try:
                _write(path, (len(labels), *shape), images, lambda n: bar.advance(task, n))
                _finish(path, record)
            finally:
                _temporary(path).unlink(missing_ok=True)
            outcome.made.append(name)
    return outcome


def _work(job: _Job) -> np.ndarray:
    images = np.load(job.source, mmap_mode="r")[list(job.indices)]
    return corrupt(images, job.name, job.severity, job.indices, job.seed)


def _write(
    path: Path,
    shape: tuple[int, ...],
    images: Iterator[np.ndarray],
    advance: Callable[[int], None],
) -> None:
    """Write one file next to its place, from as many images as it has."""
    with open(_temporary(path), "wb") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        left = shape[0]
        while left:
            some = next(images)
            file.write(some.tobytes())
            left -= len(some)
            advance(len(some))


def _finish(path: Path, record: dict[str, Any]) -> None:
    """Record the checksum, then move the file to its place: one without a record is the user's."""
    part = _temporary(path)
    with open(part, "r+b") as file:
        os.fsync(file.fileno())
    record["files"][path.name] = sha256(part)
    write_text(path.with_name(RECORD), json.dumps(record, indent=2) + "\n", sync=True)
    os.replace(part, path)
    sync_folder(path.parent)


def _current_record(place: Path, identity: dict[str, Any], outcome: Outcome) -> dict[str, Any]:
    """The record, without files that are gone; files made from other images are deleted."""
    record = read_record(place)
    files = record.pop("files", {})
    there = {
        name: files[name]
        for name in (LABELS, *(f"{corruption}.npy" for corruption in CORRUPTIONS))
        if name in files and (place / name).is_file()
    }
    if record == identity:
        return {**identity, "files": there}
    for name in there:  # first: a refusal leaves everything as it is
        _check_unchanged(place / name, files)
    for name in there:
        (place / name).unlink()
    (place / RECORD).unlink(missing_ok=True)
    outcome.replaced = [name for name in there if name != LABELS]
    return {**identity, "files": {}}


def _check_unchanged(path: Path, digests: dict[str, str]) -> None:
    if sha256(path) != digests[path.name]:
        raise DataError(
            f"{path}: is not what was made here, by the checksum in {RECORD}: delete it to have it "
            "made again, or keep official files in a folder of their own"
        )


def _check_labels(
    place: Path, labels: np.ndarray, classes: int, root: Path, record: dict[str, Any]
) -> None:
    """Check ``labels.npy`` against the test set, or write it."""
    path = place / LABELS
    fix = (
        "the files there belong to another test set, or to the same in another order: keep them in "
        "a folder of their own (--folder), or prepare the test set from the official archive"
    )
    if not path.is_file():
        for name in CORRUPTIONS:
            if f"{name}.npy" not in record["files"] and (place / f"{name}.npy").is_file():
                raise DataError(
                    f"{path}: is missing, but {name}.npy is there and was not made here: put its "
                    "labels.npy next to it, which fixes the order of its images"
                )
        with open(_temporary(path), "wb") as file:  # unsigned bytes as in the official file
            np.save(file, labels.astype(np.uint8 if classes <= 256 else np.int64))
        _finish(path, record)
        return
    found = read_labels(path, root)
    if len(found) != len(labels):
        raise DataError(
            f"{path}: has {len(found)} labels, but {len(SEVERITIES)} severities of "
            f"{len(labels) // len(SEVERITIES)} test images need {len(labels)}: {fix}"
        )
    wrong = np.flatnonzero(found != labels)
    if wrong.size:
        raise DataError(
            f"{path}: label {found[wrong[0]]} of image {wrong[0]} (and {wrong.size - 1} more) is "
            f"not the test set's, {labels[wrong[0]]}: {fix}"
        )


def _chosen_indices(labels: np.ndarray, limit: int | None) -> np.ndarray:
    count = len(labels)
    if limit is None:
        return np.arange(count)
    check_int("--limit", limit)
    limit = min(limit, count)
    # At equal distances in the order of classes: however the set is sorted, all keep their share.
    by_class = np.argsort(labels, kind="stable")
    return np.sort(by_class[np.arange(limit) * count // limit])


def _check_space(place: Path, needed: int) -> None:
    free = shutil.disk_usage(place).free
    if needed > free:
        raise DataError(
            f"{place}: needs {format_bytes(needed)}, but the disk has {format_bytes(free)} left: "
            "make room, or choose fewer with --corruptions or --limit"
        )


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _temporary(path: Path) -> Path:
    return path.with_name(path.name + TEMPORARY)
