"""Cityscapes with its 19 evaluation classes."""

from mmseg.utils import cityscapes_classes, cityscapes_palette

from fedseg.datasets.segmentation import IGNORE, SegmentationDataset
from fedseg.names import PREPARED_BY
from fedseg.registry import DATASETS

COLORS = dict(zip(cityscapes_classes(), cityscapes_palette(), strict=True))
"""[r, g, b] by class; the other data sets use them too, so that pictures read alike."""

_EVALUATED = (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)
# Every id that a label file may hold: 0..33, and 255 for -1 (license plate).
_LABEL_IDS = {raw: IGNORE for raw in (*range(34), 255)}
_LABEL_IDS.update({raw: train for train, raw in enumerate(_EVALUATED)})


@DATASETS.register_module()
class CityscapesDataset(SegmentationDataset):
    """Cityscapes (Cordts et al., CVPR 2016): ``leftImg8bit`` and ``gtFine`` with ``labelIds``.

    A domain is a city. Arguments: see
    :class:`~fedseg.datasets.segmentation.SegmentationDataset`.
    """

    classes = tuple(COLORS)
    palette = list(COLORS.values())
    image_root = "leftImg8bit"
    label_root = "gtFine"
    label_ids = _LABEL_IDS
    tool = PREPARED_BY["CityscapesDataset"]

    def label_of(self, image: str) -> str:
        return image.removesuffix("_leftImg8bit.png") + "_gtFine_labelIds.png"

    @staticmethod
    def domain_of(image: str) -> str:
        return image.rsplit("/", 2)[-2]
