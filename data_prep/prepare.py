"""What the prepare tools do: verify or render, build or copy the splits, save them."""

import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.table import Table

from data_prep import camvid, cityscapes, idda
from data_prep.disk import Findings, missing_files
from data_prep.store import Limit, Made, check_free, counts, find_published, read_published, save
from fedseg.cli import python
from fedseg.errors import ConfigError, DataError
from fedseg.partition import Split

Place = tuple[str, ...]
Sample = tuple[str, str]
MARK = "dataset.json"
NO_LIMIT = Limit()


@dataclass(frozen=True)
class Options:
    """What the user asked for.

    Attributes:
        root: the data root.
        distributions: which; empty = all.
        settings: which (IDDA only); empty = all.
        seed: of the splits; rendered images do not depend on it.
        source: published split files instead of our own rules.
        embedded: render the images first.
        size: width and height of rendered images; None = the renderer's own.
        images_per_domain: IDDA only.
        limit: how much of the splits to keep.
        overwrite: replace splits that differ.
    """

    root: Path
    distributions: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    seed: int = 0
    source: Path | None = None
    embedded: bool = False
    size: tuple[int, int] | None = None
    images_per_domain: int = idda.IMAGES_PER_DOMAIN
    limit: Limit = NO_LIMIT
    overwrite: bool = False


class Benchmark(Protocol):
    """A data set with FedDrive's splits, as :func:`prepare` sees it."""

    name: str
    roots: tuple[Path, Path]
    test_users: tuple[str, ...]

    def places(self) -> list[Place]:
        """The splits asked for, as folders below ``splits``."""

    def rule(self, place: Place) -> str:
        """How its clients are made, for the note."""

    def invent(self) -> list[Sample]:
        """Take names for embedded data; returns all of them."""

    def verify(self) -> None:
        """Take the names on disk, checked."""

    def build(self, place: Place) -> tuple[Split, Split]:
        """Train and test split."""

    def domain_of(self, image: str) -> str:
        """The domain of an image path."""

    def render(self, files: Sequence[Sample]) -> None:
        """Render these files."""


class IDDA:
    """IDDA's side of :class:`Benchmark`."""

    name = "idda"
    test_users = ("test_user_diff_domain", "test_user_same_domain")
    domain_of = staticmethod(idda.domain_of)

    def __init__(self, options: Options) -> None:
        self.options = options
        self.roots = (options.root / idda.IMAGE_ROOT, options.root / idda.LABEL_ROOT)

    def places(self) -> list[Place]:
        distributions = _chosen("distribution", self.options.distributions, idda.DISTRIBUTIONS)
        settings = _chosen("setting", self.options.settings, idda.SETTINGS)
        return list(product(distributions, settings))

    def rule(self, place: Place) -> str:
        return idda.RULES[place[0]]

    def invent(self) -> list[Sample]:
        self._images = idda.names(self.options.images_per_domain)
        return [sample for samples in self._images.values() for sample in samples]

    def verify(self) -> None:
        self._images = idda.verify(self.options.root, self.options.images_per_domain)

    def build(self, place: Place) -> tuple[Split, Split]:
        distribution, setting = place
        presence = idda.presence(self.options.root)
        return idda.build(self._images, setting, distribution, self.options.seed, presence)

    def render(self, files: Sequence[Sample]) -> None:
        from data_prep.embedded import write_idda

        size = {} if self.options.size is None else {"size": self.options.size}
        write_idda(self.options.root, files=files, **size)


