"""Data sets, their transforms and style transfer. They know nothing of federated training."""

from typing import Any

import fedseg.opencv  # before what imports cv2 itself
from fedseg.registry import DATASETS, TRANSFORMS, load_class

_MODULES = {
    **DATASETS.modules,
    **TRANSFORMS.modules,
    "ImageArrays": "fedseg.datasets.arrays",
    "write_images": "fedseg.datasets.arrays",
    "CorruptedImages": "fedseg.datasets.corrupted",
    "SegmentationDataset": "fedseg.datasets.segmentation",
    "StyleTransfer": "fedseg.datasets.style",
    "Pipeline": "fedseg.datasets.transforms",
}


def __getattr__(name: str) -> Any:
    return load_class(__name__, name, _MODULES)
