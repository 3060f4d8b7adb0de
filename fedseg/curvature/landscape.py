"""Losses and metrics on a line, in a plane or over a surface: points are tasks, results are files.

Every point is computed on its own, so that neither the number of workers nor an interruption
changes a bit. Finished points are lines of ``points.jsonl``; the same landscape again goes on.
"""

import json
import multiprocessing
import os
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass, replace
from itertools import compress
from multiprocessing.connection import wait
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from fedseg.checks import is_number
from fedseg.core.seeds import generator_for
from fedseg.curvature.checkpoint import RunData, check_average, find_checkpoints, opened
from fedseg.curvature.clients import participants_models
from fedseg.curvature.directions import Directions, along, barrier, line, plane, random_directions
from fedseg.curvature.settings import BATCH, REESTIMATE, RUNNING, TRAIN, Spec
from fedseg.curvature.spectrum import largest
from fedseg.curvature.surface import LossSurface, Point, Samples, expand
from fedseg.errors import ConfigError, DataError, ResourceError
from fedseg.evaluation.domains import reestimate_statistics
from fedseg.files import read_bytes, write_text
from fedseg.loaders.workers import init_worker
from fedseg.parallel.cluster import connected
from fedseg.runner.checkpoint import checkpoints, run_folder
from fedseg.runner.work_dir import hold
from fedseg.runs.from_json import digest
from fedseg.runs.history import plain
from fedseg.threads import threads

