"""Losses and metrics on a line, in a plane or over surfaces around models.

``landscape.jsonl`` has what the landscape is of in its first line, and a line for each point. A
point is computed on its own, so that an interruption changes no bit: the same landscape goes on
after the last whole line.
"""

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel

from fedseg.config.arguments import STRICT
from fedseg.core.seeds import generator_for
from fedseg.curvature.clients import train_models
from fedseg.curvature.directions import (
    Directions,
    barrier,
    eigenvectors,
    line,
    plane,
    random_directions,
)
from fedseg.curvature.run_data import TRAIN, RunData, Selection
from fedseg.curvature.surface import BATCH, RUNNING, LossSurface, Point, Samples
from fedseg.errors import ConfigError, DataError
from fedseg.evaluation.statistics import statistics_batches, statistics_of
from fedseg.files import own_folder, write_text
from fedseg.runner.checkpoint import CHECKPOINTS, checkpoints, run_folder
from fedseg.runner.work_dir import lock_work_dir
from fedseg.runs.curvature_files import CURVATURE, short_name
from fedseg.runs.history import Number, plain

SCHEMA_VERSION = 2
FILE_NAME = "landscape.jsonl"
REESTIMATE = "reestimate"  # BatchNorm normalizes by statistics taken anew at every point
MARGIN = 0.25  # of a plane around its models, as a share of their extent
POINTS = {"line": 31, "plane": 21, "random": 21, "eigenvectors": 21}  # on an axis
ENDS = {"line": (-1.0, 2.0), "random": (-1.0, 1.0), "eigenvectors": (-1.0, 1.0)}  # of the axes

Kind = Literal["line", "plane", "random", "eigenvectors"]
Place = tuple[int, ...]  # number of a series, then of a point on each axis


@dataclass(frozen=True)
class Spec:
    """A landscape.

    Attributes:
        kind: of landscape.
        global_model: of runs that have an average take the global model.
        clients: the models that these train from the global one in the next round are used.
        data: domains.
        count: size of a seeded subset of the data; None: all.
        points: on an axis; None: 31 on a line, else 21.
        ends: of the axes; None: -1 and 2 on a line, -1 and 1 around a model.
        statistics: what BatchNorm normalizes by.
        metrics: compute the metrics, too.
    """

    kind: Kind
    global_model: bool = False
    clients: tuple[str, ...] = ()
    data: tuple[str, ...] = (TRAIN,)
    count: int | None = None
    points: int | None = None
    ends: tuple[float, float] | None = None
    statistics: Literal["running", "batch", "reestimate"] = RUNNING
    metrics: bool = False

    @property
    def is_between(self) -> bool:
        """Whether it is between models, not around each."""
        return self.kind in ("line", "plane")

    def check(self, num_checkpoints: int) -> None:
        """Raise ConfigError if the kind does not fit the number of models, or the axes."""
        models = num_checkpoints
        if self.clients:
            if num_checkpoints > 1:
                raise ConfigError("--client: name one run or checkpoint")
            models = len(self.clients) + self.is_between
        if self.kind == "line" and models < 2:
            raise ConfigError("RUN|CHECKPOINT: a line takes two or more models, or one --client")
        if self.kind == "plane" and models != 3:
            raise ConfigError("RUN|CHECKPOINT: a plane takes three models, or two of --client")
        if self.points is not None and self.points < 2:
            raise ConfigError(f"--points: must be at least 2, not {self.points}")
        if self.ends is not None and self.kind == "plane":
            raise ConfigError("--ends: those of a plane are around its models: leave it out")
        if self.ends is not None and not self.ends[0] < self.ends[1]:
            raise ConfigError("--ends: the second must be above the first")


@dataclass(frozen=True)
class Series:
    """The points of a grid with one kind of data.

    Attributes:
        models: names of those that it is between or around; none: all.
        data: its name.
        directions: from coordinates to models.
        samples: the data.
        statistics: what BatchNorm normalizes by.
    """

    models: tuple[str, ...]
    data: str
    directions: Directions
    samples: Samples
    statistics: str


