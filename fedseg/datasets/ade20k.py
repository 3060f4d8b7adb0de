"""ADE20K: 150 classes of objects and surfaces in photographs."""

from mmseg.utils import ade_classes, ade_palette

from fedseg.datasets.segmentation import SegmentationDataset
from fedseg.registry import DATASETS

CLASSES = tuple(ade_classes())


@DATASETS.register_module()
class ADE20KDataset(SegmentationDataset):
    """ADE20K of the challenge of 2016 (Zhou et al., CVPR 2017); label id 0 is ignored.

    Arguments: see :class:`~fedseg.datasets.segmentation.SegmentationDataset`.
    """

    classes, palette = CLASSES, ade_palette()
    label_ids = dict(enumerate(CLASSES, start=1))
    image_path = "images/{split}/{name}.jpg"
    label_path = "annotations/{split}/{name}.png"
    published = {"training": 20210, "validation": 2000}
    test_splits = ("validation",)
    clients = 200
    alpha = 0.5
