"""Losses and metrics on a line, in a plane or over a surface: points are tasks, results are files.

Every point is computed on its own, so that neither the number of workers nor an interruption
changes a bit. Finished points are lines of ``points.jsonl``; the same landscape again goes on.
"""

import hashlib
import json
import multiprocessing
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from fedseg.checks import check_float, check_int
from fedseg.core.seeds import generator_for
from fedseg.curvature.checkpoint import TRAIN, Opened, Point, identity, open_run, run_folder
from fedseg.curvature.clients import participants_models
from fedseg.curvature.directions import (
    Directions,
    along,
    barrier,
    line,
    plane,
    random_directions,
)
from fedseg.curvature.surface import STATISTICS, LossSurface, Samples, expand
from fedseg.errors import ConfigError
from fedseg.evaluation.domains import reestimate_statistics
from fedseg.files import write_text
from fedseg.runner.checkpoint import checkpoints

SCHEMA_VERSION = 1
FILE_NAME, POINTS = "landscape.json", "points.jsonl"
REESTIMATE = "reestimate"
KINDS = ("line", "plane", "random", "eigenvectors")
ESTIMATED = 512  # training images that BatchNorm's statistics are re-estimated from


@dataclass(frozen=True)
class Spec:
    """A landscape, in plain values: any process can compute any of its points.

    Attributes:
        kind: ``line``: between successive checkpoints; ``plane``: through three; ``random``,
            ``eigenvectors``: a surface around each checkpoint.
        checkpoints: their files. config, options: as of the command line.
        data: names of data. client: instead, the model that this participant of the next round
            trains, on its own data and on all data.
        points: on each axis. low, high: ends of an axis; for a plane, the margin around the
            models is ``high`` times their extent, and low is not used.
        statistics: BatchNorm's: ``running`` (moved along with the parameters), ``batch`` or
            ``reestimate`` (anew at every point).
        samples: of each data at most. metrics: whether they are computed, besides the loss.
        averaged: the averaged models, where there are some. seed: of random directions.
    """

    kind: str
    checkpoints: tuple[str, ...]
    config: str | None = None
    options: tuple[str, ...] = ()
    data: tuple[str, ...] = (TRAIN,)
    client: str | None = None
    points: int = 21
    low: float = -1.0
    high: float = 1.0
    statistics: str = "running"
    samples: int | None = None
    metrics: bool = False
    averaged: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        check_int("--points", self.points, least=2)
        check_int("--seed", self.seed, least=0)
        if self.samples is not None:
            check_int("--samples", self.samples)
        check_float("--range", self.low)
        check_float("--range", self.high, above=0 if self.kind == "plane" else self.low)
        if self.statistics not in (*STATISTICS, REESTIMATE):
            raise ConfigError(
                f"--statistics: must be one of {', '.join((*STATISTICS, REESTIMATE))}"
            )
        wanted = {"line": range(2, 100), "plane": (3,)}.get(self.kind, range(1, 100))
        if len(self.checkpoints) not in wanted or (self.client and len(self.checkpoints) != 1):
            count = {"line": "at least two", "plane": "three"}.get(self.kind, "at least one")
            raise ConfigError(f"checkpoints: {self.kind} takes {count}; with --client, one")


@dataclass(frozen=True)
class Series:
    """Points of one grid with one kind of data."""

    label: str
    data: str
    directions: Directions
    samples: Samples


