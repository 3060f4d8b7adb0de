"""Names that command lines offer, in a module that costs nothing to import, and how they match."""

import difflib
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# of a run, domain, client or method: letters of any script, digits and these signs
NAME = re.compile(r"\w[\w .,+=:()\-]{0,199}")
NAME_RULE = "at most 200 letters, digits, spaces and _.,+=:()-, the first a letter, digit or _"
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")  # characters that no class has
CORRUPTIONS = (
    *("gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur", "motion_blur"),
    *("zoom_blur", "snow", "frost", "fog", "brightness", "contrast", "elastic_transform"),
    *("pixelate", "jpeg_compression", "speckle_noise", "gaussian_blur", "spatter", "saturate"),
)
"""The official names in the official order; the last four are the extra ones."""

SHAPES = "data/demo_shapes"  # where images are rendered that stand for CIFAR-10's
_STREETS = "--synthetic --setting rainy --distribution heterogeneous --limit-per-user 8"
# what makes the images of a setting; of others it is the command of their data set and the root
MADE_BY = {
    "data/cifar10": "fedseg prepare cifar",
    SHAPES: "fedseg prepare cifar --synthetic",
    "data/demo_fundus": "fedseg prepare fundus --root data/demo_fundus --synthetic",
    "data/demo": f"fedseg prepare idda --root data/demo {_STREETS} --limit-test 2",
    "data/demo_weather": "fedseg prepare idda --root data/demo_weather --size 232x128 "
    f"{_STREETS} --limit-test 1",
    "data/towns": "fedseg prepare cityscapes --root data/towns --synthetic --distribution uniform "
    "--size 256x128 --limit-per-user 8 --limit-test 100",
}
# published data sets of one command, and their classes in fedseg.datasets
PUBLISHED = {
    "acdc": "ACDCDataset",
    "bdd100k": "BDD100KDataset",
    "mapillary_a": "MapillaryADataset",
    "mapillary_b": "MapillaryBDataset",
    "idd": "IDDDataset",
    "gta5": "GTA5Dataset",
    "synthia": "SynthiaDataset",
    "voc": "VOCDataset",
    "ade20k": "ADE20KDataset",
    "fundus": "FundusDataset",
    "polyps": "PolypsDataset",
}
MADE_BY["data/mapillary"] = "fedseg prepare mapillary_a data/mapillary"

# what makes the folder of a data set
PREPARED_BY = {
    "CIFAR10Dataset": "fedseg prepare cifar",
    "CIFAR10CDataset": "fedseg prepare cifar",
    "CIFAR100Dataset": "fedseg prepare cifar --dataset cifar100",
    "CIFAR100CDataset": "fedseg prepare cifar --dataset cifar100",
    "CamVidDataset": "fedseg prepare camvid",
    "CityscapesDataset": "fedseg prepare cityscapes",
    "FEMNISTDataset": "fedseg prepare femnist",
    "IDDADataset": "fedseg prepare idda",
    "LandmarksDataset": "fedseg prepare landmarks",
    "ListedDataset": "fedseg prepare segmentation",
    "MNISTDataset": "fedseg prepare mnist",
    "ProstateDataset": "fedseg prepare prostate",
    "ShakespeareDataset": "fedseg prepare shakespeare",
    "StoredImages": "fedseg.datasets.write_images",
    "SyntheticShapesDataset": "fedseg prepare cifar --synthetic",
}
PREPARED_BY |= {kind: f"fedseg prepare {name}" for name, kind in PUBLISHED.items()}

ERASED = 254  # label of pixels whose class their client does not know: neither void nor padding
FOLDER = "corrupted"  # for them, in the folder of the test set
PIXEL_PARTITIONS = ("domain", "uniform", "dirichlet", "size")  # how label maps are divided
OTHER_TOOLS = ("coco", "cvat", "labelme")  # whose annotations prepare segmentation converts
DISTRIBUTIONS = ("uniform", "heterogeneous", "class_imbalance")  # FedDrive's
# FedDrive's settings of IDDA: which part of a domain's name is unseen where it has which value
IDDA_SETTINGS = {"country": (0, "T07"), "rainy": (1, "HRN"), "bus": (2, "B")}

# where its files are published
LANDMARKS_SOURCES = (
    "Split files: landmarks-user-160k.zip of "
    "https://github.com/google-research/google-research/tree/master/federated_vision_datasets; "
    "images: train set of https://github.com/cvdfoundation/google-landmark"
)


def made_by(tool: str, root: str | Path) -> str:
    """The command that makes a data set in a folder, given that of its kind, or the function."""
    root, usual = str(Path(root)), f"data/{tool.rpartition(' ')[2]}"
    whole = root == usual or not tool.startswith("fedseg prepare ")
    named = tool.removeprefix("fedseg prepare ")
    option = "--root "
    if named in ("segmentation", *PUBLISHED) and named != "fundus":
        option = ""
    more = ""
    if named == "segmentation":
        more = " --images 'TEMPLATE' --labels 'TEMPLATE' --classes FILE"
    return MADE_BY.get(root, (tool if whole else f"{tool} {option}{shlex.quote(root)}") + more)


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """Paths without the folders that all of them share; a single one's last part."""
    parts = {path: Path(path).parts for path in paths}
    least = min(map(len, parts.values()), default=0)
    shared = 0
    if len(parts) == 1:
        shared = least - 1
    while shared < least - 1 and len({names[shared] for names in parts.values()}) == 1:
        shared += 1
    return {path: str(Path(*names[shared:])) for path, names in parts.items()}


def is_name(value: Any) -> bool:
    """True for text that can name a run, a domain, a client or a method."""
    return isinstance(value, str) and NAME.fullmatch(value) is not None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint with the closest known names, whatever their case, or nothing."""
    lowered: dict[str, list[str]] = {}
    for candidate in known:
        lowered.setdefault(candidate.casefold(), []).append(candidate)
    close: list[str] = []
    for match in difflib.get_close_matches(name.casefold(), lowered, n=3):
        close += lowered[match]
    if not close:
        return ""
    return f" (did you mean {' or '.join(map(repr, close))}?)"
