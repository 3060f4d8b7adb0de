"""Images and label maps of any layout, or of a published one: look, split, and write a config."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from shlex import quote
from typing import Literal
from unicodedata import normalize

import numpy as np
from PIL import Image

from fedseg import cli
from fedseg.config.arguments import check_value
from fedseg.core.seeds import generator_for
from fedseg.datasets.file_lists import existing_files
from fedseg.datasets.images import read_image, read_label
from fedseg.datasets.listed import (
    LAYOUTS,
    Layout,
    check_names,
    color_of,
    find_domain,
    glob_expression,
    ids_of,
    read_first_channel,
)
from fedseg.datasets.scenes import TO_CITYSCAPES
from fedseg.datasets.segmentation import IGNORE
from fedseg.errors import ConfigError, DataError
from fedseg.files import atomic_writer, read_json, write_text
from fedseg.partition import (
    DirichletPartition,
    HomogeneousPartition,
    NaturalPartition,
    SizePartition,
    Split,
    check_path,
)

from .classes import read_classes, read_text
from .description import Outcome, next_command
from .disk import DRAWN, SHOWN, Findings, Sample, find_files, print_skipped
from .from_coco import is_coco
from .importers import CLASSES, find_path, import_data
from .parallel import in_threads
from .polygons import draw_polygons
from .segmentation import print_splits
from .segmentation_sets import FolderOptions
from .split_folders import PreparedSplit, check_free, save

SHARE = "0.2"  # of each domain that is trained on, for tests
CROP, STEP = 512, 32  # largest training crop, and what its sides are multiples of
CONFIG = Path(__file__).with_name("own_config.py.txt")


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
        published: the name of a layout of :mod:`fedseg.datasets.listed`; None: the options say it.
    """
    ids, seed = options.ids, options.seed
    check_value("--ids", ids, Literal[tuple(TO_CITYSCAPES)] | None)
    names = ("domain", "test", "partition", "alpha")
    given = {n: value for n in names if (value := getattr(options, n)) is not None}
    if options.clients is not None or options.partition == "domain":  # not the layout's
        given["clients"] = options.clients
    if published is None:
        options = _convert(root, options)
        layout = _describe(root, options)
        if options.reduce_zero_label and ids:
            raise ConfigError("--ids: has an entry for id 0 already, without --reduce-zero-label")
        given["reduce_zero_label"] = options.reduce_zero_label
    elif options.images or options.labels or options.classes or options.source or ids:
        raise ConfigError(f"--images, --labels, --from, --classes, --ids: {published} has its own")
    else:
        layout = LAYOUTS[published]
    layout = replace(layout, **given)
    if layout.clients is None and layout.domain is None:
        raise ConfigError("--clients: is missing: how many clients, or give --domain TEMPLATE")
    pairs = _find_pairs(root, layout)
    findings = Findings(f"{root}: not all files can be used", "Repair them, or take them away")
    if any(label.endswith(".json") for _, label in pairs):
        if options.reduce_zero_label or (published is None and ids not in (None, "train_ids")):
            fault = "polygons are drawn with the ids of the classes: leave these options out"
            raise ConfigError(f"--ids, --reduce-zero-label: {fault}")
        pairs = _draw(root, layout, pairs, findings, options)
    existing_files(str(root / path) for pair in pairs for path in pair)
    table = _table(layout)
    sizes, pixels, contents = _inspect(root, layout, pairs, table, findings)
    for glob, count in layout.counts.items():
        matching = sum(_matches(glob, image) for image, _ in pairs)
        if matching != count and not options.unofficial:
            wrong = f"{glob} ({matching} instead of {count}; --unofficial takes them as they are)"
            findings.add("counts that are not the published ones", [wrong])
    findings.raise_any()
    try:
        check_names(ids, (label for _, label in pairs))
        domains = [find_domain(layout.domain, image) for image, _ in pairs]
    except ConfigError as error:
        raise ConfigError(str(error).replace("dataset.", "--")) from error
    _report(root, layout, sizes, pixels, domains)
    by_class = np.stack([np.bincount(table, weights=p, minlength=256) for p in pixels])
    words = _test_words(layout.test, pairs, domains)
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
        return Outcome([root / "splits"], closing=next_command(published, usual, root))
    config = _write_config(root, layout, sizes, made, options)
    return Outcome([root / "splits"], closing=f"Next: {cli.program()} train {quote(str(config))}")


