"""Descriptions of data sets for ``fedseg prepare``. Nothing slow is imported: --help is fast.

A :class:`DataSet` is the command: its texts, its options, and the function that does the work. Its
members hold what that function verifies: an :class:`ImageSet` of small labeled images, or a
:class:`PairedSet` of photographs with label maps.
"""

import argparse
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from annotated_types import Ge, Gt

from fedseg import cli
from fedseg.errors import ConfigError
from fedseg.names import SHAPES, did_you_mean

Place = tuple[str, ...]  # a split's folder below <root>/splits: (distribution,), or with a setting


OVERWRITE = "replace existing files that differ"
PositiveInt = Annotated[int, Gt(0)]
NonNegativeInt = Annotated[int, Ge(0)]


def option(default: Any, flag: str = "", **keywords: Any) -> Any:
    """A field of options, and its argument of the command.

    Args:
        flag: of the argument, if it is not called like the field.
        keywords: of ``add_argument``.
    """
    return field(default=default, metadata={"flag": flag, "keywords": keywords})


@dataclass(frozen=True)
class DataSet:
    """A command ``fedseg prepare NAME``."""

    name: str
    title: str  # in the list of data sets
    purpose: str  # first sentence of the help
    help: str  # layout and examples
    options: type  # a dataclass of fields made by option()
    prepare: str  # "module:function" of fedseg, called with a member, the root and the options
    fix: str  # what to do if the root does not exist
    members: Mapping[str, Any]  # what is prepared, by its name in the Python API
    positional: bool = False  # whether the root is given without --root
    left_out: Sequence[str] = ()  # fields of the options that do not apply

    @property
    def flags(self) -> dict[str, str]:
        """The flag of each field of the options."""
        flags = {}
        for field_ in fields(self.options):
            if field_.name not in self.left_out:
                flag = f"--{field_.name.replace('_', '-')}"
                flags[field_.name] = field_.metadata["flag"] or flag
        return flags

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add root, member and options to the parser of the command."""
        first, *others = self.members
        usual = f"data/{'DATASET' if others else self.root_of(first).name}"
        usual += f", of rendered images {SHAPES}" * ("synthetic" in self.flags and bool(others))
        name, form = ("root", {"nargs": "?"}) if self.positional else ("--root", {})
        about = f"the data root (default: {usual})"
        parser.add_argument(name, type=Path, metavar="ROOT", help=about, **form)
        if others:
            which = {"choices": [first, *others], "help": "which of them (default: %(default)s)"}
            parser.add_argument("--dataset", default=first, **which)
        for field_ in fields(self.options):
            if field_.name in self.left_out:
                continue
            default = field_.default
            keywords = {**field_.metadata["keywords"], "dest": field_.name, "default": default}
            if default is not None and default is not False:
                keywords["help"] += " (default: %(default)s)"
            parser.add_argument(self.flags[field_.name], **keywords)

    def root_of(self, member: str, root: Path | None = None, synthetic: bool = False) -> Path:
        """The given root, or the usual one of a member."""
        rendered = synthetic and isinstance(self.members[member], ImageSet)
        return root or Path(SHAPES if rendered else f"data/{member}")

    def run(self, member: str, root: Path | None = None, **options: Any) -> "Outcome":
        """Prepare one of the members; without a root in its usual folder."""
        from fedseg.config.arguments import check_values

        hints, flags = get_type_hints(self.options, include_extras=True), self.flags
        for name in options:
            if name not in flags:
                hint = did_you_mean(name, flags)
                raise ConfigError(f"prepare: {member} has no option {name!r}{hint}")
        for field_ in fields(self.options):
            value = options.get(field_.name)
            if isinstance(value, str) and field_.metadata["keywords"].get("type") is Path:
                options[field_.name] = Path(value)
        flag_values = {flags[name]: value for name, value in options.items() if value is not None}
        check_values(flag_values, {flags[name]: hints[name] for name in options})
        root = self.root_of(member, root, options.get("synthetic", False))
        if len(str(root).splitlines()) > 1:
            raise ConfigError(f"{str(root)!r}: has a line break: rename the folder")
        if root.exists() and not root.is_dir():
            raise ConfigError(f"{root}: is a file: name a folder")
        return resolve(self.prepare)(self.members[member], root, self.options(**options))


@dataclass(frozen=True)
class Outcome:
    """A prepared data set."""

    splits: Sequence[Path] = ()  # files or folders that were written
    charts: Sequence[tuple[Any, ...]] = ()  # arguments of report.partition_charts.show_partition
    closing: str = ""  # said at the end: what to do next


@dataclass(frozen=True)
class ImageSet:
    """Published labeled images: what they are like, and where they come from."""

    name: str  # for example "CIFAR10"
    shape: tuple[int, int, int]  # height, width and channels of an image
    classes: tuple[str, ...]  # in order of the labels
    dataset: str  # class of fedseg.datasets that reads the prepared folder
    setting: str  # of configs/settings, that trains on it
    read: str  # "module:function" of fedseg: (set, folder, download) -> Labeled
    coarse_labels: tuple[int, ...] | None = None  # the superclass of each class
    released: "ReleasedFiles | None" = None
    rendered: bool = False  # shapes can be rendered in its place


@dataclass(frozen=True)
class Part:
    """One split of labeled images as read from a source."""

    images: Any  # uint8 [N, H, W, C]
    labels: Any  # int64 [N]
    users: Sequence[str] | None = None  # the client of each image, if the source has them


@dataclass(frozen=True)
class Labeled:
    """A data set as read from its source."""

    parts: dict[str, Part]  # train and test
    source: str  # where it comes from and how that was verified, for the reader
    unofficial: bool = False  # the files are not the published ones


@dataclass(frozen=True)
class ReleasedFiles:
    """Split files that a paper has released."""

    archive_names: bool  # names are the archive's own, not img_<index>_label_<label>.png
    left_out: Mapping[str, int]  # images of the archive that are not listed, at most


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
    """Photographs with label maps: how many must be on disk, and how they are split."""

    name: str  # for example "idda"
    dataset: str  # class of fedseg.datasets
    folders: Mapping[str, Mapping[str, int]]  # {split} of a path, or "" -> images of each domain
    contents: str  # what is on disk, for messages
    source: str  # where to get it, for messages
    build: str  # function of data_prep.split_rules
    rules: Mapping[str, str]  # distribution -> who holds what, in words
    settings: Sequence[str] = ()  # what is unseen, where there is a choice
    test_users: tuple[str, ...] = ()  # that published splits must have
    published_size: tuple[int, int] | None = None  # width and height in pixels
    size: tuple[int, int] | None = None  # of rendered images
    rendered_name: str = ""  # {name} of rendered images, from domain and number; "": there are none
    first_number: int = 0
    batch_size: int = 0  # of the settings, which drop a client's smaller batches; 0: they do not
    copies: int = 1  # of each training image in an epoch: 2 if there is a mirrored one
    clients_per_round: int = 5  # of the settings

    @property
    def count(self) -> int:
        """The number of published images."""
        return sum(sum(counts.values()) for counts in self.folders.values())


def resolve(name: str) -> Any:
    """The object that ``"module:attribute"`` of fedseg names."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"fedseg.{module}"), attribute)


def fewer_clients(usual: int, clients: int) -> list[str]:
    """The option of a config for fewer clients than it draws in a round."""
    return [f"client_sampler.clients_per_round={clients}"] if clients < usual else []


def next_command(experiment: str, usual: Path, root: Path, options: Sequence[str] = ()) -> str:
    """The command that trains on what was prepared, with these options of the config.

    Args:
        usual: the data root that the experiment names; another ``root`` becomes an option.
    """
    options = [*options] if root == usual else [f"data_root={root}", *options]
    command = f"{cli.program()} train {experiment} --dry-run"
    if options:
        command += f" --cfg-options {shlex.join(options)}"
    return f"Next: {command}"