class Landscape:
    """The grid of a landscape: points on axes, for series of models and data.

    Args:
        run: network and data.
        spec: the landscape.
        files: name of a model -> its checkpoint.
    """

    def __init__(self, run: RunData, spec: Spec, files: Mapping[str, Path]) -> None:
        self.run = run
        self.spec = spec
        self.files = files
        if run.local_state is not None and spec.is_between and spec.statistics == RUNNING:
            raise ConfigError(
                "--statistics: between models, clients have no BatchNorm statistics: use batch or "
                "reestimate"
            )
        self.series: list[Series] = []
        self.marks: dict[str, list[float]] = {}
        if spec.clients:
            self._add_trained(self._train())
        elif spec.kind == "line":
            self._add_line([self._load(name) for name in files])
        elif spec.kind == "plane":
            self._add_plane([self._load(name) for name in files])
        else:
            for name in files:
                self._add_surface(self._load(name))
        self.axes = self._make_axes()

    def _load(self, name: str) -> Point:
        point = self.run.load(self.files[name], self.spec.global_model)
        return replace(point, name=name)

    def _train(self) -> list[Point]:
        """The global model, and those that the clients train from it."""
        (name,) = self.files
        trained = train_models(self.run, self.files[name], self.spec.clients)
        received = replace(self.run.load(self.files[name], global_model=True), name=name)
        return [received, *(replace(model, name=f"client {model.name}") for model in trained)]

    def _add_trained(self, models: list[Point]) -> None:
        """A line or plane from the global model to clients' models, or surfaces around these."""
        received, *trained = models
        if self.spec.kind == "plane":
            self._add_plane(models)
            return
        for client, model in zip(self._ordered_clients(), trained, strict=True):
            if self.spec.kind == "line":
                directions = line(model, received)
            else:
                directions = self._around(model, Selection(client=client, count=self.spec.count))
            selection = Selection(client=client, count=self.spec.count)
            self._add((model.name,), directions, "own data", selection)
            self._add((model.name,), directions, "all data", replace(selection, client=None))

    def _ordered_clients(self) -> list[str]:
        """The clients in partition order."""
        return [name for name in self.run.data.clients if name in self.spec.clients]

    def _add_line(self, models: list[Point]) -> None:
        for b, a in pairwise(models):
            self._add_domains((b.name, a.name), line(a, b))

    def _add_plane(self, models: list[Point]) -> None:
        directions = plane(*models)
        self._add_domains((), directions)
        for model in models:
            self.marks[model.name], _ = directions.project(model.w)

    def _add_surface(self, model: Point) -> None:
        """A surface around a global model, with its own clients' personal parts."""
        directions = self._around(model, Selection(count=self.spec.count), is_global=True)
        self._add_domains((model.name,), directions, is_global=True)

    def _add_domains(
        self, models: tuple[str, ...], directions: Directions, is_global: bool = False
    ) -> None:
        for domain in self.spec.data:
            selection = Selection(domain=domain, count=self.spec.count)
            self._add(models, directions, domain, selection, is_global)

    def _add(
        self,
        models: tuple[str, ...],
        directions: Directions,
        data: str,
        selection: Selection,
        is_global: bool = False,
    ) -> None:
        """Add a series on some data; ``is_global``: around a global model."""
        statistics = self.spec.statistics
        if statistics == RUNNING:
            statistics = self.run.global_statistics(selection.domain)
        if statistics != BATCH:
            selection = self.run.in_small_batches(selection)
        samples = self._samples(selection, is_global)
        self.series.append(Series(models, data, directions, samples, statistics))

    def _samples(self, selection: Selection, is_global: bool) -> Samples:
        if is_global and self.spec.statistics == RUNNING:
            return self.run.global_samples(selection)
        return self.run.samples(selection)

    def _around(self, point: Point, selection: Selection, is_global: bool = False) -> Directions:
        """Random directions or eigenvectors around a model."""
        run, spec = self.run, self.spec
        rng = generator_for(run.seed, f"landscape {spec.kind}")
        if spec.kind == "random":
            return random_directions(run.flat, point, 2, rng)
        statistics = BATCH if spec.statistics == BATCH else RUNNING
        if statistics == RUNNING:
            selection = run.in_small_batches(selection)
        samples = self._samples(selection, is_global)
        return eigenvectors(LossSurface(run.flat, samples, point, statistics), point, rng)

    def _make_axes(self) -> list[np.ndarray]:
        spec = self.spec
        count = spec.points or POINTS[spec.kind]
        if spec.kind == "plane":
            places = np.array(list(self.marks.values()))
            low, high = places.min(0), places.max(0)
            margin = MARGIN * (high - low).max()
            ends = zip(low - margin, high + margin, strict=True)
            return [np.linspace(*pair, count) for pair in ends]
        axis = np.linspace(*(spec.ends or ENDS[spec.kind]), count)
        if spec.kind == "line":
            return [np.union1d(axis, [0.0, 1.0])]
        return [axis, axis]

    @property
    def places(self) -> list[Place]:
        """Every point of every series, in the order of their computation."""
        return list(np.ndindex(len(self.series), *map(len, self.axes)))

    def compute(self, place: Place) -> dict[str, Any]:
        """Loss and metrics of a point, None where one is not finite."""
        run, spec = self.run, self.spec
        series = self.series[place[0]]
        coordinates = [axis[n] for axis, n in zip(self.axes, place[1:], strict=True)]
        w, buffers = series.directions.at(coordinates)
        buffers = buffers.clone()
        for slot in run.flat.buffer_slots:
            if slot.name.endswith("running_var"):  # may be negative beyond the models
                slot.view(buffers).clamp_(min=0)
        statistics = series.statistics
        if statistics == REESTIMATE:
            buffers = statistics_of(run.flat, statistics_batches(run.data), w, buffers)
            statistics = RUNNING
        surface = LossSurface(run.flat, series.samples, Point("", w, buffers), statistics)
        loss = surface.loss()
        metrics = surface.metrics() if spec.metrics or spec.kind == "line" else {}
        return plain({"place": place, "loss": loss, "metrics": metrics})

    def trajectory(self) -> dict[str, list[dict[str, Any]]]:
        """The kept checkpoints of each run, projected on the plane, by its first model's name."""
        steps_of: dict[str, list[dict[str, Any]]] = {}
        if not self.marks:
            return {}
        seen = set()
        for name, file in self.files.items():
            steps_of[name] = []
            folder = run_folder(file)
            if folder in seen:
                continue
            seen.add(folder)
            for round_, path in checkpoints(folder / CHECKPOINTS):
                try:
                    w = self.run.load(path, global_model=True).w
                except DataError as error:
                    warnings.warn(f"{error}: left out of the rounds", stacklevel=2)
                    continue
                place, distance = self.series[0].directions.project(w)
                step = {"round": round_, "coordinates": place, "distance": distance}
                steps_of[name].append(step)
        return steps_of

    def header(self) -> dict[str, Any]:
        """The first line of the file: what the landscape is of."""
        return plain(
            {
                "schema_version": SCHEMA_VERSION,
                "spec": asdict(self.spec),
                "checkpoints": [self.run.identity(file) for file in self.files.values()],
                "changed": self.run.changed,
                "data_sha256": {name: self.run.checksum(name) for name in self.spec.data},
                "axes": self.axes,
                "marks": self.marks,
                "trajectory": self.trajectory(),
                "series": [
                    {
                        "models": series.models,
                        "data": series.data,
                        "num_samples": len(series.samples),
                    }
                    for series in self.series
                ],
            }
        )


