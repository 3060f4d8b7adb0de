"""Labeled images in memory, as they are read from their source."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Part:
    """One split of labeled images."""

    images: Any  # uint8 [N, H, W, C]
    labels: Any  # int64 [N]
    users: Sequence[str] | None = None  # the client of each image, if the source has them


@dataclass(frozen=True)
class Labeled:
    """A data set as read from its source."""

    parts: dict[str, Part]  # train and test
    source: str  # where it comes from and how that was verified, for the reader
    unofficial: bool = False  # the files are not the published ones