SCHEMA_VERSION = 1
FILE_NAME, POINTS = "landscape.json", "points.jsonl"


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
        run: data and model. parts: series and axes of another process; none: found here.

    Attributes:
        series: what is computed on the grid. axes: coordinates on each axis.
        marks: coordinates of a plane's models, by name.
    """

    def __init__(self, spec: Spec, run: RunData, *parts: Any) -> None:
        self.spec, self.run = spec, run
        self._samples: dict[int, Samples] = {}
        if parts:
            self.series, self.axes = parts
            return
        between = spec.kind in ("line", "plane")
        if run.policy is not None and between and spec.statistics == RUNNING:
            raise ConfigError(
                "--statistics: between models, clients have no BatchNorm statistics: use batch or "
                "reestimate"
            )
        self.files, self.marks = find_checkpoints(spec.source), {}
        self.points, self.series = [], []
        models = spec.source.models()
        for path, file, (_, averaged) in zip(spec.source.paths, self.files, models, strict=True):
            self.points.append(replace(run.load(file, averaged), name=path))
            check_average(run, file, averaged)
            if spec.client is None and not between:
                self._add((path,), self._around(self.points[-1]), run.statistics)
        if spec.client is not None:
            self._add_client()
        elif spec.kind == "line":
            for b, a in zip(self.points, self.points[1:], strict=False):
                self._add((b.name, a.name), line(a, b))
        elif spec.kind == "plane":
            self._add((), way := plane(*self.points))
            self.marks = {p.name: way.project(p.w)[0] for p in self.points}
        self.axes = self._axes()

    def _add(self, models: tuple[str, ...], way: Directions, own: Mapping = {}) -> None:
        self.series += [Series(models, name, None, way, own) for name in self.spec.data]

    def _add_client(self) -> None:
        models = {point.name: point for point in participants_models(self.run, self.files[0])}
        name = self.spec.client
        if name not in models:
            raise ConfigError(f"--client: {name!r} is none of {', '.join(models)}")
        is_line = self.spec.kind == "line"
        received = self.run.load(self.files[0], averaged=False)  # what the participant began with
        way = line(models[name], received) if is_line else self._around(models[name])
        places = {"own data": name, "all data": None}
        self.series = [Series((f"client {name}",), d, c, way, {}) for d, c in places.items()]

    def _around(self, point: Point) -> Directions:
        run, spec = self.run, self.spec
        rng = generator_for(run.seed, f"landscape {spec.kind}")
        if spec.kind == "random":
            return random_directions(run.flat, point, 2, rng)
        kinds = {"personal": spec.client is None, "evaluated": spec.statistics == BATCH}
        data = run.samples(TRAIN, spec.client, spec.samples, **kinds)
        statistics = RUNNING if spec.statistics == REESTIMATE else spec.statistics
        found = largest(LossSurface(run.flat, data, point, statistics).products(), 2, rng)
        return along(point, [expand(run.flat, v) for v in found.vectors.T])

    def _axes(self) -> list[np.ndarray]:
        spec, ends = self.spec, [self.spec.ends] * 2
        if spec.kind == "plane":
            places = np.array(list(self.marks.values()))
            low, high = places.min(0), places.max(0)
            margin = spec.ends[1] * (high - low).max()
            ends = list(zip(low - margin, high + margin, strict=True))
        axes = [np.linspace(low, high, spec.points) for low, high in ends]
        return [np.union1d(axes[0], [0.0, 1.0])] if spec.kind == "line" else axes

    def samples(self, number: int) -> Samples:
        """The data of a series."""
        series, spec = self.series[number], self.spec
        self.run.statistics = series.statistics
        name = series.data if spec.client is None else TRAIN
        personal = spec.statistics == RUNNING and bool(series.statistics)
        if number not in self._samples:
            kinds = {"personal": personal, "evaluated": self._statistics(name) == BATCH}
            self._samples[number] = self.run.samples(name, series.client, spec.samples, **kinds)
        return self._samples[number]

    def _statistics(self, name: str) -> str:
        given, foreign = self.spec.statistics, self.run.policy is not None and name != TRAIN
        return BATCH if given == RUNNING and foreign else given  # no client has any for it

    def compute(self, task: tuple[int, ...]) -> dict[str, Any]:
        """Loss and metrics of a point, None where one is not finite.

        Args:
            task: number of the series, place on each axis.
        """
        run, samples = self.run, self.samples(task[0])
        statistics = self._statistics(samples.name)
        coordinates = [axis[place] for axis, place in zip(self.axes, task[1:], strict=True)]
        w, buffers = self.series[task[0]].directions.at(coordinates)
        for slot in run.flat.buffer_slots:
            if slot.name.endswith("running_var"):  # which beyond the models may fall below 0
                slot.view(buffers).clamp_(min=0)
        if statistics == REESTIMATE:
            parts = {"data": run.data, "model": run.flat.model, "flat": run.flat}
            check = SimpleNamespace(check=lambda: None)
            runner = SimpleNamespace(**parts, autocast=nullcontext, interrupt=check)
            buffers = reestimate_statistics(runner, w, buffers)
            statistics = RUNNING
        surface = LossSurface(run.flat, samples, Point("", w, buffers), statistics)
        loss, metrics = surface.loss(self.spec.metrics)
        return plain({"task": task, "loss": loss, "metrics": metrics})

    def trajectory(self) -> dict[str, list[dict[str, Any]]]:
        """The kept checkpoints of each run, projected on the plane, by its first model's name."""
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in self.marks}
        runs = [run_folder(file) for file in self.files]
        for number, steps in enumerate(found.values()):
            seen = runs[number] in runs[:number]
            for round_, path in () if seen else checkpoints(runs[number] / "checkpoints"):
                try:
                    w = self.run.load(path, averaged=False).w
                except DataError as error:
                    warnings.warn(f"{error}: left out of the rounds", stacklevel=2)
                    continue
                place, distance = self.series[0].directions.project(w)
                steps.append({"round": round_, "coordinates": place, "distance": distance})
        return found

    def collected(self, number: int, found: Mapping[tuple, Mapping]) -> dict[str, Any]:
        """A series as arrays, a row for each point on the first axis."""
        series, shape = self.series[number], [len(axis) for axis in self.axes]
        results = [found[(number, *place)] for place in np.ndindex(*shape)]
        losses = [one["loss"] for one in results]
        columns = {n: [one["metrics"].get(n) for one in results] for n in results[0]["metrics"]}
        entry = {
            "models": series.models,
            "data": series.data,
            "num_samples": len(self.samples(number)),
            "loss": np.array(losses, object).reshape(shape),
            "metrics": {n: np.array(v, object).reshape(shape) for n, v in columns.items()},
        }
        between = [0 <= gamma <= 1 for gamma in self.axes[0]]
        if self.spec.kind == "line" and None not in compress(losses, between):
            entry["barrier"] = barrier(self.axes[0][between], list(compress(losses, between)))
        return entry


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
    with threads(1), opened(spec.source) as run, hold(_checked(folder, spec, run)):
        here = Landscape(spec, run)
        about = {
            "schema_version": SCHEMA_VERSION,
            "spec": asdict(spec),
            "checkpoints": [run.identity(file) for file in here.files],
            "data_sha256": {name: run.checksum(name) for name in spec.data},
            "axes": plain(here.axes),
            "marks": here.marks,
        }
        key = digest(about)
        tasks = list(np.ndindex(len(here.series), *map(len, here.axes)))
        found = _finished(folder / POINTS, key, tasks)
        advance(len(found), len(tasks))
        with open(folder / POINTS, "a", encoding="utf-8") as file:
            for result in _results(here, [task for task in tasks if task not in found], jobs):
                file.write("\n" * (file.tell() > 0) + json.dumps({"landscape": key, **result}))
                file.flush()
                found[tuple(result["task"])] = result
                advance(len(found), len(tasks))
        series = [here.collected(number, found) for number in range(len(here.series))]
        content = plain({**about, "trajectory": here.trajectory(), "series": series})
        write_text(folder / FILE_NAME, json.dumps(content, indent=1, allow_nan=False) + "\n")
        return content


