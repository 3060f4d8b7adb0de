"""Landmarks-User-160k: what must be on disk.

The split files are published (Hsu et al., ECCV 2020), the images are those of Google Landmarks v2.
Nothing is converted: training reads the images from disk.
"""

from collections.abc import Mapping
from itertools import compress
from pathlib import Path

from torchvision.datasets.utils import calculate_md5

from fedseg.datasets.images import read_image
from fedseg.datasets.landmarks import (
    SPLITS,
    SUFFIX,
    LandmarksDataset,
    find_annotations,
    find_images,
    read_annotations,
)
from fedseg.errors import DataError
from fedseg.files import write_text
from fedseg.names import LANDMARKS_SOURCES
from fedseg.partition import NaturalPartition

from .description import Outcome, Selection, fewer_clients, next_command
from .disk import Findings, read_header
from .image_sets import LandmarksOptions
from .parallel import in_threads

CLIENTS_PER_ROUND = 10  # of the setting
IMAGES = Path("images")  # where it expects them, below the root
JPEG = ("JPEG", "MPO")  # some phones put further pictures into a JPEG file


def prepare(selections: Mapping[str, Selection], root: Path, options: LandmarksOptions) -> Outcome:
    """Verify annotations and images; published selections are named by their training file."""
    image_root, decode = root / options.images, options.decode
    files = {split: find_annotations(root, split) for split in SPLITS}
    selection = None if options.unofficial else selections.get(files["train"].name)
    # Without a published number, what the training images show: at most all of Landmarks v2.
    limit = 203_094 if selection is None else selection.classes
    photos = {split: read_annotations(files[split], split == "train", limit) for split in SPLITS}
    train, counted = photos["train"], []
    if selection is not None:
        counted += (("md5", s, calculate_md5(files[s]), md5) for s, md5 in selection.md5.items())
        counted += [
            ("users", "train", len({photo.user for photo in train}), selection.users),
            ("training images", "train", len(train), selection.train),
            ("classes", "train", len({photo.label for photo in train}), selection.classes),
            ("test images", "test", len(photos["test"]), selection.test),
        ]
    for name, split, value, expected in counted:
        if expected not in (None, value):
            raise DataError(
                f"{files[split]}: {name}: {value}, but {selection.name} has {expected}: get the "
                "published file, or give --unofficial if another selection is meant"
            )
    findings = Findings(
        f"{root}: annotations or images are not sound",
        f"{LANDMARKS_SOURCES}; extract only what is listed",
    )
    trained = {photo.image for photo in train}
    known = {photo.label for photo in train}
    findings.add(
        "test images that are training images too",
        (photo.image for photo in photos["test"] if photo.image in trained),
    )
    findings.add(
        "test images of an unknown class, which no training image has",
        (f"{p.image} (class {p.label})" for p in photos["test"] if p.label not in known),
    )
    ids = [photo.image for split in SPLITS for photo in photos[split]]
    paths = find_images(image_root, ids)
    present = [path for path in paths if path is not None]
    missing = [i + SUFFIX for i, path in zip(ids, paths, strict=True) if path is None]
    findings.add(f"of {len(ids)} images missing below {image_root}", missing)
    if options.missing is not None:
        write_text(options.missing, "".join(f"{name}\n" for name in missing))

    def is_faulty(path: str) -> bool:
        try:
            return read_image(path) is None if decode else read_header(path).format not in JPEG
        except (DataError, OSError):
            return True

    faulty = in_threads(is_faulty, present, "decoding images" if decode else "checking images")
    findings.add("images unreadable or truncated", compress(present, faulty))
    findings.raise_any()
    classes = 1 + max(known)
    dataset = LandmarksDataset(root, image_root=options.images, num_classes=classes)
    clients = NaturalPartition("users")(dataset)
    print(
        f"{root}: verified: {len(photos['train'])} + {len(photos['test'])} images "
        f"of {classes} classes, {len(clients)} users, none in both splits"
    )
    training = fewer_clients(CLIENTS_PER_ROUND, len(clients))
    if options.images != IMAGES:
        keys = ("train_dataloader.dataset", "val_dataloader.test.dataset")
        training += [f"{key}.image_root={options.images}" for key in keys]
    chart = root / "splits" / "natural_users.png"
    return Outcome(
        charts=[(clients, dataset.labels, dataset.metainfo["classes"], chart)],
        closing=next_command("landmarks", Path("data/landmarks"), root, training),
    )
