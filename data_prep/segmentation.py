"""Photographs with label maps: verify or render them, build or copy their splits, save these."""

import filecmp
import shutil
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import fedseg.datasets
from fedseg.datasets import SegmentationDataset
from fedseg.datasets.arrays import is_synthetic
from fedseg.errors import ConfigError, DataError
from fedseg.files import atomic_writer
from fedseg.names import DISTRIBUTIONS

from . import split_rules, synthetic_streets
from .description import Outcome, PairedSet, next_command
from .disk import Findings, Images, check_files, find_pairs, print_skipped
from .segmentation_sets import IDDA, CopyOptions, IddaOptions, StreetOptions
from .split_folders import (
    PreparedSplit,
    check_free,
    count_samples,
    find_published,
    limit,
    read_published,
    save,
)

DEMO = Path("data/demo_weather")


def prepare_streets(data_set: PairedSet, root: Path, options: StreetOptions) -> Outcome:
    """Prepare a data set with FedDrive's splits, on disk afterwards.

    Without ``synthetic`` the images on disk are verified; those that published splits name are
    after the splits have been copied.
    """
    size, synthetic, source = options.size, options.synthetic, options.source
    distribution, setting = options.distribution, getattr(options, "setting", None)
    if size is not None and not synthetic:
        raise ConfigError("--size: is the size of rendered images, it needs --synthetic")
    kind, roots = _read(data_set, root)
    choices = [distribution or DISTRIBUTIONS]
    if data_set.settings:
        choices.append(setting or data_set.settings)
    places = list(product(*choices))
    if source is not None:
        folders = find_published(source, places, required=bool(distribution or setting))
    else:
        folders = dict.fromkeys(places)
        images = rendered_files(data_set) if synthetic else verify(data_set, root)
        if synthetic and any("class_imbalance" in place for place in places):
            # its rule reads label maps, so those must be there first
            everything = [sample for group in images.values() for sample in group]
            synthetic_streets.write_streets(data_set, root, everything, size)
        presence = split_rules.read_presence(roots[1], kind.label_ids)
    limits = {"per_user": options.limit_per_user, "test_per_domain": options.limit_test}
    limited = any(limits.values())
    splits = []
    for place, folder in folders.items():
        about = {"dataset": data_set.name}
        about |= dict(zip(("distribution", "setting"), place, strict=False))
        if folder is None:
            about |= {"source": "own rule", "rule": data_set.rules[place[0]]}
            about["seed"] = options.seed
            build = getattr(split_rules, data_set.build)
            train, test = build(images, place, options.seed, presence)
            if left := sum(map(len, images.values())) - len(train) - len(test):
                print(f"  {'/'.join(place)}: {left} images belong to no client")
        else:
            about["source"] = "published files"
            train, test = read_published(folder, roots, data_set.test_users)
        about["synthetic"] = synthetic or is_synthetic(root)
        if limited:
            about["limit"], folder = limits, None
            train, test = limit(train, test, *limits.values(), kind.domain_of)
        splits.append(PreparedSplit(place, train, test, about, folder))
    check_free(root, splits, options.overwrite)
    samples = sorted({s for split in splits for part in split.parts for s in part.samples})
    if synthetic:
        synthetic_streets.write_streets(data_set, root, samples, size)
    for split in splits:
        save(root, split)
    if source is not None:
        findings = Findings(
            f"{root / 'splits'}: written, but not all files they name are on disk and whole",
            f"Put them below {' and '.join(dict.fromkeys(map(str, roots)))} and run this again, or "
            "render synthetic data with --synthetic",
        )
        check_files(samples, roots, root, findings, data_set.published_size)
    return _outcome(splits, root)


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
    return _outcome([split], root)


def prepare_demo_streets(root: Path = DEMO) -> None:
    """Streets for the demos, in a folder of their own: IDDA in its rainy setting, few images."""
    prepare_streets(
        IDDA,
        root,
        IddaOptions(
            distribution=["heterogeneous"],
            setting=["rainy"],
            synthetic=True,
            size=(232, 128),  # width, height in pixels
            limit_per_user=8,
            limit_test=1,  # of each of the 69 seen and 35 unseen domains
            overwrite=True,  # of splits: the folder is the demo's own
        ),
    )


def verify(data_set: PairedSet, root: Path, within: Path | None = None) -> Images:
    """Every image, paired and readable: domain -> samples by folder and name.

    Symbolic links may lead to places ``within`` a folder, by default ``root``. All mistakes are
    reported together.
    """
    kind, roots = _read(data_set, root)
    for base in roots:
        if not base.is_dir():
            render = ", or render synthetic data with --synthetic" if data_set.size else ""
            raise DataError(
                f"{base}: does not exist: {data_set.source}, name another root with --root{render}"
            )
    findings = Findings(f"{root}: not {data_set.contents}", f"To repair it: {data_set.source}")
    images: Images = {}
    used: set[str] = set()
    suffixes, (_, usual) = data_set.suffixes, data_set.suffixes
    if data_set.other_labels and not any(roots[1].rglob(f"[!.]*{usual}")):
        suffixes = (suffixes[0], data_set.other_labels)
    for folders, expected in data_set.folders.items():
        by_domain: Images = {domain: [] for domain in expected}
        for image, label in sorted(find_pairs(roots, folders, suffixes, findings)):
            used |= {image, label}
            pair = (image, label.removesuffix(suffixes[1]) + usual)
            by_domain.setdefault(kind.domain_of(image), []).append(pair)
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
    for base in dict.fromkeys(roots):
        print_skipped(base, used, "are left out")
    return images


def copy_images(data_set: PairedSet, source: Path, root: Path, overwrite: bool = False) -> None:
    """Verify a data set in ``source``, then copy to ``root`` what is not there."""
    groups = verify(data_set, source, Path("/")).values()
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
    images: Images = {}
    for folders, expected in data_set.folders.items():
        for domain, count in expected.items():
            numbers = range(data_set.first_number, data_set.first_number + count)
            names = [data_set.rendered_name.format(domain=domain, number=n) for n in numbers]
            parts = tuple(zip(folders, data_set.suffixes, strict=True))
            samples = [tuple(f"{folder}/{n}{suffix}" for folder, suffix in parts) for n in names]
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


def _outcome(splits: Sequence[PreparedSplit], root: Path) -> Outcome:
    """Print the splits; the command to run next."""
    folders = print_splits(splits, root)
    if is_synthetic(root):
        print("The data are synthetic: results are not comparable with published ones.")
    elif any(split.about.get("limit") for split in splits):
        print("The splits are limited: results are not comparable with published ones.")
    # the setting of one of the splits: heterogeneous if there is one, the plain case
    about = next((s for s in splits if "heterogeneous" in s.place), splits[0]).about
    name, distribution = about["dataset"], about.get("distribution")
    if name == "idda" and distribution == "heterogeneous":
        distribution = None
    setting = "_".join(filter(None, [name, about.get("setting"), distribution]))
    return Outcome(folders, closing=next_command(setting, Path("data", name), root))


def _read(data_set: PairedSet, root: Path) -> tuple[type[SegmentationDataset], tuple[Path, Path]]:
    """The class of a data set, and its roots of images and labels."""
    kind = getattr(fedseg.datasets, data_set.dataset)
    return kind, (root / kind.image_root, root / kind.label_root)