class PointLine(BaseModel):
    """A line of ``landscape.jsonl`` after the first.

    Attributes:
        place: number of the series, then of the point on each axis.
        loss: None if it is not finite.
        metrics: by name.
    """

    model_config = STRICT

    place: list[int]
    loss: Number | None
    metrics: dict[str, Number | None]


def compute_landscape(
    run: RunData,
    spec: Spec,
    files: Mapping[str, Path],
    folder: Path,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Any]:
    """Compute what is missing of a landscape.

    Args:
        run: network and data, of the first model's run.
        spec: the landscape.
        files: name of a model -> its checkpoint.
        folder: where ``landscape.jsonl`` is.
        advance: called with the numbers of finished points and of all.

    Returns:
        The first line's content, with the values of each of its ``series`` as arrays.

    Raises:
        ConfigError: the file in the folder is another landscape.
    """
    spec.check(len(files))
    grid = Landscape(run, spec, files)
    header = grid.header()
    places = grid.places
    path = folder / FILE_NAME
    with lock_work_dir(folder):
        points = _read_points(path, header, places)
        advance(len(points), len(places))
        lines = [json.dumps(header), *(point.model_dump_json() for point in points)]
        write_text(path, "".join(f"{text}\n" for text in lines))  # without what a kill cut off
        with open(path, "a", encoding="utf-8") as file:
            for place in places[len(points) :]:
                point = PointLine.model_validate_json(json.dumps(grid.compute(place)))
                points.append(point)
                file.write(f"{point.model_dump_json()}\n")
                file.flush()
                advance(len(points), len(places))
    return collect(header, points)