class Landscape:
    """The grid of a :class:`Spec`, with its model and data.

    Attributes:
        series: what is computed on the grid. axes: coordinates on each axis.
        marks: coordinates of the models, by name.
    """

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        paths = [Path(path) for path in spec.checkpoints]
        config = None if spec.config is None else Path(spec.config)
        opened, files = open_run(paths, config, spec.options)
        self.opened: Opened = opened
        self.files = files
        self.points = [
            Point(str(path), *_vectors(opened.load(file, spec.averaged)))
            for path, file in zip(paths, files, strict=True)
        ]
        self.marks: dict[str, list[float]] = {}
        self.series = list(self._series())
        self.axes = self._axes()

    def _series(self) -> Iterator[Series]:
        opened, spec = self.opened, self.spec
        if spec.client is not None:
            models = dict(participants_models(opened, self.files[0]))
            if spec.client not in models:
                raise ConfigError(
                    f"--client: {spec.client!r} takes no part in the next round, in which "
                    f"{', '.join(models)} do"
                )
            directions = self._around(models[spec.client])
            for label, client in (("own data", spec.client), ("all data", None)):
                samples = opened.samples(TRAIN, client, spec.samples, personal=False)
                yield Series(f"client {spec.client}", label, directions, samples)
            return
        personal = spec.statistics == "running"
        data = {n: opened.samples(n, None, spec.samples, personal=personal) for n in spec.data}
        if spec.kind == "line":
            pairs = zip(self.points, self.points[1:], strict=False)
            found = [(f"{b.name} to {a.name}", line(a, b)) for b, a in pairs]
        elif spec.kind == "plane":
            found = [("plane", plane(*self.points))]
            self.marks = {p.name: found[0][1].project(p.w)[0] for p in self.points}
        else:
            found = [(p.name, self._around(p)) for p in self.points]
        for name, samples in data.items():
            for label, directions in found:
                yield Series(label, name, directions, samples)

    def _around(self, point: Point) -> Directions:
        if self.spec.kind == "random":
            rng = generator_for(self.spec.seed, "landscape directions")
            return random_directions(self.opened.flat, point, 2, rng)
        from fedseg.curvature.products import Products
        from fedseg.curvature.spectrum import largest

        data = self.opened.samples(TRAIN, self.spec.client, self.spec.samples)
        surface = LossSurface(self.opened.flat, data, point.w, point.buffers)
        rng = generator_for(self.spec.seed, "curvature top")
        found = largest(Products(surface), 2, rng)
        return along(point, [expand(self.opened.flat, v) for v in found.vectors.T])

    def _axes(self) -> list[np.ndarray]:
        spec = self.spec
        if spec.kind == "plane":
            places = np.array(list(self.marks.values()))
            low, high = places.min(0), places.max(0)
            margin = spec.high * (high - low).max()
            ends = zip(low - margin, high + margin, strict=True)
        else:
            ends = [(spec.low, spec.high)] * (1 if spec.kind == "line" else 2)
        axes = [np.linspace(low, high, spec.points) for low, high in ends]
        return [np.union1d(axes[0], [0.0, 1.0])] if spec.kind == "line" else axes

    def tasks(self) -> list[tuple[int, ...]]:
        """(series, place on the first axis, place on the second) of every point."""
        shape = [len(axis) for axis in self.axes]
        return [(s, *place) for s in range(len(self.series)) for place in np.ndindex(*shape)]

    def compute(self, task: tuple[int, ...]) -> dict[str, Any]:
        """Loss and metrics of a point; None where a loss is not finite."""
        series, places = self.series[task[0]], task[1:]
        w, buffers = series.directions.at([a[p] for a, p in zip(self.axes, places, strict=True)])
        statistics = self.spec.statistics
        if statistics == REESTIMATE:
            buffers, statistics = self._reestimated(w, buffers), "running"
        elif self.opened.policy is not None and series.samples.name != TRAIN:
            statistics = "batch"  # no client has any for it
        surface = LossSurface(self.opened.flat, series.samples, w, buffers, statistics)
        loss, metrics = surface.loss(self.spec.metrics)
        return {
            "task": list(task),
            "loss": loss if np.isfinite(loss) else None,
            "metrics": {name: value for name, value in metrics.items() if np.isfinite(value)},
        }

    def _reestimated(self, w: torch.Tensor, buffers: torch.Tensor) -> torch.Tensor:
        opened = self.opened
        run = SimpleNamespace(
            data=opened.data,
            model=opened.flat.model,
            flat=opened.flat,
            autocast=nullcontext,
            interrupt=SimpleNamespace(check=lambda: None),
        )
        total = sum(opened.data.sizes)
        return reestimate_statistics(run, w, buffers, min(ESTIMATED, total))

    def trajectory(self) -> dict[str, list[dict[str, Any]]]:
        """The kept checkpoints of each model's run, projected on the plane."""
        if self.spec.kind != "plane":
            return {}
        (directions,) = {id(s.directions): s.directions for s in self.series}.values()
        found = {}
        for point, file in zip(self.points, self.files, strict=True):
            found[point.name] = []
            for round_, path in checkpoints(run_folder(file) / "checkpoints"):
                place, distance = directions.project(self.opened.load(path, False).w)
                entry = {"round": round_, "coordinates": place, "distance": distance}
                found[point.name].append(entry)
        return found