def _checked(folder: Path, spec: Spec, run: RunData) -> Path:
    """The folder; ConfigError, before it is made, if there is no such client."""
    if spec.client is not None and spec.client not in run.data.indices:
        raise ConfigError(f"--client: the run has none of the name {spec.client!r}")
    return folder


def _finished(
    path: Path, key: str, tasks: Collection[tuple[int, ...]]
) -> dict[tuple[int, ...], dict[str, Any]]:
    """The points of the same landscape that are there already; damaged lines are left out."""
    found, known = {}, set(tasks)
    for text in read_bytes(path).splitlines() if path.is_file() else ():
        try:
            result = json.loads(text)
            values, task = (result["loss"], *result["metrics"].values()), tuple(result["task"])
            sound = all(v is None or is_number(v) for v in values)
            if result["landscape"] == key and sound and task in known:
                found[task] = result
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            continue
    names = Counter(frozenset(result["metrics"]) for result in found.values()).most_common(1)
    return {task: result for task, result in found.items() if {*result["metrics"]} == names[0][0]}


def _results(here: Landscape, tasks: list[tuple[int, ...]], jobs: int) -> Iterator[Mapping]:
    if jobs == 1 or len(tasks) < 2:
        yield from map(here.compute, tasks)
        return
    parts = here.spec, here.series, here.axes
    if here.run.ray:
        yield from _of_ray(tasks, jobs, parts, here.run.cluster)
        return
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])  # imported once for all of them
    others = multiprocessing.active_children()
    with ProcessPoolExecutor(jobs, context, _start_process, parts) as pool:
        try:
            for future in as_completed([pool.submit(_compute, task) for task in tasks]):
                yield future.result()
        except BrokenProcessPool as error:
            raise ResourceError(
                "--jobs: a process was killed, perhaps for want of memory: the same command with "
                "fewer --jobs goes on"
            ) from error
        finally:  # stopped, it does not wait for the points that are being computed
            for process in multiprocessing.active_children():
                if process not in others:
                    process.kill()


def _of_ray(tasks: list, jobs: int, parts: tuple, address: str | None) -> Iterator[Mapping]:
    with connected(address, jobs, 0):
        from ray.util.multiprocessing import Pool

        with Pool(jobs, _start, parts) as pool:
            yield from pool.imap_unordered(_compute, tasks)


def _start_process(*parts: Any) -> None:
    init_worker(0)  # which signals are not for
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _start(*parts)


def _end_with_parent() -> None:
    """A killed parent sends no work and no end; the fork server lives as long as its processes."""
    wait([multiprocessing.parent_process().sentinel])
    os._exit(1)


def _start(spec: Spec, *parts: Any) -> None:
    global _landscape, _open
    torch.set_num_threads(1)
    _open = ExitStack()  # as long as the process lives
    _landscape = Landscape(spec, _open.enter_context(opened(spec.source)), *parts)


def _compute(task: tuple[int, ...]) -> dict[str, Any]:
    return _landscape.compute(task)
