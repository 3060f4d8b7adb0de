"""Options of the curvature tools: fields of dataclasses, whose annotations hold bounds and help."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt

from fedseg import cli
from fedseg.config.schema import check_value, check_values
from fedseg.errors import ConfigError

TRAIN = "train"  # the training data of all clients
RUNNING, BATCH, REESTIMATE = "running", "batch", "reestimate"
MOST_POINTS = 1_000_000
GLOBAL = ":global"  # after a run or checkpoint: the global model, not the average
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
    "features": ("clients",),
}
Kind = Literal["line", "plane", "random", "eigenvectors"]
Count = Annotated[int, Ge(1)]
Positive = Annotated[float, Gt(0)]


class Help:
    """The help of an option, and keywords of ``add_argument`` that its type does not imply."""

    def __init__(self, text: str, **keywords: Any) -> None:
        self.text, self.keywords = text, keywords


def count_or_all(text: str) -> int | None:
    """A whole number; None for ``all``."""
    return None if text == "all" else int(text)


@dataclass(frozen=True)
class Source:
    """Where models come from.

    Attributes:
        paths: runs (of which the newest checkpoint is taken) or checkpoints of one network, with
            :data:`GLOBAL` after them or without; model and data are those of the first.
        config: the user's own config, a program; None: the recorded one, read as data.
        options: ``KEY=VALUE`` overrides. trusted: modules that a recorded config may use.
    """

    paths: tuple[str, ...]
    config: str | None = None
    options: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()

    def models(self) -> list[tuple[Path, bool]]:
        """Of each run or checkpoint its place, and whether its average is taken if it has one."""
        return [(Path(p.removesuffix(GLOBAL)), not p.endswith(GLOBAL)) for p in self.paths]


@dataclass(frozen=True)
class Options:
    """Options of both tools; ConfigError names all that are out of bounds."""

    samples: Annotated[
        Count | None, Help("a seeded subset of the data, and of each client's", type=count_or_all)
    ] = None
    statistics: Annotated[Literal["running", "batch"], Help("what BatchNorm normalizes by")] = (
        RUNNING
    )

    def __post_init__(self) -> None:
        values, hints = vars(self), get_type_hints(type(self), include_extras=True)
        names = {one.name: _flag(one.name) for one in fields(self)}
        check_values({names[n]: values[n] for n in names}, {names[n]: hints[n] for n in names})


@dataclass(frozen=True)
class Settings(Options):
    """What is measured of a checkpoint, and how well."""

    averaged: bool = True  # else the global model itself
    data: Annotated[str, Help("train, or a test domain")] = TRAIN
    client: Annotated[
        str | None, Help("in place of --data: the training images of this client")
    ] = None
    augment: Annotated[bool, Help("training images in their augmentation, drawn once")] = False
    matrix: Annotated[Literal["hessian", "ggn"], Help("ggn: the Gauss-Newton matrix")] = "hessian"
    batch_size: Annotated[
        Count | None,
        Help("images at a time; default: 1 if they come from disk, else the evaluation's"),
    ] = None
    top: Annotated[Count, Help("largest eigenvalues")] = 5
    tolerance: Annotated[Positive, Help("of residuals, relative to the eigenvalue")] = 0.01
    probes: Annotated[int, Ge(6), Help("random vectors of a trace or a diagonal")] = 90
    steps: Annotated[Count, Help("steps of the density's Lanczos process")] = 80
    clients: Annotated[
        Count | None,
        Help("how many clients, the first that took part, or all", type=count_or_all),
    ] = 10
    rho: Annotated[Positive, Help("SAM's radius")] = 0.05
    asam_rho: Annotated[Positive, Help("ASAM's radius")] = 0.5
    eta: Annotated[float, Ge(0), Help("ASAM's eta")] = 0.2
    ascent: Annotated[Count, Help("steps of ascent")] = 5


@dataclass(frozen=True)
class Spec(Options):
    """A landscape."""

    kind: Kind = "line"
    source: Source = Source(())
    data: Annotated[tuple[str, ...], Help("train, test domains")] = (TRAIN,)
    client: Annotated[
        str | None,
        Help(
            "the model that this participant of the next round trains, on its own and on all data; "
            "line: between the global model and it"
        ),
    ] = None
    points: Annotated[Annotated[int, Ge(2)] | None, Help("on an axis (21; on a line 31)")] = None
    ends: Annotated[
        tuple[float, float] | None,
        Help(
            "of the axes (line: -1 2; around a model: -1 1); of a plane the second is the margin "
            "around the models, as a share of their extent (0.25)",
            metavar=("LOW", "HIGH"),
        ),
    ] = None
    statistics: Annotated[
        Literal["running", "batch", "reestimate"],
        Help("what BatchNorm normalizes by; reestimate: training data, anew at every point"),
    ] = RUNNING
    metrics: Annotated[bool, Help("compute the metrics, too (on a line they always are)")] = False

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
        count, words = len(self.source.paths), {"line": "at least two", "plane": "three"}
        fits = count == 3 if plane else count > line
        if self.client is not None:
            fits, words = count == 1 and not plane, {"plane": "none with --client"}
        if not fits:
            wanted = words.get(self.kind, "one" if self.client else "at least one")
            raise ConfigError(f"RUN|CHECKPOINT: {self.kind} takes {wanted}, not {count}")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def add_options(parser: argparse.ArgumentParser, kind: type[Options]) -> None:
    """Every option of a kind, and where the models come from."""
    text = f"with {GLOBAL} after it, the global model where there is an average"
    metavar = "RUN|CHECKPOINT"
    parser.add_argument("paths", nargs="+", type=_run_path, metavar=metavar, help=text)
    hints = get_type_hints(kind, include_extras=True)
    for one in fields(kind):
        annotation = hints[one.name]
        for about in getattr(annotation, "__metadata__", ()):
            if isinstance(about, Help):
                keywords, text = {**_keywords(annotation), **about.keywords}, about.text
                if one.default not in (None, False):
                    default = " ".join(one.default) if keywords.get("nargs") else one.default
                    text += f" (default: {default})"
                keywords["default"] = argparse.SUPPRESS  # the dataclass has the defaults
                parser.add_argument(_flag(one.name), help=text, **keywords)
    text = "a config of yours in place of the recorded one; it is a program and runs"
    parser.add_argument("--config", help=text)
    cli.add_cfg_options(parser, "override config fields, for example data_root=data/camvid")
    cli.add_trust(parser)


def _keywords(hint: Any) -> dict[str, Any]:
    """Keywords of ``add_argument`` for a type."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"choices": inner}
    if origin is tuple:
        several = {"action": "extend", "nargs": "+"} if ... in inner else {"nargs": len(inner)}
        return {**several, "type": inner[0]}
    if origin is Annotated or NoneType in inner:
        return _keywords(inner[0])
    if hint is bool:
        return {"action": "store_true"}
    return {"type": int, "metavar": "N"} if hint is int else {"type": hint}


def _run_path(text: str) -> str:
    path = text.removesuffix(GLOBAL)
    return f"{cli.run_path(path)}{text[len(path) :]}"


def read_options(kind: type[Options], arguments: argparse.Namespace, **given: Any) -> Any:
    """The options of a kind that a command line gives."""
    values = {k: v for k, v in vars(arguments).items() if k in kind.__dataclass_fields__}
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()} | given)


def read_source(arguments: argparse.Namespace, paths: Sequence[str]) -> Source:
    """Where a command line takes models from."""
    options = tuple(arguments.cfg_options), tuple(arguments.trust)
    return Source(tuple(paths), arguments.config, *options)
