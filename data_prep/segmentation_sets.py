"""Photographs with label maps: Cityscapes, IDDA, CamVid. Nothing slow is imported."""

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Gt

from fedseg.names import DISTRIBUTIONS, IDDA_SETTINGS, OTHER_TOOLS, PIXEL_PARTITIONS, PUBLISHED

from .description import OVERWRITE, DataSet, NonNegativeInt, PairedSet, PositiveInt, option

SMALLEST = 32  # side of a rendered street scene, pixels

# City -> images, 2975 and 500 in all.
CITIES = {
    "train": {
        **{"aachen": 174, "bochum": 96, "bremen": 316, "cologne": 154, "darmstadt": 85},
        **{"dusseldorf": 221, "erfurt": 109, "hamburg": 248, "hanover": 196, "jena": 119},
        **{"krefeld": 99, "monchengladbach": 94, "strasbourg": 365, "stuttgart": 196},
        **{"tubingen": 144, "ulm": 95, "weimar": 142, "zurich": 122},
    },
    "val": {"frankfurt": 267, "lindau": 59, "munster": 174},
}

CITYSCAPES = PairedSet(
    "cityscapes",
    "CityscapesDataset",
    folders=CITIES,
    contents="the 2975 training and 500 validation images of Cityscapes",
    source="extract leftImg8bit_trainvaltest.zip and gtFine_trainvaltest.zip of Cityscapes there",
    build="build_cityscapes",
    rules={
        "uniform": "images are shuffled and cut into clients of the published sizes; single images "
        "are then swapped until the clients have 5 to 17 cities",
        "heterogeneous": "each city is shuffled and cut into 8 equal clients; a remainder is left "
        "out",
        "class_imbalance": "every image goes to the rarest class it shows (the class that the "
        "fewest images show); images are ordered by that class, rarest first, then by city (cities "
        "in random order), and cut into consecutive clients of the published sizes, in random "
        "order; single images are then swapped, within a class where possible, until the clients "
        "have 1 to 7 cities",
    },
    test_users=("test_user",),
    published_size=(2048, 1024),
    size=(512, 256),
    rendered_name="{domain}_{number:06d}_000019",
    batch_size=16,
    copies=2,
)

DOMAINS = tuple(
    f"T{town:02d}_{weather}_{viewpoint}"
    for town in range(1, 8)
    for weather in ("CN", "CS", "HRN")
    for viewpoint in "ABJMV"
    if (town, weather, viewpoint) != (7, "CN", "M")
)
"""IDDA's 104 domains: town, weather, viewpoint; town 7 has no clear noon seen from M."""
DOMAIN = re.compile(r"T0([1-7])_(CN|CS|HRN)_([ABJMV])")

IDDA = PairedSet(
    "idda",
    "IDDADataset",
    folders={"": dict.fromkeys(DOMAINS, 60)},
    contents="the 104 domains x 60 images of IDDA",
    source="put IDDA there (<domain>/RGB and <domain>/Semantic)",
    build="build_idda",
    rules={
        "uniform": "as many clients as seen domains; each takes one image from each of the domains "
        "with the most images left, ties at random",
        "heterogeneous": "a client is a domain",
        "class_imbalance": "every image goes to the rarest class it shows (the class that the "
        "fewest images of the train pool show); images are ordered by that class, rarest first, "
        "then by domain (domains in random order), and cut into consecutive clients; a client is "
        "named after the classes its images went to",
    },
    settings=tuple(IDDA_SETTINGS),
    test_users=("test_user_diff_domain", "test_user_same_domain"),
    size=(464, 256),
    rendered_name="{number}_{domain}",
    first_number=1,
    batch_size=16,
)

CAMVID = PairedSet(
    "camvid",
    "CamVidDataset",
    folders={
        "train": {"0001TP": 62, "0006R0": 101, "0016E5": 204},
        "val": {"0016E5": 101},
        "test": {"0001TP": 62, "Seq05VD": 171},
    },
    contents="the 367 + 101 + 233 images of CamVid",
    source="take CamVid as the SegNet tutorial ships it (480x360, label ids in *annot/*.png)",
    build="build_camvid",
    rules={
        "own rule": "clients are contiguous pieces of about 20 images of the recordings 0006R0 and "
        "0016E5, cut where more than 2 s are missing; seen = the 101 validation frames of 0016E5 "
        "and the last 20 frames of 0006R0; unseen = all of 0001TP and all of Seq05VD"
    },
    published_size=(480, 360),
)


