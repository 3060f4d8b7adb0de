"""Photographs with label maps: verify or render them, build or copy their splits, save these."""

import filecmp
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import fedseg.datasets
from fedseg.datasets import SegmentationDataset
from fedseg.datasets.arrays import is_synthetic
from fedseg.datasets.templates import fields_of, fill
from fedseg.errors import ConfigError, DataError
from fedseg.files import atomic_writer
from fedseg.names import DISTRIBUTIONS
from fedseg.partition import Split

from . import split_rules, synthetic_streets
from .description import Outcome, PairedSet, Place, fewer_clients, next_command
from .disk import Findings, Images, check_files, find_pairs
from .segmentation_sets import IDDA, CopyOptions, IddaOptions, StreetOptions
from .split_folders import (
    PreparedSplit,
    check_free,
    count_samples,
    find_published,
    limit,
    present_samples,
    read_published,
    save,
)

DEMO = Path("data/demo_weather")


def prepare_streets(data_set: PairedSet, root: Path, options: StreetOptions) -> Outcome:
    """Prepare a data set with FedDrive's splits, on disk afterwards.

    Without ``synthetic`` the images on disk are verified; those that published splits name are
    after the splits have been copied.
    """
    _check_options(data_set, options)
    kind, roots = _read(data_set, root)
    choices = [options.distribution or DISTRIBUTIONS]
    if data_set.settings:
        choices.append(getattr(options, "setting", None) or data_set.settings)
    places = list(product(*choices))
    if options.source is None:
        splits = _own_splits(data_set, root, places, options)
    else:
        splits = _published_splits(data_set, root, places, options)
    for split in splits:
        split.about["synthetic"] = options.synthetic or is_synthetic(root)
    limits = {"per_user": options.limit_per_user, "test_per_domain": options.limit_test}
    if any(limits.values()):
        splits = [_limited(split, limits, kind) for split in splits]
    check_free(root, splits, options.overwrite)
    samples = sorted({s for split in splits for part in split.parts for s in part.samples})
    if options.synthetic:
        synthetic_streets.write_streets(data_set, root, samples, options.size)
    for split in splits:
        save(root, split)
    if options.source is not None:
        findings = Findings(
            f"{root / 'splits'}: written, but not all files they name are on disk and whole",
            f"Put them below {' and '.join(dict.fromkeys(map(str, roots)))} and run this again, or "
            "render synthetic data with --synthetic",
        )
        check_files(samples, roots, root, findings, data_set.published_size)
    return _outcome(data_set, splits, root)


def _check_options(data_set: PairedSet, options: StreetOptions) -> None:
    if options.size is not None and not options.synthetic:
        raise ConfigError("--size: is the size of rendered images, it needs --synthetic")
    if options.unofficial and options.synthetic:
        raise ConfigError("--unofficial: is for images on disk, not with --synthetic")
    if options.limit_per_user is not None and options.limit_per_user * data_set.copies < 2:
        raise ConfigError("--limit-per-user: must be at least 2, not 1: BatchNorm needs two images")


def _own_splits(
    data_set: PairedSet, root: Path, places: Sequence[Place], options: StreetOptions
) -> list[PreparedSplit]:
    """Splits by our rules, of all images or, if ``unofficial``, of those that are there."""
    kind, roots = _read(data_set, root)
    if options.synthetic:
        images = rendered_files(data_set)
    else:
        images = verify(data_set, root, unofficial=options.unofficial)
        images = {domain: samples for domain, samples in images.items() if samples}
    everything = [sample for group in images.values() for sample in group]
    if options.synthetic and any("class_imbalance" in place for place in places):
        # its rule reads label maps, so those must be there first
        synthetic_streets.write_streets(data_set, root, everything, options.size)
    presence = split_rules.read_presence(roots[1], kind)
    build = getattr(split_rules, data_set.build)
    splits = []
    for place in places:
        about = _about(data_set, place)
        about |= {"source": "own rule", "rule": data_set.rules[place[0]], "seed": options.seed}
        if len(everything) < data_set.count:
            about["unofficial"] = f"{len(everything)} of {data_set.count} images"
        train, test = build(images, place, options.seed, presence)
        if left := len(everything) - len(train) - len(test):
            print(f"  {'/'.join(place)}: {left} images belong to no client")
        splits.append(PreparedSplit(place, train, test, about))
    return _usable(splits, root)


