"""Synthetic street scenes on disk, in the layouts of IDDA and Cityscapes.

Every image depends on the seed and on its own file name alone, so that any subset, in any order
and with any number of workers, has the same bytes.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import cv2
import numpy as np

import fedseg.datasets
from fedseg.datasets.arrays import INDEX
from fedseg.datasets.templates import fields_of
from fedseg.errors import DataError
from fedseg.files import atomic_writer, read_json, write_text
from fedseg.partition.split_files import check_path

from .disk import Sample
from .facts import PairedSet
from .parallel import in_processes, track
from .street_sets import CITIES, DOMAIN
from .streets import RENDERER_VERSION, TO_CITYSCAPES, TO_IDDA, draws, key, render

_JPEG_QUALITY = 93
_CHUNK = 8
# One image to write: its file, its label map's file and table of ids, and what renders it.
_Job = tuple[Path, Path, np.ndarray, Callable[[], tuple[np.ndarray, np.ndarray]]]
_Scene = tuple[int, str, str, int]  # town, weather, viewpoint, variant


def idda_scene(domain: str, image: str, seed: int) -> _Scene:
    match = DOMAIN.fullmatch(domain)
    if not match:
        raise DataError(
            f"{image}: the first folder must be a domain such as T01_CN_A"
            " (T01 to T07, CN, CS or HRN, A, B, J, M or V)"
        )
    return int(match[1]), match[2], match[3], 0


def cityscapes_scene(city: str, image: str, seed: int) -> _Scene:
    """Every city is a variant of one of the renderer's seven towns, without rain.

    One image in five shows the evening, the others noon.
    """
    known = [name for cities in CITIES.values() for name in cities]
    number = known.index(city) if city in known else key("city", city) % 1_000_000
    weather = "CS" if draws("evening", seed, image).random() < 0.2 else "CN"
    return (2, 1, 6, 4, 3, 2, 5)[number % 7], weather, "A", number + 1


# data set -> the table from the renderer's classes to raw ids, and the scene of an image
RENDERED = {"idda": (TO_IDDA, idda_scene), "cityscapes": (TO_CITYSCAPES, cityscapes_scene)}


def write_streets(
    data_set: PairedSet,
    root: Path,
    files: Iterable[Sample],
    size: Sequence[int] | None = None,
    seed: int = 0,
    workers: int = 2,
) -> list[Sample]:
    """Render pairs of images and label maps that are not there; labels hold raw ids.

    Args:
        root: folder of the data set; ``root/dataset.json`` says that it is synthetic.
        files: (image, label) paths relative to the data set's two roots, for example of a split.
        size: width and height in pixels; None: the data set's own.
        seed: another seed gives other streets under the same names.
        workers: processes; below 2 everything runs in this one.

    Returns:
        All pairs, sorted.
    """
    size = tuple(size or data_set.size)
    kind = getattr(fedseg.datasets, data_set.dataset)
    roots = kind.image_root, kind.label_root
    table, scene_of = RENDERED[data_set.name]
    pairs = sorted(set(files))
    jobs = []
    for pair in pairs:
        for path, suffixes in zip(pair, ((".jpg", ".png"), ".png"), strict=True):
            if check_path(path) or not path.endswith(suffixes):
                raise DataError(
                    f"{path}: must be a .jpg or .png (labels: .png) inside the data set"
                )
        image, label = (root / base / path for base, path in zip(roots, pair, strict=True))
        fields = fields_of(kind.image_path, pair[0])
        if fields is None:
            raise DataError(f"{pair[0]}: must be an image path {kind.image_path}.")
        *scene, variant = scene_of(fields["domain"], pair[0], seed)
        if not (image.exists() and label.exists()):
            number = key("scene", seed, pair[0])
            shown = partial(render, number, *scene, size, variant=variant)
            jobs.append((image, label, table, shown))
    _declare(root, data_set.name, roots, seed, size)
    # Neighbors share a town, whose textures a worker makes once.
    chunks = [jobs[i : i + _CHUNK] for i in range(0, len(jobs), _CHUNK)]
    written = in_processes(_write_chunk, chunks, min(workers, len(chunks)))
    if chunks:
        for _ in track(written, len(chunks), f"rendering {data_set.name}"):
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
    path = root / INDEX
    if path.exists():
        if (content := read_json(path, "delete the folder or choose another one")) != declared:
            raise DataError(
                f"{path}: the folder has {content}, expected {declared};"
                " delete the folder or choose another one"
            )
        return
    for folder in folders:
        if (root / folder).is_dir() and any((root / folder).iterdir()):
            raise DataError(
                f"{root / folder}: has images that are not known as synthetic: choose another "
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
