"""SYNTHIA-RAND-CITYSCAPES: rendered streets."""

import numpy as np
import torch
from torchvision.io import decode_image

from fedseg.datasets.cityscapes import CLASSES, PALETTE
from fedseg.datasets.images import read_bytes
from fedseg.datasets.segmentation import SegmentationDataset
from fedseg.errors import DataError
from fedseg.registry import DATASETS


@DATASETS.register_module()
class SynthiaDataset(SegmentationDataset):
    """SYNTHIA-RAND-CITYSCAPES (Ros et al., CVPR 2016): Cityscapes' classes without three.

    Arguments: see :class:`~fedseg.datasets.segmentation.SegmentationDataset`.
    """

    classes, palette = CLASSES, PALETTE
    image_path = "RGB/{name}.png"
    label_path = "GT/LABELS/{name}.png"
    label_ids = {
        1: "sky",
        2: "building",
        3: "road",
        4: "sidewalk",
        5: "fence",
        6: "vegetation",
        7: "pole",
        8: "car",
        9: "traffic sign",
        10: "person",
        11: "bicycle",
        12: "motorcycle",
        15: "traffic light",
        16: "terrain",
        17: "rider",
        18: "truck",
        19: "bus",
        20: "train",
        21: "wall",
    }
    num_ids = 23
    published = {"": 9400}
    test_share = 0.1
    clients = 100

    @staticmethod
    def read_label(path: str) -> np.ndarray:
        """Read the first of three channels of 16 bits, uint8 [H, W]."""
        data = torch.frombuffer(bytearray(read_bytes(path)), dtype=torch.uint8)
        try:
            ids = decode_image(data)[0].numpy()
        except RuntimeError as error:
            raise DataError(f"{path}: cannot be decoded ({error}): extract it again.") from error
        if ids.dtype != np.uint16 or ids.max() > 255:
            raise DataError(f"{path}: must have ids 0 to 255 in 16 bits: extract it again.")
        return ids.astype(np.uint8)
