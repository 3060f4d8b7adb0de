"""Slices of MRI volumes of the prostate, and a split by patient."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fedseg.core.seeds import generator_for
from fedseg.datasets.prostate import ProstateDataset
from fedseg.datasets.templates import fill
from fedseg.errors import DataError, ResourceError
from fedseg.files import atomic_writer
from fedseg.partition import Split

from .outcome import Outcome, next_command
from .parallel import in_threads
from .split_folders import PreparedSplit, check_free, print_splits, save

# site -> volumes, and those that are tested (Jiang et al., 2023)
VOLUMES = {
    "RUNMC": 30,
    "BMC": 30,
    "I2CVB": 19,
    "UCL": 13,
    "BIDMC": 12,
    "HK": 12,
}
TEST_VOLUMES = {
    "RUNMC": 6,
    "BMC": 6,
    "I2CVB": 4,
    "UCL": 3,
    "BIDMC": 3,
    "HK": 3,
}
BRIGHTEST = 0.99  # quantile of a volume that becomes white
Case = tuple[str, Path, Path]  # site, volume and its segmentation
Pair = tuple[str, str]  # paths of an image and its label map, below the root


def prepare_volumes(root: Path, source: Path, unofficial: bool, overwrite: bool) -> Outcome:
    """Write the slices of all volumes, and a split in which a patient is in one part."""
    cases = find_cases(source, unofficial)
    slices = in_threads(lambda case: write_slices(root, *case), cases, "cutting volumes")
    volumes: dict[str, list[list[Pair]]] = {site: [] for site in VOLUMES}
    for case, pairs in zip(cases, slices, strict=True):
        volumes[case[0]].append(pairs)
    for site, count in TEST_VOLUMES.items():
        if len(volumes[site]) <= count:
            raise DataError(f"{source / site}: needs more than {count} volumes: add some.")
    train, test = split_by_patient(volumes)
    published = sum(VOLUMES.values())
    about: dict[str, Any] = {"dataset": "prostate", "source": "own rule", "rule": "by patient"}
    if len(cases) < published:
        about["unofficial"] = f"{len(cases)} of {published} volumes"
    split = PreparedSplit(place=(), train=train, test=test, about=about)
    check_free(root, [split], overwrite)
    save(root, split)
    folders = print_splits([split], root)
    return Outcome(root, folders, closing=next_command("prostate", Path("data/prostate"), root))


def split_by_patient(volumes: Mapping[str, Sequence[Sequence[Pair]]]) -> tuple[Split, Split]:
    """Hold out some volumes of each site, drawn at random, for tests; a client is a site.

    Args:
        volumes: the slices of each volume, by site.
    """
    train: dict[str, list[Pair]] = {}
    test: list[Pair] = []
    for site, slices in volumes.items():
        order = generator_for(0, f"test cases of {site}").permutation(len(slices))
        tested = {int(number) for number in order[: TEST_VOLUMES[site]]}
        train[site] = []
        for number, pairs in enumerate(slices):
            if number in tested:
                test.extend(pairs)
            else:
                train[site].extend(pairs)
    return Split(train), Split({"test": test})


def find_cases(source: Path, unofficial: bool) -> list[Case]:
    """Find the volumes of every site with their segmentations, by site and name."""
    cases = []
    for site, published in VOLUMES.items():
        volumes = sorted((source / site).glob("Case[0-9][0-9].nii.gz"))
        if len(volumes) != published and not unofficial:
            raise DataError(
                f"{source / site}: has {len(volumes)} volumes CaseNN.nii.gz, and {published} are "
                "published: add the others, or take what is there with --unofficial."
            )
        for volume in volumes:
            stem = volume.name.removesuffix(".nii.gz")
            names = [f"{stem}_segmentation.nii.gz", f"{stem}_Segmentation.nii.gz"]
            present = [source / site / name for name in names if (source / site / name).is_file()]
            if not present:
                raise DataError(f"{volume}: has no {names[0]} beside it: extract the set again.")
            cases.append((site, volume, present[0]))
    return cases


def write_slices(root: Path, site: str, volume: Path, segmentation: Path) -> list[Pair]:
    """Write the slices of a volume with prostate; returns their paths, from the first slice on.

    Values are cut at the volume's 0.99 quantile and scaled to 0 to 255; the three channels are the
    slice before, the slice and the one after, at the ends the slice itself in their place.
    """
    values, labels = read_volume(volume), read_volume(segmentation) > 0
    if values.shape != labels.shape:
        raise DataError(f"{segmentation}: is {labels.shape}, its volume {values.shape}.")
    if not labels.any():
        raise DataError(f"{segmentation}: has no voxel of the prostate: extract the set again.")
    low, high = values.min(), np.quantile(values, BRIGHTEST)
    scaled = np.clip((values - low) / max(high - low, 1e-6), 0, 1)
    gray = np.round(255 * scaled).astype(np.uint8)
    last = gray.shape[2] - 1
    pairs = []
    for number in np.flatnonzero(labels.any(axis=(0, 1))).tolist():
        neighbors = [max(number - 1, 0), number, min(number + 1, last)]
        stem = volume.name.removesuffix(".nii.gz")
        fields = {"domain": site, "case": stem, "slice": f"{number:03d}"}
        image = fill(ProstateDataset.image_path, fields)
        label = fill(ProstateDataset.label_path, fields)
        _write_png(root / image, gray[:, :, neighbors])
        _write_png(root / label, labels[:, :, number].astype(np.uint8))
        pairs.append((image, label))
    return pairs


def read_volume(path: Path) -> np.ndarray:
    """Read a volume whose slices are its last axis, float32 [H, W, slices]."""
    try:
        import nibabel
    except ImportError as error:
        raise ResourceError("prostate needs nibabel: pip install 'fedseg[nifti]'.") from error
    try:
        values = np.asarray(nibabel.load(path).dataobj, np.float32)
    except Exception as error:  # damaged bytes fail in many ways
        raise DataError(f"{path}: is no whole NIfTI file ({error}): extract it again.") from error
    if values.ndim != 3 or not np.isfinite(values).all():
        raise DataError(f"{path}: must be a volume of finite numbers, not {list(values.shape)}.")
    return values


def _write_png(path: Path, pixels: Sequence[Any] | np.ndarray) -> None:
    with atomic_writer(path, "wb") as file:
        Image.fromarray(np.ascontiguousarray(pixels)).save(file, "PNG")
