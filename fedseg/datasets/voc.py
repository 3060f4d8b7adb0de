"""Pascal VOC 2012: objects in photographs."""

from mmseg.utils import voc_classes, voc_palette

from fedseg.datasets.segmentation import SegmentationDataset
from fedseg.registry import DATASETS


@DATASETS.register_module()
class VOCDataset(SegmentationDataset):
    """Pascal VOC 2012 (Everingham et al., IJCV 2015): 20 classes and background.

    Arguments: see :class:`~fedseg.datasets.segmentation.SegmentationDataset`.
    """

    classes, palette = tuple(voc_classes()), voc_palette()
    image_path = "JPEGImages/{name}.jpg"
    label_path = "SegmentationClass/{name}.png"
    published = {"": 2913}
    test_list = "ImageSets/Segmentation/val.txt"
    clients = 60
    alpha = 0.5
