"""Photographs with label maps: verify or render them, build or copy their splits, save these."""

import filecmp
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal

from pydantic import NonNegativeInt, PositiveInt

import fedseg.datasets
from fedseg.datasets import SegmentationDataset
from fedseg.datasets.synthetic import is_synthetic
from fedseg.errors import ConfigError, DataError
from fedseg.files import atomic_writer, read_bytes
from fedseg.names import DISTRIBUTIONS
from fedseg.partition import Split

from . import split_rules, synthetic_streets
from .description import Outcome, PairedSet, Place, next_command
from .disk import Findings, Images, Sample, check_files, find_pairs
from .split_folders import (
    PreparedSplit,
    check_free,
    counts,
    find_published,
    limit,
    read_published,
    save,
)


def prepare_streets(
    data_set: PairedSet,
    root: Path,
    *,
    distribution: Sequence[Literal[DISTRIBUTIONS]] | None = None,
    setting: Sequence[str] | None = None,
    seed: NonNegativeInt = 0,
    source: Path | None = None,
    synthetic: bool = False,
    size: tuple[int, int] | None = None,
    limit_per_user: PositiveInt | None = None,
    limit_test: PositiveInt | None = None,
    overwrite: bool = False,
) -> Outcome:
    """Prepare a data set with FedDrive's splits, on disk afterwards.

    Without ``synthetic`` the images on disk are verified; those that published splits name are
    after the splits have been copied.

    Args:
        distribution, setting: which splits; None: all.
        seed: of the splits; rendered images do not depend on it.
        source: published split files instead of splits by our own rules.
        synthetic: render the images first.
        size: width and height of rendered images; None: the default.
        limit_per_user: keep so many images of each client.
        limit_test: keep so many test images of each domain and test user.
        overwrite: replace splits that differ.

    Raises:
        ConfigError: an option makes no sense here.
        DataError: data or split files are missing or damaged, or would be overwritten.
    """
    if size is not None and not synthetic:
        raise ConfigError("--size: is the size of rendered images, it needs --synthetic")
    kind = _dataset(data_set)
    choices = [distribution or DISTRIBUTIONS]
    named = [bool(distribution)]
    if data_set.settings:
        choices.append(setting or data_set.settings)
        named.append(bool(setting))
    places = list(product(*choices))
    limits = {"per_user": limit_per_user, "test_per_domain": limit_test}
    about = {"synthetic": synthetic or is_synthetic(root)}
    if any(limits.values()):
        about["limit"] = limits
    made = []
    if source is None:
        splits = _splits_by_rule(data_set, root, places, seed, synthetic, size)
    else:
        splits = _published_splits(data_set, root, source, places, named)
    for place, train, test, folder in splits:
        note: dict[str, Any] = {"dataset": data_set.name}
        note |= dict(zip(("distribution", "setting"), place, strict=False))
        if folder is None:
            note |= {"source": "own rule", "rule": data_set.rules[place[0]], "seed": seed}
        else:
            note["source"] = "published files"
        if any(limits.values()):
            train, test = limit(train, test, *limits.values(), kind.domain_of)
            folder = None
        made.append(PreparedSplit(place, train, test, note | about, folder))
    check_free(root, made, overwrite)
    samples = sorted({s for one in made for split in (one.train, one.test) for s in split.samples})
    if synthetic:
        synthetic_streets.write_streets(data_set, root, samples, size)
    for one in made:
        save(root, one)
    if source is not None:
        _check_named(data_set, root, samples)
    return _outcome(made, root)


def prepare_copied(
    data_set: PairedSet, root: Path, *, source: Path | None = None, overwrite: bool = False
) -> Outcome:
    """Prepare a data set with one split by our own rule.

    Args:
        source: copy the images from this folder first.
        overwrite: replace images and splits that differ.

    Raises:
        DataError: images are missing or damaged, or would be overwritten.
    """
    if source is not None and source.resolve() != root.resolve():
        copy_images(data_set, source, root, overwrite)
    train, test = getattr(split_rules, data_set.build)(verify(data_set, root))
    (rule,) = data_set.rules.values()
    about = {"dataset": data_set.name, "source": "own rule", "rule": rule}
    made = [PreparedSplit((), train, test, about)]
    check_free(root, made, overwrite)
    save(root, made[0])
    return _outcome(made, root)


def verify(data_set: PairedSet, root: Path, within: Path | None = None) -> Images:
    """Every image, paired and readable: domain -> samples by folder and name.

    Symbolic links may lead to places ``within`` a folder, by default ``root``.

    Raises:
        DataError: everything that is missing, unpaired, truncated or of unequal size, counted.
    """
    kind, roots = _dataset(data_set), _roots(data_set, root)
    for base in roots:
        if not base.is_dir():
            render = ", or render synthetic data with --synthetic" if data_set.size else ""
            raise DataError(
                f"{base}: does not exist: {data_set.source}, name another root with --root{render}"
            )
    fix = f"To repair it: {data_set.source}"
    findings = Findings(f"{root}: not {data_set.contents}", fix)
    images: Images = {}
    for folders, expected in data_set.folders.items():
        pairs = find_pairs(roots, folders, data_set.suffixes, findings)
        by_domain: Images = {domain: [] for domain in expected}
        for pair in sorted(pairs):
            by_domain.setdefault(kind.domain_of(pair[0]), []).append(pair)
        for domain, samples in by_domain.items():
            images.setdefault(domain, []).extend(samples)
            if (count := expected.get(domain, 0)) != len(samples):
                place = folders[0] if domain in folders[0] else f"{folders[0]}/{domain}"
                findings.add(
                    "folders with another number of pairs",
                    [f"{place} ({len(samples)} instead of {count})"],
                )
    samples = [s for group in images.values() for s in group]
    size = data_set.published_size if within is None else None  # told once, of a copy
    check_files(samples, roots, within or root, findings, size)
    return images


