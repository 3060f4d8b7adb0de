"""Photographs with label maps: Cityscapes, IDDA, CamVid. Nothing slow is imported."""

import re
from pathlib import Path

from fedseg.names import IDDA_SETTINGS, LAYOUTS, PIXEL_PARTITIONS

from .description import OVERWRITE, DataSet, PairedSet, root_option, street_options

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
    folders={
        (f"{split}/{city}",) * 2: {city: count}
        for split, cities in CITIES.items()
        for city, count in cities.items()
    },
    suffixes=("_leftImg8bit.png", "_gtFine_labelIds.png"),
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
    folders={(f"{domain}/RGB", f"{domain}/Semantic"): {domain: 60} for domain in DOMAINS},
    suffixes=(".jpg", ".png"),
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
)

CAMVID = PairedSet(
    "camvid",
    "CamVidDataset",
    folders={
        ("train", "trainannot"): {"0001TP": 62, "0006R0": 101, "0016E5": 204},
        ("val", "valannot"): {"0016E5": 101},
        ("test", "testannot"): {"0001TP": 62, "Seq05VD": 171},
    },
    # images are published as PNG, and passed on as JPEG too
    suffixes=((".png", ".jpg", ".jpeg", ".PNG", ".JPG", ".JPEG"), ".png"),
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

SPLIT_NOTE = "split.json next to them says how they were made."

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

Splits go to ROOT/splits/<distribution>/{{train,test}};
{SPLIT_NOTE}""",
        {**root_option("data/cityscapes"), **OVERWRITE, **street_options("512x256")},
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

Splits go to ROOT/splits/<distribution>/<setting>/{{train,test}};
{SPLIT_NOTE}""",
        {
            **root_option("data/idda"),
            **OVERWRITE,
            "--setting": dict(
                action="append",
                type=str.lower,
                choices=list(IDDA_SETTINGS),
                help="which domains are unseen: T07 (country), hard rain (rainy), viewpoint B "
                "(bus); can be repeated (default: all)",
            ),
            **street_options("464x256"),
        },
        "data_prep.segmentation:prepare_streets",
        "put IDDA (IDDAsmall/<domain>/{RGB,Semantic}) there",
        {"idda": IDDA},
    ),
    DataSet(
        "camvid",
        "CamVid",
        "Verify CamVid and write its federated split.",
        f"""\
CamVid is expected as the SegNet tutorial ships it: train, val and test with images, and trainannot,
valannot and testannot with label ids.

example:
  fedseg prepare camvid --source path/to/CamVid

The split goes to ROOT/splits/{{train,test}};
{SPLIT_NOTE}""",
        {
            **root_option("data/camvid"),
            **OVERWRITE,
            "--source": dict(
                type=Path, metavar="DIR", help="copy CamVid from DIR to the root first"
            ),
        },
        "data_prep.segmentation:prepare_copied",
        "put CamVid (train, trainannot, val, ...) there",
        {"camvid": CAMVID},
    ),
    DataSet(
        "segmentation",
        "label maps of any layout; acdc, bdd100k, gta5, voc, ...",
        "Look at images and label maps of any layout, and write a federated split.",
        f"""\
What the wildcards of --images match in the path of an image, those of --labels match in the path of
its label map. Label maps are images without loss, .npy, or polygons of labelme or Cityscapes
(.json), which are drawn into ROOT/drawn. Prints what it has understood, writes ROOT/splits and a
config in ROOT to train on it.

examples:
  three clients from labelme's folders (labels.txt: a class a line):
    fedseg prepare segmentation data/voc_like --images 'JPEGImages/*.jpg' \\
        --labels 'SegmentationClass/*.png' --classes labels.txt --clients 3
  a client for each site, another site and a tenth of the images for tests:
    fedseg prepare segmentation data/orchards --images '*/images/*.png' --labels '*/labels/*.png' \\
        --classes classes.txt --domain '([^/]+)/images' --test north 0.1
  published layouts ({", ".join(LAYOUTS)}):
    fedseg prepare acdc

{SPLIT_NOTE}""",
        {
            "root": dict(
                type=Path, nargs="?", metavar="ROOT", help="the data root (default: data/DATASET)"
            ),
            "--dataset": dict(
                choices=["segmentation", *LAYOUTS],
                default="segmentation",
                help="a published layout instead of the options below (default: %(default)s)",
            ),
            "--images": dict(action="extend", nargs="+", metavar="GLOB", help="images below ROOT"),
            "--labels": dict(
                action="extend", nargs="+", metavar="GLOB", help="label maps or polygons below ROOT"
            ),
            "--classes": dict(
                type=Path,
                metavar="FILE",
                help="names, one a line, with r g b behind each if label maps have colors; or JSON",
            ),
            "--ids": dict(metavar="MAP", help="label ids are those of cityscapes, gta5, ..."),
            "--ignore": dict(
                action="extend",
                nargs="+",
                default=[],
                metavar="LABEL",
                help="labels of polygons that are ignored",
            ),
            "--reduce-zero-label": dict(
                action="store_true", help="label id 0 is ignored, and classes begin at 1"
            ),
            "--first-channel": dict(
                action="store_true", help="of label maps with three channels, the first has the ids"
            ),
            "--domain": dict(
                metavar="PATTERN", help="a regular expression whose group, in a path, is the domain"
            ),
            "--test": dict(
                action="extend",
                nargs="+",
                metavar="TEST",
                help="test images: a share of each domain, a domain, a glob of images, or a .txt "
                "file of names; can be repeated (default: 0.2)",
            ),
            "--clients": dict(type=int, metavar="K", help="how many (default: the domains)"),
            "--partition": dict(
                type=str.lower,
                choices=PIXEL_PARTITIONS,
                help="domain: a client is a domain; uniform: all alike; dirichlet: mixes of "
                "pixels by Dir(alpha); size: sizes by Dir(alpha) (default: uniform, or domain "
                "without --clients)",
            ),
            "--alpha": dict(type=float, metavar="A", help="of dirichlet and size (default: 1)"),
            "--seed": dict(type=int, default=0, help="of the split (default: %(default)s)"),
            "--unofficial": dict(
                action="store_true", help="published layouts: accept other numbers of images"
            ),
            **OVERWRITE,
        },
        "data_prep.folders:prepare_folder",
        "name the folder with the images",
        {"segmentation": None, **{name: name for name in LAYOUTS}},
    ),
)
