"""MNIST (LeCun 1998): its idx files, compressed or not."""

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
from torchvision.datasets import MNIST
from torchvision.datasets.utils import check_integrity

from fedseg.datasets.arrays import SPLITS, MNISTDataset
from fedseg.errors import DataError

from .labeled import ImageSet, Labeled, Part

PREFIX = {"train": "train", "test": "t10k"}
LARGEST = 512 * 2**20  # bytes once uncompressed; the largest official file has 47 MB


class Mnist(ImageSet):
    """MNIST's four idx files."""

    def find(self, folder: Path) -> Path | None:
        """The folder with the idx files: this one, or where torchvision puts them below it."""
        for place in (folder, folder / "raw", folder / "MNIST" / "raw"):
            if _path(place, "train-images-idx3-ubyte") is not None:
                return place
        return None

    def download(self, root: Path) -> Path:
        """Download the four files; see :class:`~fedseg.data_prep.labeled.ImageSet`."""
        try:
            return Path(MNIST(root, download=True).raw_folder)
        except (OSError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise DataError(
                f"{root}: MNIST cannot be downloaded ({reason}): download its files on another "
                "machine and put them there"
            ) from error

    def read(self, source: Path, unofficial: bool = False) -> Labeled:
        """Read the four idx files of a folder; images become uint8 [N, 28, 28, 1]."""
        parts, official = {}, True
        known = dict(MNIST.resources)
        for split in SPLITS:
            arrays = []
            for kind, dims in (("images", 3), ("labels", 1)):
                name = f"{PREFIX[split]}-{kind}-idx{dims}-ubyte"
                path = _path(source, name)
                if path is None:
                    raise DataError(
                        f"{source / name}: does not exist, nor does {name}.gz: put MNIST's files "
                        "there"
                    )
                official &= path.name in known and check_integrity(path, known[path.name])
                arrays.append(_read_idx(path, dims))
            images, labels = arrays[0][..., None], arrays[1].astype(np.int64)
            if len(images) != len(labels):
                raise DataError(
                    f"{source}: {len(images)} {split} images, but {len(labels)} labels: the two "
                    "files do not belong together"
                )
            parts[split] = Part(images, labels, f"{split} image {{}}".format)
        form = "official files, md5 verified" if official else "idx files"
        return Labeled(parts, self.classes, form, official=official)


PUBLISHED = Mnist(
    "MNIST",
    (28, 28, 1),
    tuple("0123456789"),
    {
        "train": (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
        "test": (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
    },
    MNISTDataset,
    setting="mnist_a01",
    hint="MNIST's idx files",
)


def _path(folder: Path, name: str) -> Path | None:
    """The file, compressed or not; some copies are called train-images.idx3-ubyte."""
    names = [base + end for base in (name, name.replace("-idx", ".idx")) for end in (".gz", "")]
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _read_idx(path: Path, dims: int) -> np.ndarray:
    """uint8 with so many dimensions: a type code, big-endian sizes, then the values."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            data = file.read(LARGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: is corrupt or cut short ({error}): get it again") from error
    if len(data) > LARGEST:
        raise DataError(f"{path}: has more than {LARGEST} bytes, it is no file of MNIST")
    size = 4 * dims + 4
    shape = [int.from_bytes(data[i : i + 4], "big") for i in range(4, size, 4)]
    if data[:4] != bytes((0, 0, 8, dims)) or len(data) != size + math.prod(shape):
        raise DataError(f"{path}: is cut short, damaged or no idx file of this kind: get it again")
    return np.frombuffer(data, np.uint8, offset=size).reshape(shape)
