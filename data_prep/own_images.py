"""Labeled images that a user brings: nothing in the files is trusted, and nothing is run.

- an archive or a folder of pickled batches, as CIFAR's official ones;
- ``train.npz`` and ``test.npz`` with ``images`` (uint8 [N, H, W, 3]), ``labels`` (integers [N]),
  ``classes`` (texts) and optionally ``users`` (the client of each image, texts [N]);
- image folders ``{train,test}/<class>/*.png``.

An archive is read, never unpacked. A pickle may name any function and have it called: here it may
name only what an array of bytes needs, and even that is not called.
"""

import io
import lzma
import pickle
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedseg.datasets.arrays import SPLITS, check_images
from fedseg.datasets.images import PNG, read_image
from fedseg.errors import DataError
from fedseg.files import read_bytes

from .labeled import ImageSet, Part
from .parallel import in_threads

LARGEST_MEMBER = 512 * 2**20  # bytes; the largest official batch has 155 MB
NPZ_KEYS = ("images", "labels", "classes")


def form(folder: Path, files: Sequence[str]) -> str | None:
    """``"batches"`` (a folder with all of ``files``), ``"npz"``, ``"images"`` or None."""
    if all((folder / name).is_file() for name in files):
        return "batches"
    if any((folder / f"{split}.npz").is_file() for split in SPLITS):
        return "npz"
    # CIFAR-100's own batch is a file called train
    return "images" if all((folder / split).is_dir() for split in SPLITS) else None


# ---- pickled batches


def batch_files(source: Path, names: Sequence[str]) -> dict[str, bytes]:
    """The content of the named files, from a folder or, wherever they are in it, an archive.

    Raises:
        DataError: a file is missing, or the source is damaged.
    """
    if source.is_dir():
        try:
            return {name: read_bytes(source / name) for name in names}
        except OSError as error:
            raise DataError(f"{source}: cannot be read ({error}): get it again") from error
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(source, "r:*") as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                if member.size > LARGEST_MEMBER or (name in found and member.isfile()):
                    fault = "another file of this name" if name in found else "more than 512 MiB"
                    raise DataError(f"{source}: {member.name} is {fault}: get a sound archive")
                if not member.isfile() or name not in names:
                    continue
                found[name] = archive.extractfile(member).read()
            # to the end, where a compressed file has its checksum
            while archive.fileobj.read(2**20):
                pass
    except (tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError) as error:
        raise DataError(f"{source}: is corrupt or cut short ({error}): get it again") from error
    if missing := [name for name in names if name not in found]:
        raise DataError(
            f"{source}: has no {', '.join(missing)}: is it the Python version of this data set?"
        )
    return found


def unpickle_batch(data: bytes, where: str) -> dict[str, Any]:
    """The dictionary of a pickled batch; keys and texts as str, arrays as NumPy arrays.

    Raises:
        DataError: the pickle is damaged, asks for anything but arrays of uint8, or holds no
            dictionary.
    """
    try:
        content = _BatchUnpickler(io.BytesIO(data), encoding="bytes").load()
        return {_plain(key): _plain(value) for key, value in content.items()}
    except Exception as error:  # damaged bytes can fail in any way
        raise DataError(
            f"{where}: is damaged or no batch of images ({type(error).__name__}: {error}): get the "
            "official archive"
        ) from error


class _Call:
    """Stands for NumPy's types and functions: keeps what they were to be called with."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, tuple) and len(state) == 5:  # an array, not a dtype
            _version, shape, dtype, by_columns, data = state
            self.arguments = (data, dtype, shape, "F" if by_columns else "C")

    def array(self) -> np.ndarray:
        """Bytes that must fit their shape: NumPy's own way trusts what it is told about memory."""
        data, dtype, shape, order = self.arguments
        kind = _plain(dtype.arguments[0])
        if kind not in ("u1", "uint8", "|u1"):
            raise pickle.UnpicklingError(f"an array of dtype {kind!r}, images must be uint8")
        data = data.encode("latin1") if isinstance(data, str) else bytes(data)
        return np.frombuffer(data, np.uint8).reshape(shape, order=order)


class _BatchUnpickler(pickle.Unpickler):
    NUMPY = (
        *("numpy.ndarray", "numpy.dtype"),
        *("numpy.core.multiarray._reconstruct", "numpy.core.numeric._frombuffer"),
    )

    def find_class(self, module: str, name: str) -> Any:
        asked = f"{module}.{name}"
        if asked.replace("numpy._core", "numpy.core") in self.NUMPY:  # NumPy 2 has renamed it
            return _Call
        if asked == "_codecs.encode":  # how Python 3 writes bytes in an old protocol
            return lambda text, _encoding: text.encode("latin1")
        raise pickle.UnpicklingError(f"it asks for {asked}, nothing was run; do not trust it")


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("latin1")
    if isinstance(value, _Call):
        return value.array()
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


# ---- .npz files and image folders


def from_npz(folder: Path, published: ImageSet) -> dict[str, Part]:
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


def from_folders(root: Path, published: ImageSet) -> dict[str, Part]:
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