class Cityscapes:
    """Cityscapes' side of :class:`Benchmark`."""

    name = "cityscapes"
    test_users = ("test_user",)
    domain_of = staticmethod(cityscapes.city_of)

    def __init__(self, options: Options) -> None:
        self.options = options
        self.roots = (options.root / cityscapes.IMAGE_ROOT, options.root / cityscapes.LABEL_ROOT)

    def places(self) -> list[Place]:
        chosen = _chosen("distribution", self.options.distributions, cityscapes.DISTRIBUTIONS)
        return [(distribution,) for distribution in chosen]

    def rule(self, place: Place) -> str:
        return cityscapes.RULES[place[0]]

    def invent(self) -> list[Sample]:
        self._parts = cityscapes.names()
        return [s for part in self._parts for samples in part.values() for s in samples]

    def verify(self) -> None:
        self._parts = cityscapes.verify(self.options.root)

    def build(self, place: Place) -> tuple[Split, Split]:
        presence = cityscapes.presence(self.options.root)
        return cityscapes.build(*self._parts, place[0], self.options.seed, presence)

    def render(self, files: Sequence[Sample]) -> None:
        from data_prep.embedded import write_cityscapes

        size = {} if self.options.size is None else {"size": self.options.size}
        write_cityscapes(self.options.root, files=files, **size)


def prepare(benchmark: Benchmark, options: Options) -> list[Made]:
    """Everything for one data set; the splits are on disk afterwards.

    Without ``embedded`` the images on disk are verified, and what published split files name but
    the disk lacks is told after the files have been copied.

    Raises:
        ConfigError: an option makes no sense here.
        DataError: data or split files are missing or damaged, or would be overwritten.
    """
    if options.size is not None and not options.embedded:
        raise ConfigError("--size: is the size of rendered images, it needs --embedded")
    if options.source is not None and options.images_per_domain != idda.IMAGES_PER_DOMAIN:
        raise ConfigError(
            "--images-per-domain: published split files say which images; leave it out"
        )
    if options.embedded:
        _refuse_real_data(options.root, benchmark.roots)
    if options.source is None:
        made = _own(benchmark, options)
    else:
        made = _published(benchmark, options)
        if options.embedded:
            check_free(options.root, made, options.overwrite)
            benchmark.render(_files(made))
    check_free(options.root, made, options.overwrite)
    for one in made:
        save(options.root, one)
    if options.source is not None:
        _tell_missing(benchmark, options, made)
    return made


def prepare_camvid(root: Path, source: Path | None = None, overwrite: bool = False) -> list[Made]:
    """CamVid: copy it from ``source`` if given, verify it, write its one split."""
    if source is not None and source.resolve() != root.resolve():
        camvid.copy_from(source, root)
    train, test = camvid.build(camvid.verify(root))
    made = Made((), train, test, {"dataset": "camvid", "source": "own rule", "rule": camvid.RULE})
    check_free(root, [made], overwrite)
    save(root, made)
    return [made]


def is_embedded(root: Path) -> bool:
    """Whether the data of a root were rendered, by the file that the renderer leaves there."""
    try:
        return bool(json.loads((root / MARK).read_text(encoding="utf-8")).get("embedded"))
    except (OSError, ValueError, AttributeError):
        return False


def show_summary(made: Sequence[Made], root: Path) -> None:
    """Print a table of the splits, where they are, and the command to run next."""
    table = Table(title=f"splits below {root / 'splits'}", title_justify="left")
    table.add_column("split", no_wrap=True)
    table.add_column("clients", justify="right")
    table.add_column("images", justify="right")
    table.add_column("min/median/max", justify="right", no_wrap=True)
    table.add_column("test images", no_wrap=True)
    for one in made:
        told = counts(one.train, one.test)
        sizes = told["train"]["images_per_client"]
        table.add_row(
            "/".join(one.place) or "train, test",
            str(told["train"]["clients"]),
            str(told["train"]["images"]),
            f"{sizes['min']}/{sizes['median']:g}/{sizes['max']}",
            "\n".join(
                f"{user.removeprefix('test_user_')} {count}"
                for user, count in told["test"]["images"].items()
            ),
        )
    console = Console(soft_wrap=True)
    console.print(table)
    if is_embedded(root):
        console.print(
            "The data are embedded (rendered): figures are not the published benchmark's."
        )
    elif any(one.about.get("limit") for one in made):
        console.print("The splits are limited: figures are not the published benchmark's.")
    command = f"{python()} tools/train.py {_setting(made)} --dry-run"
    if root != Path("data") / made[0].about["dataset"]:
        command += f" --cfg-options {shlex.quote(f'data_root={root}')}"
    console.print(f"Next: {command}", highlight=False)