def _convert(root: Path, options: FolderOptions) -> FolderOptions:
    """The options for images, label maps and classes that are below the root afterwards."""
    if options.source is None:
        _refuse_coco(root, options.labels or ())
        return options
    if options.classes is not None or options.ids is not None:
        raise ConfigError(f"--classes, --ids: {options.source} has its own: leave them out.")
    labels = find_path("--labels", options.labels, root)
    if labels is None:
        raise ConfigError(f"--labels: name the annotations of {options.source}.")
    folder = find_path("--images", options.images, root)
    images, maps = import_data(options.source, root, labels, folder, options.overwrite)
    return replace(options, source=None, images=images, labels=maps, classes=root / CLASSES)


def _refuse_coco(root: Path, globs: Sequence[str]) -> None:
    """Raise ConfigError where the first file of a glob is COCO's."""
    for glob in globs:
        if not glob.endswith(".json"):
            continue
        files = [Path(glob)] if Path(glob).is_file() else []
        files += [root / path for path in find_files(root) if _matches(glob, path)]
        file = next(iter(files), None)
        if file is not None and is_coco(read_json(file)):
            raise ConfigError(
                f"--labels: {file} is a file of COCO: give --from coco --labels {file} --images "
                "FOLDER, without --classes."
            )


def _describe(root: Path, options: FolderOptions) -> Layout:
    """The layout that the options say."""
    classes = options.classes
    if not options.images or not options.labels:
        raise ConfigError(
            "--images, --labels: give globs below the root, such as --images 'JPEGImages/*.jpg' "
            "--labels 'SegmentationClass/*.png'"
        )
    layout = Layout(options.images, options.labels, ids=options.ids)
    if options.ids is not None:
        if classes is not None:
            raise ConfigError("--classes: are Cityscapes' with --ids: give one of them")
        return layout
    if classes is None:
        raise ConfigError("--classes: is missing: a file with the names of the classes, in order")
    path = classes if classes.exists() else root / classes
    names, colors = read_classes(path, int(options.reduce_zero_label))
    palette = colors or [color_of(i) for i in range(len(names))]
    return replace(layout, classes=names, palette=palette)


def _table(layout: Layout) -> np.ndarray:
    """The class of each raw id, 255: ignored, 256: of no class."""
    first = int(layout.reduce_zero_label)
    known = ids_of(layout.ids) or {
        **{i + first: i for i in range(len(layout.classes))},
        **dict.fromkeys([IGNORE, *range(first)], IGNORE),
    }
    table = np.full(256, IGNORE + 1)
    table[list(known)] = list(known.values())
    return table


def _compile(glob: str) -> re.Pattern:
    return re.compile(glob_expression(glob))


def _matches(glob: str, path: str) -> bool:
    return _compile(glob).fullmatch(normalize("NFC", path)) is not None


def _find_pairs(root: Path, layout: Layout) -> list[Sample]:
    """Images and labels whose wildcards match the same, by path; those without are counted."""
    first = layout.labels[0]
    for option, globs in (("--images", layout.images), ("--labels", layout.labels)):
        for glob in globs:
            if fault := check_path(glob):
                raise ConfigError(f"{option}: {glob!r} {fault}: write it relative to {root}")
            if _compile(glob).groups != _compile(first).groups or "*" not in glob:
                raise ConfigError(
                    f"{option}: {glob!r} must have the wildcards of {first!r}: what they "
                    "match in an image's path is what they match in its label's"
                )
    globs = enumerate((layout.images, layout.labels))
    patterns = [(_compile(glob), which) for which, of in globs for glob in of]
    paths_of: tuple[dict, dict] = ({}, {})
    for path in find_files(root):
        for pattern, which in patterns:
            if match := pattern.fullmatch(normalize("NFC", path)):
                if fault := check_path(path):
                    raise DataError(f"{root}: {path!r} {fault}: rename it")
                other = paths_of[which].setdefault(match.groups(), path)
                if other != path:
                    fault = f"{other} and {path} belong to one label map"
                    raise DataError(f"{root}: {fault}: remove one")
    images, labels = paths_of
    both = sorted(images.keys() & labels.keys())
    print(f"{root}: {len(both)} images with label maps")
    for what, those, of in (
        ("images without label map", images, labels),
        ("label maps without image", labels, images),
    ):
        if alone := sorted(those[key] for key in those.keys() - of.keys()):
            more = ", ..." * (len(alone) > SHOWN)
            print(f"  {len(alone)} {what} are left out: {', '.join(alone[:SHOWN])}{more}")
    print_skipped(root, {*images.values(), *labels.values()}, "match no glob")
    if len(both) < 2:
        raise DataError(
            f"{root}: {len(images)} files match {', '.join(layout.images)}, {len(labels)} match "
            f"{', '.join(layout.labels)}, and {len(both)} of them are pairs: name the folder that "
            "has them, or change these globs"
        )
    return sorted((images[key], labels[key]) for key in both)


