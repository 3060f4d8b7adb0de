"""BDD100K: streets in the United States."""

from fedseg.datasets.cityscapes import CLASSES, PALETTE
from fedseg.datasets.segmentation import SegmentationDataset
from fedseg.registry import DATASETS


@DATASETS.register_module()
class BDD100KDataset(SegmentationDataset):
    """BDD100K (Yu et al., CVPR 2020), the 10,000 images with label maps: Cityscapes' classes.

    Label maps are those of train ids. Arguments: see
    :class:`~fedseg.datasets.segmentation.SegmentationDataset`.
    """

    classes, palette = CLASSES, PALETTE
    image_path = "images/10k/{split}/{name}.jpg"
    label_path = "labels/sem_seg/masks/{split}/{name}.png"
    published = {"train": 7000, "val": 1000}
    test_splits = ("val",)
    clients = 70
