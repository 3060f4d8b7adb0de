"""What the segmentation tools do: verify or render, build or copy the splits, save them."""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from rich.console import Console
from rich.table import Table

from data_prep import camvid, cityscapes, idda, label_classes, synthetic_streets
from data_prep.disk import Findings, Sample, missing_files
from data_prep.split_folders import (
    Limit,
    PreparedSplit,
    check_free,
    counts,
    find_published,
    read_published,
    save,
)
from fedseg.cli import python
from fedseg.datasets import CityscapesDataset, IDDADataset
from fedseg.datasets.synthetic import MARKER, is_synthetic
from fedseg.errors import ConfigError, DataError
from fedseg.partition import Split

Place = tuple[str, ...]
NO_LIMIT = Limit()


@dataclass(frozen=True)
class BenchmarkOptions:
    """What the user asked for."""

    root: Path
    distributions: tuple[str, ...] = ()  # empty: all
    settings: tuple[str, ...] = ()  # IDDA only; empty: all
    seed: int = 0  # of the splits; rendered images do not depend on it
    source: Path | None = None  # published split files instead of our own rules
    synthetic: bool = False  # render the images first
    size: tuple[int, int] | None = None  # width and height of rendered images; None: the default
    images_per_domain: int = idda.IMAGES_PER_DOMAIN  # IDDA only
    limit: Limit = NO_LIMIT  # how much of the splits to keep
    overwrite: bool = False  # replace splits that differ


class Benchmark:
    """A data set with FedDrive's splits, as :func:`prepare` sees it.

    A place is a split's folder below ``splits``: (distribution,) or (distribution, setting).
    Subclasses add ``places()``, the splits asked for; ``plan()`` or ``verify()``, which take the
    file names of synthetic data or of those on disk, and ``plan`` returns them; ``build(place)``;
    and ``render(files)``.
    """

    name: ClassVar[str]
    module: ClassVar[ModuleType]
    label_ids: ClassVar[Mapping[int, int]]
    test_users: ClassVar[tuple[str, ...]]
    domain_of: ClassVar[Callable[[str], str]]

    def __init__(self, options: BenchmarkOptions) -> None:
        self.options = options
        self.roots = (options.root / self.module.IMAGE_ROOT, options.root / self.module.LABEL_ROOT)
        self.presence = label_classes.presence(options.root, self.module.LABEL_ROOT, self.label_ids)


class IDDA(Benchmark):
    """IDDA's side of :class:`Benchmark`."""

    name, module, label_ids = "idda", idda, IDDADataset.label_ids
    test_users = ("test_user_diff_domain", "test_user_same_domain")
    domain_of = staticmethod(idda.domain_of)

    def places(self) -> list[Place]:
        distributions = self.options.distributions or idda.DISTRIBUTIONS
        return list(product(distributions, self.options.settings or idda.SETTINGS))

    def plan(self) -> list[Sample]:
        self._images = idda.names(self.options.images_per_domain)
        return [sample for samples in self._images.values() for sample in samples]

    def verify(self) -> None:
        self._images = idda.verify(self.options.root, self.options.images_per_domain)

    def build(self, place: Place) -> tuple[Split, Split]:
        distribution, setting = place
        return idda.build(self._images, setting, distribution, self.options.seed, self.presence)

    def render(self, files: Sequence[Sample], **size: tuple[int, int]) -> None:
        synthetic_streets.write_idda(self.options.root, files, **size)


class Cityscapes(Benchmark):
    """Cityscapes' side of :class:`Benchmark`."""

    name, module, label_ids = "cityscapes", cityscapes, CityscapesDataset.label_ids
    test_users = ("test_user",)
    domain_of = staticmethod(cityscapes.city_of)

    def places(self) -> list[Place]:
        return [(name,) for name in self.options.distributions or cityscapes.DISTRIBUTIONS]

    def plan(self) -> list[Sample]:
        self._parts = cityscapes.names()
        return [s for part in self._parts for samples in part.values() for s in samples]

    def verify(self) -> None:
        self._parts = cityscapes.verify(self.options.root)

    def build(self, place: Place) -> tuple[Split, Split]:
        return cityscapes.build(*self._parts, place[0], self.options.seed, self.presence)

    def render(self, files: Sequence[Sample], **size: tuple[int, int]) -> None:
        synthetic_streets.write_cityscapes(self.options.root, files, **size)


def prepare(benchmark: Benchmark) -> list[PreparedSplit]:
    """Everything for one data set; the splits are on disk afterwards.

    Without ``synthetic`` the images on disk are verified; files that published splits name but the
    disk lacks are reported after the splits have been copied.

    Raises:
        ConfigError: an option makes no sense here.
        DataError: data or split files are missing or damaged, or would be overwritten.
    """
    options = benchmark.options
    if options.size is not None and not options.synthetic:
        raise ConfigError("--size: is the size of rendered images, it needs --synthetic")
    if options.source is not None and options.images_per_domain != idda.IMAGES_PER_DOMAIN:
        raise ConfigError(
            "--images-per-domain: published split files say which images; leave it out"
        )
    if options.synthetic:
        _refuse_real_data(options.root, benchmark.roots)
    made, rendered = _published(benchmark) if options.source is not None else _own(benchmark)
    check_free(options.root, made, options.overwrite)
    if options.synthetic and not rendered:
        _render(benchmark, _files(made))
    for one in made:
        save(options.root, one)
    if options.source is not None:
        _report_missing(benchmark, made)
    return made


