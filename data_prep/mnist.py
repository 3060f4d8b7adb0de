"""MNIST (LeCun 1998): its idx files, compressed or not, read by torchvision."""

import gzip
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from torchvision.datasets import MNIST
from torchvision.datasets.mnist import read_image_file, read_label_file
from torchvision.datasets.utils import check_integrity

from data_prep.classification import ImageSet
from data_prep.labeled import Labeled, Part, Published
from fedseg.datasets.arrays import SPLITS, MNISTDataset
from fedseg.errors import DataError

PREFIX = {"train": "train", "test": "t10k"}
LARGEST = 512 * 2**20  # bytes once uncompressed; the largest official file has 47 MB

PUBLISHED = Published(
    "MNIST",
    (28, 28, 1),
    tuple("0123456789"),
    {
        "train": (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
        "test": (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
    },
)


def image_set() -> ImageSet:
    """How MNIST is prepared."""
    return ImageSet(
        published=PUBLISHED,
        dataset=MNISTDataset,
        find=find_source,
        read=read,
        download=download,
        hint="MNIST's idx files",
        setting="mnist_a01",
    )


def find_source(folder: Path) -> Path | None:
    """The folder with the idx files: this one, or where torchvision puts them below it."""
    for place in (folder, folder / "raw", folder / "MNIST" / "raw"):
        if any(path.is_file() for path in _candidates(place, "train-images-idx3-ubyte")):
            return place
    return None


def download(root: Path) -> Path:
    """Download the four files below ``root`` unless they are there; their md5 is checked.

    Returns:
        The folder that holds them.

    Raises:
        DataError: there is no network, or other files were received.
    """
    try:
        return Path(MNIST(root, download=True).raw_folder)
    except (OSError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise DataError(
            f"{root}: MNIST cannot be downloaded ({reason}): download its files on another machine "
            "and put them there"
        ) from error


def read(source: Path) -> Labeled:
    """Read the four idx files of a folder; images become uint8 [N, 28, 28, 1].

    Their content is still to be checked with :func:`data_prep.labeled.check`.

    Raises:
        DataError: a file is missing, damaged, or no idx file of the right kind.
    """
    parts, official = {}, True
    known = dict(MNIST.resources)
    for split in SPLITS:
        arrays = []
        for name, reader in (
            (f"{PREFIX[split]}-images-idx3-ubyte", read_image_file),
            (f"{PREFIX[split]}-labels-idx1-ubyte", read_label_file),
        ):
            path = _find(source, name)
            official &= path.name in known and check_integrity(path, known[path.name])
            arrays.append(_read_idx(path, reader))
        images, labels = arrays[0][..., None], arrays[1].astype(np.int64)
        if len(images) != len(labels):
            raise DataError(
                f"{source}: {len(images)} {split} images, but {len(labels)} labels: the two files "
                "do not belong together"
            )
        parts[split] = Part(images, labels, f"{split} image {{}}".format)
    form = "official files, md5 verified" if official else "idx files"
    return Labeled(parts, PUBLISHED.classes, form, official=official)


def _read_idx(path: Path, reader) -> np.ndarray:
    data = _bytes(path)
    try:
        with tempfile.TemporaryDirectory() as scratch:  # torchvision reads uncompressed files
            file = Path(scratch) / "idx"
            file.write_bytes(data)
            array = reader(file).numpy()
        if len(data) != array.size + 4 * (array.ndim + 1):  # labels may be longer for torchvision
            raise ValueError(f"{len(data)} bytes for shape {list(array.shape)}")
        return array
    except (AssertionError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise DataError(
            f"{path}: is cut short, damaged or no idx file of this kind ({error}): get it again"
        ) from error


def _candidates(folder: Path, name: str) -> Iterator[Path]:
    # some copies are called train-images.idx3-ubyte
    for base in (name, name.replace("-idx", ".idx")):
        yield folder / f"{base}.gz"
        yield folder / base


def _find(folder: Path, name: str) -> Path:
    for path in _candidates(folder, name):
        if path.is_file():
            return path
    raise DataError(f"{folder / name}: does not exist, nor does {name}.gz: put MNIST's files there")


def _bytes(path: Path) -> bytes:
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            data = file.read(LARGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: is corrupt or cut short ({error}): get it again") from error
    if len(data) > LARGEST:
        raise DataError(f"{path}: has more than {LARGEST} bytes, it is no file of MNIST")
    return data
