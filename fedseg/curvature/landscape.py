"""Losses and metrics on a line, in a plane or over a surface: points are tasks, results are files.

Every point is computed on its own, so that an interruption changes no bit. Finished points are
lines of ``points.jsonl``; the same landscape again goes on.
"""

import json
import os
import re
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel
from torch import Tensor

from fedseg.config.arguments import STRICT
from fedseg.core.flat import FlatModel
from fedseg.core.seeds import generator_for
from fedseg.curvature.checkpoint import RunData, find_checkpoints, opened
from fedseg.curvature.clients import load_model, train_models
from fedseg.curvature.products import Products, expand
from fedseg.curvature.settings import BATCH, REESTIMATE, RUNNING, TRAIN, Spec
from fedseg.curvature.spectrum import largest
from fedseg.curvature.surface import LossSurface, Point, Samples
from fedseg.errors import ConfigError, DataError
from fedseg.evaluation.domains import statistics_batches, statistics_of
from fedseg.files import digest, own_folder, read_json, write_text
from fedseg.names import short_names
from fedseg.runner.checkpoint import CHECKPOINTS, checkpoints, run_folder
from fedseg.runner.work_dir import lock_work_dir
from fedseg.runs.curvature_files import CURVATURE
from fedseg.runs.history import Number, plain

SCHEMA_VERSION = 1
FILE_NAME, POINTS = "landscape.json", "points.jsonl"
LONGEST_NAME = 200  # bytes of a folder's name; beyond it is cut, with a digest of the models
LONGEST_READABLE = 40  # characters of it then
Task = tuple[int, ...]  # number of the series, place on each axis


@dataclass(frozen=True)
class Directions:
    """The points ``origin + sum_i c_i axes[i]``; BatchNorm's statistics move along with them."""

    origin: Point
    axes: Sequence[Tensor]  # like ``w``
    buffer_axes: Sequence[Tensor] = ()  # changes of the float buffers; none: they stay

    def at(self, coordinates: Sequence[float]) -> tuple[Tensor, Tensor]:
        """Parameters and float buffers, added in double precision."""
        vectors = []
        for start, axes in ((self.origin.w, self.axes), (self.origin.buffers, self.buffer_axes)):
            moved = start.double()
            for c, axis in zip(coordinates, axes, strict=False):
                moved = moved + c * axis.double()
            vectors.append(moved.to(start.dtype))
        return vectors[0], vectors[1]

    def project(self, w: Tensor) -> tuple[list[float], float]:
        """Coordinates of a model's projection on orthonormal axes, and its distance from them."""
        away = w.double() - self.origin.w.double()
        coordinates = [float(away @ axis.double()) for axis in self.axes]
        for c, axis in zip(coordinates, self.axes, strict=True):
            away = away - c * axis.double()
        return coordinates, float(away.norm())


def line(a: Point, b: Point) -> Directions:
    """``gamma w_a + (1 - gamma) w_b`` (FedGloSS, figure 9)."""
    return Directions(b, [a.w.double() - b.w.double()], [a.buffers.double() - b.buffers.double()])


def plane(first: Point, second: Point, third: Point) -> Directions:
    """The plane through three models (Caldarola et al., ECCV 2022, appendix C.3).

    ``u = th2 - th1`` and ``v = (th3 - th1) - <th3 - th1, u> / ||u||^2 u``, both of length 1; th1 is
    the origin. DataError if the models lie on a line.
    """
    u, v = (other.w.double() - first.w.double() for other in (second, third))
    bu, bv = (other.buffers.double() - first.buffers.double() for other in (second, third))
    length = v.norm()
    share = (v @ u) / (u @ u) if u.any() else u.new_tensor(0.0)
    v, bv = v - share * u, bv - share * bu
    if u.norm() == 0 or v.norm() <= 1e-6 * length:
        raise DataError(
            f"{first.name}, {second.name}, {third.name}: are on one line and span no plane; name "
            "three different models"
        )
    return Directions(first, [u / u.norm(), v / v.norm()], [bu / u.norm(), bv / v.norm()])


