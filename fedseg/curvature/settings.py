"""Options of the curvature tools: fields of dataclasses, annotated with bounds and their help."""

import argparse
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_type_hints

from annotated_types import Ge, Gt

from fedseg import cli
from fedseg.config.schema import NonNegative, Positive, check_value, check_values
from fedseg.errors import ConfigError

TRAIN = "train"  # the training data of all clients
RUNNING, BATCH, REESTIMATE = "running", "batch", "reestimate"
MOST_POINTS = 1_000_000
GLOBAL = ":global"  # after a run or checkpoint: the global model, not the average
WHOSE = re.compile(rf"(.+?)({GLOBAL}|:client=(.+?)(?:@(\d*))?)?")  # ID@: the newest
USED = {  # quantity -> the settings that it depends on, besides those of all
    "loss": (),
    "top": ("top", "tolerance"),
    "spectrum": ("tolerance",),
    "trace": ("probes",),
    "density": ("steps",),
    "sharpness": ("rho", "asam_rho", "eta", "ascent"),
    "clients": ("tolerance", "clients"),
    "fedalign": ("probes", "clients"),
    "participants": ("tolerance",),
    "updated": ("tolerance", "clients"),
    "features": ("clients",),
}
Kind = Literal["line", "plane", "random", "eigenvectors"]
Count = Annotated[int, Ge(1)]


class Model(NamedTuple):
    """A model by its name: ``RUN|CHECKPOINT``, with ``:global`` or ``:client=ID@ROUND``."""

    place: Path
    averaged: bool  # the average, if there is one
    client: str | None = None  # the model that this client trains from the global one
    round: int | None = None  # of the checkpoint; None: the newest


@dataclass(frozen=True)
class Source:
    """The models to measure; network and data are those of the first one."""

    paths: tuple[str, ...]  # names of models of one network
    config: str | None = None  # the user's own, executed; None: the recorded one, read as data
    options: tuple[str, ...] = ()  # KEY=VALUE
    trusted: tuple[str, ...] = ()  # modules that a recorded config may use

    def models(self) -> list[Model]:
        """The models that the paths name."""
        models = []
        for path in self.paths:
            place, kind, client, round_ = WHOSE.fullmatch(path).groups()
            round_ = int(round_) if round_ else None
            models.append(Model(Path(place), kind is None, client, round_))
        return models


@dataclass(frozen=True)
class Options:
    """Options of both commands; ConfigError names all that are out of bounds."""

    samples: Annotated[Count | None, "size of a seeded subset of the data, per client too"] = None
    statistics: Annotated[Literal["running", "batch"], "statistics of BatchNorm"] = RUNNING

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self), include_extras=True)
        values = {cli.flag(name): value for name, value in vars(self).items()}
        check_values(values, {cli.flag(name): hint for name, hint in hints.items()})


@dataclass(frozen=True)
class Settings(Options):
    """Options of a measurement."""

    averaged: bool = True  # else the global model itself
    trained_by: str | None = None  # or the model that this client trains from it
    data: Annotated[str, "train, or a test domain"] = TRAIN
    client: Annotated[str | None, "this client's training images instead of --data"] = None
    augment: Annotated[bool, "augment training images, with one fixed draw"] = False
    matrix: Annotated[Literal["hessian", "ggn"], "ggn: the Gauss-Newton matrix"] = "hessian"
    batch_size: Annotated[
        Count | None, "images at a time; default: 1 if they come from disk, else the evaluation's"
    ] = None
    top: Annotated[Count, "number of largest eigenvalues"] = 5
    tolerance: Annotated[Positive, "residuals, relative to the eigenvalue"] = 0.01
    probes: Annotated[int, Ge(6), "random vectors of a trace or a diagonal"] = 90
    steps: Annotated[Count, "Lanczos steps of the density"] = 80
    clients: Annotated[Count | None, "number of clients (the first that took part), or all"] = 10
    rho: Annotated[Positive, "SAM's radius"] = 0.05
    asam_rho: Annotated[Positive, "ASAM's radius"] = 0.5
    eta: Annotated[NonNegative, "ASAM's eta"] = 0.2
    ascent: Annotated[Count, "steps of gradient ascent"] = 5


