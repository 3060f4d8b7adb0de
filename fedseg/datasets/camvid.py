"""CamVid: recordings of streets in Cambridge."""

from fedseg.datasets.cityscapes import COLORS
from fedseg.datasets.segmentation import SegmentationDataset
from fedseg.registry import DATASETS

# each class, and the class of Cityscapes that has the same color
CLASSES = {
    "sky": "sky",
    "building": "building",
    "pole": "pole",
    "road": "road",
    "pavement": "sidewalk",
    "tree": "vegetation",
    "sign": "traffic sign",
    "fence": "fence",
    "car": "car",
    "pedestrian": "person",
    "bicyclist": "bicycle",
}


@DATASETS.register_module()
class CamVidDataset(SegmentationDataset):
    """CamVid (Brostow et al., 2009) at 480x360: ``{train,val,test}``, labels in ``{...}annot``.

    A domain is a recording: ``0001TP`` (dusk), ``0006R0``, ``0016E5``, ``Seq05VD``. Label ids are
    the 11 classes in order, 11 is void. Arguments: see
    :class:`~fedseg.datasets.segmentation.SegmentationDataset`.
    """

    classes = tuple(CLASSES)
    palette = [COLORS[name] for name in CLASSES.values()]
    image_path = "{split}/{domain}_{frame}.{ending}"
    label_path = "{split}annot/{domain}_{frame}.png"
    num_ids = 12
    published = {"train": 367, "val": 101, "test": 233}
