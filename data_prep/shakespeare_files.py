"""Shakespeare by role, in the files of LEAF (Caldas et al., 2018).

``{train,test}/*.json`` have ``user_data``: role -> ``x``, texts of 80 characters, and ``y``, the
character that follows each.
"""

from pathlib import Path
from typing import Annotated

import numpy as np
from annotated_types import Len
from pydantic import BaseModel

from fedseg.config.arguments import STRICT, read_model
from fedseg.datasets.arrays import SPLITS
from fedseg.errors import DataError
from fedseg.files import read_json

from .facts import ImageSet
from .labeled import Labeled, Part

LENGTH = 80  # characters of a text


class Role(BaseModel):
    """The samples of a role."""

    model_config = STRICT
    x: list[Annotated[str, Len(LENGTH, LENGTH)]]
    y: list[Annotated[str, Len(1, 1)]]


class LeafFile(BaseModel):
    """The part of a file that is read."""

    model_config = STRICT
    user_data: dict[str, Role]


def read_shakespeare(published: ImageSet, folder: Path) -> Labeled:
    """Read the files in ``FOLDER/train`` and ``FOLDER/test``, roles in their order.

    DataError for a missing or damaged file, or a character that is none of the 80 classes.
    """
    parts = {}
    for split in SPLITS:
        files = sorted((folder / split).glob("*.json"))
        if not files:
            raise DataError(f"{folder / split}: has no *.json: put LEAF's files there")
        roles: dict[str, Role] = {}
        for file in files:
            users = read_model(LeafFile, read_json(file), file, "make it again").user_data
            if twice := sorted(roles.keys() & users.keys()):
                raise DataError(f"{file}: {twice[0]!r} is in another file, too: keep one")
            roles |= users
        parts[split] = _join(roles, published.classes, folder / split)
    return Labeled(parts, "{train,test}/*.json")


def _join(roles: dict[str, Role], classes: tuple[str, ...], folder: Path) -> Part:
    """Join the samples of all roles: numbers of characters, uint8 [N, 80, 1, 1]."""
    numbers = {ord(character): number for number, character in enumerate(classes)}
    images: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    users: list[str] = []
    for name, role in roles.items():
        if len(role.x) != len(role.y):
            raise DataError(f"{folder}: {name!r} has {len(role.x)} texts, but {len(role.y)} labels")
        text, following = "".join(role.x), "".join(role.y)
        if unknown := sorted(set(text + following) - set(classes)):
            raise DataError(f"{folder}: {name!r} has {unknown[0]!r}, which is no class")
        images.append(np.frombuffer(text.translate(numbers).encode("latin-1"), np.uint8))
        labels.append(np.frombuffer(following.translate(numbers).encode("latin-1"), np.uint8))
        users += [name] * len(role.x)
    pixels = np.concatenate(images).reshape(-1, LENGTH, 1, 1)
    return Part(pixels, np.concatenate(labels).astype(np.int64), users)
