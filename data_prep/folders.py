"""Images and label maps of a user, or of a published layout: look, split, and write a config."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

import numpy as np

import fedseg.datasets
from fedseg import cli
from fedseg.errors import ConfigError, DataError, ResourceError
from fedseg.names import PUBLISHED
from fedseg.partition import Split

from .from_cvat import read_cvat
from .from_labelme import read_labelme
from .importers import CLASSES, Imported, write_imported
from .layout_images import (
    LabeledImage,
    count_classes,
    find_samples,
    print_contents,
    read_images,
)
from .layout_splits import Pool, SplitRule, check_rule, choose_tests, divide, published_rule
from .layouts import Layout, own_layout, published_layout
from .outcome import Outcome, next_command, usual_root
from .own_config import write_config
from .split_folders import PreparedSplit, check_free, print_splits, save


def prepare_own(
    root: Path,
    images: str | None,
    labels: str | None,
    classes: Path | None,
    rule: SplitRule,
    overwrite: bool,
) -> Outcome:
    """Check a user's folder, and write a split and a config that trains on it.

    Args:
        root: the folder.
        images: template of the images.
        labels: template of the label maps.
        classes: file of the classes.
        rule: how test images are chosen and clients are made.
        overwrite: replace a split or a config that differs.
    """
    layout = own_layout(root, images, labels, classes)
    folder = _read_folder(root, layout, rule, unofficial=False)
    clients = _make_clients(folder, rule)
    for client, samples in clients.users.items():
        if len(samples) == 1:
            raise DataError(
                f"{root}: client {client!r} has one image to train on, and BatchNorm needs two: "
                "use fewer --clients, or add images."
            )
    split = _save_split(folder, clients, rule, "segmentation", overwrite)
    config = write_config(root, layout, folder.images, split, overwrite)
    command = f"{cli.program()} train {quote(str(config))}"
    return Outcome(root, [root / "splits"], closing=f"Next: {command}")


def prepare_published(
    name: str, root: Path, rule: SplitRule, unofficial: bool, overwrite: bool
) -> Outcome:
    """Check a data set in its published layout, and write a split.

    Args:
        name: of :data:`fedseg.names.PUBLISHED`.
        root: its folder.
        rule: how test images are chosen and clients are made, where its class does not say so.
        unofficial: accept another number of images than the published one.
        overwrite: replace a split that differs.
    """
    kind = getattr(fedseg.datasets, PUBLISHED[name])
    rule = published_rule(rule, kind)
    folder = _read_folder(root, published_layout(kind), rule, unofficial)
    _save_split(folder, _make_clients(folder, rule), rule, name, overwrite)
    return Outcome(root, [root / "splits"], closing=next_command(name, usual_root(name), root))


def import_data(
    tool: str, root: Path, images: str | None, labels: str | None, overwrite: bool
) -> tuple[str, str, Path]:
    """Write annotations of another tool below a root.

    Args:
        tool: coco, cvat or labelme.
        root: where images, label maps and classes are written.
        images: folder of the images, here or below the root.
        labels: file or folder of the annotations.
        overwrite: replace files that differ.

    Returns:
        Templates of the images and of the label maps, and the file of the classes.
    """
    if labels is None:
        raise ConfigError(f"--labels: name the annotations of {tool}.")
    annotations = _find_path("--labels", labels, root)
    photographs = None if images is None else _find_path("--images", images, root)
    imported = _read_annotations(tool, annotations, photographs)
    templates = write_imported(imported, root, annotations, overwrite)
    return *templates, root / CLASSES


def _read_annotations(tool: str, labels: Path, images: Path | None) -> Imported:
    """Read the files of a tool by its importer."""
    if tool == "cvat":
        return read_cvat(labels, images)
    if tool == "labelme":
        return read_labelme(labels, images)
    try:
        from .from_coco import read_coco
    except ImportError as error:
        raise ResourceError("--from: coco needs pycocotools: pip install 'fedseg[coco]'") from error
    return read_coco(labels, images)


def _find_path(option: str, value: str, root: Path) -> Path:
    """Find the file or folder that an option names, here or below the root."""
    for path in (Path(value), root / value):
        if path.exists():
            return path
    raise ConfigError(f"{option}: must be a file or folder that exists, not {value!r}.")


# ---- steps


@dataclass(frozen=True)
class Folder:
    """Decoded images of a folder, divided into training and test images by their positions."""

    root: Path
    layout: Layout
    images: Sequence[LabeledImage]
    pixels: np.ndarray  # of each class in each image, int64 [images, classes]
    train: Sequence[int]
    tests: Mapping[str, set[int]]  # by test user


def _read_folder(root: Path, layout: Layout, rule: SplitRule, unofficial: bool) -> Folder:
    """Read and report all images, and choose those for tests."""
    check_rule(layout, rule)
    samples = find_samples(root, layout, unofficial)
    images = read_images(root, layout, samples)
    print_contents(layout, images)
    tests = choose_tests(root, images, rule)
    tested = set().union(*tests.values())
    train = [i for i in range(len(images)) if i not in tested]
    if not train:
        raise DataError(f"{root}: every image is a test image: choose fewer.")
    folder = Folder(
        root=root,
        layout=layout,
        images=images,
        pixels=count_classes(layout, images),
        train=train,
        tests=tests,
    )
    _check_classes(folder, "training images", train)
    for user, positions in tests.items():
        _check_classes(folder, user, sorted(positions))
    return folder


def _check_classes(folder: Folder, name: str, positions: Sequence[int]) -> None:
    """Raise DataError if a set of images shows no class; print what is odd about its classes."""
    classes = folder.layout.classes
    numbers = np.flatnonzero(folder.pixels[positions].any(axis=0))
    trained = folder.pixels[folder.train].any(axis=0)
    subject = f"the label maps of {name} show"
    fix = "correct classes or ids (255 is ignored)"
    if len(numbers) == 0:
        raise DataError(f"{folder.root}: {subject} no class and ignored pixels: {fix}")
    new = [classes[number] for number in numbers if not trained[number]]
    if new:
        print(f"  classes of {name} that no training image has: {', '.join(new)}")
    if len(numbers) == 1:
        only = classes[numbers[0]]
        print(f"  {subject} only {only} and ignored pixels: {fix}, or every metric is 100 %")


def _make_clients(folder: Folder, rule: SplitRule) -> Split:
    """Divide the training images among clients."""
    domains = [folder.images[i].domain for i in folder.train]
    clients = {}
    for client, members in divide(Pool(domains, folder.pixels[folder.train]), rule).items():
        clients[client] = [folder.images[folder.train[i]].sample for i in members]
    return Split(clients)


def _save_split(
    folder: Folder, train: Split, rule: SplitRule, name: str, overwrite: bool
) -> PreparedSplit:
    """Write the split and print it."""
    tests = {}
    for user, positions in folder.tests.items():
        tests[user] = [folder.images[i].sample for i in sorted(positions)]
    about = {
        "dataset": name,
        "source": "own rule",
        "rule": rule.kind,
        "seed": rule.seed,
        "test_images": rule.tests,
    }
    split = PreparedSplit(place=(), train=train, test=Split(tests), about=about)
    check_free(folder.root, [split], overwrite)
    save(folder.root, split)
    print_splits([split], folder.root)
    _print_twins(folder)
    return split


def _print_twins(folder: Folder) -> None:
    """Print how many test images have the pixels of a training image."""
    trained = {folder.images[i].digest: folder.images[i].image for i in folder.train}
    tested = sorted(set().union(*folder.tests.values()))
    twins = [folder.images[i] for i in tested if folder.images[i].digest in trained]
    if twins:
        pair = f"{twins[0].image} and {trained[twins[0].digest]}"
        print(
            f"{len(twins)} test images have the pixels of training images, such as {pair}: remove "
            "one of the two, or choose other test images"
        )
