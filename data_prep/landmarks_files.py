"""Landmarks-User-160k: what must be on disk.

The split files are published (Hsu et al., ECCV 2020), the images are those of Google Landmarks v2.
Nothing is converted: training reads the images from disk.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from torchvision.datasets.utils import calculate_md5

from fedseg.datasets.landmarks import (
    IMAGES,
    SPLITS,
    SUFFIX,
    LandmarksDataset,
    Photo,
    find_annotations,
    find_images,
    read_annotations,
)
from fedseg.errors import DataError
from fedseg.files import write_text
from fedseg.names import LANDMARKS_SOURCES
from fedseg.partition import NaturalPartition

from .facts import Selection
from .outcome import Outcome, fewer_clients, next_command

CLIENTS_PER_ROUND = 10  # of the setting
ALL_CLASSES = 203_094  # of Google Landmarks v2
SHOWN = 5  # images that a message names


def verify_landmarks(
    selections: Mapping[str, Selection], root: Path, listing: Path | None
) -> Outcome:
    """Verify annotations and that every image exists.

    Args:
        selections: the published ones, by the name of their training file; none: not compared.
        listing: file that the names of missing images are written to.
    """
    files = {split: find_annotations(root, split) for split in SPLITS}
    selection = selections.get(files["train"].name)
    limit = ALL_CLASSES if selection is None else selection.classes
    train = read_annotations(files["train"], True, limit)
    test = read_annotations(files["test"], False, limit)
    if selection is not None:
        _check_counts(selection, files, train, test)
    trained, classes = {photo.image for photo in train}, {photo.label for photo in train}
    _refuse(
        "test images are training images too",
        [photo.image for photo in test if photo.image in trained],
    )
    _refuse(
        "test images are of a class that no training image has",
        [f"{photo.image} (class {photo.label})" for photo in test if photo.label not in classes],
    )
    ids = [photo.image for photo in (*train, *test)]
    paths = find_images(root / IMAGES, ids)
    missing = [image + SUFFIX for image, path in zip(ids, paths, strict=True) if path is None]
    if listing is not None:
        write_text(listing, "".join(f"{name}\n" for name in missing))
    _refuse(f"of {len(ids)} images are missing below {root / IMAGES}", missing)
    dataset = LandmarksDataset(root, num_classes=1 + max(classes))
    clients = NaturalPartition("users")(dataset)
    print(
        f"{root}: verified: {len(train)} + {len(test)} images of {1 + max(classes)} classes, "
        f"{len(clients)} users, none in both splits"
    )
    training = fewer_clients(CLIENTS_PER_ROUND, len(clients))
    chart = root / "splits" / "natural_users.png"
    return Outcome(
        root,
        charts=[(clients, dataset.labels, dataset.metainfo["classes"], chart)],
        closing=next_command("landmarks", Path("data/landmarks"), root, training),
    )


def _check_counts(
    selection: Selection, files: Mapping[str, Path], train: Sequence[Photo], test: Sequence[Photo]
) -> None:
    """Raise DataError unless the annotations are the published selection's."""
    for split, md5 in selection.md5.items():
        _require(selection, files[split], "md5", calculate_md5(files[split]), md5)
    users = {photo.user for photo in train}
    classes = {photo.label for photo in train}
    _require(selection, files["train"], "users", len(users), selection.users)
    _require(selection, files["train"], "training images", len(train), selection.train)
    _require(selection, files["train"], "classes", len(classes), selection.classes)
    if selection.test is not None:
        _require(selection, files["test"], "test images", len(test), selection.test)


def _require(
    selection: Selection, file: Path, name: str, value: int | str, expected: int | str
) -> None:
    if value != expected:
        raise DataError(
            f"{file}: {name}: {value}, but {selection.name} has {expected}: get the published "
            "file, or give --unofficial if another selection is meant"
        )


def _refuse(fault: str, images: Sequence[str]) -> None:
    """Raise DataError if there are images with this fault."""
    if images:
        raise DataError(
            f"{len(images)} {fault}, such as {', '.join(images[:SHOWN])}: {LANDMARKS_SOURCES}; "
            "extract only what is listed"
        )
