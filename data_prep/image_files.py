"""Labeled images in the forms that are read. Nothing in the files is trusted, and nothing is run.

- the official files, whose names and md5 torchvision knows;
- ``train.npz`` and ``test.npz`` with ``images`` (uint8 [N, H, W, C]), ``labels`` (integers [N]),
  ``classes`` (texts) and optionally ``users`` (the client of each image, texts [N]);
- image folders ``{train,test}/<class>/*.png``.

CIFAR's official files are pickles, and a pickle may run anything: they are opened only if their md5
is the official one.
"""

import gzip
import hashlib
import pickle
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from torchvision import datasets
from torchvision.datasets.utils import check_integrity, download_url, extract_archive

from fedseg.datasets.arrays import SPLITS, check_images, shared_images
from fedseg.datasets.file_lists import is_hidden
from fedseg.datasets.images import PNG, read_image
from fedseg.errors import DataError

from .description import ImageSet, Labeled, Part
from .disk import print_skipped
from .leaf import LeafFiles
from .parallel import in_threads

LARGEST_MEMBER = 512 * 2**20  # bytes; the largest official file has 155 MB
NPZ_KEYS = ("images", "labels", "classes")
VERIFIED = "official batches, md5 verified"  # the source of images in the order of CIFAR's archive
FORMS = "train.npz and test.npz, or {train,test}/<class>/*.png"
SHOWN = 5


def find_images(published: ImageSet, folder: Path) -> Path | None:
    """The images in a folder: the official files or the folder itself; None if there are none."""
    return official_files(published).find(folder) or (folder if _form(folder) else None)


def find_source(
    published: ImageSet, root: Path, source: Path | None = None, download: bool = False
) -> Path:
    """The folder of the images, by default the root; DataError if there is none."""
    if source is not None:
        if not source.exists():
            raise DataError(f"{source}: does not exist: --source must be {published.source}")
        return find_images(published, source) or source
    place = find_images(published, root)
    if download and (place is None or place.is_file()):  # an archive may be cut short
        try:
            return official_files(published).download(root)
        except (OSError, RuntimeError) as error:
            raise DataError(
                f"{root}: {published.name} cannot be downloaded ({' '.join(str(error).split())}): "
                "download its files on another machine and put them there"
            ) from error
    if place is None:
        ways = "with --source, or give --download" if published.torchvision else "with --source"
        raise DataError(
            f"{root}: has no {published.name}: put {published.source} there ({FORMS}), or name it "
            f"{ways}"
        )
    return place


def read_images(published: ImageSet, source: Path) -> Labeled:
    """Read a source; its content is still to be checked with :func:`check`."""
    files = official_files(published)
    if source.is_file() or files.find(source) is not None:
        return files.read(source)
    form = _form(source)
    if form == "npz":
        return Labeled(_read_npz(source, published), ".npz files")
    if form == "images":
        return Labeled(_read_folders(source, published), "image folders")
    raise DataError(f"{source}: has no {published.name}: expected {published.source} ({FORMS})")


def check(data: Labeled, published: ImageSet, where: str | Path, unofficial: bool) -> None:
    """Compare a data set with what is published; ``unofficial`` accepts other numbers of images."""
    for split in SPLITS:
        part, place = data.parts[split], f"{where}: {split}"
        check_images(part.images, part.labels, len(published.classes), place)
        if part.images.shape[1:] != published.shape:
            raise DataError(
                f"{place}: images have shape {list(part.images.shape[1:])}, but {published.name} "
                f"has {list(published.shape)} (height, width, channels)"
            )
        counts = np.bincount(part.labels, minlength=len(published.classes))
        differing = np.flatnonzero(counts != published.counts.get(split, counts))
        if differing.size and not unofficial:
            first, expected = differing[0], published.counts[split]
            raise DataError(
                f"{place}: has {counts.sum()} images, {counts[first]} of them of class "
                f"{published.classes[first]!r}, but {published.name} has {sum(expected)} and "
                f"{expected[first]}: complete it, or give --unofficial if it is meant to be "
                "another selection"
            )


def resolve_overlap(data: Labeled, choice: str, where: str | Path) -> tuple[Labeled, int]:
    """Handle images that are in both splits, pixel by pixel.

    The published CIFAR-100 has a few such pairs (ciFAIR, Barz and Denzler 2020, lists ten at a
    distance of zero); CIFAR-10 has none. Published files stay as they are, so that results remain
    comparable, and their pairs are counted; anywhere else such a pair is a mistake.

    Args:
        choice: one of OVERLAP. ``"refuse"``: an error unless the files are the published ones;
            ``"keep"``: leave them; ``"drop"``: remove them from the training images.

    Returns:
        The data set, and how many test images are still training images too.
    """
    train, test = (data.parts[split] for split in SPLITS)
    pairs = shared_images(train.images, test.images)
    if not pairs or choice == "keep" or (choice == "refuse" and data.official):
        return data, len(pairs)
    if choice == "refuse":
        listed = "; ".join(f"{train.name(a)} = {test.name(b)}" for a, b in pairs[:SHOWN])
        raise DataError(
            f"{where}: {len(pairs)} test images are training images too, such as {listed}: remove "
            "them, or give --shared drop (from the training images) or --shared keep"
        )
    known = {image.tobytes() for image in test.images}
    rest = np.flatnonzero([image.tobytes() not in known for image in train.images])
    users, names = (v and [v[i] for i in rest] for v in (train.users, train.names))
    parts = {"train": Part(train.images[rest], train.labels[rest], users, names), "test": test}
    dropped = len(train.images) - len(rest)
    source = f"{data.source}; {dropped} training images dropped that are test images too"
    return replace(data, parts=parts, source=source), 0


