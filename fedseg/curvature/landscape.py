"""Losses and metrics on a line, in a plane or over a surface: points are tasks, results are files.

Every point is computed on its own, so that neither the number of workers nor an interruption
changes a bit. Finished points are lines of ``points.jsonl``; the same landscape again goes on.
"""

import hashlib
import json
import multiprocessing
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from fedseg.core.seeds import generator_for
from fedseg.curvature.checkpoint import Point, RunData, find_checkpoints, opened
from fedseg.curvature.clients import participants_models
from fedseg.curvature.directions import Directions, along, barrier, line, plane, random_directions
from fedseg.curvature.settings import BATCH, REESTIMATE, RUNNING, TRAIN, Spec
from fedseg.curvature.surface import LossSurface, Samples, expand
from fedseg.errors import ConfigError
from fedseg.evaluation.domains import reestimate_statistics
from fedseg.files import read_bytes, write_text
from fedseg.runner.checkpoint import checkpoints, run_folder
from fedseg.runner.work_dir import hold
from fedseg.threads import threads

SCHEMA_VERSION = 1
FILE_NAME, POINTS = "landscape.json", "points.jsonl"
ESTIMATED = 512  # training images that BatchNorm's statistics are re-estimated from


@dataclass(frozen=True)
class Series:
    """Points of one grid with one kind of data.

    Attributes:
        models: their names. data: its name. client: whose data only; None: all.
        statistics: client -> BatchNorm statistics of its own.
    """

    models: tuple[str, ...]
    data: str
    client: str | None
    directions: Directions
    statistics: Mapping[str, Any]


