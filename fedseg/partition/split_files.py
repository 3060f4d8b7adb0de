"""FedDrive's split files: who holds which images.

A split is a folder of ``*.json`` files, read together. Each file holds::

    {"users": [id, ...], "num_samples": [n, ...],
     "user_data": {id: {"x": [image, ...], "y": [label, ...]}, ...}}

Paths are relative to the image root and the label root. Split files are untrusted: no path may
leave those roots.
"""

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fedseg.errors import DataError
from fedseg.files import atomic_writer, read_json

Sample = tuple[str, str]
KEYS = ("users", "num_samples", "user_data")
FILE_NAME = "clients.json"
UNFINISHED = "unfinished"  # a file beside split folders that are being written


@dataclass(frozen=True)
class Split:
    """Samples by user, users in the order of the files.

    Attributes:
        users: user id -> list of (image path, label path), relative to the image and label roots.
    """

    users: dict[str, list[Sample]]

    @cached_property
    def checksum(self) -> str:
        """SHA-256 of ids, paths and their order, however the files are cut and spaced."""
        content = [[user, [list(sample) for sample in self.users[user]]] for user in self.users]
        text = json.dumps(content, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def samples(self) -> list[Sample]:
        """Every sample, user by user."""
        return [sample for samples in self.users.values() for sample in samples]

    def __len__(self) -> int:
        return sum(len(samples) for samples in self.users.values())


def read_split(
    folder: str | Path, root: str | Path | tuple[str | Path, str | Path] | None = None
) -> Split:
    """Read and check every ``*.json`` of a folder as one split.

    Args:
        folder: the folder with the files.
        root: the folder of images and labels, or (image root, label root). If given, a path that
            leaves it through a symbolic link is refused too. Files need not exist.

    Raises:
        DataError: no file, one that breaks a rule above, or a user or an image that occurs twice.
    """
    roots = root if isinstance(root, tuple) else (root, root)
    roots = tuple(None if below is None else Path(os.path.realpath(below)) for below in roots)
    users: dict[str, list[Sample]] = {}
    origin: dict[str, Path] = {}
    holder: dict[str, str] = {}
    for file in split_paths(folder):
        for user, samples in check_content(file, read_json(file)).items():
            if user in users:
                raise DataError(
                    f"{file}: user {user!r} is already in {origin[user]}, and a folder is one "
                    "split: rename the user or remove one of the files"
                )
            for sample in samples:
                for path, below in zip(sample, roots, strict=True):
                    if below is None:
                        continue
                    if not Path(os.path.realpath(below / path)).is_relative_to(below):
                        raise DataError(
                            f"{file}: user {user!r}: {path!r} leaves {below} through a symbolic "
                            "link: put the file itself under the root"
                        )
                if sample[0] in holder:
                    raise DataError(
                        f"{file}: user {user!r}: image {sample[0]!r} is already held by user "
                        f"{holder[sample[0]]!r}: remove it from one of them"
                    )
                holder[sample[0]] = user
            users[user] = samples
            origin[user] = file
    return Split(users)


def write_split(folder: str | Path, split: Split) -> Path:
    """Write a split as one file, ``folder/clients.json``; the same split gives the same bytes.

    Other ``*.json`` files of the folder are removed, for they would be read as part of the split.

    Returns:
        The file.

    Raises:
        DataError: the split breaks a rule that :func:`read_split` checks.
    """
    file = Path(folder) / FILE_NAME
    data = {
        "users": list(split.users),
        "num_samples": [len(samples) for samples in split.users.values()],
        "user_data": {
            user: {"x": [x for x, _ in samples], "y": [y for _, y in samples]}
            for user, samples in split.users.items()
        },
    }
    check_content(file, data)
    with atomic_writer(file) as writer:
        writer.write(json.dumps(data, ensure_ascii=True, indent=0) + "\n")
    for other in set(file.parent.glob("[!.]*.json")) - {file}:
        other.unlink()
    return file


def split_paths(folder: str | Path) -> list[Path]:
    """The ``*.json`` files of a split folder, numbers in their names in numeric order.

    Raises:
        DataError: no folder, no such file in it, or one that was not written to its end.
    """
    folder = Path(folder)
    if (unfinished := folder.parent / UNFINISHED).exists():
        raise DataError(
            f"{folder}: is half written ({unfinished} says so): run fedseg prepare again as before"
        )
    if not folder.is_dir():
        raise DataError(f"{folder}: the split folder does not exist: write it with fedseg prepare")
    files = sorted(folder.glob("[!.]*.json"), key=_natural)
    if not files:
        raise DataError(f"{folder}: no *.json split file in it: write one with fedseg prepare")
    return files


def check_path(path: Any) -> str | None:
    """What is wrong with a path of a split file (it must stay below its root), or None."""
    if not isinstance(path, str) or not path:
        return "is not a path"
    if "\\" in path or "\0" in path:
        return "holds a backslash or a null byte"
    if path.startswith("/") or re.match(r"[A-Za-z]:", path):
        return "is absolute"
    if {"", ".", ".."} & set(path.split("/")):
        return "holds an empty part, '.' or '..'"
    return None


def _natural(path: Path) -> list[tuple[int, int | str]]:
    parts = re.split(r"(\d+)", path.name)
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in parts if part]


def is_name(value: Any) -> bool:
    """Whether a value can name a client, in tables and messages too."""
    return isinstance(value, str) and value != "" and value.isprintable()


def check_content(file: Path, data: Any) -> dict[str, list[Sample]]:
    """Samples by user from a split file's content; DataError if it breaks the form."""
    if not isinstance(data, dict) or any(key not in data for key in KEYS):
        raise DataError(f"{file}: is not a split file: it needs the keys {', '.join(KEYS)}")
    users, counts, user_data = (data[key] for key in KEYS)
    if not isinstance(users, list) or not users or not all(map(is_name, users)):
        raise DataError(f"{file}: 'users' must be a list of one or more printable strings")
    if not isinstance(counts, list) or len(counts) != len(users):
        raise DataError(f"{file}: 'num_samples' must be a list with a number for each of 'users'")
    if not isinstance(user_data, dict):
        raise DataError(f"{file}: 'user_data' must be an object with an entry for each of 'users'")
    if len(set(users)) < len(users):
        user = Counter(users).most_common(1)[0][0]
        raise DataError(f"{file}: user {user!r} is listed twice in 'users': remove one")
    if other := sorted(set(users) ^ set(user_data)):
        raise DataError(f"{file}: user {other[0]!r} is in only one of 'users' and 'user_data'")
    return {
        user: _check_user(f"{file}: user {user!r}", count, user_data[user])
        for user, count in zip(users, counts, strict=True)
    }


def _check_user(where: str, count: Any, data: Any) -> list[Sample]:
    if not isinstance(data, Mapping) or not all(isinstance(data.get(k), list) for k in ("x", "y")):
        raise DataError(f"{where}: must have a list 'x' of images and a list 'y' of labels")
    images, labels = data["x"], data["y"]
    if not images:
        raise DataError(f"{where}: has no image: remove the user or give it images")
    if isinstance(count, bool) or not count == len(images) == len(labels):
        raise DataError(
            f"{where}: 'num_samples' is {count!r}, but 'x' has {len(images)} images and 'y' "
            f"{len(labels)} labels: correct it"
        )
    for path in [*images, *labels]:
        if fault := check_path(path):
            raise DataError(f"{where}: path {path!r} {fault}: write it relative to the data root")
    return list(zip(images, labels, strict=True))
