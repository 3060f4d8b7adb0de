"""Synthetic street scenes on disk, in the layouts of IDDA and Cityscapes.

Every image depends on the seed and on its own file name alone, so that any subset, in any order
and with any number of workers, has the same bytes.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import cv2
import numpy as np

from data_prep import cityscapes, idda
from data_prep.disk import Sample
from data_prep.parallel import in_processes, progress_bar
from data_prep.streets import RENDERER_VERSION, TO_CITYSCAPES, TO_IDDA, draws, key, render
from fedseg.datasets.synthetic import MARKER
from fedseg.errors import DataError
from fedseg.files import atomic_writer, write_text

_DOMAIN = re.compile(r"T0([1-7])_(CN|CS|HRN)_([ABJMV])")
_JPEG_QUALITY = 93
_CHUNK = 8


@dataclass(frozen=True)
class _Job:
    """One image to write: where, and what it shows."""

    image: Path
    label: Path
    seed: int
    town: int
    weather: str
    viewpoint: str
    variant: int
    size: tuple[int, int]
    label_table: np.ndarray


def write_idda(
    root: str | Path,
    files: Iterable[Sample],
    size: tuple[int, int] = (464, 256),
    seed: int = 0,
    workers: int = 2,
    progress: bool = True,
) -> list[Sample]:
    """Render IDDA's layout under ``root/IDDAsmall``; labels hold IDDA's raw ids.

    Args:
        root: folder of the data set; ``root/dataset.json`` says that it is synthetic.
        files: (image, label) paths relative to ``IDDAsmall/``, for example those of a split; the
            first folder is the domain.
        size: width and height in pixels.
        seed: another seed gives other streets under the same names.
        workers: processes; below 2 everything runs in this one.
        progress: show a progress bar with the time left.

    Returns:
        The pairs, sorted; files that exist are kept.

    Raises:
        DataError: a path is absolute, leaves the root or names no domain; or ``root`` holds real
            data, or data rendered with other settings.
    """
    root, pairs = Path(root), _checked(files)
    jobs = []
    for image, label in pairs:
        match = _DOMAIN.fullmatch(image.split("/")[0])
        if not match:
            raise DataError(
                f"{image}: the first folder must be a domain such as T01_CN_A"
                " (T01 to T07, CN, CS or HRN, A, B, J, M or V)"
            )
        base = root / idda.IMAGE_ROOT
        place = (base / image, base / label, key("scene", seed, image))
        jobs.append(_Job(*place, int(match[1]), match[2], match[3], 0, tuple(size), TO_IDDA))
    _declare(root, "idda", (idda.IMAGE_ROOT,), seed, size)
    _write_all(jobs, workers, progress, "IDDA (synthetic)")
    return pairs


def write_cityscapes(
    root: str | Path,
    files: Iterable[Sample],
    size: tuple[int, int] = (512, 256),
    seed: int = 0,
    workers: int = 2,
    progress: bool = True,
) -> list[Sample]:
    """Render Cityscapes' layout under ``root``; labels hold Cityscapes' labelIds.

    Every city is a town of its own: one of the renderer's seven with its own materials and habits.
    One image in five shows the evening, the others noon; none shows rain.

    Args:
        root: folder of the data set; ``root/dataset.json`` says that it is synthetic.
        files: (image, label) paths relative to ``leftImg8bit/`` and ``gtFine/``, as
            ``<split>/<city>/<name>``.
        size, seed, workers, progress: see :func:`write_idda`.

    Returns:
        The pairs, sorted; files that exist are kept.

    Raises:
        DataError: a path is absolute, leaves the root or names no city; or ``root`` holds real
            data, or data rendered with other settings.
    """
    root, pairs = Path(root), _checked(files)
    image_root, label_root = cityscapes.IMAGE_ROOT, cityscapes.LABEL_ROOT
    jobs = []
    for image, label in pairs:
        parts = image.split("/")
        if len(parts) != 3:
            raise DataError(f"{image}: expected <split>/<city>/<name>_leftImg8bit.png")
        town, variant = _city(parts[1])
        weather = "CS" if draws("evening", seed, image).random() < 0.2 else "CN"
        place = (root / image_root / image, root / label_root / label, key("scene", seed, image))
        jobs.append(_Job(*place, town, weather, "A", variant, tuple(size), TO_CITYSCAPES))
    _declare(root, "cityscapes", (image_root, label_root), seed, size)
    _write_all(jobs, workers, progress, "Cityscapes (synthetic)")
    return pairs


def _city(name: str) -> tuple[int, int]:
    """Town and variant of a city."""
    known = [*cityscapes.TRAIN_CITIES, *cityscapes.VAL_CITIES]
    number = known.index(name) if name in known else key("city", name) % 1_000_000
    return (2, 1, 6, 4, 3, 2, 5)[number % 7], number + 1


def _checked(files: Iterable[Sample]) -> list[Sample]:
    """Sorted pairs without repetitions, none of which leaves its root."""
    pairs = sorted({(str(image), str(label)) for image, label in files})
    for pair in pairs:
        for path in pair:
            pure = PurePosixPath(path)
            if pure.is_absolute() or ".." in pure.parts or "\\" in path or len(pure.parts) < 2:
                raise DataError(f"{path}: must be a relative path that stays inside the data set")
        if not pair[0].endswith((".jpg", ".png")) or not pair[1].endswith(".png"):
            raise DataError(f"{pair[0]}, {pair[1]}: images must be .jpg or .png, labels .png")
    return pairs


def _declare(
    root: Path, dataset: str, folders: tuple[str, ...], seed: int, size: Sequence[int]
) -> None:
    """Write ``dataset.json``, or check that the existing one says the same."""
    declared = {
        "dataset": dataset,
        "synthetic": True,
        "renderer_version": RENDERER_VERSION,
        "seed": seed,
        "size": list(size),
    }
    path = root / MARKER
    if path.exists():
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            found["synthetic"] = found.pop("embedded", found.get("synthetic"))  # the old key
        except (ValueError, TypeError, AttributeError):
            found = None
        if found != declared:
            raise DataError(
                f"{path}: the folder holds {found}, asked for is {declared};"
                " delete the folder or choose another one"
            )
        return
    for folder in folders:
        if (root / folder).exists():
            raise DataError(
                f"{root / folder}: exists but {path} does not, so these may be real images, and"
                " nothing is rendered among them; choose another folder"
            )
    write_text(path, json.dumps(declared, indent=2) + "\n")


def _write_all(jobs: list[_Job], workers: int, progress: bool, title: str) -> None:
    """Write what is missing."""
    missing = [job for job in jobs if not (job.image.exists() and job.label.exists())]
    # Neighbors share a town, whose textures a worker makes once.
    chunks = [missing[i : i + _CHUNK] for i in range(0, len(missing), _CHUNK)]
    with progress_bar(progress and bool(missing)) as bar:
        task = bar.add_task(title, total=len(jobs), completed=len(jobs) - len(missing))
        for count in in_processes(_write_chunk, chunks, min(workers, len(chunks))):
            bar.advance(task, count)


def _write_chunk(jobs: list[_Job]) -> int:
    """Render and write a few images; runs in a worker."""
    for job in jobs:
        arguments = (job.seed, job.town, job.weather, job.viewpoint, job.size)
        image, labels = render(*arguments, variant=job.variant)
        # The image comes last: where it exists, the pair is complete.
        _write_image(job.label, job.label_table[labels])
        _write_image(job.image, cv2.cvtColor(image, cv2.COLOR_RGB2BGR))
    return len(jobs)


def _write_image(path: Path, pixels: np.ndarray) -> None:
    options = [cv2.IMWRITE_PNG_COMPRESSION, 1]
    if path.suffix == ".jpg":
        options = [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY]
    done, data = cv2.imencode(path.suffix, pixels, options)
    if not done:
        raise DataError(f"{path}: the image could not be encoded")
    with atomic_writer(path, "wb") as file:
        file.write(data.tobytes())