def _vectors(point: Point) -> tuple[torch.Tensor, torch.Tensor]:
    return point.w, point.buffers


def landscape(
    spec: Spec,
    folder: Path,
    jobs: int = 1,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Any]:
    """Compute what is missing of a landscape; returns the content of ``landscape.json``.

    Args:
        folder: where the files go. jobs: processes; of a run with a Ray executor, its actors.
        advance: called with (points done, points in all).
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # as in the other processes, or bits would depend on their number
    try:
        return _landscape_of(Landscape(spec), folder, jobs, advance)
    finally:
        torch.set_num_threads(before)


def _landscape_of(
    here: Landscape, folder: Path, jobs: int, advance: Callable[[int, int], None]
) -> dict[str, Any]:
    spec = here.spec
    about = {
        "schema_version": SCHEMA_VERSION,
        "spec": asdict(spec),
        "checkpoints": [identity(here.opened, file) for file in here.files],
        "data_sha256": {name: here.opened.checksum(name) for name in spec.data},
        "axes": [axis.tolist() for axis in here.axes],
        "marks": here.marks,
    }
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    tasks, found = here.tasks(), _finished(folder / POINTS, digest)
    missing = [task for task in tasks if task not in found]
    advance(len(found), len(tasks))
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / POINTS, "a" if found else "w", encoding="utf-8") as file:
        for result in _results(here, missing, jobs):
            file.write(json.dumps({"landscape": digest, **result}) + "\n")
            file.flush()
            found[tuple(result["task"])] = result
            advance(len(found), len(tasks))
    shape = [len(axis) for axis in here.axes]
    series = [
        _collected(s, found, number, shape, here.axes) for number, s in enumerate(here.series)
    ]
    content = {**about, "trajectory": here.trajectory(), "series": series}
    write_text(folder / FILE_NAME, json.dumps(content, indent=1, allow_nan=False) + "\n")
    return content


def _finished(path: Path, digest: str) -> dict[tuple[int, ...], dict[str, Any]]:
    """The points of the same landscape that are there already; a torn last line is left out."""
    found = {}
    for text in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            result = json.loads(text)
            if result["landscape"] == digest:
                found[tuple(result["task"])] = result
        except (ValueError, KeyError, TypeError):
            continue
    return found


def _results(
    here: Landscape, tasks: list[tuple[int, ...]], jobs: int
) -> Iterator[Mapping[str, Any]]:
    if jobs == 1 or len(tasks) < 2:
        yield from map(here.compute, tasks)
        return
    if "Ray" in str(here.opened.config.executor["type"]):
        from ray.util.multiprocessing import Pool
    else:
        Pool = multiprocessing.get_context("spawn").Pool
    with Pool(jobs, initializer=_start, initargs=(here.spec,)) as pool:
        yield from pool.imap_unordered(_compute, tasks)


def _start(spec: Spec) -> None:
    global _landscape
    torch.set_num_threads(1)
    _landscape = Landscape(spec)


def _compute(task: tuple[int, ...]) -> dict[str, Any]:
    return _landscape.compute(task)


def _collected(
    series: Series,
    found: Mapping[tuple[int, ...], Mapping[str, Any]],
    number: int,
    shape: list[int],
    axes: list[np.ndarray],
) -> dict[str, Any]:
    """A series as arrays [points on the first axis][points on the second]."""
    results = np.empty(shape, dtype=object)
    for place in np.ndindex(*shape):
        results[place] = found[(number, *place)]
    loss = np.vectorize(lambda r: r["loss"], otypes=[object])(results)
    names = results.flat[0]["metrics"]
    metrics = {
        name: np.vectorize(lambda r, name=name: r["metrics"].get(name), otypes=[object])(results)
        for name in names
    }
    entry = {
        "label": series.label,
        "data": series.data,
        "num_samples": len(series.samples),
        "loss": loss.tolist(),
        "metrics": {name: values.tolist() for name, values in metrics.items()},
    }
    if len(shape) == 1 and None not in loss:
        entry["barrier"] = barrier(axes[0], loss)
    return entry
