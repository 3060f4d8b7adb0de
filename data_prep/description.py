"""How a data set is described to ``fedseg prepare``. Nothing slow is imported: --help is fast.

A :class:`DataSet` is the command: its texts, its options, and the function that does the work. Its
members hold what that function verifies: an :class:`ImageSet` of small labeled images, or a
:class:`PairedSet` of photographs with label maps.
"""

import argparse
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

from fedseg import cli
from fedseg.errors import ConfigError
from fedseg.names import DISTRIBUTIONS, OVERLAP, PARTITIONS, SHAPES, did_you_mean

NO_SPLIT = "none"
SMALLEST = 32  # side of a rendered street scene, pixels
PACHINKO = {"clients": 500, "alpha": 0.1, "beta": 10.0}  # of Reddi et al. (2021)

Options = Mapping[str, Mapping[str, Any]]  # flag -> arguments of add_argument
Place = tuple[str, ...]  # a split's folder below <root>/splits: (distribution,), or with a setting


@dataclass(frozen=True)
class DataSet:
    """A command ``fedseg prepare NAME``."""

    name: str
    title: str  # in the list of data sets
    purpose: str  # first sentence of the help
    help: str  # layout and examples
    options: Options
    prepare: str  # "module:function" of fedseg, called with a member, the root and the options
    fix: str  # what to do if the root does not exist
    members: Mapping[str, Any]  # what is prepared, by its name in the Python API
    show: str = ""  # "module:function" that draws the function's charts

    def root_of(self, member: str, root: Path | None, synthetic: bool = False) -> Path:
        """The given root, or the usual one of a member."""
        return root or Path(
            SHAPES if synthetic and "--dataset" in self.options else f"data/{member}"
        )

    def run(self, member: str, root: Path | None = None, **options: Any) -> "Outcome":
        """Prepare one of the members; without a root in its usual folder."""
        from fedseg.config.schema import check_values

        prepare = resolve(self.prepare)
        hints, flags = get_type_hints(prepare, include_extras=True), {}
        for flag, keywords in self.options.items():
            flags[keywords.get("dest", flag.removeprefix("--").replace("-", "_"))] = flag
        for name in options:
            if name not in flags:
                hint = did_you_mean(name, flags)
                raise ConfigError(f"prepare: {member} has no option {name!r}{hint}")
        given = {flags[name]: value for name, value in options.items() if value is not None}
        check_values(given, {flags[name]: hints[name] for name in options})
        for name, value in options.items():
            if isinstance(value, str) and hints[name] in (Path, Path | None):
                options[name] = Path(value)
        root = self.root_of(member, root, options.get("synthetic", False))
        return prepare(self.members[member], root, **options)


@dataclass(frozen=True)
class Outcome:
    """What was prepared."""

    splits: Sequence[Path] = ()  # files or folders that were written
    charts: Sequence[tuple[Any, ...]] = ()  # arguments of what shows a chart
    closing: str = ""  # said at the end: what to do next


@dataclass(frozen=True)
class ImageSet:
    """Published labeled images: what they are like, and where they come from."""

    name: str  # for example "CIFAR10"
    shape: tuple[int, int, int]  # height, width and channels of an image
    classes: tuple[str, ...]  # in order of the labels
    counts: Mapping[str, tuple[int, ...]]  # for each split, images of each class
    torchvision: str  # class of torchvision.datasets that knows the official files and their md5
    dataset: str  # class of fedseg.datasets that reads the prepared folder
    setting: str  # of configs/settings, that trains on it
    source: str  # what the source may be, for messages
    clients: int  # of a split, by default
    alphas: Mapping[str, Sequence[float]]  # of each partition, by default
    coarse_labels: tuple[int, ...] | None = None  # the superclass of each class
    released: "ReleasedFiles | None" = None
    rendered: bool = False  # shapes can be rendered in its place


@dataclass(frozen=True)
class ReleasedFiles:
    """Split files that a paper has released."""

    image_name: str  # pattern of an image's name without ".png"; a second group is its label
    archive_names: bool  # names are the archive's own, not indices into it
    left_out: Mapping[str, int]  # images of the archive that are not listed, at most
    classes_per_client: Mapping[float, float]  # by alpha, the mean
    clients: int = 100


@dataclass(frozen=True)
class Selection:
    """A published selection of photographs by user; None: not known, not compared."""

    name: str
    users: int
    train: int
    test: int | None
    classes: int
    md5: Mapping[str, str] = field(default_factory=dict)  # of the annotations, where published


@dataclass(frozen=True)
class PairedSet:
    """Photographs with label maps: the files that must be on disk, and how they are split."""

    name: str  # for example "idda"
    dataset: str  # class of fedseg.datasets
    # Folders of images and of label maps, below their roots -> images of each domain in them.
    folders: Mapping[tuple[str, str], Mapping[str, int]]
    suffixes: tuple[str | tuple[str, ...], str]  # what follows the name that a pair shares
    contents: str  # what is on disk, for messages
    source: str  # where to get it, for messages
    build: str  # function of data_prep.split_rules
    rules: Mapping[str, str]  # distribution -> who holds what, in words
    settings: Sequence[str] = ()  # what is unseen, where there is a choice
    test_users: tuple[str, ...] = ()  # that published splits must have
    published_size: tuple[int, int] | None = None  # width and height in pixels
    size: tuple[int, int] | None = None  # of rendered images
    rendered_name: str = ""  # of rendered images, from domain and number; "": none are rendered
    first_number: int = 0


