"""CamVid at 480x360 with 11 classes."""

import os

from fedseg.datasets.cityscapes import COLORS
from fedseg.datasets.segmentation import IGNORE, SegmentationDataset
from fedseg.names import PREPARED_BY
from fedseg.registry import DATASETS

# The class of Cityscapes that has the same color.
_LIKE = {
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
    """CamVid (Brostow et al., 2009): ``{train,val,test}`` with labels in ``{...}annot``.

    A domain is a recording: ``0001TP`` (dusk), ``0006R0``, ``0016E5``, ``Seq05VD``. Label ids are
    the classes in order, 11 is void. Arguments: see
    :class:`~fedseg.datasets.segmentation.SegmentationDataset`.
    """

    classes = tuple(_LIKE)
    palette = [COLORS[name] for name in _LIKE.values()]
    label_ids = {**{i: i for i in range(11)}, 11: IGNORE}
    tool = PREPARED_BY["CamVidDataset"]

    def label_of(self, image: str) -> str:
        folder, name = image.split("/", 1)
        return f"{folder}annot/{os.path.splitext(name)[0]}.png"

    @staticmethod
    def domain_of(image: str) -> str:
        return image.rsplit("/", 1)[-1].split("_", 1)[0]
