"""IDDA: rendered towns in three weathers, seen from five vehicles."""

from fedseg.datasets.cityscapes import COLORS
from fedseg.datasets.segmentation import SegmentationDataset
from fedseg.registry import DATASETS

CLASSES = tuple(name for name in COLORS if name not in ("truck", "bus", "train"))


@DATASETS.register_module()
class IDDADataset(SegmentationDataset):
    """IDDA (Alberti et al., IROS 2020): ``IDDAsmall/<domain>/{RGB,Semantic}/<id>_<domain>.*``.

    Version and classes are FedDrive's: those of Cityscapes without truck, bus and train. A domain
    is a town, a weather and a viewpoint, such as ``T01_CN_A``. Raw ids above 20 are ignored, as in
    FedDrive, so no label id is an error. Paths in splits are relative to ``IDDAsmall``. Arguments:
    see :class:`~fedseg.datasets.segmentation.SegmentationDataset`.
    """

    classes = CLASSES
    palette = [COLORS[name] for name in CLASSES]
    image_root = label_root = "IDDAsmall"
    image_path = "{domain}/RGB/{name}.{ending}"
    label_path = "{domain}/Semantic/{name}.png"
    label_ids = {
        1: "building",
        2: "fence",
        4: "person",
        5: "pole",
        6: "road",  # its lines
        7: "road",
        8: "sidewalk",
        9: "vegetation",
        10: "car",
        11: "wall",
        12: "traffic sign",
        13: "traffic light",
        16: "bicycle",
        17: "motorcycle",
        18: "rider",
        19: "terrain",
        20: "sky",
    }
    num_ids = 256
    published = {"": 6240}

    def condition_of(self, domain: str) -> str:
        """Town and weather of a domain, without its viewpoint."""
        return domain.rpartition("_")[0]