def resolve(name: str) -> Any:
    """The object that ``"module:attribute"`` of fedseg names."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"fedseg.{module}"), attribute)


def next_command(experiment: str, usual: Path, root: Path) -> str:
    """The command that trains on what was prepared in its usual folder or another."""
    command = f"{cli.program()} train {experiment} --dry-run"
    if root != usual:
        command += f" --cfg-options {shlex.quote(f'data_root={root}')}"
    return f"Next: {command}"


# ---- options that data sets share

OVERWRITE: Options = {
    "--overwrite": dict(action="store_true", help="replace existing files that differ")
}


def root_option(default: str | None = None) -> Options:
    """``--root``; without a default ``data/DATASET``, and of rendered images SHAPES."""
    shown = default or f"data/DATASET, of rendered images {SHAPES}"
    root = None if default is None else Path(default)
    return {"--root": dict(type=Path, default=root, help=f"the data root (default: {shown})")}


def street_options(size: str) -> Options:
    """Options of a data set with FedDrive's splits; ``size`` is that of rendered images."""
    return {
        "--distribution": dict(
            action="append",
            type=str.lower,
            choices=DISTRIBUTIONS,
            help="how clients differ; can be repeated (default: all)",
        ),
        "--seed": dict(type=int, default=0, help="of the splits (default: %(default)s)"),
        "--from": dict(
            dest="source",
            type=Path,
            metavar="DIR",
            help="use the published split files in DIR instead of making splits; they are checked "
            "and copied, and files missing on disk are reported",
        ),
        "--synthetic": dict(
            action="store_true",
            help="render street scenes instead of real images (all that the splits need)",
        ),
        "--size": dict(type=_size, metavar="WxH", help=f"of rendered images (default: {size})"),
        "--limit-per-user": dict(
            type=int,
            metavar="N",
            help="for a quick trial: keep the first N images of each client",
        ),
        "--limit-test": dict(
            type=int,
            metavar="M",
            help="for a quick trial: keep the first M test images of each domain and test user",
        ),
    }


def image_options(source: str) -> Options:
    """Options that choose and verify labeled images; ``source`` is what it may be."""
    return {
        "--source": dict(
            type=Path, metavar="PATH", help=f"{source} (default: what is in the root)"
        ),
        "--download": dict(
            action="store_true", help="download the official files if they are not there"
        ),
        "--unofficial": dict(
            action="store_true",
            help="accept other images than the published ones: a subset, a cleaned version",
        ),
        "--shared": dict(
            dest="overlap",
            type=str.lower,
            choices=OVERLAP,
            default=OVERLAP[0],
            help="what to do with images that are in train and in test: refuse them (unless the "
            "official files have them), keep them, or drop them from train (default: %(default)s)",
        ),
    }


def split_options(partition: str, clients: int) -> Options:
    """Options of the splits of labeled images, with the default partition and clients."""
    return {
        "--partition": dict(
            type=str.lower,
            choices=[*PARTITIONS, NO_SPLIT],
            default=partition,
            help="of the splits in ROOT/splits. dirichlet: clients of equal size, each with a "
            "class mix drawn from Dir(alpha/classes for each class); alpha 0: one class per "
            "client. dirichlet-class: each class is divided by Dir(alpha), sizes differ. pachinko: "
            "superclasses, then classes (CIFAR-100). homogeneous: all alike. natural: by a column "
            "of user ids (default: %(default)s)",
        ),
        "--alpha": dict(
            type=float,
            action="extend",
            nargs="+",
            metavar="A",
            help="one split for each (default: those of the configs)",
        ),
        "--beta": dict(
            type=float, default=PACHINKO["beta"], help="pachinko only (default: %(default)g)"
        ),
        "--num-clients": dict(
            type=int,
            metavar="K",
            help=f"(default: {clients}; pachinko: {PACHINKO['clients']})",
        ),
        "--seed": dict(type=int, default=0, help="of the splits (default: %(default)s)"),
        "--users": dict(
            type=Path,
            metavar="CSV",
            help="natural only: the client of each training image, columns user_id and image_id "
            "(default: the users of the .npz file)",
        ),
    }


def _size(text: str) -> tuple[int, int]:
    try:
        width, height = map(int, text.lower().split("x"))
    except ValueError:
        width = height = 0
    if width < SMALLEST or height < SMALLEST:
        raise argparse.ArgumentTypeError(
            f"must be WIDTHxHEIGHT of at least {SMALLEST}, such as 464x256, not {text!r}"
        )
    return width, height
