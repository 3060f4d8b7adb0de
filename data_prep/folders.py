"""Images and label maps of one's own, or a published data set: look, split, and write a config."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from shlex import quote
from unicodedata import normalize

import numpy as np
from PIL import Image

import fedseg.datasets
from fedseg import cli
from fedseg.core.seeds import generator_for
from fedseg.datasets.file_lists import existing_files
from fedseg.datasets.images import read_image, read_label
from fedseg.datasets.listed import color_of
from fedseg.datasets.segmentation import ALL, IGNORE, UNKNOWN, class_of_ids
from fedseg.datasets.templates import fields_of, names_of
from fedseg.errors import ConfigError, DataError
from fedseg.files import atomic_writer, read_json, write_text
from fedseg.names import NAME_RULE, PUBLISHED, is_name
from fedseg.partition import (
    DirichletPartition,
    HomogeneousPartition,
    NaturalPartition,
    SizePartition,
    Split,
    check_path,
)

from .classes import read_classes, read_text
from .disk import SHOWN, Findings, Sample, find_pairs, shown
from .from_coco import is_coco, read_coco
from .from_cvat import read_cvat
from .from_labelme import read_labelme
from .importers import CLASSES, find_path, write_imported
from .outcome import Outcome, next_command
from .parallel import in_threads
from .polygons import draw_polygons
from .split_folders import PreparedSplit, check_free, print_splits, save

SHARE = "0.2"  # of each domain that is trained on, for tests
CROP, STEP = 512, 32  # largest training crop, and what its sides are multiples of
CONFIG = Path(__file__).with_name("own_config.py.txt")
IMPORTERS = {  # by tool, the function that reads its files
    "coco": read_coco,
    "cvat": read_cvat,
    "labelme": read_labelme,
}
DRAWN = "drawn"  # below a root: label maps that were polygons


@dataclass(frozen=True)
class FolderOptions:
    """The content of a folder of images and label maps, and how it is split."""

    images: str | None = None
    labels: str | None = None
    source: str | None = None
    classes: Path | None = None
    ignore: Sequence[str] | None = None
    test: Sequence[str] | None = None
    clients: int | None = None
    partition: str | None = None
    alpha: float | None = None
    seed: int = 0
    unofficial: bool = False
    overwrite: bool = False


@dataclass(frozen=True)
class Layout:
    """Files of a data set below its root, what their ids mean, and how its clients are made."""

    images: str  # template, see fedseg.datasets.templates
    labels: str
    classes: Sequence[str]
    palette: Sequence[Sequence[int]]
    ids: np.ndarray  # class of each raw id, see class_of_ids
    read_label: Callable[[str], np.ndarray] = read_label
    published: Mapping[str, int] = field(default_factory=dict)  # {split} -> labelled images
    test_splits: Sequence[str] = ()
    test: Sequence[str] | None = None  # as --test says
    clients: int | None = None  # None: the domains
    partition: str | None = None
    alpha: float = 1.0

    def domain_of(self, image: str) -> str:
        """The domain of an image of the layout."""
        domain = fields_of(self.images, image).get("domain", ALL)
        if not is_name(domain):
            raise DataError(f"{image}: its domain must have {NAME_RULE}, not {domain!r}.")
        return domain


@dataclass(frozen=True)
class Pool:
    """Training images as a partition sees them."""

    domains: Sequence[str]
    pixels: np.ndarray

    def __len__(self) -> int:
        return len(self.domains)

    def class_pixels(self) -> np.ndarray:
        return self.pixels


def prepare_folder(published: str | None, root: Path, options: FolderOptions) -> Outcome:
    """Look at a folder, say what is in it, and write a split and, of one's own images, a config.

    Args:
        published: the name of a data set of :data:`fedseg.names.PUBLISHED`; None: the options
            describe it.
    """
    seed = options.seed
    if published is None:
        options = _convert(root, options)
        layout = _describe(root, options)
    elif options.images or options.labels or options.classes or options.source:
        raise ConfigError(f"--images, --labels, --from, --classes: {published} has its own.")
    else:
        layout = _published_layout(published)
    layout = _change(layout, options)
    has_domains = "domain" in names_of(layout.images)
    if layout.clients is None and not has_domains:
        raise ConfigError("--clients: is missing: how many clients, or write {domain} in --images.")
    pairs = _find_pairs(root, layout, options.unofficial)
    if layout.labels.endswith(".json"):
        layout, pairs = _draw(root, layout, pairs, options)
    existing_files(str(root / path) for pair in pairs for path in pair)
    sizes, pixels, contents = _inspect(root, layout, pairs)
    table = layout.ids
    domains = [layout.domain_of(image) for image, _ in pairs]
    _report(root, layout, sizes, pixels, domains)
    by_class = np.stack([np.bincount(table, weights=p, minlength=256) for p in pixels])
    if layout.test_splits:
        words = [*layout.test_splits]
        tests = {"test": {i for i, pair in enumerate(pairs) if _split_of(layout, pair) in words}}
    else:
        words = _test_words(layout.test or (), domains)
        tests = _choose_tests(root, words, pairs, domains, seed)
    tested = set().union(*tests.values())
    left = [i for i in range(len(pairs)) if i not in tested]
    if not left:
        raise DataError(f"{root}: every image is a test image: choose fewer with --test")
    for name, images in {"training images": left, **tests}.items():
        seen = np.flatnonzero(by_class[[*images], : len(layout.classes)].sum(axis=0))
        told = f"the label maps of {name} show {{}} and ignored pixels: correct classes or ids "
        told += "(255 is ignored; pixels without a polygon are background)"
        if not len(seen):
            raise DataError(f"{root}: {told.format('no class')}")
        if new := [layout.classes[number] for number in seen if not by_class[left, number].any()]:
            print(f"  classes of {name} that no training image has: {', '.join(new)}")
        if len(seen) == 1:
            print(f"  {told.format(f'only {layout.classes[seen[0]]}')}, or every metric is 100 %")
    pool = Pool([domains[i] for i in left], by_class[left, : len(layout.classes)].astype(np.int64))
    kind = layout.partition or ("domain" if layout.clients is None else "uniform")
    held = _divide(kind, layout, seed, pool)
    single = [client for client, images in held.items() if len(images) == 1]
    if single and published is None:
        raise DataError(
            f"{root}: client {single[0]!r} has one image to train on, and BatchNorm needs two: use "
            "fewer --clients, or add images."
        )
    train = Split({user: [pairs[left[i]] for i in of] for user, of in held.items()})
    split = Split({name: [pairs[i] for i in sorted(chosen)] for name, chosen in tests.items()})
    about = {"dataset": published or "segmentation", "source": "own rule", "rule": kind}
    about |= {"seed": seed, "test_images": words}
    made = PreparedSplit((), train, split, about)
    check_free(root, [made], options.overwrite)
    save(root, made)
    print_splits([made], root)
    learned = {contents[i]: pairs[i][0] for i in left}
    twice = [(pairs[i][0], learned[contents[i]]) for i in sorted(tested) if contents[i] in learned]
    if twice:
        told = f"test images have the pixels of training images, such as {' and '.join(twice[0])}"
        print(f"{len(twice)} {told}: remove one of the two, or choose other --test images")
    if published is not None:
        usual = Path("data", published.partition("_")[0])
        return Outcome(root, [root / "splits"], closing=next_command(published, usual, root))
    config = _write_config(root, layout, sizes, made, options)
    return Outcome(
        root, [root / "splits"], closing=f"Next: {cli.program()} train {quote(str(config))}"
    )


def _convert(root: Path, options: FolderOptions) -> FolderOptions:
    """The options for images, label maps and classes that are below the root afterwards."""
    if options.source is None:
        _refuse_coco(root, options.labels)
        return options
    if options.classes is not None:
        raise ConfigError(f"--classes: {options.source} has its own: leave it out.")
    labels = find_path("--labels", options.labels, root)
    if labels is None:
        raise ConfigError(f"--labels: name the annotations of {options.source}.")
    folder = find_path("--images", options.images, root)
    imported = IMPORTERS[options.source](labels, folder)
    images, maps = write_imported(imported, root, labels, options.overwrite)
    return replace(options, source=None, images=images, labels=maps, classes=root / CLASSES)


def _refuse_coco(root: Path, labels: str | None) -> None:
    """Raise ConfigError where the label maps are one file of COCO."""
    if labels is None or names_of(labels):
        return
    for file in (Path(labels), root / labels):
        if file.is_file() and is_coco(read_json(file)):
            raise ConfigError(
                f"--labels: {file} is a file of COCO: give --from coco --labels {file} --images "
                "FOLDER, without --classes."
            )


def _describe(root: Path, options: FolderOptions) -> Layout:
    """The layout that the options say."""
    if not options.images or not options.labels:
        raise ConfigError(
            "--images, --labels: give templates of paths below the root, such as --images "
            "'JPEGImages/{name}.jpg' --labels 'SegmentationClass/{name}.png'"
        )
    for option, template in (("--images", options.images), ("--labels", options.labels)):
        if fault := check_path(template):
            raise ConfigError(f"{option}: {template!r} {fault}: write it relative to {root}.")
    if not names_of(options.labels) or names_of(options.labels) - names_of(options.images):
        must = "must have fields of --images, such as {name}"
        raise ConfigError(f"--labels: {must}, not {options.labels!r}.")
    if options.classes is None:
        raise ConfigError("--classes: is missing: a file with the names of the classes, in order")
    path = options.classes if options.classes.exists() else root / options.classes
    names, colors = read_classes(path)
    ids = np.full(256, UNKNOWN)
    ids[: len(names)] = range(len(names))
    ids[IGNORE] = IGNORE
    palette = colors or [color_of(index) for index in range(len(names))]
    return Layout(options.images, options.labels, names, palette, ids)


def _published_layout(name: str) -> Layout:
    """The layout of a published data set, from its class."""
    kind = getattr(fedseg.datasets, PUBLISHED[name])
    test = None
    if kind.test_list:
        test = [kind.test_list]
    elif kind.test_share:
        test = [str(kind.test_share)]
    return Layout(
        images=kind.image_path,
        labels=kind.label_path,
        classes=kind.classes,
        palette=kind.palette,
        ids=class_of_ids(kind),
        read_label=kind.read_label,
        published=kind.published,
        test_splits=kind.test_splits,
        test=test,
        clients=kind.clients,
        partition=None if kind.alpha is None else "dirichlet",
        alpha=kind.alpha or 1.0,
    )


def _change(layout: Layout, options: FolderOptions) -> Layout:
    """The layout with the clients and the test images that the options say."""
    if options.test is not None:
        layout = replace(layout, test=options.test, test_splits=())
    if options.partition is not None:
        layout = replace(layout, partition=options.partition)
    if options.alpha is not None:
        layout = replace(layout, alpha=options.alpha)
    if options.clients is not None or options.partition == "domain":
        layout = replace(layout, clients=options.clients)
    return layout


def _find_pairs(root: Path, layout: Layout, unofficial: bool) -> list[Sample]:
    """Images with their label maps, by path; those without are counted."""
    found = find_pairs((root, root), layout.images, layout.labels)
    pairs = found.samples
    if layout.published:
        pairs = [pair for pair in pairs if _split_of(layout, pair) in layout.published]
    for path in [path for pair in pairs for path in pair]:
        if fault := check_path(path):
            raise DataError(f"{root}: {path!r} {fault}: rename it")
    print(f"{root}: {len(pairs)} images with label maps")
    if found.images:
        count = len(found.images)
        print(f"  {count} images without label map are left out: {shown(found.images)}")
    if found.labels:
        count = len(found.labels)
        print(f"  {count} label maps without image are left out: {shown(found.labels)}")
    if len(pairs) < 2:
        raise DataError(
            f"{root}: has {len(pairs)} images {layout.images} with label maps {layout.labels}: "
            "name the folder that has them, or change these templates"
        )
    counts = Counter(_split_of(layout, pair) for pair in pairs)
    for split, count in layout.published.items():
        if counts[split] != count and not unofficial:
            raise DataError(
                f"{root}: has {counts[split]} images {split} with label maps, and {count} are "
                "published: add the others, or take what is there with --unofficial."
            )
    return pairs


def _split_of(layout: Layout, pair: Sample) -> str:
    """The published split of a pair, "" where there is none."""
    return fields_of(layout.images, pair[0]).get("split", "")


def _draw(
    root: Path, layout: Layout, pairs: Sequence[Sample], options: FolderOptions
) -> tuple[Layout, list[Sample]]:
    """The layout and its pairs with label maps that are drawn from polygons."""
    ids = {name: number for number, name in enumerate(layout.classes)}
    ids |= dict.fromkeys(("__ignore__", *(options.ignore or ())), IGNORE)
    palette = [*layout.palette]
    palette += [color_of(i) for i in range(len(palette), 256)]  # of fewer, fewer bits are stored
    colors = np.array(palette, np.uint8).tobytes()

    def draw(pair: Sample) -> str | None:
        target = root / _drawn(pair[1])
        try:
            size = read_image(str(root / pair[0])).shape[:2]
            label = draw_polygons(root / pair[1], ids, size)
            if target.exists() and not options.overwrite:
                if np.array_equal(read_label(str(target)), label):
                    return None
                return f"{target}: differs from {pair[1]}: give --overwrite to draw it again"
        except DataError as error:
            return str(error)
        picture = Image.fromarray(label, "P")
        picture.putpalette(colors)
        with atomic_writer(target, "wb") as file:
            picture.save(file, "PNG")
        return None

    findings = Findings(f"{root}: not all files can be used", "repair them, or take them away")
    faults = filter(None, in_threads(draw, pairs, "drawing polygons"))
    findings.add("files of polygons", faults)
    findings.raise_any()
    drawn = [(image, _drawn(label)) for image, label in pairs]
    return replace(layout, labels=_drawn(layout.labels)), drawn


def _drawn(label: str) -> str:
    return f"{DRAWN}/{label.removesuffix('.json')}.png"


def _inspect(
    root: Path, layout: Layout, pairs: Sequence[Sample]
) -> tuple[Sequence[tuple[int, int]], Sequence[np.ndarray], Sequence[object]]:
    """(height, width), pixels by raw id, and a digest of the image's pixels, of every pair."""

    fix = "" if layout.published else ": name the class of each id from 0 in --classes"

    def look(pair: Sample) -> tuple[tuple[int, int], np.ndarray, object] | str:
        image, label = (str(root / path) for path in pair)
        try:
            shown, raw = read_image(image), layout.read_label(label)
        except DataError as error:
            return str(error)
        pixels, size = np.bincount(raw.ravel(), minlength=256), shown.shape[:2]
        if size != raw.shape:
            exif = ", as displayed by its EXIF orientation" * (size == raw.shape[::-1])
            return f"{label}: is {raw.shape}, its image {size} (height, width){exif}"
        if unknown := np.flatnonzero((layout.ids == UNKNOWN) & (pixels > 0)).tolist():
            return f"{label}: has label ids {unknown}, which no class has{fix}"
        return size, pixels, (size, sha256(shown).digest())

    looked = in_threads(look, pairs, "reading images and label maps")
    findings = Findings(f"{root}: not all files can be used", "repair them, or take them away")
    findings.add("files", [fault for fault in looked if isinstance(fault, str)])
    findings.raise_any()
    return tuple(zip(*looked, strict=True))


