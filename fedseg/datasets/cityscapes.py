"""Cityscapes, whose 19 classes other data sets of streets use too."""

from mmseg.utils import cityscapes_classes, cityscapes_palette

from fedseg.datasets.segmentation import SegmentationDataset
from fedseg.registry import DATASETS

CLASSES = tuple(cityscapes_classes())
PALETTE = cityscapes_palette()
COLORS = dict(zip(CLASSES, PALETTE, strict=True))
"""[r, g, b] by class of Cityscapes; the other data sets use them too, so that pictures agree."""

LABEL_IDS = {
    7: "road",
    8: "sidewalk",
    11: "building",
    12: "wall",
    13: "fence",
    17: "pole",
    19: "traffic light",
    20: "traffic sign",
    21: "vegetation",
    22: "terrain",
    23: "sky",
    24: "person",
    25: "rider",
    26: "car",
    27: "truck",
    28: "bus",
    31: "train",
    32: "motorcycle",
    33: "bicycle",
}


@DATASETS.register_module()
class CityscapesDataset(SegmentationDataset):
    """Cityscapes (Cordts et al., CVPR 2016): ``leftImg8bit`` and ``gtFine`` with ``labelIds``.

    A domain is a city. Paths in splits are those of FedDrive, relative to the two folders.
    Arguments: see :class:`~fedseg.datasets.segmentation.SegmentationDataset`.
    """

    classes, palette, label_ids = CLASSES, PALETTE, LABEL_IDS
    image_root, label_root = "leftImg8bit", "gtFine"
    image_path = "{split}/{domain}/{name}_leftImg8bit.png"
    label_path = "{split}/{domain}/{name}_gtFine_labelIds.png"
    published = {"train": 2975, "val": 500}
