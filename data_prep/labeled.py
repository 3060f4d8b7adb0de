"""A labeled image set as read from its source, and the checks that every one passes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedseg.datasets.arrays import SPLITS, check_images, shared_images
from fedseg.errors import DataError

from .description import ImageSet

SHOWN = 5


@dataclass(frozen=True)
class Part:
    """One split."""

    images: np.ndarray  # uint8 [N, H, W, C]
    labels: np.ndarray  # int64 [N]
    name: Callable[[int], str]  # what messages call image i, for example its file
    users: Sequence[str] | None = None  # the client of each image, if the source says


@dataclass(frozen=True)
class Labeled:
    """A data set as read from its source."""

    parts: dict[str, Part]  # train and test
    source: str  # where it comes from and how that was verified, for the reader
    official: bool = False  # the files are the published ones, by their md5


def check(data: Labeled, published: ImageSet, where: str | Path, unofficial: bool) -> None:
    """Compare a data set with what is published; ``unofficial`` accepts other numbers of images.

    Raises:
        DataError: another shape or dtype, a label out of range, another number of images.
    """
    for split in SPLITS:
        part = data.parts[split]
        place = f"{where}: {split}"
        check_images(part.images, part.labels, len(published.classes), place)
        if part.images.shape[1:] != published.shape:
            raise DataError(
                f"{place}: images have shape {list(part.images.shape[1:])}, but {published.name} "
                f"has {list(published.shape)} (height, width, channels)"
            )
        counts = np.bincount(part.labels, minlength=len(published.classes)).tolist()
        wanted = list(published.counts[split])
        if counts != wanted and not unofficial:
            first = next(i for i, count in enumerate(counts) if count != wanted[i])
            raise DataError(
                f"{place}: has {sum(counts)} images, {counts[first]} of them of class "
                f"{published.classes[first]!r}, but {published.name} has {sum(wanted)} and "
                f"{wanted[first]}: complete it, or give --unofficial if it is meant to be another "
                "selection"
            )


def resolve_overlap(data: Labeled, choice: str, where: str | Path) -> tuple[Labeled, int]:
    """Handle images that are in both splits, pixel by pixel.

    The published CIFAR-100 has a few such pairs (ciFAIR, Barz and Denzler 2020, lists ten at a
    distance of zero); CIFAR-10 has none. Published files stay as they are, so that results remain
    comparable, and their pairs are counted; anywhere else such a pair is a mistake.

    Args:
        choice: one of OVERLAP. ``"refuse"``: an error unless the files are the published ones;
            ``"keep"``: leave them; ``"drop"``: remove them from the training images.

    Returns:
        The data set, and how many test images are still training images too.

    Raises:
        DataError: there are such images and they are refused; the message names them.
    """
    train, test = (data.parts[split] for split in SPLITS)
    pairs = shared_images(train.images, test.images)
    if not pairs or choice == "keep" or (choice == "refuse" and data.official):
        return data, len(pairs)
    if choice == "refuse":
        listed = "; ".join(f"{train.name(a)} = {test.name(b)}" for a, b in pairs[:SHOWN])
        more = f"; and {len(pairs) - SHOWN} more" if len(pairs) > SHOWN else ""
        raise DataError(
            f"{where}: {len(pairs)} test images are training images too: {listed}{more}: remove "
            "them, or give --shared drop (from the training images) or --shared keep"
        )
    known = {image.tobytes() for image in test.images}
    kept = np.flatnonzero([image.tobytes() not in known for image in train.images])
    users = None if train.users is None else [train.users[i] for i in kept]
    rest = Part(train.images[kept], train.labels[kept], lambda i: train.name(int(kept[i])), users)
    gone = len(train.images) - len(kept)
    source = f"{data.source}; {gone} training images dropped that are test images too"
    return replace(data, parts={"train": rest, "test": test}, source=source), 0
