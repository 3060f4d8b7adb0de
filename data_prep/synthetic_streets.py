"""Synthetic street scenes on disk, in the layouts of IDDA and Cityscapes.

Every image depends on the seed and on its own file name alone, so that any subset, in any order
and with any number of workers, has the same bytes.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import cv2
import numpy as np

from fedseg.datasets.synthetic import MARKER
from fedseg.errors import DataError
from fedseg.files import atomic_writer, write_text
from fedseg.partition.split_files import check_path

from . import cityscapes, idda
from .disk import Sample
from .parallel import in_processes, track
from .streets import RENDERER_VERSION, TO_CITYSCAPES, TO_IDDA, draws, key, render

_DOMAIN = re.compile(r"T0([1-7])_(CN|CS|HRN)_([ABJMV])")
_JPEG_QUALITY = 93
_CHUNK = 8
# One image to write: its file, its label map's file and table of ids, and what renders it.
_Job = tuple[Path, Path, np.ndarray, Callable[[], tuple[np.ndarray, np.ndarray]]]


def write_idda(
    root: str | Path,
    files: Iterable[Sample],
    size: tuple[int, int] = (464, 256),
    seed: int = 0,
    workers: int = 2,
) -> list[Sample]:
    """Render IDDA's layout under ``root/IDDAsmall``; labels hold IDDA's raw ids.

    Args:
        root: folder of the data set; ``root/dataset.json`` says that it is synthetic.
        files: (image, label) paths relative to ``IDDAsmall/``, for example those of a split; the
            first folder is the domain.
        size: width and height in pixels.
        seed: another seed gives other streets under the same names.
        workers: processes; below 2 everything runs in this one.

    Returns:
        The pairs, sorted; files that exist are kept.

    Raises:
        DataError: a path is absolute, leaves the root or names no domain; or ``root`` holds real
            data, or data rendered with other settings.
    """

    def scene(image: str) -> tuple[int, str, str, int]:
        match = _DOMAIN.fullmatch(image.split("/")[0])
        if not match:
            raise DataError(
                f"{image}: the first folder must be a domain such as T01_CN_A"
                " (T01 to T07, CN, CS or HRN, A, B, J, M or V)"
            )
        return int(match[1]), match[2], match[3], 0

    roots = (idda.IMAGE_ROOT, idda.LABEL_ROOT)
    return _write(Path(root), "idda", roots, files, scene, TO_IDDA, size, seed, workers)


def write_cityscapes(
    root: str | Path,
    files: Iterable[Sample],
    size: tuple[int, int] = (512, 256),
    seed: int = 0,
    workers: int = 2,
) -> list[Sample]:
    """Render Cityscapes' layout under ``root``; labels hold Cityscapes' labelIds.

    Every city is a town of its own: one of the renderer's seven with its own materials and habits.
    One image in five shows the evening, the others noon; none shows rain.

    ``files`` are relative to ``leftImg8bit/`` and ``gtFine/``, as ``<split>/<city>/<name>``; the
    other arguments, result and errors are those of :func:`write_idda`.
    """
    known = [city for cities in cityscapes.CITIES.values() for city in cities]

    def scene(image: str) -> tuple[int, str, str, int]:
        parts = image.split("/")
        if len(parts) != 3:
            raise DataError(f"{image}: expected <split>/<city>/<name>_leftImg8bit.png")
        city = parts[1]
        number = known.index(city) if city in known else key("city", city) % 1_000_000
        weather = "CS" if draws("evening", seed, image).random() < 0.2 else "CN"
        return (2, 1, 6, 4, 3, 2, 5)[number % 7], weather, "A", number + 1

    roots, table = (cityscapes.IMAGE_ROOT, cityscapes.LABEL_ROOT), TO_CITYSCAPES
    return _write(Path(root), "cityscapes", roots, files, scene, table, size, seed, workers)


def _write(
    root: Path,
    dataset: str,
    roots: tuple[str, str],
    files: Iterable[Sample],
    scene_of: Callable[[str], tuple[int, str, str, int]],  # town, weather, viewpoint, variant
    label_table: np.ndarray,
    size: Sequence[int],
    seed: int,
    workers: int,
) -> list[Sample]:
    """Write what is missing; everything is checked first."""
    pairs = sorted(set(files))
    jobs = []
    for pair in pairs:
        for path, suffixes in zip(pair, ((".jpg", ".png"), ".png"), strict=True):
            if check_path(path) or not path.endswith(suffixes):
                raise DataError(
                    f"{path}: must be a .jpg or .png (labels: .png) inside the data set"
                )
        image, label = (root / base / path for base, path in zip(roots, pair, strict=True))
        *scene, variant = scene_of(pair[0])
        if not (image.exists() and label.exists()):
            number = key("scene", seed, pair[0])
            shown = partial(render, number, *scene, tuple(size), variant=variant)
            jobs.append((image, label, label_table, shown))
    _declare(root, dataset, roots, seed, size)
    # Neighbors share a town, whose textures a worker makes once.
    chunks = [jobs[i : i + _CHUNK] for i in range(0, len(jobs), _CHUNK)]
    written = in_processes(_write_chunk, chunks, min(workers, len(chunks)))
    for _ in track(written, len(chunks), f"rendering {dataset}", bool(jobs)):
        pass
    return pairs


def _declare(root: Path, dataset: str, folders: Sequence[str], seed: int, size: Sequence[int]):
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
        if (root / folder).is_dir() and any((root / folder).iterdir()):
            raise DataError(
                f"{root / folder}: holds images that are not known as synthetic: choose another "
                "folder with --root"
            )
    write_text(path, json.dumps(declared, indent=2) + "\n")


def _write_chunk(jobs: list[_Job]) -> None:
    """Render and write a few images; runs in a worker."""
    for image, label, table, shown in jobs:
        pixels, labels = shown()
        # The image comes last: where it exists, the pair is complete.
        _write_image(label, table[labels])
        _write_image(image, cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR))


def _write_image(path: Path, pixels: np.ndarray) -> None:
    options = [cv2.IMWRITE_PNG_COMPRESSION, 1]
    if path.suffix == ".jpg":
        options = [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY]
    _, data = cv2.imencode(path.suffix, pixels, options)
    with atomic_writer(path, "wb") as file:
        file.write(data.tobytes())