def _setting(made: Sequence[Made]) -> str:
    """The setting of one of the splits: heterogeneous if there is one, the plain case."""
    one = next((m for m in made if "heterogeneous" in m.place), made[0])
    parts = [one.about["dataset"], one.about.get("setting"), one.about.get("distribution")]
    if parts[0] == "idda" and parts[2] == "heterogeneous":
        parts.pop()
    return f"configs/settings/{'_'.join(part for part in parts if part)}.py"


def _own(benchmark: Benchmark, options: Options) -> list[Made]:
    places = benchmark.places()
    rendered: list[Sample] = []
    if not options.embedded:
        benchmark.verify()
    else:
        every = benchmark.invent()
        # The class-imbalance rule reads label maps, so those must be there first.
        if any("class_imbalance" in place for place in places):
            rendered = every
            benchmark.render(rendered)
    made = [
        _made(benchmark, options, place, *benchmark.build(place), source=None) for place in places
    ]
    if options.embedded and not rendered:
        check_free(options.root, made, options.overwrite)
        benchmark.render(_files(made))
    return made


def _published(benchmark: Benchmark, options: Options) -> list[Made]:
    found = find_published(options.source, benchmark.places())
    return [
        _made(
            benchmark,
            options,
            place,
            *read_published(folder, benchmark.roots, benchmark.test_users),
            source=folder,
        )
        for place, folder in found.items()
    ]


def _made(
    benchmark: Benchmark,
    options: Options,
    place: Place,
    train: Split,
    test: Split,
    source: Path | None,
) -> Made:
    about: dict[str, Any] = {"dataset": benchmark.name, "distribution": place[0]}
    if len(place) > 1:
        about["setting"] = place[1]
    if source is None:
        about.update(source="own rule", rule=benchmark.rule(place), seed=options.seed)
    else:
        about.update(source="published files")
    about["embedded"] = options.embedded or is_embedded(options.root)
    if not options.limit:
        return Made(place, train, test, about, source)
    about["limit"] = {
        "per_user": options.limit.per_user,
        "test_per_domain": options.limit.test_per_domain,
    }
    return Made(place, *options.limit(train, test, benchmark.domain_of), about)


def _files(made: Iterable[Made]) -> list[Sample]:
    """Every sample that the splits name, once, in a fixed order."""
    return sorted({s for one in made for split in (one.train, one.test) for s in split.samples})


def _tell_missing(benchmark: Benchmark, options: Options, made: Sequence[Made]) -> None:
    splits = [split for one in made for split in (one.train, one.test)]
    roots = " and ".join(dict.fromkeys(str(root) for root in benchmark.roots))
    findings = Findings(
        f"the splits are written to {options.root / 'splits'}, but not all they name is on disk",
        f"Put it below {roots} and run this again, or render embedded data with --embedded",
    )
    total = 2 * len(_files(made))
    missing = missing_files(splits, *benchmark.roots)
    findings.add(f"of {total} files missing", missing)
    findings.raise_any()


def _refuse_real_data(root: Path, roots: Iterable[Path]) -> None:
    for folder in roots:
        if folder.is_dir() and any(folder.iterdir()) and not is_embedded(root):
            raise DataError(
                f"{folder}: holds data that --embedded has not rendered ({root / MARK} does not "
                "say so): give another --root"
            )


def _chosen(what: str, asked: Sequence[str], known: Iterable[str]) -> list[str]:
    known = list(known)
    for name in asked:
        if name not in known:
            raise ConfigError(f"--{what} {name}: must be one of {', '.join(known)}")
    return [name for name in known if not asked or name in asked]
