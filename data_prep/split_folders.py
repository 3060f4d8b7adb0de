"""Split folders on disk, with a note of how they were made; and published split files.

``<root>/splits/.../{train,test}/*.json`` are the split, ``split.json`` next to the two folders is
the note: rule, seed, counts, checksums. It is outside them because every JSON file inside is read
as part of the split.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from statistics import median
from typing import Any

from fedseg.errors import DataError
from fedseg.files import write_text
from fedseg.partition import Split, read_split, split_paths, write_split
from fedseg.partition.split_files import UNFINISHED

from .description import Place
from .disk import Sample

NOTE = "split.json"
PARTS = ("train", "test")


@dataclass(frozen=True)
class PreparedSplit:
    """A split that is ready to be saved."""

    place: Place
    train: Split
    test: Split
    about: Mapping[str, Any]  # what the note says besides counts: rule, seed, ...
    source: Path | None = None  # the folder of published files that it is a plain copy of, if any


def limit(
    train: Split,
    test: Split,
    per_user: int | None,
    per_domain: int | None,
    domain_of: Callable[[str], str],
) -> tuple[Split, Split]:
    """A split cut down for quick trials: its first images.

    Args:
        per_user: images of each training client; None: all.
        per_domain: images of each domain for each test user; None: all.
    """
    kept = {user: samples[:per_user] for user, samples in train.users.items()}
    tests: dict[str, list[Sample]] = {}
    for user, samples in test.users.items():
        seen: Counter[str] = Counter()
        tests[user] = []
        for sample in samples:
            seen[domain_of(sample[0])] += 1
            if per_domain is None or seen[domain_of(sample[0])] <= per_domain:
                tests[user].append(sample)
    return Split(kept), Split(tests)


def check_free(root: Path, made: Iterable[PreparedSplit], overwrite: bool = False) -> None:
    """Make sure that saving destroys nothing.

    Raises:
        DataError: another split is in its place and ``overwrite`` is not given, or a split would be
            copied onto itself.
    """
    for one in made:
        folder = root.joinpath("splits", *one.place)
        if one.source is not None and one.source.resolve() == folder.resolve():
            raise DataError(f"{folder}: --from names the folder that would be written")
        for part, split in zip(PARTS, (one.train, one.test), strict=True):
            if not overwrite and _holds_another(folder / part, split):
                raise DataError(
                    f"{folder / part}: holds another split: give --overwrite to replace it, or "
                    "another --root"
                )


def save(root: Path, made: PreparedSplit) -> None:
    """Write a split and its note, unless both are there; the same split gives the same bytes."""
    folder = root.joinpath("splits", *made.place)
    parts = tuple(zip(PARTS, (made.train, made.test), strict=True))
    note = json.dumps({**made.about, **counts(made.train, made.test)}, indent=2) + "\n"
    noted = (folder / NOTE).is_file() and (folder / NOTE).read_bytes() == note.encode()
    if noted and all(_holds(folder / part, split) for part, split in parts):
        return
    # New clients beside an old test set could train on its images: until all is written, nothing
    # of it is read.
    write_text(folder / UNFINISHED, "", sync=True)
    for part, split in parts:
        written = write_split(folder / part, split)
        if made.source is not None:  # their own files instead, byte by byte
            written.unlink()
            for file in split_paths(made.source / part):
                shutil.copyfile(file, folder / part / file.name)
    write_text(folder / NOTE, note)
    (folder / UNFINISHED).unlink()


def counts(train: Split, test: Split) -> dict[str, Any]:
    """Counts and checksums of a split, for the note and the summary."""
    sizes = [len(samples) for samples in train.users.values()]
    return {
        "train": {
            "clients": len(sizes),
            "images": sum(sizes),
            "images_per_client": {"min": min(sizes), "median": median(sizes), "max": max(sizes)},
            "checksum": train.checksum,
        },
        "test": {
            "images": {user: len(samples) for user, samples in test.users.items()},
            "checksum": test.checksum,
        },
    }


def find_published(
    source: Path, places: Sequence[Place], named: Sequence[bool] = ()
) -> dict[Place, Path]:
    """The folders below ``source`` that hold published splits.

    ``source`` is one split (it has ``train`` and ``test``; then ``places`` must be that one), or a
    folder with ``<distribution>/<setting>/{train,test}``, as released also below ``data``. What is
    not there is printed.

    Args:
        named: for each part of a place, whether the user named it.

    Raises:
        DataError: none of ``places`` is there, or none with what the user named.
    """
    if _is_split(source):
        if len(places) != 1:
            raise DataError(
                f"{source}: is a single split: name it by --distribution (and --setting)"
            )
        return {places[0]: source}
    for base in (source, source / "data"):
        found = {p: base.joinpath(*p) for p in places if _is_split(base.joinpath(*p))}
        if not found:
            continue
        absent = [p for p in places if p not in found]
        held = {tuple(compress(p, named)) for p in found}
        for asked in (tuple(compress(p, named)) for p in absent):
            if asked not in held:
                raise DataError(
                    f"{base}: holds no split {'/'.join(asked)}: leave it out or give another --from"
                )
        if absent:
            print(f"note: {base} does not hold {', '.join('/'.join(p) for p in absent)}")
        return found
    raise DataError(f"{source}: holds no {'/'.join(places[0])}/{{train,test}} with *.json in it")


def read_published(
    source: Path, root: tuple[Path, Path], test_users: tuple[str, ...]
) -> tuple[Split, Split]:
    """Read and check one published split, ``train`` and ``test``; ``root``: of images and labels.

    Raises:
        DataError: a file breaks the format, a test user is missing, or an image is in both.
    """
    train, test = (read_split(source / part, root) for part in PARTS)
    for user in test_users:
        if user not in test.users:
            raise DataError(
                f"{source / 'test'}: has no user {user!r}: is it a split of this data set?"
            )
    for user in set(train.users) & set(test.users):
        raise DataError(f"{source}: user {user!r} is in train and in test: give it another id")
    trained = {image: user for user, samples in train.users.items() for image, _ in samples}
    for image, _ in test.samples:
        if image in trained:
            raise DataError(
                f"{source}: image {image!r} of the test split is trained on by user "
                f"{trained[image]!r}: remove it from one of them"
            )
    return train, test


def _is_split(folder: Path) -> bool:
    return all((folder / part).is_dir() for part in PARTS)


def _holds_another(folder: Path, split: Split) -> bool:
    unfinished = (folder.parent / UNFINISHED).exists()  # what is left of it is nobody's
    return not unfinished and any(folder.glob("*.json")) and not _holds(folder, split)


def _holds(folder: Path, split: Split) -> bool:
    try:
        return read_split(folder).checksum == split.checksum
    except DataError:
        return False
