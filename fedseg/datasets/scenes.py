"""Street scenes with label maps: Cityscapes, IDDA and CamVid, described by class attributes."""

import os

import cv2
import numpy as np
from mmseg.utils import cityscapes_classes, cityscapes_palette

from fedseg.datasets import images
from fedseg.datasets.segmentation import IGNORE, SegmentationDataset
from fedseg.errors import DataError
from fedseg.registry import DATASETS

COLORS = dict(zip(cityscapes_classes(), cityscapes_palette(), strict=True))
"""[r, g, b] by class of Cityscapes; the other data sets use them too, so that pictures agree."""

# Cityscapes: raw ids of the evaluated classes, in the order of their train ids
_EVALUATED = (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)
# Of other data sets, how many raw ids label files have, and "raw:train" of those that are a class.
# For Mapillary Vistas two maps are in use: a is LADD's, b RobustNet's.
_RAW_TO_TRAIN = {
    "cityscapes": (34, " ".join(f"{raw}:{train}" for train, raw in enumerate(_EVALUATED))),
    "gta5": (35, " ".join(f"{raw}:{train}" for train, raw in enumerate(_EVALUATED))),
    "synthia": (
        23,
        "1:10 2:2 3:0 4:1 5:4 6:8 7:5 8:13 9:7 10:11 11:18 12:17 15:6 16:9 17:12 18:14 19:15 20:16 "
        "21:3",
    ),
    "idd": (
        40,
        "0:0 3:1 5:9 6:11 8:12 9:17 10:18 12:13 13:14 14:15 17:16 20:3 21:4 24:7 25:6 26:5 29:2 "
        "32:8 33:10",
    ),
    "mapillary_v1_a": (
        66,
        "2:1 3:4 6:3 7:1 9:1 11:1 13:0 14:0 15:1 17:2 19:11 20:12 21:12 22:12 24:0 26:9 27:10 29:9 "
        "30:8 43:0 44:5 45:5 46:5 47:5 48:6 50:7 52:18 54:15 55:13 57:17 58:16 61:14",
    ),
    "mapillary_v1_b": (
        66,
        "2:1 3:4 6:3 13:0 15:1 17:2 19:11 20:12 21:12 22:12 24:0 27:10 29:9 30:8 41:0 45:5 47:5 "
        "48:6 50:7 52:18 54:15 55:13 57:17 58:16 61:14",
    ),
    "train_ids": (19, " ".join(f"{train}:{train}" for train in range(19))),
}
TO_CITYSCAPES = {
    name: dict.fromkeys((*range(count), IGNORE), IGNORE)
    | {int(raw): int(train) for raw, train in (pair.split(":") for pair in pairs.split())}
    for name, (count, pairs) in _RAW_TO_TRAIN.items()
}
"""By data set, the train id in Cityscapes of every raw id that a label file may hold."""
# IDDA: train ids of the raw ids 0..20. The road line (7) is road; what has no class is ignored.
_IDDA_TRAIN_IDS = (255, 2, 4, 255, 11, 5, 0, 0, 1, 8, 13, 3, 7, 6, 255, 255, 15, 14, 12, 9, 10)
# CamVid: each class, and the class of Cityscapes that has the same color
_CAMVID = {
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


def find_label(path: str) -> str:
    """The path of a label map, or if only that is there, of Cityscapes' label map of train ids."""
    other = path.replace("_gtFine_labelIds.", "_gtFine_labelTrainIds.")
    return other if other != path and not os.path.exists(path) and os.path.exists(other) else path


def read_raw(path: str) -> np.ndarray:
    """The raw ids of a label map, also of one with Cityscapes' train ids: uint8 [H, W]."""
    label = images.read_label(path)
    if not path.endswith("_gtFine_labelTrainIds.png"):
        return label
    if unknown := sorted({*np.unique(label).tolist()} - {*TO_CITYSCAPES["train_ids"]}):
        raise DataError(f"{path}: has train ids {unknown}, but they are 0 to 18, or 255 to ignore")
    return cv2.LUT(label, np.array([*_EVALUATED, *range(19, 256)], np.uint8))


@DATASETS.register_module()
class CityscapesDataset(SegmentationDataset):
    """Cityscapes (Cordts et al., CVPR 2016): ``leftImg8bit`` and ``gtFine`` with ``labelIds``.

    Where only ``labelTrainIds`` are, they are taken. A domain is a city. Arguments: see
    :class:`~fedseg.datasets.segmentation.SegmentationDataset`.
    """

    classes = tuple(COLORS)
    palette = list(COLORS.values())
    image_root = "leftImg8bit"
    label_root = "gtFine"
    image_pattern = r"((?:.*/)?(?P<domain>[^/]+)/[^/]+)_leftImg8bit\.png"
    label_pattern = r"\1_gtFine_labelIds.png"
    # every id that a label file may hold: 0..33, and 255 for -1 (license plate)
    label_ids = TO_CITYSCAPES["cityscapes"]

    def check_files(self) -> None:
        self.files = [(image, find_label(label)) for image, label in self.files]
        super().check_files()

    def read_label(self, path: str) -> np.ndarray:
        return read_raw(path)


@DATASETS.register_module()
class IDDADataset(SegmentationDataset):
    """IDDA (Alberti et al., IROS 2020): ``IDDAsmall/<domain>/{RGB,Semantic}/<id>_<domain>.*``.

    Version and classes are FedDrive's: those of Cityscapes without truck, bus and train. A domain
    is a town, a weather and a viewpoint, such as ``T01_CN_A``. Raw ids above 20 are ignored, as in
    FedDrive, so no label id is an error. Arguments: see
    :class:`~fedseg.datasets.segmentation.SegmentationDataset`.
    """

    classes = tuple(name for name in COLORS if name not in ("truck", "bus", "train"))
    palette = [COLORS[name] for name in classes]
    image_root = label_root = "IDDAsmall"
    image_pattern = r"(?P<domain>[^/]+)/[^/]+/(?P<name>[^/]+)\.\w+"
    label_pattern = r"\g<domain>/Semantic/\g<name>.png"
    label_ids = dict.fromkeys(range(256), IGNORE) | dict(enumerate(_IDDA_TRAIN_IDS))

    def condition_of(self, domain: str) -> str:
        """Town and weather of a domain, without its viewpoint."""
        return domain.rpartition("_")[0]


@DATASETS.register_module()
class CamVidDataset(SegmentationDataset):
    """CamVid (Brostow et al., 2009) at 480x360: ``{train,val,test}``, labels in ``{...}annot``.

    A domain is a recording: ``0001TP`` (dusk), ``0006R0``, ``0016E5``, ``Seq05VD``. Label ids are
    the 11 classes in order, 11 is void. Arguments: see
    :class:`~fedseg.datasets.segmentation.SegmentationDataset`.
    """

    classes = tuple(_CAMVID)
    palette = [COLORS[name] for name in _CAMVID.values()]
    image_pattern = r"(?P<folder>[^/]+)/(?P<name>(?P<domain>[^/_.]+)[^/]*)\.\w+"
    label_pattern = r"\g<folder>annot/\g<name>.png"
    label_ids = {**{i: i for i in range(11)}, 11: IGNORE}
