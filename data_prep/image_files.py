"""Labeled images in the forms that are read. Nothing in the files is trusted, and nothing is run.

- the official files, which torchvision knows by their md5 and reads;
- ``train.npz`` and ``test.npz`` with ``images`` (uint8 [N, H, W, C]), ``labels`` (integers [N]),
  ``classes`` (texts) and optionally ``users`` (the client of each image, texts [N]);
- image folders ``{train,test}/<class>/*.png``.

CIFAR's official files are pickles, and a pickle may run anything: they are opened only if their md5
is the official one.
"""

import gzip
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any, Protocol

import numpy as np
import torch
from torchvision import datasets
from torchvision.datasets.mnist import read_image_file, read_label_file
from torchvision.datasets.utils import check_integrity, download_url, extract_archive

from fedseg.datasets.arrays import SPLITS, check_images
from fedseg.datasets.images import PNG, read_image
from fedseg.errors import DataError

from .description import ImageSet
from .labeled import Labeled, Part
from .parallel import in_threads

LARGEST_MEMBER = 512 * 2**20  # bytes; the largest official file has 155 MB
NPZ_KEYS = ("images", "labels", "classes")
VERIFIED = "official batches, md5 verified"  # said of images in the order of CIFAR's archive
FORMS = "train.npz and test.npz, or {train,test}/<class>/*.png"


class OfficialFiles(Protocol):
    """The official files of a data set."""

    def find(self, folder: Path) -> Path | None:
        """The files or their archive in a folder; None if there are none."""

    def download(self, root: Path) -> Path:
        """Download them below ``root``; returns where they are."""

    def read(self, source: Path) -> Labeled:
        """Read what :meth:`find` has found; DataError: it is damaged, or cannot be trusted."""


def official_files(published: ImageSet) -> OfficialFiles:
    """What reads the official files of a data set."""
    kind = getattr(datasets, published.torchvision)
    return CifarFiles(kind) if issubclass(kind, datasets.CIFAR10) else MnistFiles(kind)


def find_images(published: ImageSet, folder: Path) -> Path | None:
    """The images in a folder: the official files or the folder itself; None if there are none."""
    return official_files(published).find(folder) or (folder if _form(folder) else None)


def find_source(
    published: ImageSet, root: Path, source: Path | None = None, download: bool = False
) -> Path:
    """Where the images are read from, by default in the root; DataError if there is none."""
    if source is not None:
        if not source.exists():
            raise DataError(f"{source}: does not exist: --source must be {published.source}")
        return find_images(published, source) or source
    found = find_images(published, root)
    if download and (found is None or found.is_file()):  # an archive may be cut short
        try:
            return official_files(published).download(root)
        except (OSError, RuntimeError) as error:
            raise DataError(
                f"{root}: {published.name} cannot be downloaded ({' '.join(str(error).split())}): "
                "download its files on another machine and put them there"
            ) from error
    if found is None:
        raise DataError(
            f"{root}: holds no {published.name}: put {published.source} there, name it with "
            "--source, or give --download"
        )
    return found