def _report(
    root: Path,
    layout: Layout,
    sizes: Sequence[tuple[int, int]],
    pixels: Sequence[np.ndarray],
    domains: Sequence[str],
) -> None:
    """Print what was understood of a folder."""
    by_size = Counter(f"{width}x{height}" for height, width in sizes).most_common()
    more = f", and {len(by_size) - SHOWN} other sizes" if len(by_size) > SHOWN else ""
    print("  sizes:", ", ".join(f"{size} ({n})" for size, n in by_size[:SHOWN]) + more)
    table, total = layout.ids, np.sum(pixels, axis=0)
    shares = 100 * total / total.sum()
    for raw in np.flatnonzero(total).tolist():
        meaning = "ignored" if table[raw] == IGNORE else layout.classes[table[raw]]
        held = sum(int(counts[raw] > 0) for counts in pixels)
        print(f"  id {raw:>3}: {meaning}, {shares[raw]:.2f} % of the pixels, in {held} images")
    there = table[total > 0]
    if absent := [name for number, name in enumerate(layout.classes) if number not in there]:
        print(f"  classes that no label map has: {', '.join(absent)}")
    if "domain" in names_of(layout.images):
        of = Counter(domains)
        print("  domains:", ", ".join(f"{name} ({of[name]})" for name in sorted(of)))
    if layout.published:
        print("  counts of the published layout were compared; they are not all verified (docs)")