def _form(folder: Path) -> str | None:
    if any((folder / f"{split}.npz").is_file() for split in SPLITS):
        return "npz"
    # CIFAR-100's own batch is a file called train
    return "images" if all((folder / split).is_dir() for split in SPLITS) else None


# ---- official files


class CifarFiles:
    """CIFAR's Python archive, or the folder of pickled batches that it unpacks to."""

    def __init__(self, kind: type[datasets.CIFAR10]) -> None:
        self.kind = kind
        self.batches = {"train": kind.train_list, "test": kind.test_list}  # name, md5

    def find(self, folder: Path) -> Path | None:
        """The archive or its batches in a folder; None if they are not there."""
        if (folder / self.kind.filename).is_file():
            return folder / self.kind.filename
        names = [name for batches in self.batches.values() for name, _ in batches]
        for place in (folder / self.kind.base_folder, folder):
            if all((place / name).is_file() for name in names):
                return place
        return None

    def download(self, root: Path) -> Path:
        """Download the archive; returns where it is."""
        download_url(self.kind.url, str(root), self.kind.filename, self.kind.tgz_md5)
        return root / self.kind.filename

    def read(self, source: Path) -> Labeled:
        """Read the archive or a folder of batches; names are the archive's, without ".png"."""
        with TemporaryDirectory() as scratch:
            folder = source
            if source.is_file():
                if not check_integrity(source, self.kind.tgz_md5):
                    raise self._refusal(source)
                extract_archive(source, scratch)
                folder = Path(scratch) / self.kind.base_folder
            parts = {split: self._read_part(source, folder, split) for split in SPLITS}
        return Labeled(parts, VERIFIED, official=True)

    def _read_part(self, source: Path, folder: Path, split: str) -> Part:
        images, labels, names = [], [], []
        for name, md5 in self.batches[split]:
            data = (folder / name).read_bytes() if (folder / name).is_file() else b""
            if hashlib.md5(data).hexdigest() != md5:
                raise self._refusal(source)
            batch = pickle.loads(data, encoding="latin1")
            images.append(batch["data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
            labels += batch["labels"] if "labels" in batch else batch["fine_labels"]
            names += [name.removesuffix(".png") for name in batch["filenames"]]
        return Part(np.concatenate(images), np.array(labels, np.int64), names=names)

    def _refusal(self, source: Path) -> DataError:
        return DataError(
            f"{source}: is not the official data set, another md5 (archive: {self.kind.tgz_md5}); "
            "a pickle of unknown origin is never opened: get the archive again from "
            f"{self.kind.url}, or bring images of your own as {FORMS}"
        )


class MnistFiles:
    """Four idx files, compressed or not; :class:`torchvision.datasets.MNIST` and its like."""

    def __init__(self, kind: type[datasets.MNIST]) -> None:
        self.kind = kind

    def find(self, folder: Path) -> Path | None:
        """The folder with the files, below a folder; None if there is none."""
        for place in (folder, folder / "raw", folder / self.kind.__name__ / "raw"):
            if self._path(place, "train-images-idx3-ubyte") is not None:
                return place
        return None

    def download(self, root: Path) -> Path:
        """Download the files; returns where they are."""
        return Path(self.kind(root, download=True).raw_folder)

    def read(self, source: Path) -> Labeled:
        """Read a folder with the files."""
        parts, official, md5 = {}, True, dict(self.kind.resources)
        for split, prefix in zip(SPLITS, ("train", "t10k"), strict=True):
            arrays = []
            for name, ndim in (
                (f"{prefix}-images-idx3-ubyte", 3),
                (f"{prefix}-labels-idx1-ubyte", 1),
            ):
                path = self._path(source, name)
                if path is None:
                    raise DataError(
                        f"{source / name}: does not exist, nor does {name}.gz: put them there"
                    )
                official &= path.name in md5 and check_integrity(path, md5[path.name])
                arrays.append(_read_idx(path, ndim))
            images, labels = arrays
            if len(images) != len(labels):
                raise DataError(
                    f"{source}: {len(images)} {split} images, but {len(labels)} labels: the two "
                    "files do not belong together"
                )
            parts[split] = Part(images[..., None], labels.astype(np.int64))
        form = "official files, md5 verified" if official else "idx files"
        return Labeled(parts, form, official)

    def _path(self, folder: Path, name: str) -> Path | None:
        """The file, compressed or not; some copies are called train-images.idx3-ubyte."""
        names = [base + end for base in (name, name.replace("-idx", ".idx")) for end in (".gz", "")]
        return next((folder / name for name in names if (folder / name).is_file()), None)


def official_files(published: ImageSet) -> CifarFiles | MnistFiles | LeafFiles:
    """The reader of a data set's official files."""
    if not published.torchvision:
        return LeafFiles(published)
    kind = getattr(datasets, published.torchvision)
    return CifarFiles(kind) if issubclass(kind, datasets.CIFAR10) else MnistFiles(kind)


def _read_idx(path: Path, ndim: int) -> np.ndarray:
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            data = file.read(LARGEST_MEMBER + 1)
        magic, *shape = np.frombuffer(data, ">i4", 1 + ndim).tolist()
        values = np.frombuffer(data, np.uint8, offset=4 + 4 * ndim)
        if magic != 0x800 + ndim or min(shape) < 0:
            raise ValueError(f"not unsigned bytes in {ndim} dimensions")
        return values.reshape(shape)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DataError(
            f"{path}: is cut short, damaged or no idx file of this kind ({error}): get it again"
        ) from error


# ---- .npz files and image folders


def _read_npz(folder: Path, published: ImageSet) -> dict[str, Part]:
    parts = {}
    for split in SPLITS:
        path = folder / f"{split}.npz"
        content = _load_npz(path)
        images, labels, users = content["images"], content["labels"], content.get("users")
        names = [str(name) for name in np.atleast_1d(content["classes"])]
        _check_classes(names, published, path)
        check_images(images, labels, len(names), path)
        # the file's own order of the classes may be another one
        number = np.array([published.classes.index(name) for name in names], np.int64)
        if users is not None:
            if users.shape != labels.shape or users.dtype.kind not in "Uiu":
                raise DataError(
                    f"{path}: 'users' must be texts or whole numbers [{len(labels)}], not "
                    f"{users.dtype} {list(users.shape)}"
                )
            users = users.astype(str).tolist()
        parts[split] = Part(
            images, number[labels], users, [f"{path}[{i}]" for i in range(len(images))]
        )
    return parts


def _load_npz(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise DataError(f"{path}: does not exist: train.npz and test.npz belong together")
    try:
        with np.load(path, allow_pickle=False) as file:
            if any(member.file_size > LARGEST_MEMBER for member in file.zip.infolist()):
                raise ValueError(f"it unpacks to more than {LARGEST_MEMBER} bytes")
            content = {key: file[key] for key in (*NPZ_KEYS, "users") if key in file}
            if not all(isinstance(content[key], np.ndarray) for key in (*NPZ_KEYS, *content)):
                raise ValueError("an entry is no array")
            return content
    except Exception as error:  # damaged bytes can fail in any way
        raise DataError(
            f"{path}: cannot be read as plain arrays {', '.join(NPZ_KEYS)} ({error}): write it "
            "again with numpy.savez, texts as numpy text, not as objects"
        ) from (None if isinstance(error, MemoryError) else error)  # a header of 279 TiB


def _read_folders(root: Path, published: ImageSet) -> dict[str, Part]:
    parts = {}
    for split in SPLITS:
        folders = sorted(
            p for p in (root / split).iterdir() if p.is_dir() and not is_hidden(p.name)
        )
        _check_classes([folder.name for folder in folders], published, root / split)
        files, labels = [], []
        for folder in folders:
            images = sorted(p for p in folder.iterdir() if not is_hidden(p.name))
            if other := [path for path in images if path.suffix.lower() != ".png"]:
                raise DataError(f"{other[0]}: is not a PNG image: convert it to PNG, or remove it")
            if not images and split == "train":  # classes come from training
                raise DataError(f"{folder}: has no *.png image")
            files += images
            labels += [published.classes.index(folder.name)] * len(images)
        if not files:
            raise DataError(f"{root / split}: has no image in a folder of its class: use {FORMS}")
        images = in_threads(lambda f: _image(f, published.shape), files, f"reading {split} images")
        names = [str(file) for file in files]
        used = {file.relative_to(root / split).as_posix() for file in files}
        print_skipped(root / split, used, "are left out")
        parts[split] = Part(np.stack(images), np.array(labels, np.int64), names=names)
    return parts


def _image(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    """RGB, uint8 of the given shape."""
    image = read_image(str(path))
    with open(path, "rb") as file:
        head = file.read(25)
    if not head.startswith(PNG) or head[24] > 8:
        raise DataError(f"{path}: must be a PNG of 8 bits per channel")
    if image.shape != shape:
        raise DataError(f"{path}: has shape {list(image.shape)}, expected {list(shape)}")
    return image


def _check_classes(names: Sequence[str], published: ImageSet, where: str | Path) -> None:
    unknown = [name for name in names if name not in published.classes]
    if unknown or len(set(names)) < len(names):
        raise DataError(
            f"{where}: classes must be those of {published.name}, each once, not {names[:20]}"
            f"{f' (unknown: {unknown[0]!r})' if unknown else ''}"
        )
