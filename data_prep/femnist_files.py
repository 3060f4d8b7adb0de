"""FEMNIST by writer, in the HDF5 files of TensorFlow Federated.

``fed_emnist_train.h5`` and ``fed_emnist_test.h5`` have ``examples/<writer>/pixels``, [n, 28, 28]
from 0 to 1, and ``examples/<writer>/label``, integers [n]; 3,400 writers.
"""

from pathlib import Path
from typing import Any

import numpy as np

from fedseg.datasets.arrays import SPLITS
from fedseg.errors import DataError, ResourceError

from .facts import ImageSet
from .labeled import Labeled, Part


def read_femnist(published: ImageSet, folder: Path) -> Labeled:
    """Read both files, writers in their order.

    Raises:
        DataError: a file is missing, damaged or of another form.
        ResourceError: h5py is not installed.
    """
    try:
        import h5py
    except ImportError as error:
        raise ResourceError("FEMNIST: needs h5py: pip install 'fedseg[hdf5]'") from error
    parts = {}
    for split in SPLITS:
        file = folder / f"fed_emnist_{split}.h5"
        if not file.is_file():
            raise DataError(f"{file}: is missing: put it there")
        try:
            with h5py.File(file) as content:
                parts[split] = _join(content["examples"])
        except (KeyError, OSError, TypeError, AttributeError, ValueError, RuntimeError) as error:
            raise DataError(f"{file}: is not FEMNIST in HDF5 ({error}): get it again") from error
    return Labeled(parts, "fed_emnist_{train,test}.h5")


def _join(examples: Any) -> Part:
    """Join the samples of all writers: uint8 [N, 28, 28, 1]."""
    images: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    users: list[str] = []
    for writer, samples in examples.items():
        pixels = samples["pixels"][()]
        if pixels.shape[1:] != (28, 28) or not ((pixels >= 0) & (pixels <= 1)).all():
            raise ValueError(f"{writer}: pixels must be from 0 to 1, [n, 28, 28]")
        numbers = samples["label"][()]
        if numbers.shape != pixels.shape[:1] or numbers.dtype.kind not in "iu":
            raise ValueError(f"{writer}: label must be an integer for each image")
        images.append(np.rint(255 * pixels.astype(np.float64)).astype(np.uint8))
        labels.append(numbers.astype(np.int64))
        users += [writer] * len(pixels)
    return Part(np.concatenate(images)[..., np.newaxis], np.concatenate(labels), users)
