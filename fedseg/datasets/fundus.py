"""Fundus photographs of four sites: optic disc and optic cup."""

import numpy as np

from fedseg.datasets.images import read_image
from fedseg.datasets.segmentation import SegmentationDataset
from fedseg.errors import DataError
from fedseg.registry import DATASETS


@DATASETS.register_module()
class FundusDataset(SegmentationDataset):
    """Crops of fundus photographs around the optic disc, as Wang et al. (TMI 2020) collected them.

    A domain is a site: ``Domain1`` is Drishti-GS, ``Domain2`` RIM-ONE-r3, ``Domain3`` and
    ``Domain4`` are the training and the validation images of REFUGE. The disc is rim or cup.
    Arguments: see :class:`~fedseg.datasets.segmentation.SegmentationDataset`.
    """

    classes = ("background", "rim", "cup")
    palette = [[0, 0, 0], [60, 160, 90], [240, 200, 60]]
    image_path = "{domain}/{split}/ROIs/image/{name}.png"
    label_path = "{domain}/{split}/ROIs/mask/{name}.png"
    published = {"train": 789, "test": 271}
    test_splits = ("test",)

    @staticmethod
    def read_label(path: str) -> np.ndarray:
        """Read a gray mask, uint8 [H, W]: above 200 is background, 51 to 200 rim, the rest cup."""
        gray = read_gray(path)
        ids = np.full_like(gray, 2)
        ids[gray > 50] = 1
        ids[gray > 200] = 0
        return ids


def read_gray(path: str) -> np.ndarray:
    """Read a gray picture of one or of three equal channels, uint8 [H, W]."""
    picture = read_image(path)
    gray = picture[..., 0]
    if (picture != gray[..., None]).any():
        raise DataError(f"{path}: a mask must be gray, this one has colors: extract it again.")
    return gray
