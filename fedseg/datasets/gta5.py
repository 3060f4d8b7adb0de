"""GTA5: streets of a game."""

from fedseg.datasets.cityscapes import CLASSES, LABEL_IDS, PALETTE
from fedseg.datasets.segmentation import SegmentationDataset
from fedseg.registry import DATASETS


@DATASETS.register_module()
class GTA5Dataset(SegmentationDataset):
    """GTA5 (Richter et al., ECCV 2016): Cityscapes' classes; a palette's indices are its label ids.

    Arguments: see :class:`~fedseg.datasets.segmentation.SegmentationDataset`.
    """

    classes, palette, label_ids = CLASSES, PALETTE, LABEL_IDS
    num_ids = 35
    image_path = "images/{name}.png"
    label_path = "labels/{name}.png"
    published = {"": 24966}
    test_share = 0.1
    clients = 100
