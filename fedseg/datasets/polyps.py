"""Polyps in colonoscopy images of four public sets."""

import numpy as np

from fedseg.datasets.fundus import read_gray
from fedseg.datasets.segmentation import SegmentationDataset
from fedseg.registry import DATASETS


@DATASETS.register_module()
class PolypsDataset(SegmentationDataset):
    """Kvasir, CVC-ClinicDB, CVC-ColonDB and ETIS, whole; each set is a domain and a folder.

    Arguments: see :class:`~fedseg.datasets.segmentation.SegmentationDataset`.
    """

    classes = ("background", "polyp")
    palette = [[0, 0, 0], [230, 120, 140]]
    image_path = "{domain}/images/{name}.png"
    label_path = "{domain}/masks/{name}.png"
    published = {"": 2188}
    test_share = 0.2

    @staticmethod
    def read_label(path: str) -> np.ndarray:
        """Read a gray mask, uint8 [H, W]: above 127 is polyp."""
        return (read_gray(path) > 127).astype(np.uint8)
