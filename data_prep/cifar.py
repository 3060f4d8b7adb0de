"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009): read, from whatever form they are in.

- the official Python archive, ``cifar-10-python.tar.gz`` or ``cifar-100-python.tar.gz``;
- the folder of batches that it unpacks to;
- image folders ``{train,test}/<class>/*.png``;
- ``train.npz`` and ``test.npz`` with ``images`` (uint8 [N, 32, 32, 3]), ``labels`` (integers [N]),
  ``classes`` (texts) and, if wanted, ``users`` (the client of each image, texts [N]).

An archive is read, never unpacked, and nothing that is pickled in it is run.
"""

import hashlib
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from torchvision.datasets import CIFAR10 as TORCHVISION_CIFAR10
from torchvision.datasets import CIFAR100 as TORCHVISION_CIFAR100

from data_prep.classification import ImageSet
from data_prep.disk import with_progress
from data_prep.labelled import Labelled, Part, Published
from data_prep.unpickle import unpickle_batch
from fedseg.datasets.arrays import SPLITS, CIFAR10Dataset, CIFAR100Dataset
from fedseg.datasets.images import PNG, read_image
from fedseg.errors import DataError
from fedseg.partition import check_path

SIDE = 32
LARGEST_MEMBER = 512 * 2**20  # bytes; the largest official batch has 155 MB
NPZ_KEYS = ("images", "labels", "classes")

CLASSES_10 = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)

# Superclass -> classes of CIFAR-100, as on the data set's page. Labels are the alphabetical order.
GROUPS_100 = {
    "aquatic_mammals": "beaver dolphin otter seal whale",
    "fish": "aquarium_fish flatfish ray shark trout",
    "flowers": "orchid poppy rose sunflower tulip",
    "food_containers": "bottle bowl can cup plate",
    "fruit_and_vegetables": "apple mushroom orange pear sweet_pepper",
    "household_electrical_devices": "clock keyboard lamp telephone television",
    "household_furniture": "bed chair couch table wardrobe",
    "insects": "bee beetle butterfly caterpillar cockroach",
    "large_carnivores": "bear leopard lion tiger wolf",
    "large_man-made_outdoor_things": "bridge castle house road skyscraper",
    "large_natural_outdoor_scenes": "cloud forest mountain plain sea",
    "large_omnivores_and_herbivores": "camel cattle chimpanzee elephant kangaroo",
    "medium_mammals": "fox porcupine possum raccoon skunk",
    "non-insect_invertebrates": "crab lobster snail spider worm",
    "people": "baby boy girl man woman",
    "reptiles": "crocodile dinosaur lizard snake turtle",
    "small_mammals": "hamster mouse rabbit shrew squirrel",
    "trees": "maple_tree oak_tree palm_tree pine_tree willow_tree",
    "vehicles_1": "bicycle bus motorcycle pickup_truck train",
    "vehicles_2": "lawn_mower rocket streetcar tank tractor",
}
COARSE_OF_100 = {
    name: number for number, text in enumerate(GROUPS_100.values()) for name in text.split()
}


@dataclass(frozen=True)
class Kind:
    """One of the two data sets.

    Attributes:
        published: what it is like.
        torchvision: torchvision's class, which knows the official files and their md5.
        labels_key: where a batch has its labels.
        coarse_of: superclass of each class name.
    """

    published: Published
    torchvision: type
    labels_key: str
    coarse_of: Mapping[str, int] | None = None

    @property
    def archive(self) -> str:
        """File name of the official archive."""
        return self.torchvision.filename

    @property
    def batches(self) -> dict[str, dict[str, str]]:
        """For each split, its files and their md5."""
        return {
            "train": {name: md5 for name, md5 in self.torchvision.train_list},
            "test": {name: md5 for name, md5 in self.torchvision.test_list},
        }

    @property
    def md5(self) -> dict[str, str]:
        """Every file that is read, and its md5."""
        meta = self.torchvision.meta
        return {**self.batches["train"], **self.batches["test"], meta["filename"]: meta["md5"]}


CIFAR10 = Kind(
    Published(
        "CIFAR10",
        (SIDE, SIDE, 3),
        CLASSES_10,
        {"train": (5000,) * 10, "test": (1000,) * 10},
    ),
    TORCHVISION_CIFAR10,
    "labels",
)
CIFAR100 = Kind(
    Published(
        "CIFAR100",
        (SIDE, SIDE, 3),
        tuple(sorted(COARSE_OF_100)),
        {"train": (500,) * 100, "test": (100,) * 100},
    ),
    TORCHVISION_CIFAR100,
    "fine_labels",
    COARSE_OF_100,
)
KINDS = {"cifar10": CIFAR10, "cifar100": CIFAR100}


def image_set(name: str, unofficial: bool = False) -> ImageSet:
    """How a CIFAR is prepared.

    Args:
        name: of KINDS.
        unofficial: accept other images than the published ones.
    """
    kind = KINDS[name]
    return ImageSet(
        published=kind.published,
        dataset={"cifar10": CIFAR10Dataset, "cifar100": CIFAR100Dataset}[name],
        find=partial(find_source, kind=kind),
        read=partial(read, kind=kind, unofficial=unofficial),
        download=partial(download, kind=kind),
        hint=f"{kind.archive}, its batches, image folders or .npz files",
        setting={"cifar10": "cifar10_a005", "cifar100": "cifar100_a05"}[name],
        render=_render if name == "cifar10" else None,
    )


def _render(root: Path) -> None:
    """Write the procedural set that stands in for CIFAR-10."""
    from data_prep.embedded_images import write_embedded

    write_embedded(root)


def find_source(folder: Path, kind: Kind) -> Path | None:
    """What lies in a folder (or is it): an archive, batches, .npz files or image folders."""
    places = (folder / kind.archive, folder / kind.torchvision.base_folder)
    for place in (*places, folder):
        if place.is_file() or (place.is_dir() and _form(place, kind) is not None):
            return place
    return None


def download(root: Path, kind: Kind) -> Path:
    """Fetch the official archive into ``root`` unless it is there; its md5 is checked.

    Raises:
        DataError: there is no network, or what came is not the archive.
    """
    from torchvision.datasets.utils import download_url

    url = kind.torchvision.url
    try:
        download_url(url, str(root), kind.archive, kind.torchvision.tgz_md5)
    except (OSError, RuntimeError) as error:
        raise DataError(
            f"{root / kind.archive}: cannot be downloaded from {url} ({error}): fetch it on "
            "another machine and put it there"
        ) from error
    return root / kind.archive


def read(source: Path, kind: Kind, unofficial: bool = False) -> Labelled:
    """Read a data set; what it holds is still to be checked with :func:`data_prep.labelled.check`.

    Args:
        source: an archive, or a folder in one of the other three forms.
        kind: which data set.
        unofficial: accept batches that are not the official ones.

    Raises:
        DataError: the source is in none of the four forms, damaged, unsafe, or not of this kind.
    """
    if source.is_file():
        return _from_batches(source, kind, _archive_files(source, kind), unofficial)
    form = _form(source, kind)
    if form == "batches":
        return _from_batches(source, kind, _folder_files(source, kind), unofficial)
    if form == "npz":
        return _from_npz(source, kind)
    if form == "images":
        return _from_folders(source, kind)
    raise DataError(
        f"{source}: holds no {kind.published.name}: expected {kind.archive}, its batches "
        f"({', '.join(kind.md5)}), train.npz and test.npz, or train/<class>/*.png and "
        "test/<class>/*.png"
    )


def _form(folder: Path, kind: Kind) -> str | None:
    if all((folder / name).is_file() for name in kind.md5):
        return "batches"
    if any((folder / f"{split}.npz").is_file() for split in SPLITS):
        return "npz"
    # CIFAR-100's own batch is a file called train
    if all((folder / split).is_dir() for split in SPLITS):
        return "images"
    return None


# ---- the official batches


def _archive_files(path: Path, kind: Kind) -> dict[str, bytes]:
    """The files that are needed, out of a tar archive; nothing is unpacked to disk."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r:*") as archive:
            for member in _progress(archive, f"reading {path.name}"):
                _check_member(path, member)
                name = member.name.rpartition("/")[2]
                if not member.isfile() or name not in kind.md5:
                    continue
                if name in found:
                    raise DataError(f"{path}: holds two files {name}: get the official archive")
                if member.size > LARGEST_MEMBER:
                    raise DataError(
                        f"{path}: {member.name} has {member.size} bytes, no batch is that large: "
                        "get the official archive"
                    )
                found[name] = archive.extractfile(member).read()
    except (tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError) as error:
        told = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(
            f"{path}: the archive is corrupt or cut short ({told}): get it again, its md5 must be "
            f"{kind.torchvision.tgz_md5}"
        ) from error
    missing = [name for name in kind.md5 if name not in found]
    if missing:
        raise DataError(
            f"{path}: has no {', '.join(missing)}: is it the Python version of "
            f"{kind.published.name} ({kind.archive})?"
        )
    return found


def _check_member(path: Path, member: tarfile.TarInfo) -> None:
    """Nothing is unpacked, but an archive with such a member is not what it says it is."""
    name = member.name.removeprefix("./").rstrip("/")
    fault = check_path(name) if name not in ("", ".") else None
    if fault is None and not (member.isfile() or member.isdir()):
        fault = "is a link or a device"
    if fault is not None:
        raise DataError(
            f"{path}: member {member.name!r} {fault}, it could lead outside: do not trust this "
            "archive, get the official one"
        )


def _folder_files(folder: Path, kind: Kind) -> dict[str, bytes]:
    def load(name: str) -> bytes:
        try:
            return (folder / name).read_bytes()
        except OSError as error:
            raise DataError(f"{folder / name}: cannot be read ({error.strerror})") from error

    return dict(zip(kind.md5, with_progress(load, list(kind.md5), "reading batches"), strict=True))


def _from_batches(
    source: Path, kind: Kind, files: Mapping[str, bytes], unofficial: bool
) -> Labelled:
    digests = {
        name: hashlib.md5(data, usedforsecurity=False).hexdigest() for name, data in files.items()
    }
    others = [name for name, md5 in kind.md5.items() if digests[name] != md5]
    where = f"{source}: {{}}" if source.is_file() else f"{source}/{{}}"
    # What is in them comes first: a message that names the fault helps more than a digest.
    parts, coarse = {}, {}
    for split, names in kind.batches.items():
        batches = [_batch(files[name], where.format(name), kind) for name in names]
        origin = [
            f"{where.format(name)}[{i}]"
            for name, (images, *_) in zip(names, batches, strict=True)
            for i in range(len(images))
        ]
        images, labels = (np.concatenate([batch[i] for batch in batches]) for i in range(2))
        parts[split] = Part(images, labels, origin.__getitem__)
        for *_, pairs in batches:
            for fine, group in pairs:
                if coarse.setdefault(fine, group) != group:
                    raise DataError(
                        f"{source}: class {fine} is in superclass {coarse[fine]} and in {group}: "
                        "a class has one"
                    )
    meta = kind.torchvision.meta
    classes = _texts(unpickle_batch(files[meta["filename"]], where.format(meta["filename"])), meta)
    if classes is None:
        raise DataError(f"{where.format(meta['filename'])}: has no list {meta['key']!r}")
    _known_classes(classes, kind, where.format(meta["filename"]))
    if others and not unofficial:
        listed = ", ".join(f"{name} ({digests[name]})" for name in others)
        raise DataError(
            f"{source}: not the official batches, another md5: {listed}. Get the archive again "
            f"({kind.torchvision.url}), or give --unofficial if they are meant to differ"
        )
    told = "official batches, md5 verified" if not others else "batches of the official form"
    data = Labelled(parts, kind.published.classes, told, _coarse(kind), official=not others)
    if coarse and tuple(coarse.get(i, data.coarse_labels[i]) for i in range(len(classes))) != (
        data.coarse_labels
    ):
        raise DataError(f"{source}: superclasses other than those of {kind.published.name}")
    return data


def _batch(
    data: bytes, where: str, kind: Kind
) -> tuple[np.ndarray, np.ndarray, set[tuple[int, int]]]:
    """Images uint8 [n, 32, 32, 3], labels int64 [n], and which class is in which superclass."""
    content = unpickle_batch(data, where)
    images = content.get("data")
    if not isinstance(images, np.ndarray):
        raise DataError(f"{where}: has no array 'data' with the images")
    if images.ndim != 2 or images.shape[1] != 3 * SIDE * SIDE:
        raise DataError(
            f"{where}: 'data' has shape {list(images.shape)}, it must be [N, {3 * SIDE * SIDE}]"
        )
    labels = _integers(content, kind.labels_key, len(images), where)
    classes = len(kind.published.classes)
    outside = labels[(labels < 0) | (labels >= classes)]
    if outside.size:
        raise DataError(
            f"{where}: {kind.labels_key!r} holds label {outside[0]}, which is out of range: "
            f"{kind.published.name} has 0 to {classes - 1}"
        )
    pairs: set[tuple[int, int]] = set()
    if kind.coarse_of is not None:
        groups = _integers(content, "coarse_labels", len(images), where)
        pairs = set(zip(labels.tolist(), groups.tolist(), strict=True))
    # stored as all red values, then green, then blue, each row by row
    images = images.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), labels, pairs


def _integers(content: Mapping[str, Any], key: str, length: int, where: str) -> np.ndarray:
    values = content.get(key)
    if not isinstance(values, list) or not all(type(value) is int for value in values):
        raise DataError(f"{where}: has no list {key!r} of whole numbers")
    if len(values) != length:
        raise DataError(f"{where}: {length} images in 'data', but {len(values)} in {key!r}")
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError as error:
        raise DataError(f"{where}: {key!r} holds a number that is out of range") from error


def _texts(content: Mapping[str, Any], meta: Mapping[str, str]) -> list[str] | None:
    values = content.get(meta["key"])
    good = isinstance(values, list) and all(isinstance(value, str) for value in values)
    return values if good else None


# ---- image folders


def _from_folders(root: Path, kind: Kind) -> Labelled:
    classes = kind.published.classes
    parts = {}
    for split in SPLITS:
        folders = sorted(p for p in (root / split).iterdir() if p.is_dir() and p.name[0] != ".")
        _known_classes([folder.name for folder in folders], kind, root / split, ordered=False)
        files, labels = [], []
        for folder in folders:
            images = sorted(folder.glob("*.png"))
            if not images:
                raise DataError(f"{folder}: holds no *.png image")
            files += images
            labels += [classes.index(folder.name)] * len(images)
        if not files:
            raise DataError(f"{root / split}: has no folder of a class")
        images = np.stack(with_progress(_image, files, f"reading {split} images"))
        parts[split] = Part(images, np.array(labels, np.int64), lambda i, f=files: str(f[i]))
    return Labelled(parts, classes, "image folders", _coarse(kind))


def _image(path: Path) -> np.ndarray:
    """uint8 [32, 32, 3], RGB."""
    image = read_image(str(path))
    with open(path, "rb") as file:
        head = file.read(25)
    if not head.startswith(PNG) or head[24] > 8:
        raise DataError(f"{path}: must be a PNG of 8 bits a channel")
    if image.shape != (SIDE, SIDE, 3):
        raise DataError(
            f"{path}: is {image.shape[1]}x{image.shape[0]}, a CIFAR image is {SIDE}x{SIDE}"
        )
    return image


# ---- .npz files


def _from_npz(folder: Path, kind: Kind) -> Labelled:
    parts = {}
    for split in SPLITS:
        path = folder / f"{split}.npz"
        content = _load_npz(path)
        images, labels = content["images"], content["labels"]
        names = [str(name) for name in np.atleast_1d(content["classes"])]
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[1:] != (SIDE, SIDE, 3):
            raise DataError(
                f"{path}: 'images' must be uint8 [N, {SIDE}, {SIDE}, 3], not {images.dtype} "
                f"{list(images.shape)}"
            )
        if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
            raise DataError(
                f"{path}: 'labels' must be integers [N], not {labels.dtype} {list(labels.shape)}"
            )
        if len(labels) != len(images):
            raise DataError(f"{path}: {len(images)} images, but {len(labels)} labels")
        _known_classes(names, kind, path, ordered=False)
        outside = labels[(labels < 0) | (labels >= len(names))]
        if outside.size:
            raise DataError(
                f"{path}: label {outside[0]} is out of range: {len(names)} classes have labels 0 "
                f"to {len(names) - 1}"
            )
        # the file's own order of the classes may be another one
        number = np.array([kind.published.classes.index(name) for name in names], np.int64)
        users = content.get("users")
        if users is not None and users.shape != labels.shape:
            raise DataError(f"{path}: {len(images)} images, but 'users' {list(users.shape)}")
        parts[split] = Part(
            images,
            number[labels],
            lambda i, path=path: f"{path}[{i}]",
            None if users is None else [str(user) for user in users],
        )
    return Labelled(parts, kind.published.classes, ".npz files", _coarse(kind))


def _load_npz(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise DataError(f"{path}: does not exist: train.npz and test.npz belong together")
    try:
        with np.load(path, allow_pickle=False) as file:
            missing = [key for key in NPZ_KEYS if key not in file]
            if missing:
                raise DataError(f"{path}: has no {', '.join(missing)}; it has {list(file)}")
            keys = [*NPZ_KEYS, *(["users"] if "users" in file else [])]
            return {key: file[key] for key in keys}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error, MemoryError) as error:
        raise DataError(
            f"{path}: cannot be read as plain arrays ({error}): write it again with numpy.savez, "
            "texts as numpy text, not as objects"
        ) from error


# ---- shared by the forms


def _known_classes(names: list[str], kind: Kind, where: str | Path, ordered: bool = True) -> None:
    known = kind.published.classes
    unknown = [name for name in names if name not in known]
    if unknown:
        raise DataError(
            f"{where}: unknown class {unknown[0]!r}: {kind.published.name} has {len(known)}, "
            f"{', '.join(known[:10])}{', ...' if len(known) > 10 else ''}"
        )
    if len(set(names)) < len(names):
        raise DataError(f"{where}: a class is listed twice")
    if ordered and tuple(names) != known:
        raise DataError(f"{where}: the classes of {kind.published.name} in another order or number")


def _coarse(kind: Kind) -> tuple[int, ...] | None:
    if kind.coarse_of is None:
        return None
    return tuple(kind.coarse_of[name] for name in kind.published.classes)


def _progress(archive: tarfile.TarFile, title: str) -> Iterator[tarfile.TarInfo]:
    return track(archive, title, total=None, console=Console(stderr=True))