def _published_splits(
    data_set: PairedSet, root: Path, places: Sequence[Place], options: StreetOptions
) -> list[PreparedSplit]:
    """Published splits or, if ``unofficial``, the part of them whose images are there."""
    _, roots = _read(data_set, root)
    required = bool(options.distribution or getattr(options, "setting", None))
    splits = []
    for place, folder in find_published(options.source, places, required).items():
        about = _about(data_set, place) | {"source": "published files"}
        train, test = read_published(folder, data_set.test_users)
        named = len(train) + len(test)
        if options.unofficial:
            train, test = present_samples(train, roots), present_samples(test, roots)
            least = 2 // data_set.copies  # which BatchNorm needs
            train = Split({u: held for u, held in train.users.items() if len(held) >= least})
        if len(train) + len(test) < named:
            about["unofficial"] = f"{len(train) + len(test)} of {named} images"
            folder = None  # no copy
        splits.append(PreparedSplit(place, train, test, about, folder))
    return _usable(splits, root)


def _about(data_set: PairedSet, place: Place) -> dict[str, Any]:
    """The first entries of a split's note."""
    names = ("distribution", "setting")
    return {"dataset": data_set.name, **dict(zip(names, place, strict=False))}


def _usable(splits: Sequence[PreparedSplit], root: Path) -> list[PreparedSplit]:
    """The splits with images for training and for every test; the others are printed."""
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
    split: PreparedSplit, limits: Mapping[str, int | None], kind: type[SegmentationDataset]
) -> PreparedSplit:
    """A split cut down for a trial, which is no copy of published files."""
    train, test = limit(split.train, split.test, *limits.values(), kind.image_path)
    about = {**split.about, "limit": dict(limits)}
    return replace(split, train=train, test=test, about=about, source=None)


def prepare_copied(data_set: PairedSet, root: Path, options: CopyOptions) -> Outcome:
    """Prepare a data set with one split by our own rule."""
    if options.source is not None and options.source.resolve() != root.resolve():
        copy_images(data_set, options.source, root, options.overwrite)
    train, test = getattr(split_rules, data_set.build)(verify(data_set, root))
    (rule,) = data_set.rules.values()
    about = {"dataset": data_set.name, "source": "own rule", "rule": rule}
    split = PreparedSplit((), train, test, about)
    check_free(root, [split], options.overwrite)
    save(root, split)
    return _outcome(data_set, [split], root)


def prepare_demo_streets(root: Path = DEMO, size: tuple[int, int] = (232, 128)) -> None:
    """Streets for the demos, in a folder of their own: IDDA in its rainy setting, few images.

    Args:
        size: width and height in pixels.
    """
    prepare_streets(
        IDDA,
        root,
        IddaOptions(
            distribution=["heterogeneous"],
            setting=["rainy"],
            synthetic=True,
            size=size,
            limit_per_user=8,
            limit_test=1,  # of each of the 69 seen and 35 unseen domains
            overwrite=True,  # of splits: the folder is the demo's own
        ),
    )


def verify(
    data_set: PairedSet, root: Path, print_sizes: bool = True, unofficial: bool = False
) -> Images:
    """Every image, paired and readable: domain -> samples by folder and name.

    Args:
        print_sizes: print whether images have the published size.
        unofficial: accept any number of images.
    """
    kind, roots = _read(data_set, root)
    for base in roots:
        if not base.is_dir():
            render = ", or render synthetic data with --synthetic" if data_set.size else ""
            raise DataError(
                f"{base}: does not exist: {data_set.source}, name another root with --root{render}"
            )
    pairs = find_pairs(roots, kind.image_path, kind.label_path)
    counts = {split: dict.fromkeys(domains, 0) for split, domains in data_set.folders.items()}
    images: Images = {}
    for split, domains in counts.items():
        for sample in pairs.samples:
            fields = fields_of(kind.image_path, sample[0])
            if fields.get("split", "") == split:
                domain = fields["domain"]
                domains[domain] = domains.get(domain, 0) + 1
                images.setdefault(domain, []).append(sample)
    fix = data_set.source
    if data_set.size and not unofficial:
        fix += ", or accept the images that are there with --unofficial"
    findings = Findings(f"{root}: is not {data_set.contents}", fix)
    if not unofficial:
        findings.add("images without a label map", _listed(kind.image_path, pairs.images, counts))
        findings.add("label maps without an image", _listed(kind.label_path, pairs.labels, counts))
        findings.add("folders with another number of pairs", _other_counts(data_set, counts))
        findings.raise_any()
    samples = [sample for group in images.values() for sample in group]
    size = data_set.published_size if print_sizes else None
    check_files(samples, roots, root, findings, size)
    return images