def _is_of(first: str, header: Mapping[str, Any]) -> bool:
    """Whether a file's first line says that it is of this landscape.

    The trajectory is left out: the run may have kept or removed checkpoints since.
    """
    try:
        content = json.loads(first)
    except ValueError:
        return False
    if not isinstance(content, dict):
        return False
    return {**content, "trajectory": None} == {**header, "trajectory": None}


def _read_points(path: Path, header: Mapping[str, Any], places: Sequence[Place]) -> list[PointLine]:
    """The finished points of a landscape, up to the first damaged line."""
    if not path.exists():
        return []
    first, *lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    if not _is_of(first, header):
        raise ConfigError(
            f"{path}: is the landscape of other models, data or options: name another folder "
            "(--out), or delete it"
        )
    points: list[PointLine] = []
    for text, place in zip(lines, places, strict=False):
        try:
            point = PointLine.model_validate_json(text)
        except ValueError:  # pydantic's
            break
        if tuple(point.place) != place:
            break
        points.append(point)
    return points


def collect(header: Mapping[str, Any], points: Sequence[PointLine]) -> dict[str, Any]:
    """The content of a landscape's file, with the values of a series as arrays.

    ``loss`` and each of the ``metrics`` have a row for each point on the first axis; a line has
    its ``barrier``, if all losses between the models are finite.
    """
    axes = header["axes"]
    shape = [len(axis) for axis in axes]
    size = int(np.prod(shape))
    series = []
    for number, about in enumerate(header["series"]):
        part = points[number * size : (number + 1) * size]
        losses = [point.loss for point in part]
        metrics = {}
        for name in part[0].metrics:
            values = [point.metrics.get(name) for point in part]
            metrics[name] = np.array(values, object).reshape(shape)
        loss = np.array(losses, object).reshape(shape)
        entry = {**about, "loss": loss, "metrics": metrics}
        if header["spec"]["kind"] == "line":
            entry["barrier"] = _barrier_between(axes[0], losses)
        series.append(entry)
    return plain({**header, "series": series})


def _barrier_between(gammas: Sequence[float], losses: Sequence[float | None]) -> float | None:
    """The barrier between two models; None if a loss between them is not finite."""
    inside = [n for n, gamma in enumerate(gammas) if 0 <= gamma <= 1]
    between = [losses[n] for n in inside]
    if None in between:
        return None
    return barrier([gammas[n] for n in inside], between)


def default_folder(spec: Spec, files: Mapping[str, Path]) -> Path:
    """``curvature/landscape_<kind>-<models>`` in the first model's run."""
    first, *_ = files.values()
    run = run_folder(first)
    words = [f"landscape_{spec.kind}"]
    for file in files.values():
        folder = run_folder(file)
        is_first_run = folder.resolve() == run.resolve()
        words.append(file.stem if is_first_run else f"{folder.resolve().name}_{file.stem}")
    words += [f"client_{client}" for client in spec.clients]
    if spec.global_model:
        words.append("global")
    if spec.statistics != RUNNING:
        words.append(spec.statistics)
    name = "-".join(words).replace("/", "_").replace("\\", "_")
    return own_folder(run, f"{CURVATURE}/{short_name(name)}")