def random_directions(
    flat: FlatModel, point: Point, count: int, rng: np.random.Generator
) -> Directions:
    """Gaussian directions whose filters are as long as the model's (Li et al., NeurIPS 2018).

    A filter is the part of a weight that makes one output; biases and the parameters of
    normalizations do not move. The same generator gives every model the same draws.
    """
    axes = []
    for _ in range(count):
        axis = torch.zeros_like(point.w, dtype=torch.float64)
        for slot in flat.slots:
            draw = torch.from_numpy(rng.standard_normal(tuple(slot.shape))).to(axis)
            if len(slot.shape) > 1:
                weight = slot.view(point.w).double()
                lengths = weight.flatten(1).norm(dim=1) / draw.flatten(1).norm(dim=1)
                slot.view(axis).copy_(draw * lengths.view(-1, *[1] * (draw.dim() - 1)))
        axes.append(axis)
    return Directions(point, axes)


def barrier(gammas: Sequence[float], losses: Sequence[float]) -> float:
    """Largest ``L(gamma) - (gamma L_a + (1 - gamma) L_b)`` over gamma from 0 (b) to 1 (a)."""
    g, loss = np.asarray(gammas, dtype=float), np.asarray(losses, dtype=float)
    return float(np.max(loss - (g * loss[-1] + (1 - g) * loss[0])))


@dataclass(frozen=True)
class Series:
    """The points of a grid with one kind of data."""

    models: tuple[str, ...]  # their names
    data: str  # its name
    directions: Directions
    samples: Samples
    statistics: str  # what BatchNorm normalizes by


