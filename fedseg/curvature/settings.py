"""Options of the curvature tools: fields of dataclasses, annotated with bounds and their help."""

import argparse
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_type_hints

from annotated_types import Ge, Gt

from fedseg import cli
from fedseg.config.arguments import NonNegative, Positive, check_value, check_values
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
    """Options of both commands; ConfigError names the first that is out of bounds."""

    samples: Count | None = None  # size of a seeded subset of the data
    statistics: Literal["running", "batch"] = RUNNING  # of BatchNorm

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self), include_extras=True)
        flags = {name: f"--{name.replace('_', '-')}" for name in vars(self)}
        values = {flags[name]: value for name, value in vars(self).items()}
        check_values(values, {flags[name]: hints[name] for name in flags})


@dataclass(frozen=True)
class Settings(Options):
    """Options of a measurement; the command's help explains them."""

    averaged: bool = True  # else the global model itself
    trained_by: str | None = None  # or the model that this client trains from it
    data: str = TRAIN
    client: str | None = None
    augment: bool = False
    matrix: Literal["hessian", "ggn"] = "hessian"
    batch_size: Count | None = None
    top: Count = 5
    tolerance: Positive = 0.01
    probes: Annotated[int, Ge(6)] = 90
    steps: Count = 80
    clients: Count | None = 10  # None: all
    rho: Positive = 0.05
    asam_rho: Positive = 0.5
    eta: NonNegative = 0.2
    ascent: Count = 5


@dataclass(frozen=True)
class Spec(Options):
    """A landscape; the command's help explains its options."""

    kind: Kind = "line"
    source: Source = Source(())
    data: tuple[str, ...] = (TRAIN,)
    client: str | None = None
    points: Annotated[int, Ge(2)] | None = None  # per axis
    ends: tuple[float, float] | None = None  # of the axes
    statistics: Literal["running", "batch", "reestimate"] = RUNNING
    metrics: bool = False

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


def add_source(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name the models and their data; see :func:`read_source`."""
    text = (
        f"append {GLOBAL} for the global model instead of the run's average, or "
        ":client=ID@ROUND for the model that this client trains from the global one of that round "
        "(ID or ID@: the newest)"
    )
    parser.add_argument("paths", nargs="+", type=_run_path, metavar="RUN|CHECKPOINT", help=text)
    text = "a config of yours instead of the recorded one; it is executed"
    parser.add_argument("--config", help=text)
    cli.add_cfg_options(parser, "override config fields, for example data_root=data/camvid")
    cli.add_trust(parser)
    text = "size of a seeded subset of the data, per client too"
    parser.add_argument("--samples", type=int, metavar="N", help=text)


def _run_path(text: str) -> str:
    path = WHOSE.fullmatch(text or ".")[1]
    return f"{cli.run_path(path)}{text[len(path) :]}"


def read_options(kind: type[Options], arguments: argparse.Namespace, **values: Any) -> Any:
    """The options of a kind on a command line."""
    for field in fields(kind):
        if field.name in arguments:
            values[field.name] = getattr(arguments, field.name)
    return kind(**values)


def read_source(arguments: argparse.Namespace, *paths: str) -> Source:
    """The models named on a command line; DataError if one does not exist."""
    options = tuple(arguments.options), tuple(arguments.trust)
    source = Source(paths, arguments.config, *options)
    places = (model.place for model in source.models())
    fix = "name a run's work dir or a checkpoint, with :client=ID@ROUND a client's model"
    cli.check_there(places, fix)
    return source