def _test_words(words: Sequence[str], domains: Sequence[str]) -> list[str]:
    """What --test says, with a share of the other domains where only domains are named."""
    if all(normalize("NFC", word) in domains for word in words):
        return [*words, SHARE]
    return list(words)


def _choose_tests(
    root: Path, words: Sequence[str], pairs: Sequence[Sample], domains: Sequence[str], seed: int
) -> dict[str, set[int]]:
    """Test user -> positions of its images: ``test``, ``unseen`` domains and a share ``seen``."""
    tests: dict[str, set[int]] = {}
    share = None
    for word in words:
        if word not in domains and re.fullmatch(r"\d*\.?\d+(e-?\d+)?", word):
            twice, share = share is not None, float(word)
            if twice or not 0 <= share < 1:
                raise ConfigError(f"--test: must be one share, from 0 to below 1, not {word}.")
            continue
        name, listed = "test", root / word
        if word.endswith(".txt"):
            listed = Path(word) if Path(word).exists() and not listed.exists() else listed
            lines = normalize("NFC", read_text(listed)).splitlines()
            images = [Path(normalize("NFC", image)) for image, _ in pairs]
            names = [{image.as_posix(), image.name, image.stem} for image in images]
            times = Counter(name for known in names for name in known)
            lines = [line.strip().removeprefix("./") for line in lines]
            asked = {n for line in lines for n in ([line] if line in times else line.split())}
            chosen = {i for i, known in enumerate(names) if known & asked}
            if wrong := sorted(one for one in asked if times[one] != 1) or [""] * (not asked):
                raise DataError(
                    f"{listed}: names {wrong[0]!r}, of which there are {times[wrong[0]]} images "
                    "with label maps: write one path, name or name without ending a line"
                )
        elif (domain := normalize("NFC", word)) in domains:
            name, chosen = "unseen", {i for i, of in enumerate(domains) if of == domain}
        else:
            chosen = {i for i, (image, _) in enumerate(pairs) if fields_of(word, image) is not None}
        if not chosen:
            fault = "is not a share, a domain or a template of an image with a label map"
            raise ConfigError(f"--test: {word!r} {fault}: give another")
        tests[name] = tests.get(name, set()) | chosen
    if not share:
        if not tests:
            raise ConfigError("--test: must name test images, not only the share 0.")
        return tests
    taken, seen = set().union(*tests.values()), set()
    for number, name in enumerate(sorted(set(domains))):
        left = [i for i, of in enumerate(domains) if of == name and i not in taken]
        size = min(max(1, round(share * len(left))), len(left) - 1)
        if size > 0:
            order = generator_for(seed, "segmentation test", number).permutation(len(left))
            seen |= {left[i] for i in order[:size]}
    if not seen:
        fix = "add 0 to --test for no share"
        raise DataError(f"{root}: no domain has two images to take a share for tests from: {fix}.")
    return {"seen": seen, **tests}