def read_images(published: ImageSet, source: Path) -> Labeled:
    """Read a source; its content is still to be checked with :func:`labeled.check`.

    Raises:
        DataError: it is damaged, not of this data set, or a pickle that is not the official one.
    """
    files = official_files(published)
    if source.is_file() or files.find(source) is not None:
        return files.read(source)
    form = _form(source)
    if form == "npz":
        return Labeled(_read_npz(source, published), ".npz files")
    if form == "images":
        return Labeled(_read_folders(source, published), "image folders")
    raise DataError(f"{source}: holds no {published.name}: expected {published.source} ({FORMS})")


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
        lists = {"train": kind.train_list, "test": kind.test_list}
        self.batches = {split: [name for name, _ in files] for split, files in lists.items()}

    def find(self, folder: Path) -> Path | None:
        if (folder / self.kind.filename).is_file():
            return folder / self.kind.filename
        names = [*self.batches["train"], *self.batches["test"], self.kind.meta["filename"]]
        for place in (folder / self.kind.base_folder, folder):
            if all((place / name).is_file() for name in names):
                return place
        return None

    def download(self, root: Path) -> Path:
        download_url(self.kind.url, str(root), self.kind.filename, self.kind.tgz_md5)
        return root / self.kind.filename

    def read(self, source: Path) -> Labeled:
        with self._verified(source) as (_, sets):
            parts = {
                split: Part(
                    data.data, np.array(data.targets, np.int64), f"{source}: {split} {{}}".format
                )
                for split, data in sets.items()
            }
        return Labeled(parts, VERIFIED, official=True)

    def names(self, source: Path) -> dict[str, list[str]]:
        """For each split, the archive's own name of each image, without ".png"."""
        names: dict[str, list[str]] = {}
        with self._verified(source) as (folder, _):
            for split, batches in self.batches.items():
                contents = [
                    pickle.loads((folder / b).read_bytes(), encoding="latin1") for b in batches
                ]
                names[split] = [n.removesuffix(".png") for c in contents for n in c["filenames"]]
        return names

    @contextmanager
    def _verified(self, source: Path) -> Iterator[tuple[Path, dict[str, datasets.CIFAR10]]]:
        """The folder of batches, and what torchvision reads from it after checking every md5."""
        with TemporaryDirectory() as scratch:
            folder = source
            if source.is_file():
                if not check_integrity(source, self.kind.tgz_md5):
                    raise self._refusal(source)
                extract_archive(source, scratch)
                folder = Path(scratch) / self.kind.base_folder
            reader = type("Reader", (self.kind,), {"base_folder": folder.name})
            try:
                sets = {s: reader(folder.resolve().parent, train=s == "train") for s in SPLITS}
            except RuntimeError as error:  # missing, or another md5
                raise self._refusal(source) from error
            yield folder, sets

    def _refusal(self, source: Path) -> DataError:
        return DataError(
            f"{source}: is not the official data set, another md5 (archive: {self.kind.tgz_md5}); "
            "a pickle of unknown origin is never opened: get the archive again from "
            f"{self.kind.url}, or bring images of your own as {FORMS}"
        )


class MnistFiles:
    """Four idx files, compressed or not; :class:`torchvision.datasets.MNIST` and its like."""

    PREFIX = {"train": "train", "test": "t10k"}

    def __init__(self, kind: type[datasets.MNIST]) -> None:
        self.kind = kind

    def find(self, folder: Path) -> Path | None:
        for place in (folder, folder / "raw", folder / self.kind.__name__ / "raw"):
            if self._path(place, "train-images-idx3-ubyte") is not None:
                return place
        return None

    def download(self, root: Path) -> Path:
        return Path(self.kind(root, download=True).raw_folder)

    def read(self, source: Path) -> Labeled:
        parts, official, md5 = {}, True, dict(self.kind.resources)
        for split, prefix in self.PREFIX.items():
            arrays = []
            for kind, read in (("images-idx3", read_image_file), ("labels-idx1", read_label_file)):
                name = f"{prefix}-{kind}-ubyte"
                path = self._path(source, name)
                if path is None:
                    raise DataError(
                        f"{source / name}: does not exist, nor does {name}.gz: put them there"
                    )
                official &= path.name in md5 and check_integrity(path, md5[path.name])
                arrays.append(_read_idx(path, read))
            images, labels = arrays[0][..., None], arrays[1]
            if len(images) != len(labels):
                raise DataError(
                    f"{source}: {len(images)} {split} images, but {len(labels)} labels: the two "
                    "files do not belong together"
                )
            parts[split] = Part(images, labels, f"{split} image {{}}".format)
        form = "official files, md5 verified" if official else "idx files"
        return Labeled(parts, form, official)

    def _path(self, folder: Path, name: str) -> Path | None:
        """The file, compressed or not; some copies are called train-images.idx3-ubyte."""
        names = [base + end for base in (name, name.replace("-idx", ".idx")) for end in (".gz", "")]
        return next((folder / name for name in names if (folder / name).is_file()), None)


