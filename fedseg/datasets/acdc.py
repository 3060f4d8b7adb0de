"""ACDC: streets in adverse conditions."""

from fedseg.datasets.cityscapes import CLASSES, PALETTE
from fedseg.datasets.segmentation import SegmentationDataset
from fedseg.registry import DATASETS


@DATASETS.register_module()
class ACDCDataset(SegmentationDataset):
    """ACDC (Sakaridis et al., ICCV 2021): Cityscapes' classes in fog, at night, in rain and snow.

    A domain is one of these four conditions. Label maps are those of train ids. Arguments: see
    :class:`~fedseg.datasets.segmentation.SegmentationDataset`.
    """

    classes, palette = CLASSES, PALETTE
    image_path = "rgb_anon/{domain}/{split}/{sequence}/{name}_rgb_anon.png"
    label_path = "gt/{domain}/{split}/{sequence}/{name}_gt_labelTrainIds.png"
    published = {"train": 1600, "val": 406}
    test_splits = ("val",)
    clients = 16
