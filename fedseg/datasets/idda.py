"""IDDA, in the version and with the 16 classes that FedDrive uses."""

import os

from fedseg.datasets.cityscapes import COLORS
from fedseg.datasets.segmentation import IGNORE, SegmentationDataset
from fedseg.names import PREPARED_BY
from fedseg.registry import DATASETS

# Train ids of the raw ids 0..20. The road line (7) is road; what has no class here is ignored.
_TRAIN_IDS = (255, 2, 4, 255, 11, 5, 0, 0, 1, 8, 13, 3, 7, 6, 255, 255, 15, 14, 12, 9, 10)


@DATASETS.register_module()
class IDDADataset(SegmentationDataset):
    """IDDA (Alberti et al., IROS 2020): ``IDDAsmall/<domain>/{RGB,Semantic}/<id>_<domain>.*``.

    Classes are those of Cityscapes without truck, bus and train. A domain is a town, a weather and
    a viewpoint, such as ``T01_CN_A``. Raw ids above 20 are ignored, as in FedDrive, so no label id
    is an error. Arguments: see :class:`~fedseg.datasets.segmentation.SegmentationDataset`.
    """

    classes = tuple(name for name in COLORS if name not in ("truck", "bus", "train"))
    palette = [COLORS[name] for name in classes]
    image_root = label_root = "IDDAsmall"
    label_ids = dict.fromkeys(range(256), IGNORE) | dict(enumerate(_TRAIN_IDS))
    ignore_unlisted = True
    tool = PREPARED_BY["IDDADataset"]

    def label_of(self, image: str) -> str:
        domain, _, name = image.rsplit("/", 2)
        return f"{domain}/Semantic/{os.path.splitext(name)[0]}.png"

    @staticmethod
    def domain_of(image: str) -> str:
        return image.split("/", 1)[0]

    def condition_of(self, domain: str) -> str:
        """Town and weather of a domain, without its viewpoint."""
        return domain.rpartition("_")[0]