class Landscape:
    """The grid of a :class:`Spec`: points on axes, for series of models and data."""

    def __init__(self, spec: Spec, run: RunData) -> None:
        self.spec, self.run = spec, run
        between = spec.kind in ("line", "plane")
        if run.local_state is not None and between and spec.statistics == RUNNING:
            raise ConfigError(
                "--statistics: between models, clients have no BatchNorm statistics: use batch or "
                "reestimate"
            )
        self.files = find_checkpoints(spec.source)
        self.points: list[Point] = []
        self.series: list[Series] = []
        self.marks: dict[str, list[float]] = {}
        for number, model in enumerate(spec.source.models()):
            point = load_model(spec.source, number, run, self.files[number])
            self.points.append(point)
            if spec.client is None and not between:  # with its own clients' statistics
                personal = bool(run.statistics) and model.client is None
                self._add((point.name,), self._directions(point, personal), personal)
        if spec.client is not None:
            self._add_client(spec.client)
        elif spec.kind == "line":
            for b, a in zip(self.points, self.points[1:], strict=False):
                self._add((b.name, a.name), line(a, b))
        elif spec.kind == "plane":
            directions = plane(*self.points)
            self._add((), directions)
            self.marks = {p.name: directions.project(p.w)[0] for p in self.points}
        self.axes = self._make_axes()

    def _add(self, models: tuple[str, ...], directions: Directions, personal: bool = False) -> None:
        """Series on each kind of data; of a client's model on its own and on all."""
        spec, run = self.spec, self.run
        kinds = [(data, data, None) for data in spec.data]
        if spec.client is not None:
            kinds = [("own data", TRAIN, spec.client), ("all data", TRAIN, None)]
        for shown, name, client in kinds:
            # no client has statistics for it
            foreign = run.local_state is not None and name != TRAIN
            statistics = BATCH if spec.statistics == RUNNING and foreign else spec.statistics
            how = {"personal": personal and spec.statistics == RUNNING}
            samples = run.samples(name, client, spec.samples, **how, evaluated=statistics == BATCH)
            self.series.append(Series(models, shown, directions, samples, statistics))

    def _add_client(self, name: str) -> None:
        (trained,) = train_models(self.run, self.files[0], [name])
        received = self.run.load(self.files[0], averaged=False)  # what the client began with
        is_line = self.spec.kind == "line"
        directions = line(trained, received) if is_line else self._directions(trained, False)
        self._add((f"client {name}",), directions)

    def _directions(self, point: Point, personal: bool) -> Directions:
        """Random directions or eigenvectors around a model."""
        run, spec = self.run, self.spec
        rng = generator_for(run.seed, f"landscape {spec.kind}")
        if spec.kind == "random":
            return random_directions(run.flat, point, 2, rng)
        kinds = {"personal": personal, "evaluated": spec.statistics == BATCH}
        data = run.samples(TRAIN, spec.client, spec.samples, **kinds)
        statistics = RUNNING if spec.statistics == REESTIMATE else spec.statistics
        surface = LossSurface(run.flat, data, point, statistics)
        axes = [expand(run.flat, v).double() for v in largest(Products(surface), 2, rng).vectors.T]
        return Directions(point, [axis / axis.norm() for axis in axes])

    def _make_axes(self) -> list[np.ndarray]:
        spec = self.spec
        if spec.kind == "line":
            return [np.union1d(np.linspace(*spec.ends, spec.points), [0.0, 1.0])]
        if spec.kind != "plane":
            return [np.linspace(*spec.ends, spec.points)] * 2
        places = np.array(list(self.marks.values()))
        low, high = places.min(0), places.max(0)
        margin = spec.ends[1] * (high - low).max()
        ends = zip(low - margin, high + margin, strict=True)
        return [np.linspace(*pair, spec.points) for pair in ends]

    def compute(self, task: Task) -> dict[str, Any]:
        """Loss and metrics of a point, None where one is not finite."""
        run, series = self.run, self.series[task[0]]
        coordinates = [axis[place] for axis, place in zip(self.axes, task[1:], strict=True)]
        w, buffers = series.directions.at(coordinates)
        for slot in run.flat.buffer_slots:
            if slot.name.endswith("running_var"):  # may be negative beyond the models
                slot.view(buffers).clamp_(min=0)
        statistics = series.statistics
        if statistics == REESTIMATE:
            batches, statistics = statistics_batches(run.data), RUNNING
            buffers = statistics_of(run.flat, batches, w, buffers)
        surface = LossSurface(run.flat, series.samples, Point("", w, buffers), statistics)
        loss, metrics = surface.loss(self.spec.metrics)
        return plain({"task": task, "loss": loss, "metrics": metrics})

    def trajectory(self) -> dict[str, list[dict[str, Any]]]:
        """The kept checkpoints of each run, projected on the plane, by its first model's name."""
        steps_of: dict[str, list[dict[str, Any]]] = {name: [] for name in self.marks}
        runs = [run_folder(file) for file in self.files]
        for number, steps in enumerate(steps_of.values()):
            if runs[number] in runs[:number]:
                continue
            for round_, path in checkpoints(runs[number] / CHECKPOINTS):
                try:
                    w = self.run.load(path, averaged=False).w
                except DataError as error:
                    warnings.warn(f"{error}: left out of the rounds", stacklevel=2)
                    continue
                place, distance = self.series[0].directions.project(w)
                steps.append({"round": round_, "coordinates": place, "distance": distance})
        return steps_of

    def collect(self, number: int, results: Mapping[Task, "PointLine"]) -> dict[str, Any]:
        """A series as arrays, a row for each point on the first axis."""
        series, shape = self.series[number], [len(axis) for axis in self.axes]
        points = [results[(number, *place)] for place in np.ndindex(*shape)]
        columns = {n: [point.metrics.get(n) for point in points] for n in points[0].metrics}
        losses = [point.loss for point in points]
        entry = {
            "models": series.models,
            "data": series.data,
            "num_samples": len(series.samples),
            "loss": np.array(losses, object).reshape(shape),
            "metrics": {n: np.array(v, object).reshape(shape) for n, v in columns.items()},
        }
        between = [0 <= gamma <= 1 for gamma in self.axes[0]]
        if self.spec.kind == "line" and None not in compress(losses, between):
            entry["barrier"] = barrier(self.axes[0][between], list(compress(losses, between)))
        return entry


