"""What the segmentation tools do: verify or render, build or copy the splits, save them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from fedseg.checks import check_int
from fedseg.datasets.synthetic import is_synthetic
from fedseg.errors import ConfigError
from fedseg.partition import Split

from . import camvid, synthetic_streets
from .arguments import print_next
from .disk import Findings, Sample, check_files
from .label_classes import presence
from .split_folders import (
    Place,
    PreparedSplit,
    check_free,
    counts,
    find_published,
    limit,
    read_published,
    save,
)


@dataclass(frozen=True)
class Options:
    """What the user asked for."""

    root: Path
    places: Sequence[Place]  # which splits
    seed: int = 0  # of the splits; rendered images do not depend on it
    source: Path | None = None  # published split files instead of our own rules
    synthetic: bool = False  # render the images first
    size: tuple[int, int] | None = None  # width and height of rendered images; None: the default
    limit_per_user: int | None = None  # keep so many images of each client
    limit_test: int | None = None  # keep so many test images of each domain and test user
    overwrite: bool = False  # replace splits that differ
    named: Sequence[bool] = ()  # of a place's parts: the user named it, so ``source`` must have it


def prepare(benchmark: ModuleType, options: Options) -> list[PreparedSplit]:
    """Everything for a data set with FedDrive's splits (its module), on disk afterwards.

    Without ``synthetic`` the images on disk are verified; those that published splits name are
    after the splits have been copied.

    Raises:
        ConfigError: an option makes no sense here.
        DataError: data or split files are missing or damaged, or would be overwritten.
    """
    for field, value in (
        ("--limit-per-user", options.limit_per_user),
        ("--limit-test", options.limit_test),
    ):
        if value is not None:
            check_int(field, value)
    check_int("--seed", options.seed, least=0)
    if options.size is not None and not options.synthetic:
        raise ConfigError("--size: is the size of rendered images, it needs --synthetic")
    make = _own_splits if options.source is None else _published_splits
    made = [_prepared(benchmark, options, *one) for one in make(benchmark, options)]
    check_free(options.root, made, options.overwrite)
    if options.synthetic:
        synthetic_streets.write_streets(benchmark, options.root, _samples(made), options.size)
    for one in made:
        save(options.root, one)
    if options.source is not None:
        _check_named(benchmark, options.root, made)
    return made


def prepare_camvid(
    root: Path, source: Path | None = None, overwrite: bool = False
) -> list[PreparedSplit]:
    """CamVid: copy it from ``source`` if given, verify it, write its one split."""
    if source is not None and source.resolve() != root.resolve():
        camvid.copy_from(source, root, overwrite)
    train, test = camvid.build(camvid.verify(root))
    made = PreparedSplit(
        (), train, test, {"dataset": "camvid", "source": "own rule", "rule": camvid.RULE}
    )
    check_free(root, [made], overwrite)
    save(root, made)
    return [made]


def show_summary(made: Sequence[PreparedSplit], root: Path) -> None:
    """Print the splits, and the command to run next."""
    for one in made:
        train, test = counts(one.train, one.test).values()
        sizes = train["images_per_client"]
        print(
            f"{root.joinpath('splits', *one.place)}: {train['clients']} clients with "
            f"{train['images']} images, {sizes['min']} to {sizes['max']} each (median "
            f"{sizes['median']:g}); {', '.join(f'{u}: {n}' for u, n in test['images'].items())}"
        )
    if is_synthetic(root):
        print("The data are synthetic: results are not comparable with published ones.")
    elif any(one.about.get("limit") for one in made):
        print("The splits are limited: results are not comparable with published ones.")
    # the setting of one of the splits: heterogeneous if there is one, the plain case
    one = next((m for m in made if "heterogeneous" in m.place), made[0])
    parts = [one.about["dataset"], one.about.get("setting"), one.about.get("distribution")]
    if parts[0] == "idda" and parts[2] == "heterogeneous":
        parts.pop()
    print_next("_".join(filter(None, parts)), Path("data", one.about["dataset"]), root)


def _own_splits(benchmark: ModuleType, options: Options) -> Iterator[tuple[Place, Split, Split]]:
    """Splits by our own rules, of the images on disk or of those that will be rendered."""
    if options.synthetic:
        images = benchmark.names()
        # The class-imbalance rule reads label maps, so those must be there first.
        if any("class_imbalance" in place for place in options.places):
            every = [sample for group in images.values() for sample in group]
            synthetic_streets.write_streets(benchmark, options.root, every, options.size)
    else:
        images = benchmark.verify(options.root)
    kind = benchmark.DATASET
    classes = presence(options.root / kind.label_root, kind.label_ids)
    for place in options.places:
        yield place, *benchmark.build(images, *reversed(place), options.seed, classes)


def _published_splits(
    benchmark: ModuleType, options: Options
) -> Iterator[tuple[Place, Split, Split, Path]]:
    found = find_published(options.source, options.places, options.named)
    for place, folder in found.items():
        roots = _roots(benchmark, options.root)
        yield place, *read_published(folder, roots, benchmark.TEST_USERS), folder


def _prepared(
    benchmark: ModuleType,
    options: Options,
    place: Place,
    train: Split,
    test: Split,
    source: Path | None = None,
) -> PreparedSplit:
    """A split with its note, cut down to the limits."""
    about: dict[str, Any] = {"dataset": benchmark.NAME}
    about |= dict(zip(("distribution", "setting"), place, strict=False))
    if source is None:
        rule = benchmark.RULES[place[0]]
        about.update(source="own rule", rule=rule, seed=options.seed)
    else:
        about.update(source="published files")
    about["synthetic"] = options.synthetic or is_synthetic(options.root)
    limits = {"per_user": options.limit_per_user, "test_per_domain": options.limit_test}
    if not any(limits.values()):
        return PreparedSplit(place, train, test, about, source)
    train, test = limit(train, test, *limits.values(), benchmark.DATASET.domain_of)
    return PreparedSplit(place, train, test, {**about, "limit": limits})


def _samples(made: Sequence[PreparedSplit]) -> list[Sample]:
    """Every sample that the splits name, once, in a fixed order."""
    return sorted({s for one in made for split in (one.train, one.test) for s in split.samples})


def _roots(benchmark: ModuleType, root: Path) -> tuple[Path, Path]:
    return root / benchmark.DATASET.image_root, root / benchmark.DATASET.label_root


def _check_named(benchmark: ModuleType, root: Path, made: Sequence[PreparedSplit]) -> None:
    roots, samples = _roots(benchmark, root), _samples(made)
    findings = Findings(
        f"{root / 'splits'}: written, but not all files they name are on disk and whole",
        f"Put them below {' and '.join(dict.fromkeys(map(str, roots)))} and run this again, or "
        "render synthetic data with --synthetic",
    )
    check_files(samples, roots, root, findings, getattr(benchmark, "PUBLISHED_SIZE", None))