@dataclass(frozen=True)
class Spec(Options):
    """A landscape."""

    kind: Kind = "line"
    source: Source = Source(())
    data: Annotated[tuple[str, ...], "train, test domains"] = (TRAIN,)
    client: Annotated[
        str | None,
        "use the model that this client trains in the next round, on its own and on all data; "
        "line: from the global model to it",
    ] = None
    points: Annotated[
        Annotated[int, Ge(2)] | None, "points per axis (default: 21, on a line 31)"
    ] = None
    ends: Annotated[
        tuple[float, float] | None,
        "ends of the axes (default: -1 2 on a line, -1 1 around a model); of a plane HIGH is the "
        "margin around the models, as a share of their extent (0.25)",
    ] = None
    statistics: Annotated[
        Literal["running", "batch", "reestimate"],
        "statistics of BatchNorm; reestimate: from training data at every point",
    ] = RUNNING
    metrics: Annotated[bool, "also compute the metrics (always on a line)"] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        line, plane = self.kind == "line", self.kind == "plane"
        usual = (-1.0, 2.0) if line else (0.0, 0.25) if plane else (-1.0, 1.0)
        ends = tuple(map(float, self.ends or usual))
        check_value("--ends", ends[1], Annotated[float, Gt(0 if plane else ends[0])])
        points = self.points or (31 if line else 21)
        if points ** (1 if line else 2) > MOST_POINTS:
            raise ConfigError(f"--points: a landscape has at most {MOST_POINTS:,} in all")
        vars(self).update(ends=ends, points=points, metrics=self.metrics or line)
        count = len(self.source.paths)
        several = count == 3 if plane else count > line
        if not (several if self.client is None else count == 1 and not plane):
            raise ConfigError(
                "RUN|CHECKPOINT: a line takes two or more, a plane three, a surface one or more; "
                "with --client a line or a surface takes one"
            )


def add_options(parser: argparse.ArgumentParser, kind: type[Options]) -> None:
    """Every option of a kind, and where the models come from."""
    text = (
        f"append {GLOBAL} for the global model instead of the run's average, or "
        ":client=ID@ROUND for the model that this client trains from the global one of that round "
        "(ID or ID@: the newest)"
    )
    style = {"nargs": "+", "type": _run_path, "metavar": "RUN|CHECKPOINT"}
    parser.add_argument("paths", **style, help=text)
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        hint, default = hints[field.name], field.default
        about = [text for text in getattr(hint, "__metadata__", ()) if type(text) is str]
        if about:
            keywords = cli.read_type(hint)
            if keywords.get("nargs") == 2:
                keywords["metavar"] = ("LOW", "HIGH")
            if field.name == "clients":
                keywords["type"] = lambda text: None if text == "all" else int(text)
            if default not in (None, False):
                shown = " ".join(default) if "nargs" in keywords else default
                about.append(f"(default: {shown})")
            keywords["default"] = argparse.SUPPRESS  # the dataclass has the defaults
            parser.add_argument(cli.flag(field.name), help=" ".join(about), **keywords)
    text = "a config of yours instead of the recorded one; it is executed"
    parser.add_argument("--config", help=text)
    cli.add_cfg_options(parser, "override config fields, for example data_root=data/camvid")
    cli.add_trust(parser)


def _run_path(text: str) -> str:
    path = WHOSE.fullmatch(text or ".")[1]
    return f"{cli.run_path(path)}{text[len(path) :]}"


def read_options(kind: type[Options], arguments: argparse.Namespace, **values: Any) -> Any:
    """The options of a kind on a command line."""
    chosen = {k: v for k, v in vars(arguments).items() if k in kind.__dataclass_fields__}
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in chosen.items()} | values)


def read_source(arguments: argparse.Namespace, *paths: str) -> Source:
    """The models named on a command line; DataError if one does not exist."""
    options = tuple(arguments.options), tuple(arguments.trust)
    source = Source(paths, arguments.config, *options)
    places = (model.place for model in source.models())
    fix = "name a run's work dir or a checkpoint, with :client=ID@ROUND a client's model"
    cli.check_there(places, fix)
    return source