class PointLine(BaseModel):
    """A line of ``points.jsonl``; ``landscape`` is the digest of the landscape that it is of."""

    model_config = STRICT

    landscape: str
    task: list[int]
    loss: Number | None
    metrics: dict[str, Number | None]


def compute_landscape(
    spec: Spec, folder: Path, advance: Callable[[int, int], None] = lambda done, total: None
) -> dict[str, Any]:
    """Compute what is missing of a landscape; returns the content of ``landscape.json``."""
    with opened(spec.source) as run:
        if spec.client is not None and spec.client not in run.data.indices:
            raise ConfigError(f"--client: the run has no client {spec.client!r}")
        with lock_work_dir(folder):
            return _compute(Landscape(spec, run), folder, advance)


def _compute(grid: Landscape, folder: Path, advance: Callable[[int, int], None]) -> dict[str, Any]:
    about = {
        "schema_version": SCHEMA_VERSION,
        "spec": asdict(grid.spec),
        "checkpoints": [grid.run.identity(file) for file in grid.files],
        "data_sha256": {name: grid.run.checksum(name) for name in grid.spec.data},
        "axes": plain(grid.axes),
        "marks": grid.marks,
    }
    _check_folder(folder, about)
    key = digest(about)
    tasks = list(np.ndindex(len(grid.series), *map(len, grid.axes)))
    results = _read_points(folder / POINTS, key, tasks)
    advance(len(results), len(tasks))
    with open(folder / POINTS, "ab") as file:
        for task in [task for task in tasks if task not in results]:
            values = json.dumps({"landscape": key, **grid.compute(task)})
            results[task] = PointLine.model_validate_json(values)
            file.write(("\n" * (file.tell() > 0) + values).encode())
            file.flush()
            advance(len(results), len(tasks))
    series = [grid.collect(number, results) for number in range(len(grid.series))]
    content = plain({**about, "trajectory": grid.trajectory(), "series": series})
    write_text(folder / FILE_NAME, json.dumps(content, indent=1, allow_nan=False) + "\n")
    return content


def _check_folder(folder: Path, about: Mapping[str, Any]) -> None:
    """Raise ConfigError if a folder has the finished landscape of something else."""
    path = folder / FILE_NAME
    if not path.is_file():
        return
    content = read_json(path, "delete it")
    before = content.keys() & about.keys() if isinstance(content, dict) else ()
    if digest({name: content[name] for name in before}) != digest(about):
        raise ConfigError(
            f"{path}: is the landscape of other models, data or options: name another folder "
            "(--out), or delete it"
        )


def default_folder(spec: Spec) -> Path:
    """``curvature/landscape_<kind>`` in the first model's run, with what else it is of."""
    words = [f"landscape_{spec.kind}"]
    if spec.client is not None:
        words.append(spec.client)
    if spec.statistics != RUNNING:
        words.append(spec.statistics)
    run = run_folder(find_checkpoints(spec.source)[0])
    names = spec.source.paths
    if len(names) > 1 or Path(names[0]).resolve() != run.resolve():
        words += short_names(names).values()
    name = re.sub(r"[/\\:]", "_", "-".join(words).replace(".pth", ""))
    if len(os.fsencode(name)) > LONGEST_NAME:
        name = f"{name[:LONGEST_READABLE]}-{digest(names)[:8]}"
    return own_folder(run, f"{CURVATURE}/{name}")


def _read_points(path: Path, key: str, tasks: Collection[Task]) -> dict[Task, PointLine]:
    """The finished points of this landscape; damaged lines are left out."""
    results, known = {}, set(tasks)
    for text in path.read_bytes().splitlines() if path.is_file() else ():
        try:
            point = PointLine.model_validate_json(text)
        except ValueError:  # pydantic's
            continue
        if point.landscape == key and tuple(point.task) in known:
            results[tuple(point.task)] = point
    return results