def _divide(kind: str, layout: Layout, seed: int, pool: Pool) -> Mapping[str, np.ndarray]:
    """Client -> positions in the pool."""
    if kind == "domain":
        if layout.clients is not None or "domain" not in names_of(layout.images):
            raise ConfigError("--partition: domain needs {domain} in --images, and no --clients.")
        return NaturalPartition("domains")(pool)
    if layout.clients is None:
        raise ConfigError(f"--clients: is missing: how many does --partition {kind} make?")
    if kind == "dirichlet":
        return DirichletPartition(layout.clients, layout.alpha, seed)(pool)
    if kind == "size":
        return SizePartition(layout.clients, layout.alpha, 2, seed)(pool)
    return HomogeneousPartition(layout.clients, seed)(pool)


def _write_config(
    root: Path,
    layout: Layout,
    sizes: Sequence[tuple[int, int]],
    split: PreparedSplit,
    given: FolderOptions,
) -> Path:
    """Write a config that trains on the split, unless it is there; returns its path."""
    name = "own_" + re.sub(r"\W+", "_", root.resolve().name)  # no setting of the suite
    options = {"image_path": layout.images, "label_path": layout.labels}
    options |= {"classes": list(layout.classes), "palette": [*map(list, layout.palette)]}
    side = (np.median(axis) for axis in zip(*sizes, strict=True))
    batch = 4 if len(set(sizes)) == 1 else 1  # images of a test batch are of one size
    text = CONFIG.read_text("utf-8").format(
        name=name,
        options="\n".join(f"    {key}={value!r}," for key, value in options.items()),
        crop=tuple(int(min(CROP, max(2, length // STEP) * STEP)) for length in side),
        classes=len(layout.classes),
        participants=min(5, len(split.train.users)),
        tests="\n".join(
            f"    {user}=dict(batch_size={batch}, num_workers=2, "
            f'dataset=dict(users="{user}", **__test)),'
            for user in split.test.users
        ),
    )
    path = root / f"{name}.py"
    if path.exists() and path.read_text() != text and not given.overwrite:
        raise DataError(f"{path}: is another config: give --overwrite to replace it")
    write_text(path, text)
    return path