def _read_size(text: str) -> tuple[int, int]:
    try:
        width, height = map(int, text.lower().split("x"))
    except ValueError:
        width = height = 0
    if width < SMALLEST or height < SMALLEST:
        raise argparse.ArgumentTypeError(
            f"must be WIDTHxHEIGHT of at least {SMALLEST}, such as 464x256, not {text!r}"
        )
    return width, height


@dataclass(frozen=True)
class StreetOptions:
    """The choice of FedDrive's splits, and of the images."""

    distribution: Sequence[Literal[DISTRIBUTIONS]] | None = option(
        None,
        action="extend",
        nargs="+",
        choices=DISTRIBUTIONS,
        help="how clients differ (default: all)",
    )
    seed: NonNegativeInt = option(
        0,
        type=int,
        metavar="N",
        help="of the splits; rendered images do not depend on it",
    )
    source: Path | None = option(
        None,
        "--from",
        type=Path,
        metavar="DIR",
        help=(
            "use the published split files in DIR instead of creating splits; they are checked and "
            "copied, and missing images are reported"
        ),
    )
    synthetic: bool = option(
        False,
        action="store_true",
        help="render street scenes instead of using real images",
    )
    size: tuple[int, int] | None = option(
        None,
        type=_read_size,
        metavar="WxH",
        help="of rendered images (default: idda 464x256, cityscapes 512x256)",
    )
    limit_per_user: PositiveInt | None = option(
        None,
        type=int,
        metavar="N",
        help="for a quick trial: keep the first N images of each client",
    )
    limit_test: PositiveInt | None = option(
        None,
        type=int,
        metavar="M",
        help="for a quick trial: keep the first M test images of each domain and test user",
    )
    unofficial: bool = option(
        False,
        action="store_true",
        help=(
            "accept a part of the published images, for a trial: the splits are made of what is "
            "there"
        ),
    )
    overwrite: bool = option(
        False,
        action="store_true",
        help=OVERWRITE,
    )


@dataclass(frozen=True)
class IddaOptions(StreetOptions):
    """IDDA also has three choices of unseen domains."""

    setting: Sequence[Literal[tuple(IDDA_SETTINGS)]] | None = option(
        None,
        action="extend",
        nargs="+",
        choices=IDDA_SETTINGS,
        help=(
            "which domains are unseen: T07 (country), hard rain (rainy), viewpoint B (bus) "
            "(default: all)"
        ),
    )


@dataclass(frozen=True)
class CopyOptions:
    """The source of images on disk."""

    source: Path | None = option(
        None,
        type=Path,
        metavar="DIR",
        help="copy CamVid from DIR to the root first",
    )
    overwrite: bool = option(
        False,
        action="store_true",
        help=OVERWRITE,
    )


Words = Sequence[str] | None


@dataclass(frozen=True)
class FolderOptions:
    """The content of a folder of images and label maps, and how it is split."""

    images: str | None = option(
        None,
        metavar="TEMPLATE",
        help="paths of images below ROOT with fields in braces; with --from their folder",
    )
    labels: str | None = option(
        None,
        metavar="TEMPLATE",
        help=(
            "paths of label maps or polygons, with fields of --images; with --from the JSON file "
            "of COCO or the folder of CVAT"
        ),
    )
    source: Literal[OTHER_TOOLS] | None = option(
        None,
        "--from",
        choices=OTHER_TOOLS,
        help=(
            "first convert annotations of this tool: images, label maps and classes are written "
            "into ROOT"
        ),
    )
    classes: Path | None = option(
        None,
        type=Path,
        metavar="FILE",
        help=(
            "class names in the order of their ids: NAME per line, or NAME,R,G,B with the color of "
            "pictures"
        ),
    )
    ignore: Words = option(
        None,
        action="extend",
        nargs="+",
        metavar="LABEL",
        help="polygon labels to ignore",
    )
    test: Words = option(
        None,
        action="extend",
        nargs="+",
        metavar="TEST",
        help=(
            "test images: a share of each domain, a domain, a template of images, or a .txt file "
            "with names; can be repeated (default: 0.2, also beside domains; 0: no share)"
        ),
    )
    clients: PositiveInt | None = option(
        None,
        type=int,
        metavar="K",
        help="number (default: a client per domain)",
    )
    partition: Literal[PIXEL_PARTITIONS] | None = option(
        None,
        choices=PIXEL_PARTITIONS,
        help=(
            "domain: a client is a domain; uniform: random; dirichlet: class mixes of pixels by "
            "Dir(alpha); size: sizes by Dir(alpha) (default: uniform, or domain without --clients)"
        ),
    )
    alpha: Annotated[float, Gt(0)] | None = option(
        None,
        type=float,
        metavar="A",
        help="of dirichlet and size (default: 1)",
    )
    seed: NonNegativeInt = option(
        0,
        type=int,
        metavar="N",
        help="of the split",
    )
    unofficial: bool = option(
        False,
        action="store_true",
        help="published layouts: accept other numbers of images",
    )
    overwrite: bool = option(
        False,
        action="store_true",
        help=OVERWRITE,
    )


