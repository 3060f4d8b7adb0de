"""FedDrive's splits of Cityscapes and IDDA: of images on disk, rendered ones or published files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from fedseg.datasets.arrays import is_synthetic
from fedseg.errors import ConfigError, DataError
from fedseg.names import DISTRIBUTIONS
from fedseg.partition import Split

from . import synthetic_streets
from .disk import Findings, Images, Sample, check_files
from .facts import PairedSet, Place
from .outcome import Outcome, fewer_clients, next_command
from .paired_images import kind_of, rendered_files, roots_of, verify
from .split_folders import (
    PreparedSplit,
    check_free,
    find_published,
    limit,
    present_samples,
    print_splits,
    read_published,
    save,
)
from .split_rules import Presence, read_presence

# images of each domain, a split's place, a seed and a reader of classes -> train and test
Rule = Callable[[Images, Place, int, Presence], tuple[Split, Split]]


def prepare_feddrive(
    data_set: PairedSet,
    root: Path,
    build: Rule,
    *,
    distribution: Sequence[str] | None,
    setting: Sequence[str] | None = None,
    seed: int,
    source: Path | None,
    synthetic: bool,
    size: tuple[int, int] | None,
    limit_per_user: int | None,
    limit_test: int | None,
    unofficial: bool,
    overwrite: bool,
) -> Outcome:
    """Write FedDrive's splits of a data set.

    Without ``synthetic`` the images on disk are verified; those that published splits name are
    after the splits have been copied.

    Args:
        build: the rule that makes a split where there is no published one.
        source: folder of published split files.
    """
    _check_options(data_set, synthetic, size, limit_per_user, unofficial)
    choices = [distribution or DISTRIBUTIONS]
    if data_set.settings:
        choices.append(setting or data_set.settings)
    places = list(product(*choices))
    if source is None:
        images = _find_images(data_set, root, places, synthetic, size, unofficial)
        splits = _build_splits(data_set, root, build, places, images, seed)
    else:
        required = distribution is not None or setting is not None
        folders = find_published(source, places, required)
        splits = _read_splits(data_set, root, folders, unofficial)
    splits = _usable(splits, root)
    for split in splits:
        split.about["synthetic"] = synthetic or is_synthetic(root)
    limits = {"per_user": limit_per_user, "test_per_domain": limit_test}
    if any(limits.values()):
        splits = [_limited(data_set, split, limits) for split in splits]
    check_free(root, splits, overwrite)
    samples: set[Sample] = set()
    for split in splits:
        samples.update(split.train.samples, split.test.samples)
    if synthetic:
        synthetic_streets.write_streets(data_set, root, sorted(samples), size)
    for split in splits:
        save(root, split)
    if source is not None:
        _check_named(data_set, root, sorted(samples))
    return _outcome(data_set, splits, root)


def _check_options(
    data_set: PairedSet,
    synthetic: bool,
    size: tuple[int, int] | None,
    limit_per_user: int | None,
    unofficial: bool,
) -> None:
    """Raise ConfigError for options that have no effect, or leave a client without a batch."""
    if size is not None and not synthetic:
        raise ConfigError("--size: is the size of rendered images, it needs --synthetic")
    if unofficial and synthetic:
        raise ConfigError("--unofficial: is for images on disk, not with --synthetic")
    if limit_per_user is not None and limit_per_user * data_set.copies < 2:
        raise ConfigError("--limit-per-user: must be at least 2, not 1: BatchNorm needs two images")


def _find_images(
    data_set: PairedSet,
    root: Path,
    places: Sequence[Place],
    synthetic: bool,
    size: tuple[int, int] | None,
    unofficial: bool,
) -> Images:
    """Verify the images on disk, or name those that are rendered: domain -> samples."""
    if not synthetic:
        images = verify(data_set, root, unofficial=unofficial)
        return {domain: samples for domain, samples in images.items() if samples}
    images = rendered_files(data_set)
    if any("class_imbalance" in place for place in places):
        # its rule reads label maps, so those must be there first
        samples = [sample for group in images.values() for sample in group]
        synthetic_streets.write_streets(data_set, root, samples, size)
    return images


def _build_splits(
    data_set: PairedSet,
    root: Path,
    build: Rule,
    places: Sequence[Place],
    images: Images,
    seed: int,
) -> list[PreparedSplit]:
    """Make splits by our rules."""
    count = sum(len(samples) for samples in images.values())
    presence = read_presence(roots_of(data_set, root)[1], kind_of(data_set))
    splits = []
    for place in places:
        about = _about(data_set, place)
        about |= {"source": "own rule", "rule": data_set.rules[place[0]], "seed": seed}
        if count < data_set.count:
            about["unofficial"] = f"{count} of {data_set.count} images"
        train, test = build(images, place, seed, presence)
        unassigned = count - len(train) - len(test)
        if unassigned:
            print(f"  {'/'.join(place)}: {unassigned} images belong to no client")
        splits.append(PreparedSplit(place=place, train=train, test=test, about=about))
    return splits


def _read_splits(
    data_set: PairedSet, root: Path, folders: Mapping[Place, Path], unofficial: bool
) -> list[PreparedSplit]:
    """Read published splits or, if ``unofficial``, the part of them whose images are there."""
    splits = []
    for place, folder in folders.items():
        about = _about(data_set, place) | {"source": "published files"}
        train, test = read_published(folder, data_set.test_users)
        split = PreparedSplit(place, train, test, about, folder)
        splits.append(_present_part(data_set, root, split) if unofficial else split)
    return splits


def _present_part(data_set: PairedSet, root: Path, split: PreparedSplit) -> PreparedSplit:
    """Keep the samples of a published split that are on disk, and clients with enough of them."""
    roots = roots_of(data_set, root)
    least = 2 // data_set.copies  # which BatchNorm needs
    present = present_samples(split.train, roots)
    train = Split({u: samples for u, samples in present.users.items() if len(samples) >= least})
    test = present_samples(split.test, roots)
    published = len(split.train) + len(split.test)
    count = len(train) + len(test)
    if count == published:
        return split
    about = {**split.about, "unofficial": f"{count} of {published} images"}
    return PreparedSplit(split.place, train, test, about)


def _about(data_set: PairedSet, place: Place) -> dict[str, Any]:
    """Begin the note of a split."""
    names = ("distribution", "setting")
    return {"dataset": data_set.name, **dict(zip(names, place, strict=False))}


def _usable(splits: Sequence[PreparedSplit], root: Path) -> list[PreparedSplit]:
    """Keep the splits with images for training and for every test; the others are printed."""
    usable = []
    for split in splits:
        empty = [user for user, samples in split.test.users.items() if not samples]
        if not len(split.train):
            empty.append("training")
        if empty:
            print(f"  {'/'.join(split.place)}: left out, no images for {', '.join(empty)}")
        else:
            usable.append(split)
    if not usable:
        raise DataError(f"{root}: has too few images for training and for tests: add some")
    return usable


def _limited(
    data_set: PairedSet, split: PreparedSplit, limits: Mapping[str, int | None]
) -> PreparedSplit:
    """Cut a split down for a trial, which is no copy of published files."""
    template = kind_of(data_set).image_path
    train, test = limit(
        split.train, split.test, limits["per_user"], limits["test_per_domain"], template
    )
    about = {**split.about, "limit": dict(limits)}
    return replace(split, train=train, test=test, about=about, source=None)


def _check_named(data_set: PairedSet, root: Path, samples: Sequence[Sample]) -> None:
    """Raise DataError unless all files that published splits name are on disk and whole."""
    roots = roots_of(data_set, root)
    findings = Findings(
        f"{root / 'splits'}: written, but not all files they name are on disk and whole",
        f"Put them below {' and '.join(dict.fromkeys(map(str, roots)))} and run this again, or "
        "render synthetic data with --synthetic",
    )
    check_files(samples, roots, root, findings, data_set.published_size)


def _outcome(data_set: PairedSet, splits: Sequence[PreparedSplit], root: Path) -> Outcome:
    """Print the splits; the command to run next."""
    folders = print_splits(splits, root)
    abouts = [split.about for split in splits]
    reason = None
    if is_synthetic(root):
        reason = "The data are synthetic"
    elif any(about.get("unofficial") for about in abouts):
        reason = "The data set is incomplete"
    elif any(about.get("limit") for about in abouts):
        reason = "The splits are limited"
    if reason is not None:
        print(f"{reason}: results are not comparable with published ones.")
    # the setting of one of the splits: heterogeneous if there is one, the plain case
    split = next((s for s in splits if "heterogeneous" in s.place), splits[0])
    distribution = split.about["distribution"]
    words = [data_set.name]
    if data_set.settings:
        words.append(split.about["setting"])
    if not data_set.settings or distribution != "heterogeneous":
        words.append(distribution)
    usual = Path("data", data_set.name)
    options = _training_options(data_set, split)
    return Outcome(root, folders, closing=next_command("_".join(words), usual, root, options))


def _training_options(data_set: PairedSet, split: PreparedSplit) -> list[str]:
    """Write what the setting's config must change for clients that are smaller or fewer."""
    options = []
    fewest = min(len(samples) for samples in split.train.users.values()) * data_set.copies
    if fewest < data_set.batch_size:
        options.append(f"train_dataloader.batch_size={max(2, fewest)}")
    return options + fewer_clients(data_set.clients_per_round, len(split.train.users))