def prepare_camvid(
    root: Path, source: Path | None = None, overwrite: bool = False
) -> list[PreparedSplit]:
    """CamVid: copy it from ``source`` if given, verify it, write its one split."""
    if source is not None and source.resolve() != root.resolve():
        camvid.copy_from(source, root)
    train, test = camvid.build(camvid.verify(root))
    made = PreparedSplit(
        (), train, test, {"dataset": "camvid", "source": "own rule", "rule": camvid.RULE}
    )
    check_free(root, [made], overwrite)
    save(root, made)
    return [made]


def show_summary(made: Sequence[PreparedSplit], root: Path) -> None:
    """Print a table of the splits, where they are, and the command to run next."""
    table = Table(title=f"splits below {root / 'splits'}", title_justify="left")
    table.add_column("split", no_wrap=True)
    table.add_column("clients", justify="right")
    table.add_column("images", justify="right")
    table.add_column("min/median/max", justify="right", no_wrap=True)
    table.add_column("test images", no_wrap=True)
    for one in made:
        train, test = counts(one.train, one.test).values()
        sizes = train["images_per_client"]
        table.add_row(
            "/".join(one.place) or "train, test",
            str(train["clients"]),
            str(train["images"]),
            f"{sizes['min']}/{sizes['median']:g}/{sizes['max']}",
            "\n".join(
                f"{user.removeprefix('test_user_')} {count}"
                for user, count in test["images"].items()
            ),
        )
    console = Console(soft_wrap=True)
    console.print(table)
    if is_synthetic(root):
        console.print("The data are synthetic: results are not comparable with published ones.")
    elif any(one.about.get("limit") for one in made):
        console.print("The splits are limited: results are not comparable with published ones.")
    command = f"{python()} tools/train.py {_setting(made)} --dry-run"
    if root != Path("data") / made[0].about["dataset"]:
        command += f" --cfg-options {shlex.quote(f'data_root={root}')}"
    console.print(f"Next: {command}", highlight=False)


def _setting(made: Sequence[PreparedSplit]) -> str:
    """A config that trains on one of the splits: heterogeneous if there is one, the plain case."""
    one = next((m for m in made if "heterogeneous" in m.place), made[0])
    parts = [one.about["dataset"], one.about.get("setting"), one.about.get("distribution")]
    if parts[0] == "idda" and parts[2] == "heterogeneous":
        parts.pop()
    return f"configs/settings/{'_'.join(part for part in parts if part)}.py"


def _own(benchmark: Benchmark) -> tuple[list[PreparedSplit], bool]:
    """Splits by our own rules, and whether all images were rendered for them."""
    places, rendered = benchmark.places(), False
    if not benchmark.options.synthetic:
        benchmark.verify()
    else:
        every = benchmark.plan()
        # The class-imbalance rule reads label maps, so those must be there first.
        rendered = any("class_imbalance" in place for place in places)
        if rendered:
            _render(benchmark, every)
    return [_made(benchmark, place, *benchmark.build(place)) for place in places], rendered


def _published(benchmark: Benchmark) -> tuple[list[PreparedSplit], bool]:
    found = find_published(benchmark.options.source, benchmark.places())
    return [
        _made(
            benchmark,
            place,
            *read_published(folder, benchmark.roots, benchmark.test_users),
            source=folder,
        )
        for place, folder in found.items()
    ], False


def _made(
    benchmark: Benchmark, place: Place, train: Split, test: Split, source: Path | None = None
) -> PreparedSplit:
    options = benchmark.options
    about: dict[str, Any] = {"dataset": benchmark.name}
    about |= dict(zip(("distribution", "setting"), place, strict=False))
    if source is None:
        rule = benchmark.module.RULES[place[0]]
        about.update(source="own rule", rule=rule, seed=options.seed)
    else:
        about.update(source="published files")
    about["synthetic"] = options.synthetic or is_synthetic(options.root)
    if not options.limit:
        return PreparedSplit(place, train, test, about, source)
    about["limit"] = {
        "per_user": options.limit.per_user,
        "test_per_domain": options.limit.test_per_domain,
    }
    return PreparedSplit(place, *options.limit(train, test, benchmark.domain_of), about)


def _render(benchmark: Benchmark, files: Sequence[Sample]) -> None:
    size = benchmark.options.size
    benchmark.render(files, **({} if size is None else {"size": size}))


def _files(made: Iterable[PreparedSplit]) -> list[Sample]:
    """Every sample that the splits name, once, in a fixed order."""
    return sorted({s for one in made for split in (one.train, one.test) for s in split.samples})


def _report_missing(benchmark: Benchmark, made: Sequence[PreparedSplit]) -> None:
    roots = " and ".join(dict.fromkeys(str(root) for root in benchmark.roots))
    findings = Findings(
        f"{benchmark.options.root / 'splits'}: written, but not all files they name are on disk",
        f"Put them below {roots} and run this again, or render synthetic data with --synthetic",
    )
    splits = [split for one in made for split in (one.train, one.test)]
    missing = missing_files(splits, *benchmark.roots)
    findings.add(f"of {2 * len(_files(made))} files missing", missing)
    findings.raise_any()


def _refuse_real_data(root: Path, roots: Iterable[Path]) -> None:
    for folder in roots:
        if folder.is_dir() and any(folder.iterdir()) and not is_synthetic(root):
            raise DataError(
                f"{folder}: holds data that --synthetic has not rendered ({root / MARKER} does not "
                "say so): give another --root"
            )
