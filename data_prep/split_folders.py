"""Split folders on disk, with a note of how they were made; and published split files.

``<root>/splits/.../{train,test}/*.json`` are the split, ``split.json`` next to the two folders is
the note: rule, seed, counts, checksums. It is outside them because every JSON file inside is read
as part of the split.
"""

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from fedseg.datasets.file_lists import existing_files
from fedseg.datasets.templates import fields_of
from fedseg.errors import DataError
from fedseg.files import write_text
from fedseg.partition import Split, read_split, split_paths, write_split
from fedseg.partition.split_files import UNFINISHED

from .disk import Sample
from .facts import Place

NOTE = "split.json"
PARTS = ("train", "test")


@dataclass(frozen=True)
class PreparedSplit:
    """A split that is ready to be saved."""

    place: Place
    train: Split
    test: Split
    about: dict[str, Any]  # content of the note besides counts: rule, seed, ...
    source: Path | None = None  # the folder of published files that it is a plain copy of, if any

    @property
    def parts(self) -> tuple[Split, Split]:
        """Train and test, in the order of PARTS."""
        return self.train, self.test


def limit(
    train: Split,
    test: Split,
    per_user: int | None,
    per_domain: int | None,
    images: str,
) -> tuple[Split, Split]:
    """A split cut down for quick trials: its first images.

    Args:
        per_user: images of each training client; None: all.
        per_domain: images of each domain for each test user; None: all.
        images: template of image paths, with ``{domain}``.
    """
    clients = {user: samples[:per_user] for user, samples in train.users.items()}
    tests: dict[str, list[Sample]] = {}
    for user, samples in test.users.items():
        counts: Counter[str] = Counter()
        tests[user] = []
        for sample in samples:
            domain = fields_of(images, sample[0])["domain"]
            counts[domain] += 1
            if per_domain is None or counts[domain] <= per_domain:
                tests[user].append(sample)
    return Split(clients), Split(tests)


def present_samples(split: Split, roots: tuple[Path, Path]) -> Split:
    """The samples of a split whose files exist."""
    images, labels = roots
    paths = {sample: (str(images / sample[0]), str(labels / sample[1])) for sample in split.samples}
    existing = existing_files(path for pair in paths.values() for path in pair)
    users = {}
    for user, samples in split.users.items():
        users[user] = [sample for sample in samples if existing.issuperset(paths[sample])]
    return Split(users)


def check_free(root: Path, splits: Iterable[PreparedSplit], overwrite: bool = False) -> None:
    """Raise DataError if another split is in the place of one and may not be overwritten."""
    for one in splits:
        folder = root.joinpath("splits", *one.place)
        if one.source is not None and one.source.resolve() == folder.resolve():
            raise DataError(f"{folder}: --from names the folder that would be written")
        unfinished = (folder / UNFINISHED).exists()  # what is left of it is nobody's
        for part, split in zip(PARTS, one.parts, strict=True):
            taken = any((folder / part).glob("*.json")) and not unfinished
            if taken and not overwrite and not _holds(folder / part, split):
                raise DataError(
                    f"{folder / part}: has another split: give --overwrite to replace it, or "
                    "prepare another folder"
                )


def save(root: Path, made: PreparedSplit) -> None:
    """Write a split and its note, unless both are there; the same split gives the same bytes."""
    folder = root.joinpath("splits", *made.place)
    parts = tuple(zip(PARTS, made.parts, strict=True))
    note = json.dumps({**made.about, **count_samples(made)}, indent=2) + "\n"
    noted = (folder / NOTE).is_file() and (folder / NOTE).read_bytes() == note.encode()
    if noted and all(_holds(folder / part, split) for part, split in parts):
        return
    # New clients beside an old test set could train on its images: until all is written, nothing
    # of it is read.
    write_text(folder / UNFINISHED, "", sync=True)
    for part, split in parts:
        written = write_split(folder / part, split)
        if made.source is not None:  # the published files instead, byte by byte
            written.unlink()
            for file in split_paths(made.source / part):
                shutil.copyfile(file, folder / part / file.name)
    write_text(folder / NOTE, note)
    (folder / UNFINISHED).unlink()


def count_samples(made: PreparedSplit) -> dict[str, Any]:
    """Counts and checksums of a split, for the note and the summary."""
    sizes = [len(samples) for samples in made.train.users.values()]
    return {
        "train": {
            "clients": len(sizes),
            "images": sum(sizes),
            "images_per_client": {"min": min(sizes), "median": median(sizes), "max": max(sizes)},
            "checksum": made.train.checksum,
        },
        "test": {
            "images": {user: len(samples) for user, samples in made.test.users.items()},
            "checksum": made.test.checksum,
        },
    }


def print_splits(splits: Sequence[PreparedSplit], root: Path) -> list[Path]:
    """Print who holds how many images; returns the folders of the splits."""
    folders = [root.joinpath("splits", *split.place) for split in splits]
    for folder, split in zip(folders, splits, strict=True):
        train, test = count_samples(split).values()
        sizes = train["images_per_client"]
        print(
            f"{folder}: {train['clients']} clients with {train['images']} images, {sizes['min']} "
            f"to {sizes['max']} each (median {sizes['median']:g}); "
            f"{', '.join(f'{u}: {n}' for u, n in test['images'].items())}"
        )
    return folders


def find_published(source: Path, places: Sequence[Place], required: bool) -> dict[Place, Path]:
    """The folders below ``source`` that hold published splits.

    ``source`` is one split (it has ``train`` and ``test``; then ``places`` must be that one), or a
    folder with ``<distribution>/<setting>/{train,test}``, as released also below ``data``. Absent
    places are printed, or an error if they are ``required``.
    """
    if _is_split(source):
        if len(places) != 1:
            raise DataError(
                f"{source}: is a single split: name it by --distribution (and --setting)"
            )
        return {places[0]: source}
    for base in (source, source / "data"):
        folders = {p: base.joinpath(*p) for p in places if _is_split(base.joinpath(*p))}
        absent = ", ".join("/".join(p) for p in places if p not in folders)
        if folders and absent and required:
            raise DataError(f"{base}: does not hold {absent}: name other splits or another --from")
        if folders:
            print(f"note: {base} does not hold {absent}" if absent else f"reading {base}")
            return folders
    raise DataError(f"{source}: has no {'/'.join(places[0])}/{{train,test}} with *.json in it")


def read_published(source: Path, test_users: Sequence[str]) -> tuple[Split, Split]:
    """Read and check one published split, ``train`` and ``test``, which has these test users."""
    train, test = (read_split(source / part) for part in PARTS)
    if missing := [user for user in test_users if user not in test.users]:
        raise DataError(
            f"{source / 'test'}: has no user {missing[0]!r}: is it a split of this data set?"
        )
    trained = {image for image, _ in train.samples}
    shared = [
        *(train.users.keys() & test.users.keys()),
        *(x for x, _ in test.samples if x in trained),
    ]
    if shared:
        raise DataError(
            f"{source}: {shared[0]!r} is in train and in test: a user or an image may be in one"
        )
    return train, test


def _is_split(folder: Path) -> bool:
    return all((folder / part).is_dir() for part in PARTS)


def _holds(folder: Path, split: Split) -> bool:
    try:
        return read_split(folder).checksum == split.checksum
    except DataError:
        return False
