"""The images and label maps in a folder: which are pairs, what they show, and a report of it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from fedseg.datasets.file_lists import existing_files
from fedseg.datasets.images import read_image
from fedseg.datasets.segmentation import IGNORE, UNKNOWN
from fedseg.errors import DataError
from fedseg.partition import check_path

from .disk import SHOWN, Findings, Sample, find_pairs, shown
from .layouts import Layout
from .parallel import in_threads


@dataclass(frozen=True)
class LabeledImage:
    """An image and its label map, decoded once."""

    image: str  # paths below the root
    label: str
    domain: str
    split: str  # the published one; "": there is none
    size: tuple[int, int]  # height and width
    pixels: np.ndarray  # number by raw id, int64 [256]
    digest: bytes  # of the image's pixels

    @property
    def sample(self) -> Sample:
        """The paths of image and label map."""
        return self.image, self.label


def find_samples(root: Path, layout: Layout, unofficial: bool) -> list[Sample]:
    """Pair images with label maps, by path; those without a partner are printed.

    Args:
        unofficial: accept another number than the published one.
    """
    pairs = find_pairs((root, root), layout.images, layout.labels)
    samples = pairs.samples
    if layout.published:
        samples = [pair for pair in samples if layout.split_of(pair[0]) in layout.published]
    for image, label in samples:
        for path in (image, label):
            fault = check_path(path)
            if fault:
                raise DataError(f"{root}: {path!r} {fault}: rename it")
    print(f"{root}: {len(samples)} images with label maps")
    if pairs.images:
        left_out = f"{len(pairs.images)} images without label map are left out"
        print(f"  {left_out}: {shown(pairs.images)}")
    if pairs.labels:
        left_out = f"{len(pairs.labels)} label maps without image are left out"
        print(f"  {left_out}: {shown(pairs.labels)}")
    if len(samples) < 2:
        raise DataError(
            f"{root}: has {len(samples)} images {layout.images} with label maps {layout.labels}: "
            "name the folder that has them, or change these templates ({ending} is jpg, jpeg or "
            "png)"
        )
    if not unofficial:
        _check_counts(root, layout, samples)
    # raises for what is no regular file, such as a device that would be read for ever
    existing_files(str(root / path) for sample in samples for path in sample)
    return samples


def _check_counts(root: Path, layout: Layout, samples: Sequence[Sample]) -> None:
    """Raise DataError unless there are as many images as are published."""
    counts = Counter(layout.split_of(image) for image, _ in samples)
    for split, count in layout.published.items():
        if counts[split] != count:
            raise DataError(
                f"{root}: has {counts[split]} images {split} with label maps, and {count} are "
                "published: add the others, or take what is there with --unofficial."
            )


def read_images(root: Path, layout: Layout, samples: Sequence[Sample]) -> list[LabeledImage]:
    """Decode every image and label map; DataError names those that cannot be used."""
    faults: list[str] = []

    def read(sample: Sample) -> LabeledImage | None:
        try:
            return _read(root, layout, sample)
        except DataError as error:
            faults.append(str(error))
            return None

    images = in_threads(read, samples, "reading images and label maps")
    findings = Findings(f"{root}: not all files can be used", "repair them, or take them away")
    findings.add("files", sorted(faults))
    findings.raise_any()
    labeled = [image for image in images if image is not None]
    _check_ids(root, layout, labeled)
    return labeled


def _read(root: Path, layout: Layout, sample: Sample) -> LabeledImage:
    """Decode an image and its label map; DataError if they are not of one size."""
    image, label = (str(root / path) for path in sample)
    picture, ids = read_image(image), layout.read_label(label)
    size = picture.shape[:2]
    if size != ids.shape:
        turned = size == ids.shape[::-1]
        exif = ", as displayed by its EXIF orientation" if turned else ""
        pixels = f"{ids.shape[1]}x{ids.shape[0]} pixels"
        raise DataError(f"{label}: has {pixels}, its image {size[1]}x{size[0]}{exif}")
    return LabeledImage(
        image=sample[0],
        label=sample[1],
        domain=layout.domain_of(sample[0]),
        split=layout.split_of(sample[0]),
        size=size,
        pixels=np.bincount(ids.ravel(), minlength=256),
        digest=sha256(str(size).encode() + picture.tobytes()).digest(),
    )


def _check_ids(root: Path, layout: Layout, images: Sequence[LabeledImage]) -> None:
    """Raise DataError if label maps have ids without a class."""
    unknown = layout.class_of == UNKNOWN
    examples = [image for image in images if image.pixels[unknown].any()]
    if not examples:
        return
    total = np.sum([image.pixels for image in examples], axis=0)
    ids = np.flatnonzero(unknown & (total > 0)).tolist()
    fix = "take the label maps as they are published"
    if not layout.published:
        fix = "give --classes a line for each id from 0"
    raise DataError(
        f"{root}: {len(examples)} label maps, such as {examples[0].label}, have ids {ids} without "
        f"a class: {fix}."
    )


def count_classes(layout: Layout, images: Sequence[LabeledImage]) -> np.ndarray:
    """Count the pixels of each class in each image: int64 [images, classes]."""
    counts = np.zeros((len(images), len(layout.classes)), np.int64)
    for number in range(len(layout.classes)):
        ids = np.flatnonzero(layout.class_of == number)
        counts[:, number] = [image.pixels[ids].sum() for image in images]
    return counts


def print_contents(layout: Layout, images: Sequence[LabeledImage]) -> None:
    """Print what was understood of a folder: sizes, ids, classes and domains."""
    sizes = Counter(f"{image.size[1]}x{image.size[0]}" for image in images).most_common()
    more = f", and {len(sizes) - SHOWN} other sizes" if len(sizes) > SHOWN else ""
    print("  sizes:", ", ".join(f"{size} ({count})" for size, count in sizes[:SHOWN]) + more)
    pixels = np.stack([image.pixels for image in images])
    total = pixels.sum(axis=0)
    shares = 100 * total / total.sum()
    for number in np.flatnonzero(total).tolist():
        meaning = "ignored"
        if layout.class_of[number] != IGNORE:
            meaning = layout.classes[layout.class_of[number]]
        count = np.count_nonzero(pixels[:, number])
        share = f"{shares[number]:.2f} % of the pixels"
        print(f"  id {number:>3}: {meaning}, {share}, in {count} images")
    present = layout.class_of[total > 0]
    absent = [name for number, name in enumerate(layout.classes) if number not in present]
    if absent:
        print(f"  classes that no label map has: {', '.join(absent)}")
    if layout.has_domains:
        domains = Counter(image.domain for image in images)
        print("  domains:", ", ".join(f"{name} ({domains[name]})" for name in sorted(domains)))
    if layout.published:
        print("  counts of the published layout were compared; they are not all verified (docs)")
