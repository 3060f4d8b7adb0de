"""FedDrive's split files: who holds which images.

A split is a folder of ``*.json`` files, read together. Each file holds::

    {"users": [id, ...], "num_samples": [n, ...],
     "user_data": {id: {"x": [image, ...], "y": [label, ...]}, ...}}

Paths are relative to the image root and the label root. Split files are untrusted: no path may
leave those roots by its text; a link that the user has put there is followed.
"""

import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from annotated_types import MinLen
from pydantic import AfterValidator, BaseModel, model_validator

from fedseg.config.arguments import STRICT, read_model
from fedseg.errors import DataError
from fedseg.files import atomic_writer, read_json
from fedseg.names import NAME_RULE, is_name

Sample = tuple[str, str]
FILE_NAME = "clients.json"
UNFINISHED = "unfinished"  # a file beside split folders that are being written


def check_path(path: str) -> str | None:
    """The reason why a path of a split file may leave its root, or None."""
    if not path:
        return "is empty"
    if "\\" in path or "\0" in path:
        return "has a backslash or a null byte"
    if any("\ud800" <= character <= "\udfff" for character in path):
        return "is not named in UTF-8"
    if path.startswith("/") or re.match(r"[A-Za-z]:", path):
        return "is absolute"
    if {"", ".", ".."} & set(path.split("/")):
        return "has an empty part, '.' or '..'"
    return None


def _require_path(path: str) -> str:
    if fault := check_path(path):
        raise ValueError(f"{path!r} {fault}: write it relative to the data root")
    return path


def _require_name(name: str) -> str:
    if not is_name(name):
        raise ValueError(f"{name!r} must have {NAME_RULE}: rename the user")
    return name


SafePath = Annotated[str, AfterValidator(_require_path)]


class UserSamples(BaseModel):
    """One user's images and their labels."""

    model_config = STRICT
    x: Annotated[list[SafePath], MinLen(1)]
    y: list[SafePath]


class SplitFile(BaseModel):
    """The content of one file; ``num_samples`` is in the order of ``users``."""

    model_config = STRICT
    users: Annotated[list[Annotated[str, AfterValidator(_require_name)]], MinLen(1)]
    num_samples: list[int]
    user_data: dict[str, UserSamples]

    @model_validator(mode="after")
    def _check_users(self) -> "SplitFile":
        user, count = Counter(self.users).most_common(1)[0]
        if count > 1:
            raise ValueError(f"user {user!r} is listed twice in users: remove one")
        if other := sorted(set(self.users) ^ set(self.user_data)):
            raise ValueError(f"user {other[0]!r} is in only one of users and user_data")
        if len(self.num_samples) != len(self.users):
            raise ValueError(
                f"num_samples has {len(self.num_samples)} values for {len(self.users)} users: "
                "give one a user"
            )
        self.user_data = {user: self.user_data[user] for user in self.users}
        for (user, samples), count in zip(self.user_data.items(), self.num_samples, strict=True):
            if not count == len(samples.x) == len(samples.y):
                raise ValueError(
                    f"user {user!r}: num_samples is {count}, x has {len(samples.x)} "
                    f"images and y {len(samples.y)} labels: correct it"
                )
        return self


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


def read_split(folder: str | Path) -> Split:
    """Read and check every ``*.json`` of a folder as one split; its images need not exist."""
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

    Raises:
        DataError: a user has no samples.
    """
    for user, samples in split.users.items():
        if not samples:
            raise DataError(f"{folder}: user {user!r} has no images: leave it out, or add some.")
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
    """The ``*.json`` files of a split folder, numbers in their names in numeric order."""
    folder = Path(folder)
    if (unfinished := folder.parent / UNFINISHED).exists():
        raise DataError(
            f"{folder}: is incomplete ({unfinished} exists): repeat the fedseg prepare command"
        )
    if not folder.is_dir():
        raise DataError(f"{folder}: the split folder does not exist: write it with fedseg prepare")
    files = sorted(folder.glob("[!.]*.json"), key=_natural)
    if not files:
        raise DataError(f"{folder}: no *.json split file in it: write one with fedseg prepare")
    return files


def _natural(path: Path) -> list[tuple[int, int | str]]:
    parts = re.split(r"(\d+)", path.name)
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in parts if part]


def check_content(file: Path, data: Any) -> dict[str, list[Sample]]:
    """Samples by user from a split file's content; DataError if it breaks the form."""
    content = read_model(SplitFile, data, file)
    return {user: list(zip(s.x, s.y, strict=True)) for user, s in content.user_data.items()}
