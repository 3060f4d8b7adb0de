"""IDD: streets in India."""

from fedseg.datasets.cityscapes import CLASSES, PALETTE
from fedseg.datasets.segmentation import SegmentationDataset
from fedseg.registry import DATASETS


@DATASETS.register_module()
class IDDDataset(SegmentationDataset):
    """IDD Segmentation, part I (Varma et al., WACV 2019): Cityscapes' classes; a domain is a drive.

    Label maps are drawn from its polygons by ``createLabels.py --id-type csTrainId`` of its tools
    (https://github.com/AutoNUE/public-code). Arguments: see
    :class:`~fedseg.datasets.segmentation.SegmentationDataset`.
    """

    classes, palette = CLASSES, PALETTE
    image_path = "leftImg8bit/{split}/{domain}/{name}_leftImg8bit.{ending}"
    label_path = "gtFine/{split}/{domain}/{name}_gtFine_labelcsTrainIds.png"
    published = {"train": 6993, "val": 981}
    test_splits = ("val",)