def _read_idx(path: Path, read: Callable[[str], torch.Tensor]) -> np.ndarray:
    """What torchvision reads from an idx file, which must not be compressed for it."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            data = file.read(LARGEST_MEMBER + 1)
        if len(data) > LARGEST_MEMBER:
            raise ValueError(f"it has more than {LARGEST_MEMBER} bytes")
        with NamedTemporaryFile() as plain:
            plain.write(data)
            plain.flush()
            return read(plain.name).numpy()
    except Exception as error:  # damaged bytes can fail in any way
        raise DataError(
            f"{path}: is cut short, damaged or no idx file of this kind ({error}): get it again"
        ) from error


# ---- .npz files and image folders


def _read_npz(folder: Path, published: ImageSet) -> dict[str, Part]:
    """Images of ``train.npz`` and ``test.npz``; DataError if they are damaged or inconsistent."""
    parts = {}
    for split in SPLITS:
        path = folder / f"{split}.npz"
        content = _load_npz(path)
        images, labels, classes, users = (content.get(key) for key in (*NPZ_KEYS, "users"))
        names = [str(name) for name in np.atleast_1d(classes)]
        _check_classes(names, published, path)
        check_images(images, labels, len(names), path)
        # the file's own order of the classes may be another one
        number = np.array([published.classes.index(name) for name in names], np.int64)
        if users is not None and users.shape != labels.shape:
            raise DataError(f"{path}: {len(images)} images, but 'users' {list(users.shape)}")
        if users is not None and users.dtype.kind not in "Uiu":
            raise DataError(f"{path}: 'users' must be text or whole numbers, not {users.dtype}")
        users = None if users is None else [str(user) for user in users]
        parts[split] = Part(images, number[labels], f"{path}[{{}}]".format, users)
    return parts


def _load_npz(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise DataError(f"{path}: does not exist: train.npz and test.npz belong together")
    try:
        with np.load(path, allow_pickle=False) as file:
            if any(member.file_size > LARGEST_MEMBER for member in file.zip.infolist()):
                raise DataError(f"{path}: unpacks to more than 512 MiB: it holds no such images")
            if missing := [key for key in NPZ_KEYS if key not in file]:
                raise DataError(f"{path}: has no {', '.join(missing)}; it has {list(file)}")
            content = {key: file[key] for key in (*NPZ_KEYS, "users") if key in file}
            for key, value in content.items():
                if not isinstance(value, np.ndarray):
                    raise DataError(f"{path}: its {key!r} is no array: write it with numpy.savez")
            return content
    except DataError:
        raise
    except Exception as error:  # damaged bytes can fail in any way
        raise DataError(
            f"{path}: cannot be read as plain arrays ({error}): write it again with numpy.savez, "
            "texts as numpy text, not as objects"
        ) from error


def _read_folders(root: Path, published: ImageSet) -> dict[str, Part]:
    """Images of ``{train,test}/<class>/*.png``, class by class; DataError names a faulty file."""
    parts = {}
    for split in SPLITS:
        folders = sorted(p for p in (root / split).iterdir() if p.is_dir() and p.name[0] != ".")
        _check_classes([folder.name for folder in folders], published, root / split)
        files, labels = [], []
        for folder in folders:
            images = sorted(p for p in folder.iterdir() if p.name[0] != ".")
            if other := [path for path in images if path.suffix.lower() != ".png"]:
                raise DataError(f"{other[0]}: is no PNG image: convert it to PNG, or remove it")
            if not images:
                raise DataError(f"{folder}: holds no *.png image")
            files += images
            labels += [published.classes.index(folder.name)] * len(images)
        if not files:
            raise DataError(f"{root / split}: has no folder of a class")
        images = in_threads(lambda f: _image(f, published.shape), files, f"reading {split} images")
        names = [str(file) for file in files]
        parts[split] = Part(np.stack(images), np.array(labels, np.int64), names.__getitem__)
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


def _check_classes(names: Sequence[Any], published: ImageSet, where: str | Path) -> None:
    unknown = [name for name in names if name not in published.classes]
    if unknown:
        raise DataError(f"{where}: unknown class {unknown[0]!r}: not one of {published.name}")
    if len(set(names)) < len(names):
        raise DataError(f"{where}: a class is listed twice")