class Landscape:
    """The grid of a :class:`Spec`.

    Args:
        run: data and model. parts: series, axes and marks of another process; None: found here.

    Attributes:
        series: what is computed on the grid. axes: coordinates on each axis.
        marks: coordinates of the models, by name.
    """

    def __init__(self, spec: Spec, run: RunData, parts: tuple[Any, ...] | None = None) -> None:
        self.spec, self.run, self._samples = spec, run, {}
        self.marks: dict[str, list[float]] = {}
        if parts is not None:
            self.series, self.axes, self.marks = parts
            return
        self.files = find_checkpoints(spec.source)
        if run.policy is not None and spec.kind in ("line", "plane") and spec.statistics == RUNNING:
            raise ConfigError(
                "--statistics: between models, clients have no BatchNorm statistics: use batch or "
                "reestimate"
            )
        self.points, found = [], []
        for path, file in zip(spec.source.paths, self.files, strict=True):
            point = run.load(file, spec.averaged)
            self.points.append(Point(path, point.w, point.buffers))
            if spec.client is not None:
                found = self._of_client(file)
            elif spec.kind not in ("line", "plane"):
                found += self._surface(self.points[-1])
        if spec.kind == "line" and spec.client is None:
            pairs = zip(self.points, self.points[1:], strict=False)
            found = [((b.name, a.name), line(a, b)) for b, a in pairs]
            found = [Series(names, n, None, way, {}) for n in spec.data for names, way in found]
        elif spec.kind == "plane":
            way = plane(*self.points)
            self.marks = {p.name: way.project(p.w)[0] for p in self.points}
            found = [Series((), name, None, way, {}) for name in spec.data]
        self.series, self.axes = found, self._axes()

    def _of_client(self, file: Path) -> list[Series]:
        models = {point.name: point for point in participants_models(self.run, file)}
        name = self.spec.client
        if name not in models:
            raise ConfigError(f"--client: {name!r} is none of {', '.join(models)}")
        is_line = self.spec.kind == "line"
        way = line(models[name], self.points[0]) if is_line else self._around(models[name])
        places = {"own data": name, "all data": None}
        return [Series((f"client {name}",), data, c, way, {}) for data, c in places.items()]

    def _surface(self, point: Point) -> list[Series]:
        way, own = self._around(point), self.run.statistics
        return [Series((point.name,), name, None, way, own) for name in self.spec.data]

    def _around(self, point: Point) -> Directions:
        run, spec = self.run, self.spec
        rng = generator_for(run.seed, f"landscape {spec.kind}")
        if spec.kind == "random":
            return random_directions(run.flat, point, 2, rng)
        from fedseg.curvature.products import Products
        from fedseg.curvature.spectrum import largest

        data = run.samples(TRAIN, spec.client, spec.samples, personal=spec.client is None)
        found = largest(Products(LossSurface(run.flat, data, point.w, point.buffers)), 2, rng)
        return along(point, [expand(run.flat, v) for v in found.vectors.T])

    def samples(self, number: int) -> Samples:
        """The data of a series."""
        series, spec = self.series[number], self.spec
        self.run.statistics = series.statistics
        if number not in self._samples:
            name = series.data if spec.client is None else TRAIN
            personal = spec.statistics == RUNNING and bool(series.statistics)
            found = self.run.samples(name, series.client, spec.samples, personal=personal)
            self._samples[number] = found
        return self._samples[number]

    def _axes(self) -> list[np.ndarray]:
        spec, ends = self.spec, [self.spec.ends] * 2
        if spec.kind == "plane":
            places = np.array(list(self.marks.values()))
            low, high = places.min(0), places.max(0)
            margin = spec.ends[1] * (high - low).max()
            ends = list(zip(low - margin, high + margin, strict=True))
        axes = [np.linspace(low, high, spec.points) for low, high in ends]
        return [np.union1d(axes[0], [0.0, 1.0])] if spec.kind == "line" else axes

    def tasks(self) -> list[tuple[int, ...]]:
        """(series, place on the first axis, place on the second) of every point."""
        return list(np.ndindex(len(self.series), *map(len, self.axes)))

    def compute(self, task: tuple[int, ...]) -> dict[str, Any]:
        """Loss and metrics of a point; None where a loss is not finite."""
        run, statistics, samples = self.run, self.spec.statistics, self.samples(task[0])
        coordinates = [axis[place] for axis, place in zip(self.axes, task[1:], strict=True)]
        w, buffers = self.series[task[0]].directions.at(coordinates)
        if statistics == REESTIMATE:
            parts = {"data": run.data, "model": run.flat.model, "flat": run.flat}
            check = SimpleNamespace(check=lambda: None)
            runner = SimpleNamespace(**parts, autocast=nullcontext, interrupt=check)
            buffers = reestimate_statistics(runner, w, buffers, min(ESTIMATED, sum(run.data.sizes)))
            statistics = RUNNING
        elif run.policy is not None and samples.name != TRAIN:
            statistics = BATCH  # no client has any for it
        surface = LossSurface(run.flat, samples, w, buffers, statistics)
        loss, metrics = surface.loss(self.spec.metrics)
        metrics = {name: value if np.isfinite(value) else None for name, value in metrics.items()}
        return {"task": task, "loss": loss if np.isfinite(loss) else None, "metrics": metrics}

    def trajectory(self) -> dict[str, list[dict[str, Any]]]:
        """The kept checkpoints of each model's run, projected on the plane."""
        if self.spec.kind != "plane":
            return {}
        found, directions = {}, self.series[0].directions
        for point, file in zip(self.points, self.files, strict=True):
            found[point.name] = []
            for round_, path in checkpoints(run_folder(file) / "checkpoints"):
                place, distance = directions.project(self.run.load(path, averaged=False).w)
                entry = {"round": round_, "coordinates": place, "distance": distance}
                found[point.name].append(entry)
        return found


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

    Raises:
        ConfigError: another process writes there.
    """
    # one thread as in the other processes, or bits would depend on their number
    with threads(1), hold(folder), opened(spec.source) as run:
        return _landscape_of(Landscape(spec, run), folder, jobs, advance)


def _landscape_of(
    here: Landscape, folder: Path, jobs: int, advance: Callable[[int, int], None]
) -> dict[str, Any]:
    spec = here.spec
    about = {
        "schema_version": SCHEMA_VERSION,
        "spec": asdict(spec),
        "checkpoints": [here.run.identity(file) for file in here.files],
        "data_sha256": {name: here.run.checksum(name) for name in spec.data},
        "axes": [axis.tolist() for axis in here.axes],
        "marks": here.marks,
    }
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    tasks, found = here.tasks(), _finished(folder / POINTS, digest)
    missing = [task for task in tasks if task not in found]
    advance(len(found), len(tasks))
    with open(folder / POINTS, "a" if found else "w", encoding="utf-8") as file:
        for result in _results(here, missing, jobs):
            file.write("\n" * bool(found) + json.dumps({"landscape": digest, **result}))
            file.flush()
            found[tuple(result["task"])] = result
            advance(len(found), len(tasks))
    series = [_collected(here, found, number) for number in range(len(here.series))]
    content = {**about, "trajectory": here.trajectory(), "series": series}
    write_text(folder / FILE_NAME, json.dumps(content, indent=1, allow_nan=False) + "\n")
    return content


def _finished(path: Path, digest: str) -> dict[tuple[int, ...], dict[str, Any]]:
    """The points of the same landscape that are there already; a torn last line is left out."""
    found = {}
    for text in read_bytes(path).splitlines() if path.is_file() else ():
        try:
            result = json.loads(text)
            if result["landscape"] == digest:
                found[tuple(result["task"])] = result
        except (ValueError, KeyError, TypeError):
            continue
    return found


def _results(here: Landscape, tasks: list[tuple[int, ...]], jobs: int) -> Iterator[Mapping]:
    if jobs == 1 or len(tasks) < 2:
        yield from map(here.compute, tasks)
        return
    if "Ray" in here.run.executor:
        from ray.util.multiprocessing import Pool
    else:
        Pool = multiprocessing.get_context("spawn").Pool
    parts = here.series, here.axes, here.marks
    with Pool(jobs, initializer=_start, initargs=(here.spec, parts)) as pool:
        yield from pool.imap_unordered(_compute, tasks)


def _start(spec: Spec, parts: tuple[Any, ...]) -> None:
    global _landscape, _open
    torch.set_num_threads(1)
    _open = ExitStack()  # as long as the process lives
    _landscape = Landscape(spec, _open.enter_context(opened(spec.source)), parts)


def _compute(task: tuple[int, ...]) -> dict[str, Any]:
    return _landscape.compute(task)


def _collected(here: Landscape, found: Mapping[tuple, Mapping], number: int) -> dict[str, Any]:
    """A series as arrays [points on the first axis][points on the second]."""
    series, shape = here.series[number], [len(axis) for axis in here.axes]
    results = [found[(number, *place)] for place in np.ndindex(*shape)]

    def grid(values: list[float | None]) -> list[Any]:
        return np.array(values, dtype=object).reshape(shape).tolist()

    names, losses = results[0]["metrics"], [one["loss"] for one in results]
    entry = {
        "models": series.models,
        "data": series.data,
        "num_samples": len(here.samples(number)),
        "loss": grid(losses),
        "metrics": {name: grid([one["metrics"].get(name) for one in results]) for name in names},
    }
    if here.spec.kind == "line" and None not in losses:
        entry["barrier"] = barrier(here.axes[0], losses)
    return entry
