"""Data sets, their transforms and style transfer. They know nothing of federated training."""

from typing import TYPE_CHECKING

import fedseg.opencv  # before what imports cv2 itself
from fedseg.sources import lazy_exports

if TYPE_CHECKING:
    from fedseg.datasets.arrays import (
        CIFAR10Dataset,
        CIFAR100Dataset,
        ImageArrays,
        MNISTDataset,
        StoredImages,
        write_images,
    )
    from fedseg.datasets.camvid import CamVidDataset
    from fedseg.datasets.cityscapes import CityscapesDataset
    from fedseg.datasets.corrupted import CIFAR10CDataset, CIFAR100CDataset, CorruptedImages
    from fedseg.datasets.feddrive_transforms import ChannelMeanJitter, RandomAreaCrop
    from fedseg.datasets.idda import IDDADataset
    from fedseg.datasets.landmarks import LandmarksDataset
    from fedseg.datasets.photos import ImageFolderDataset
    from fedseg.datasets.segmentation import SegmentationDataset
    from fedseg.datasets.style import CFSIStyle, LABStyle, StyleTransfer
    from fedseg.datasets.synthetic import SyntheticShapesDataset
    from fedseg.datasets.transforms import Pipeline, RandomScaleCrop, ResizeInput, ResizeLabel

__getattr__ = lazy_exports(__name__, __file__)