def _draw(
    root: Path, layout: Layout, pairs: Sequence[Sample], findings: Findings, options: FolderOptions
) -> list[Sample]:
    """Pairs with label maps that are drawn from polygons."""
    ids = {name: number for number, name in enumerate(layout.names or layout.classes)}
    ids |= dict.fromkeys(("__ignore__", *(options.ignore or ())), IGNORE)
    palette = [] if layout.names else [*layout.palette]
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

    polygons = [pair for pair in pairs if pair[1].endswith(".json")]
    findings.add("files of polygons", filter(None, in_threads(draw, polygons, "drawing polygons")))
    findings.raise_any()
    return [(image, _drawn(label)) for image, label in pairs]


def _drawn(label: str) -> str:
    return f"{DRAWN}/{label[:-5]}.png" if label.endswith(".json") else label


def _inspect(
    root: Path,
    layout: Layout,
    pairs: Sequence[Sample],
    table: np.ndarray,
    findings: Findings,
) -> tuple[Sequence[tuple[int, int]], Sequence[np.ndarray], Sequence[object]]:
    """(height, width), pixels by raw id, and a digest of the image's pixels, of every pair."""

    read = read_first_channel if layout.first_channel else read_label
    fix = "" if layout.ids or layout.counts else ": name the class of each id from 0 in --classes"

    def look(pair: Sample) -> tuple[tuple[int, int], np.ndarray, object] | str:
        image, label = (str(root / path) for path in pair)
        try:
            shown, raw = read_image(image), read(label)
        except DataError as error:
            return str(error)
        pixels, size = np.bincount(raw.ravel(), minlength=256), shown.shape[:2]
        if size != raw.shape:
            exif = ", as displayed by its EXIF orientation" * (size == raw.shape[::-1])
            return f"{label}: is {raw.shape}, its image {size} (height, width){exif}"
        if unknown := np.flatnonzero((table > IGNORE) & (pixels > 0)).tolist():
            return f"{label}: has label ids {unknown}, which no class has{fix}"
        return size, pixels, (size, sha256(shown).digest())

    looked = in_threads(look, pairs, "reading images and label maps")
    findings.add("files", [one for one in looked if isinstance(one, str)])
    whole = [one for one in looked if not isinstance(one, str)]
    return tuple(zip(*whole, strict=True)) if whole else ((), (), ())


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
    table, total = _table(layout), np.sum(pixels, axis=0)
    shares = 100 * total / total.sum()
    for raw in np.flatnonzero(total).tolist():
        meaning = "ignored" if table[raw] == IGNORE else layout.classes[table[raw]]
        held = sum(int(counts[raw] > 0) for counts in pixels)
        print(f"  id {raw:>3}: {meaning}, {shares[raw]:.2f} % of the pixels, in {held} images")
    there = table[total > 0]
    if absent := [name for number, name in enumerate(layout.classes) if number not in there]:
        print(f"  classes that no label map has: {', '.join(absent)}")
    if layout.domain is not None:
        of = Counter(domains)
        print("  domains:", ", ".join(f"{name} ({of[name]})" for name in sorted(of)))
    if layout.counts:
        print("  counts of the published layout were compared; they are not all verified (docs)")


def _test_words(words: Sequence[str], pairs: Sequence[Sample], domains: Sequence[str]) -> list[str]:
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
            chosen = {i for i, (image, _) in enumerate(pairs) if _matches(word, image)}
        if not chosen:
            fault = "is not a share, a domain or a glob of an image with a label map"
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
        if layout.clients is not None or layout.domain is None:
            raise ConfigError("--partition: domain needs --domain TEMPLATE, and no --clients")
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
    options = {"domain": layout.domain, "ids": given.ids}
    options |= {"reduce_zero_label": layout.reduce_zero_label}
    if given.ids is None:
        options |= {"classes": list(layout.classes), "palette": [*map(list, layout.palette)]}
    side = (np.median(axis) for axis in zip(*sizes, strict=True))
    batch = 4 if len(set(sizes)) == 1 else 1  # images of a test batch are of one size
    text = CONFIG.read_text("utf-8").format(
        name=name,
        options="\n".join(f"    {key}={value!r}," for key, value in options.items() if value),
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
