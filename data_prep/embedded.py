"""Embedded data: rendered street scenes in the on-disk layouts of IDDA and Cityscapes.

Every picture depends on the seed and on its own file name alone, so that any subset, in any order
and with any number of workers, holds the same bytes.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from pathlib import Path, PurePosixPath

import cv2
import numpy as np

from data_prep.streets import RENDERER_VERSION, TOWNS, VIEWPOINTS, WEATHERS, render
from data_prep.streets.ids import TO_CITYSCAPES, TO_IDDA
from data_prep.streets.keys import draws, key
from fedseg.errors import DataError

IDDA_DOMAINS: tuple[str, ...] = tuple(
    f"T{town:02d}_{weather}_{viewpoint}"
    for town in TOWNS
    for weather in WEATHERS
    for viewpoint in VIEWPOINTS
    if (town, weather, viewpoint) != (7, "CN", "M")
)
"""The 104 domains of IDDA; town 7 has no clear noon seen from M."""

CITYSCAPES_TRAIN: dict[str, int] = {
    "aachen": 174,
    "bochum": 96,
    "bremen": 316,
    "cologne": 154,
    "darmstadt": 85,
    "dusseldorf": 221,
    "erfurt": 109,
    "hamburg": 248,
    "hanover": 196,
    "jena": 119,
    "krefeld": 99,
    "monchengladbach": 94,
    "strasbourg": 365,
    "stuttgart": 196,
    "tubingen": 144,
    "ulm": 95,
    "weimar": 142,
    "zurich": 122,
}
"""Images of every training city: 2975 in all."""

CITYSCAPES_VAL: dict[str, int] = {"frankfurt": 267, "lindau": 59, "munster": 174}
"""Images of every validation city: 500 in all."""

_DOMAIN = re.compile(r"T0([1-7])_(CN|CS|HRN)_([ABJMV])")
_JPEG_QUALITY = 93
_CHUNK = 8

Pair = tuple[str, str]


@dataclass(frozen=True)
class _Job:
    """One picture to write: where, and what it shows."""

    image: str
    label: str
    seed: int
    town: int
    weather: str
    viewpoint: str
    variant: int
    size: tuple[int, int]
    cityscapes: bool


def idda_files(
    images_per_domain: int = 60, domains: Sequence[str] | None = None
) -> list[tuple[str, str]]:
    """Default (image, label) paths, relative to ``IDDAsmall/``, numbered from 1 in every domain."""
    return [
        (f"{domain}/RGB/{i}_{domain}.jpg", f"{domain}/Semantic/{i}_{domain}.png")
        for domain in (IDDA_DOMAINS if domains is None else domains)
        for i in range(1, images_per_domain + 1)
    ]


def cityscapes_files(
    images_per_city: int | None = None, cities: Sequence[str] | None = None
) -> list[tuple[str, str]]:
    """Default (image, label) paths, relative to ``leftImg8bit/`` and ``gtFine/``.

    Args:
        images_per_city: None for every city's own number in Cityscapes.
        cities: names among :data:`CITYSCAPES_TRAIN` and :data:`CITYSCAPES_VAL`; None for all.

    Raises:
        DataError: a city is neither.
    """
    files = []
    known = CITYSCAPES_TRAIN | CITYSCAPES_VAL
    for city in known if cities is None else cities:
        if city not in known:
            raise DataError(f"city {city!r} is not among Cityscapes' {', '.join(known)}")
        split = "train" if city in CITYSCAPES_TRAIN else "val"
        for i in range(known[city] if images_per_city is None else images_per_city):
            stem = f"{split}/{city}/{city}_{i:06d}_000019"
            files.append((f"{stem}_leftImg8bit.png", f"{stem}_gtFine_labelIds.png"))
    return files


def write_idda(
    root: str | os.PathLike,
    files: Iterable[Pair] | None = None,
    images_per_domain: int = 60,
    domains: Sequence[str] | None = None,
    size: tuple[int, int] = (464, 256),
    seed: int = 0,
    workers: int = 2,
    progress: bool = True,
) -> list[Pair]:
    """Render IDDA's layout under ``root/IDDAsmall``; labels hold IDDA's raw ids.

    Args:
        root: folder of the data set; ``root/dataset.json`` says that it is rendered.
        files: (image, label) paths relative to ``IDDAsmall/``, for example those of a split; the
            first folder is the domain. None for :func:`idda_files`.
        images_per_domain: used without ``files``.
        domains: used without ``files``; None for all 104.
        size: width and height in pixels.
        seed: another seed gives other streets under the same names.
        workers: processes; below 2 everything runs in this one.
        progress: show a progress bar with the time left.

    Returns:
        The pairs, sorted; files already there are kept.

    Raises:
        DataError: a path is absolute, leaves the root or names no domain; or ``root`` holds real
            data, or data rendered with other settings.
    """
    pairs = _checked(idda_files(images_per_domain, domains) if files is None else files)
    jobs = []
    for image, label in pairs:
        match = _DOMAIN.fullmatch(image.split("/")[0])
        if not match:
            raise DataError(
                f"{image}: the first folder must be a domain such as T01_CN_A"
                " (T01 to T07, CN, CS or HRN, A, B, J, M or V)"
            )
        jobs.append(
            _Job(
                image=os.path.join(root, "IDDAsmall", image),
                label=os.path.join(root, "IDDAsmall", label),
                seed=_scene_seed(seed, image),
                town=int(match[1]),
                weather=match[2],
                viewpoint=match[3],
                variant=0,
                size=tuple(size),
                cityscapes=False,
            )
        )
    _declare(Path(root), "idda", ("IDDAsmall",), seed, size)
    _write_all(jobs, workers, progress, "IDDA (rendered)")
    return pairs


def write_cityscapes(
    root: str | os.PathLike,
    files: Iterable[Pair] | None = None,
    images_per_city: int | None = None,
    cities: Sequence[str] | None = None,
    size: tuple[int, int] = (512, 256),
    seed: int = 0,
    workers: int = 2,
    progress: bool = True,
) -> list[Pair]:
    """Render Cityscapes' layout under ``root``; labels hold Cityscapes' labelIds.

    Every city is a town of its own: one of the renderer's seven with its own materials and habits.
    One picture in five shows the evening, the others noon; none shows rain.

    Args:
        root: folder of the data set; ``root/dataset.json`` says that it is rendered.
        files: (image, label) paths relative to ``leftImg8bit/`` and ``gtFine/``, as
            ``<split>/<city>/<name>``. None for :func:`cityscapes_files`.
        images_per_city: used without ``files``; None for every city's own number.
        cities: used without ``files``; None for all 21.
        size: width and height in pixels.
        seed: another seed gives other streets under the same names.
        workers: processes; below 2 everything runs in this one.
        progress: show a progress bar with the time left.

    Returns:
        The pairs, sorted; files already there are kept.

    Raises:
        DataError: a path is absolute, leaves the root or names no city; or ``root`` holds real
            data, or data rendered with other settings.
    """
    pairs = _checked(cityscapes_files(images_per_city, cities) if files is None else files)
    jobs = []
    for image, label in pairs:
        parts = image.split("/")
        if len(parts) != 3:
            raise DataError(f"{image}: expected <split>/<city>/<name>_leftImg8bit.png")
        town, variant = _city(parts[1])
        jobs.append(
            _Job(
                image=os.path.join(root, "leftImg8bit", image),
                label=os.path.join(root, "gtFine", label),
                seed=_scene_seed(seed, image),
                town=town,
                weather="CS" if draws("evening", seed, image).random() < 0.2 else "CN",
                viewpoint="A",
                variant=variant,
                size=tuple(size),
                cityscapes=True,
            )
        )
    _declare(Path(root), "cityscapes", ("leftImg8bit", "gtFine"), seed, size)
    _write_all(jobs, workers, progress, "Cityscapes (rendered)")
    return pairs


def _city(name: str) -> tuple[int, int]:
    """Town and variant of a city."""
    known = list(CITYSCAPES_TRAIN | CITYSCAPES_VAL)
    number = known.index(name) if name in known else key("city", name) % 1_000_000
    return (2, 1, 6, 4, 3, 2, 5)[number % 7], number + 1


def _scene_seed(seed: int, name: str) -> int:
    """The seed of one picture."""
    return key("scene", seed, name)


def _checked(files: Iterable[Pair]) -> list[Pair]:
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


def _declare(root: Path, dataset: str, folders: tuple[str, ...], seed: int, size) -> None:
    """Write ``dataset.json``, or check that the one there says the same."""
    declared = {
        "dataset": dataset,
        "embedded": True,
        "renderer_version": RENDERER_VERSION,
        "seed": seed,
        "size": list(size),
    }
    path = root / "dataset.json"
    if path.exists():
        try:
            found = json.loads(path.read_text())
        except ValueError:
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
                f"{root / folder} exists but {path} does not: this looks like real data, among"
                " which nothing is rendered; choose another folder"
            )
    root.mkdir(parents=True, exist_ok=True)
    _write_atomically(str(path), (json.dumps(declared, indent=2) + "\n").encode())


def _write_all(jobs: list[_Job], workers: int, progress: bool, title: str) -> None:
    """Write what is missing."""
    missing = [job for job in jobs if not (os.path.exists(job.image) and os.path.exists(job.label))]
    for folder in {os.path.dirname(path) for job in missing for path in (job.image, job.label)}:
        os.makedirs(folder, exist_ok=True)
    # Neighbours share a town, whose textures a worker makes once.
    chunks = [missing[i : i + _CHUNK] for i in range(0, len(missing), _CHUNK)]
    with _Bar(title, len(jobs), len(jobs) - len(missing), progress) as advance:
        if workers < 2 or len(chunks) < 2:
            threads = cv2.getNumThreads()
            try:
                for chunk in chunks:
                    advance(_write_chunk(chunk))
            finally:
                cv2.setNumThreads(threads)
            return
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            waiting = iter(chunks)
            running = [pool.submit(_write_chunk, chunk) for chunk in islice(waiting, 2 * workers)]
            try:
                while running:
                    advance(running.pop(0).result())
                    running += [pool.submit(_write_chunk, chunk) for chunk in islice(waiting, 1)]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


class _Bar:
    """A progress bar with the time left; called with a number of files, it advances."""

    def __init__(self, title: str, total: int, done: int, shown: bool) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not shown or done == total,
        )
        self.task = self.bar.add_task(title, total=total, completed=done)

    def __enter__(self) -> Callable[[int], None]:
        self.bar.start()
        return lambda count: self.bar.advance(self.task, count)

    def __exit__(self, *_: object) -> None:
        self.bar.stop()


def _write_chunk(jobs: list[_Job]) -> int:
    """Render and write a few pictures; runs in a worker."""
    cv2.setNumThreads(1)  # one process a core is faster than threads inside
    for job in jobs:
        _write_pair(job)
    return len(jobs)


def _write_pair(job: _Job) -> None:
    image, labels = render(
        job.seed, job.town, job.weather, job.viewpoint, job.size, variant=job.variant
    )
    ids = (TO_CITYSCAPES if job.cityscapes else TO_IDDA)[labels]
    # The image comes last: where it exists, the pair is complete.
    _write_atomically(job.label, _encoded(job.label, ids))
    _write_atomically(job.image, _encoded(job.image, cv2.cvtColor(image, cv2.COLOR_RGB2BGR)))


def _encoded(path: str, pixels: np.ndarray) -> bytes:
    options = [cv2.IMWRITE_PNG_COMPRESSION, 1]
    if path.endswith(".jpg"):
        options = [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY]
    done, data = cv2.imencode(os.path.splitext(path)[1], pixels, options)
    if not done:
        raise DataError(f"{path}: the image could not be encoded")
    return data.tobytes()


def _write_atomically(path: str, data: bytes) -> None:
    """A reader sees the whole file or none."""
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.part")
    with open(temporary, "wb") as file:
        file.write(data)
    os.replace(temporary, path)