SPLIT_NOTE = "split.json next to it has its options."

SEGMENTATION_SETS = (
    DataSet(
        "cityscapes",
        "Cityscapes with FedDrive's splits",
        "Verify or render Cityscapes and write its federated splits.",
        f"""\
examples:
  everything, from the real images in data/cityscapes/{{leftImg8bit,gtFine}}:
    fedseg prepare cityscapes
  published split files:
    fedseg prepare cityscapes --from feddrive/cityscapes
  a small synthetic data set, no download:
    fedseg prepare cityscapes --synthetic --distribution heterogeneous \\
        --limit-per-user 4 --limit-test 10

Each split is written to ROOT/splits/<distribution>/{{train,test}};
{SPLIT_NOTE}""",
        StreetOptions,
        "data_prep.segmentation:prepare_streets",
        "put leftImg8bit_trainvaltest.zip and gtFine_trainvaltest.zip, unpacked, there",
        {"cityscapes": CITYSCAPES},
    ),
    DataSet(
        "idda",
        "IDDA with FedDrive's splits",
        "Verify or render IDDA and write its federated splits.",
        f"""\
examples:
  everything, from the real images in data/idda/IDDAsmall:
    fedseg prepare idda
  published split files:
    fedseg prepare idda --from feddrive/idda
  a small synthetic data set, no download:
    fedseg prepare idda --synthetic --setting rainy --distribution heterogeneous \\
        --limit-per-user 8 --limit-test 2

Each split is written to ROOT/splits/<distribution>/<setting>/{{train,test}};
{SPLIT_NOTE}""",
        IddaOptions,
        "data_prep.segmentation:prepare_streets",
        "put IDDA (IDDAsmall/<domain>/{RGB,Semantic}) there",
        {"idda": IDDA},
    ),
    DataSet(
        "camvid",
        "CamVid",
        "Verify CamVid and write its federated split.",
        f"""\
Expected is CamVid as in the SegNet tutorial: train, val and test with images, and trainannot,
valannot and testannot with label ids.

example:
  fedseg prepare camvid --source path/to/CamVid

The split is written to ROOT/splits/{{train,test}};
{SPLIT_NOTE}""",
        CopyOptions,
        "data_prep.segmentation:prepare_copied",
        "put CamVid (train, trainannot, val, ...) there",
        {"camvid": CAMVID},
    ),
    DataSet(
        "segmentation",
        "label maps of any layout; acdc, bdd100k, gta5, voc, ...",
        "Check images and label maps of any layout, and write a federated split and a config.",
        f"""\
--images and --labels are templates of paths: a field such as {{name}} matches a part of one path
component, the same in an image and its label map; {{domain}} is the image's domain, {{ending}} jpg,
jpeg or png. Label maps are PNG with ids, or polygons of labelme or Cityscapes (.json), which are
rasterized into ROOT/drawn. Prints a summary, and writes ROOT/splits and a training config in ROOT.

examples:
  three clients from labelme's folders (labels.txt: a class per line):
    fedseg prepare segmentation data/voc_like --images 'JPEGImages/{{name}}.jpg' \\
        --labels 'SegmentationClass/{{name}}.png' --classes labels.txt --clients 3
  a client per site; the site north and a tenth of the other images for tests:
    fedseg prepare segmentation data/orchards --images '{{domain}}/images/{{name}}.png' \\
        --labels '{{domain}}/labels/{{name}}.png' --classes classes.txt --test north 0.1
  annotations of COCO, drawn and copied into data/pets:
    fedseg prepare segmentation data/pets --from coco --labels export/annotations.json \\
        --images export/images --clients 3
  published data sets ({", ".join(PUBLISHED)}):
    fedseg prepare acdc""",
        FolderOptions,
        "data_prep.folders:prepare_folder",
        "name the folder with the images",
        # fundus photographs have a command of their own
        {"segmentation": None, **{name: name for name in PUBLISHED if name != "fundus"}},
        positional=True,
    ),
)
