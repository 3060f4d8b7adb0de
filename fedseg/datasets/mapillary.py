"""Mapillary Vistas with Cityscapes' classes, by either of the two maps that are in use."""

from fedseg.datasets.cityscapes import CLASSES, PALETTE
from fedseg.datasets.segmentation import SegmentationDataset
from fedseg.registry import DATASETS

LABEL_IDS_A = {
    2: "sidewalk",
    3: "fence",
    6: "wall",
    7: "sidewalk",
    9: "sidewalk",
    11: "sidewalk",
    13: "road",
    14: "road",
    15: "sidewalk",
    17: "building",
    19: "person",
    20: "rider",
    21: "rider",
    22: "rider",
    24: "road",
    26: "terrain",
    27: "sky",
    29: "terrain",
    30: "vegetation",
    43: "road",
    44: "pole",
    45: "pole",
    46: "pole",
    47: "pole",
    48: "traffic light",
    50: "traffic sign",
    52: "bicycle",
    54: "bus",
    55: "car",
    57: "motorcycle",
    58: "train",
    61: "truck",
}
LABEL_IDS_B = {
    2: "sidewalk",
    3: "fence",
    6: "wall",
    13: "road",
    15: "sidewalk",
    17: "building",
    19: "person",
    20: "rider",
    21: "rider",
    22: "rider",
    24: "road",
    27: "sky",
    29: "terrain",
    30: "vegetation",
    41: "road",
    45: "pole",
    47: "pole",
    48: "traffic light",
    50: "traffic sign",
    52: "bicycle",
    54: "bus",
    55: "car",
    57: "motorcycle",
    58: "train",
    61: "truck",
}


@DATASETS.register_module()
class MapillaryADataset(SegmentationDataset):
    """Mapillary Vistas (Neuhold et al., ICCV 2017) with LADD's map to Cityscapes' classes.

    Label maps are those of version 1.2 in the archive of version 2.0. Arguments: see
    :class:`~fedseg.datasets.segmentation.SegmentationDataset`.
    """

    classes, palette, label_ids = CLASSES, PALETTE, LABEL_IDS_A
    num_ids = 66
    image_path = "{split}/images/{name}.jpg"
    label_path = "{split}/v1.2/labels/{name}.png"
    published = {"training": 18000, "validation": 2000}
    test_splits = ("validation",)
    clients = 180


@DATASETS.register_module()
class MapillaryBDataset(MapillaryADataset):
    """Mapillary Vistas with RobustNet's map to Cityscapes' classes."""

    label_ids = LABEL_IDS_B
