"""What the tools of curvature take: every option once, with its default, bounds and help."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from fedseg import cli
from fedseg.checks import check_float, check_int
from fedseg.cli import add_cfg_options, add_trust
from fedseg.errors import ConfigError

TRAIN = "train"  # the training data of all clients
RUNNING, BATCH, REESTIMATE = STATISTICS = "running", "batch", "reestimate"
KINDS = ("line", "plane", "random", "eigenvectors")
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
BOUNDS = ("least", "above")


def count_or_all(text: str) -> int | None:
    """A whole number; None for ``all``."""
    return None if text == "all" else int(text)


def option(default: Any, text: str, **keywords: Any) -> Any:
    """A field that is an option: keywords of ``add_argument``, and its bound."""
    if isinstance(default, bool):
        keywords["action"] = "store_false" if default else "store_true"
    elif isinstance(default, float):
        keywords["type"] = float
    elif "least" in keywords:
        keywords = {"type": int, "metavar": "N", **keywords}
    if isinstance(default, int | float | str) and not isinstance(default, bool):
        text += " (default: %(default)s)"
    return field(default=default, metadata={"help": text, **keywords})


@dataclass(frozen=True)
class Source:
    """Where models come from, in plain values.

    Attributes:
        paths: runs (of which the newest checkpoint is taken) or checkpoints of one network, with
            :data:`GLOBAL` after them or without; model and data are those of the first.
        config: of the user's own, a program; None: what the run recorded, read as data.
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
    """Options of a tool, checked."""

    samples: int | None = option(
        None, "a seeded subset of the data, and of each client's", least=1, type=count_or_all
    )
    statistics: str = option(RUNNING, "what BatchNorm normalizes by", choices=STATISTICS[:2])

    def __post_init__(self) -> None:
        for one in fields(self):
            bounds = {k: v for k, v in one.metadata.items() if k in BOUNDS}
            if bounds and (value := getattr(self, one.name)) is not None:
                check = check_float if isinstance(one.default, float) else check_int
                check(_flag(one.name), value, **bounds)


@dataclass(frozen=True)
class Settings(Options):
    """What is measured of a checkpoint, and how well."""

    averaged: bool = True  # of the model itself: GLOBAL
    data: str = option(TRAIN, "train, or a test domain")
    client: str | None = option(None, "in place of --data: the training images of this client")
    augment: bool = option(False, "training images in their augmentation, drawn once")
    matrix: str = option("hessian", "ggn: the Gauss-Newton matrix", choices=("hessian", "ggn"))
    batch_size: int | None = option(
        None, "images at a time; default: 1 if they come from disk, else the evaluation's", least=1
    )
    top: int = option(5, "largest eigenvalues", least=1)
    tolerance: float = option(0.01, "of residuals, relative to the eigenvalue", above=0)
    probes: int = option(90, "random vectors of a trace or a diagonal", least=6)
    steps: int = option(80, "steps of the density's Lanczos process", least=1)
    clients: int | None = option(
        10, "how many clients, the first that took part, or all", least=1, type=count_or_all
    )
    rho: float = option(0.05, "SAM's radius", above=0)
    asam_rho: float = option(0.5, "ASAM's radius", above=0)
    eta: float = option(0.2, "ASAM's eta", least=0)
    ascent: int = option(5, "steps of ascent", least=1)


@dataclass(frozen=True)
class Spec(Options):
    """A landscape, in plain values: any process can compute any of its points."""

    kind: str = "line"
    source: Source = Source(())
    data: tuple[str, ...] = option(
        (TRAIN,), "train (default), test domains", action="extend", nargs="+"
    )
    client: str | None = option(
        None,
        "the model that this participant of the next round trains, on its own and on all data; "
        "line: between the global model and it",
    )
    points: int | None = option(None, "on an axis (21; on a line 31)", least=2)
    ends: tuple[float, float] | None = option(
        None,
        "of the axes (line: -1 2; around a model: -1 1); of a plane the second is the margin "
        "around the models, as a share of their extent (0.25)",
        **{"metavar": ("LOW", "HIGH"), "nargs": 2, "type": float},
    )
    statistics: str = option(
        RUNNING,
        "what BatchNorm normalizes by; reestimate: training data, anew at every point",
        choices=STATISTICS,
    )
    metrics: bool = option(False, "compute the metrics, too (on a line they always are)")

    def __post_init__(self) -> None:
        super().__post_init__()
        line, plane = self.kind == "line", self.kind == "plane"
        usual = (-1.0, 2.0) if line else (0.0, 0.25) if plane else (-1.0, 1.0)
        ends = tuple(map(float, self.ends or usual))
        check_float("--ends", ends[0])
        check_float("--ends", ends[1], above=0 if plane else ends[0])
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


def _run_path(text: str) -> str:
    path = text.removesuffix(GLOBAL)
    return f"{cli.run_path(path)}{text[len(path) :]}"


def add_options(parser: argparse.ArgumentParser, kind: type[Options]) -> None:
    """Every option of a kind, and where the models come from."""
    text = f"with {GLOBAL} after it, the global model where there is an average"
    metavar = "RUN|CHECKPOINT"
    parser.add_argument("paths", nargs="+", type=_run_path, metavar=metavar, help=text)
    for one in (one for one in fields(kind) if one.metadata):
        keywords = {k: v for k, v in one.metadata.items() if k not in BOUNDS}
        # an extending option would add its values to a default
        default = argparse.SUPPRESS if "action" in keywords else one.default
        parser.add_argument(_flag(one.name), dest=one.name, default=default, **keywords)
    text = "a config of yours in place of the recorded one; it is a program and runs"
    parser.add_argument("--config", help=text)
    add_cfg_options(parser, "override config fields, for example data_root=data/camvid")
    add_trust(parser)


def read_options(kind: type[Options], arguments: argparse.Namespace, **given: Any) -> Any:
    """The options of a kind that a command line gives."""
    values = {k: v for k, v in vars(arguments).items() if k in kind.__dataclass_fields__}
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()} | given)


def read_source(arguments: argparse.Namespace, paths: Sequence[str]) -> Source:
    """Where a command line takes models from."""
    options = tuple(arguments.cfg_options), tuple(arguments.trust)
    return Source(tuple(paths), arguments.config, *options)