def copy_images(data_set: PairedSet, source: Path, root: Path, overwrite: bool = False) -> None:
    """Verify a data set in ``source``, then copy to ``root`` what is not there.

    Raises:
        DataError: ``source`` does not hold it; or other files are in the way and ``overwrite`` is
            not given.
    """
    folders = [folder for pair in data_set.folders for folder in pair]
    absent = [name for name in folders if not (source / name).is_dir()]
    if absent:
        raise DataError(
            f"{source}: has no folder {absent[0]}: --source must hold {', '.join(folders)}"
        )
    groups = verify(data_set, source, Path("/")).values()
    names = [name for group in groups for sample in group for name in sample]
    for name in names:
        for suffix in set(data_set.suffixes[0]) - {Path(name).suffix}:
            if (twin := (root / name).with_suffix(suffix)).exists():
                raise DataError(f"{twin}: would be there twice, as {name} too: give another --root")
    there = [name for name in names if (root / name).exists()]
    same = {name for name in there if filecmp.cmp(source / name, root / name, shallow=False)}
    if not overwrite and len(same) < len(there):
        first = next(name for name in there if name not in same)
        raise DataError(
            f"{root / first}: is another file than {source / first} ({len(there) - len(same)} "
            "such): give --overwrite to replace them, or another --root"
        )
    for name in names:
        if name not in same:
            with atomic_writer(root / name, "wb") as file:
                file.write(read_bytes(source / name))


def rendered_files(data_set: PairedSet) -> Images:
    """File names of a whole synthetic data set: domain -> samples by name."""
    images: Images = {}
    for folders, expected in data_set.folders.items():
        for domain, count in expected.items():
            numbers = range(data_set.first_number, data_set.first_number + count)
            names = [data_set.rendered_name.format(domain=domain, number=n) for n in numbers]
            parts = tuple(zip(folders, data_set.suffixes, strict=True))
            samples = [tuple(f"{folder}/{n}{suffix}" for folder, suffix in parts) for n in names]
            images[domain] = sorted(samples)
    return images


def _splits_by_rule(
    data_set: PairedSet,
    root: Path,
    places: Sequence[Place],
    seed: int,
    synthetic: bool,
    size: tuple[int, int] | None,
) -> Iterator[tuple[Place, Split, Split, None]]:
    """Splits of the images on disk or of those that will be rendered."""
    if synthetic:
        images = rendered_files(data_set)
        # The class-imbalance rule reads label maps, so those must be there first.
        if any("class_imbalance" in place for place in places):
            samples = [sample for group in images.values() for sample in group]
            synthetic_streets.write_streets(data_set, root, samples, size)
    else:
        images = verify(data_set, root)
    classes = split_rules.presence(_roots(data_set, root)[1], _dataset(data_set).label_ids)
    for place in places:
        yield place, *getattr(split_rules, data_set.build)(images, place, seed, classes), None


def _published_splits(
    data_set: PairedSet,
    root: Path,
    source: Path,
    places: Sequence[Place],
    named: Sequence[bool],
) -> Iterator[tuple[Place, Split, Split, Path]]:
    for place, folder in find_published(source, places, named).items():
        splits = read_published(folder, _roots(data_set, root), data_set.test_users)
        yield place, *splits, folder


def _check_named(data_set: PairedSet, root: Path, samples: Sequence[Sample]) -> None:
    roots = _roots(data_set, root)
    findings = Findings(
        f"{root / 'splits'}: written, but not all files they name are on disk and whole",
        f"Put them below {' and '.join(dict.fromkeys(map(str, roots)))} and run this again, or "
        "render synthetic data with --synthetic",
    )
    check_files(samples, roots, root, findings, data_set.published_size)


def _outcome(made: Sequence[PreparedSplit], root: Path) -> Outcome:
    """The splits in words, and the command to run next."""
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
    about = next((m for m in made if "heterogeneous" in m.place), made[0]).about
    name, distribution = about["dataset"], about.get("distribution")
    if name == "idda" and distribution == "heterogeneous":
        distribution = None
    setting = "_".join(filter(None, [name, about.get("setting"), distribution]))
    folders = [root.joinpath("splits", *one.place) for one in made]
    return Outcome(folders, closing=next_command(setting, Path("data", name), root))


def _dataset(data_set: PairedSet) -> type[SegmentationDataset]:
    return getattr(fedseg.datasets, data_set.dataset)


def _roots(data_set: PairedSet, root: Path) -> tuple[Path, Path]:
    kind = _dataset(data_set)
    return root / kind.image_root, root / kind.label_root