def _listed(template: str, paths: Sequence[str], counts: Mapping[str, Any]) -> list[str]:
    """The paths that are of the published splits."""
    return [path for path in paths if fields_of(template, path).get("split", "") in counts]


def _other_counts(data_set: PairedSet, counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """The domains that have another number of pairs than is published."""
    others = []
    for split, domains in counts.items():
        for domain, count in domains.items():
            published = data_set.folders[split].get(domain, 0)
            if count != published:
                place = f"{split}/{domain}".removeprefix("/")
                others.append(f"{place} ({count} instead of {published})")
    return others


def copy_images(data_set: PairedSet, source: Path, root: Path, overwrite: bool = False) -> None:
    """Verify a data set in ``source``, then copy to ``root`` what is not there."""
    groups = verify(data_set, source, print_sizes=False).values()
    names = [name for group in groups for sample in group for name in sample]
    present = {name for name in names if (root / name).exists()}
    same = {n for n in present if filecmp.cmp(source / n, root / n, shallow=False)}
    if not overwrite and (others := sorted(present - same)):
        raise DataError(
            f"{root / others[0]}: is another file than {source / others[0]} ({len(others)} such): "
            "give --overwrite to replace them, or another --root"
        )
    for name in names:
        if name not in same:
            with atomic_writer(root / name, "wb") as file, open(source / name, "rb") as original:
                shutil.copyfileobj(original, file)


def rendered_files(data_set: PairedSet) -> Images:
    """File names of a whole synthetic data set: domain -> samples by name."""
    kind = getattr(fedseg.datasets, data_set.dataset)
    images: Images = {}
    for split, domains in data_set.folders.items():
        for domain, count in domains.items():
            samples = []
            for number in range(data_set.first_number, data_set.first_number + count):
                name = data_set.rendered_name.format(domain=domain, number=number)
                fields = {"split": split, "domain": domain, "name": name, "ending": "jpg"}
                samples.append((fill(kind.image_path, fields), fill(kind.label_path, fields)))
            images[domain] = sorted(samples)
    return images


def print_splits(splits: Sequence[PreparedSplit], root: Path) -> list[Path]:
    """Print who holds how many images; returns the folders of the splits."""
    folders = [root.joinpath("splits", *split.place) for split in splits]
    for folder, split in zip(folders, splits, strict=True):
        train, test = count_samples(split).values()
        sizes = train["images_per_client"]
        print(
            f"{folder}: {train['clients']} clients with {train['images']} images, {sizes['min']} "
            f"to {sizes['max']} each (median {sizes['median']:g}); "
            f"{', '.join(f'{u}: {n}' for u, n in test['images'].items())}"
        )
    return folders


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
    distribution = split.about.get("distribution")
    if data_set.name == "idda" and distribution == "heterogeneous":
        distribution = None
    words = [data_set.name, split.about.get("setting"), distribution]
    setting = "_".join(word for word in words if word is not None)
    usual = Path("data", data_set.name)
    options = _training_options(data_set, split)
    return Outcome(folders, closing=next_command(setting, usual, root, options))


def _training_options(data_set: PairedSet, split: PreparedSplit) -> list[str]:
    """What the setting's config must change for clients that are smaller or fewer than usual."""
    options = []
    fewest = min(len(samples) for samples in split.train.users.values()) * data_set.copies
    if fewest < data_set.batch_size:
        options.append(f"train_dataloader.batch_size={max(2, fewest)}")
    return options + fewer_clients(data_set.clients_per_round, len(split.train.users))


def _read(data_set: PairedSet, root: Path) -> tuple[type[SegmentationDataset], tuple[Path, Path]]:
    """The class of a data set, and its roots of images and labels."""
    kind = getattr(fedseg.datasets, data_set.dataset)
    return kind, (root / kind.image_root, root / kind.label_root)
