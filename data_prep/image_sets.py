"""Labeled images: CIFAR, MNIST, LEAF, Landmarks. Nothing slow is imported."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fedseg.names import LANDMARKS_SOURCES, NO_SPLIT, OVERLAP, PARTITIONS

from .description import (
    OVERWRITE,
    PACHINKO,
    DataSet,
    ImageSet,
    ReleasedFiles,
    Selection,
    option,
)

CIFAR10 = ImageSet(
    "CIFAR10",
    (32, 32, 3),
    tuple(
        ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    ),
    counts={"train": (5000,) * 10, "test": (1000,) * 10},
    torchvision="CIFAR10",
    dataset="CIFAR10Dataset",
    setting="cifar10_a005",
    source="cifar-10-python.tar.gz, its batches, image folders or .npz files",
    clients=100,
    alphas={"dirichlet": (0, 0.05, 100), "dirichlet-class": (0.5,)},
    released=ReleasedFiles(
        r"(img_\d+)_label_(\d+)",
        archive_names=False,
        left_out={"train": 1, "test": 1},
        classes_per_client={0: 1.0, 0.05: 1.32, 100: 9.9},
    ),
    rendered=True,
)

# Superclass -> classes of CIFAR-100, as on the data set's page. Labels are the alphabetical order.
GROUPS_100 = {
    "aquatic_mammals": "beaver dolphin otter seal whale",
    "fish": "aquarium_fish flatfish ray shark trout",
    "flowers": "orchid poppy rose sunflower tulip",
    "food_containers": "bottle bowl can cup plate",
    "fruit_and_vegetables": "apple mushroom orange pear sweet_pepper",
    "household_electrical_devices": "clock keyboard lamp telephone television",
    "household_furniture": "bed chair couch table wardrobe",
    "insects": "bee beetle butterfly caterpillar cockroach",
    "large_carnivores": "bear leopard lion tiger wolf",
    "large_man-made_outdoor_things": "bridge castle house road skyscraper",
    "large_natural_outdoor_scenes": "cloud forest mountain plain sea",
    "large_omnivores_and_herbivores": "camel cattle chimpanzee elephant kangaroo",
    "medium_mammals": "fox porcupine possum raccoon skunk",
    "non-insect_invertebrates": "crab lobster snail spider worm",
    "people": "baby boy girl man woman",
    "reptiles": "crocodile dinosaur lizard snake turtle",
    "small_mammals": "hamster mouse rabbit shrew squirrel",
    "trees": "maple_tree oak_tree palm_tree pine_tree willow_tree",
    "vehicles_1": "bicycle bus motorcycle pickup_truck train",
    "vehicles_2": "lawn_mower rocket streetcar tank tractor",
}
_COARSE_100 = {name: i for i, text in enumerate(GROUPS_100.values()) for name in text.split()}

CIFAR100 = ImageSet(
    "CIFAR100",
    (32, 32, 3),
    tuple(sorted(_COARSE_100)),
    counts={"train": (500,) * 100, "test": (100,) * 100},
    torchvision="CIFAR100",
    dataset="CIFAR100Dataset",
    setting="cifar100_a05",
    source="cifar-100-python.tar.gz, its batches, image folders or .npz files",
    clients=100,
    alphas={"dirichlet": (0, 0.5, 1000), "dirichlet-class": (0.5,)},
    coarse_labels=tuple(_COARSE_100[name] for name in sorted(_COARSE_100)),
    released=ReleasedFiles(
        "(.+)",
        archive_names=True,
        left_out={"train": 0, "test": 1},
        classes_per_client={0: 1.0, 0.5: 5.13, 1000: 98.82},
    ),
)

MNIST = ImageSet(
    "MNIST",
    (28, 28, 1),
    tuple("0123456789"),
    counts={
        "train": (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
        "test": (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
    },
    torchvision="MNIST",
    dataset="MNISTDataset",
    setting="mnist_a01",
    source="MNIST's idx files",
    clients=5,
    alphas=dict.fromkeys(("dirichlet", "dirichlet-class"), (0.1, 0.5, 1, 1.5, 2)),
)

FEMNIST = ImageSet(
    "FEMNIST",
    (28, 28, 1),
    (*"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",),
    dataset="FEMNISTDataset",
    setting="femnist",
    source="LEAF's train/*.json and test/*.json, or fed_emnist_train.h5 and fed_emnist_test.h5",
)

SHAKESPEARE = ImageSet(
    "Shakespeare",
    (80, 1, 1),  # a sequence is an image of one column
    (*"\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}",),
    dataset="ShakespeareDataset",
    setting="shakespeare",
    source="LEAF's train/*.json and test/*.json",
)

LANDMARKS = {  # by the name of the training file
    "federated_train.csv": Selection("Landmarks-User-160k", 1262, 164172, 19526, 2028),
    "mini_gld_train_split.csv": Selection(
        "gld23k",
        users=233,
        train=23080,
        test=None,
        classes=203,
        md5={
            "train": "9fd62cf79a67046fdd673d3a0ac52841",
            "test": "298e9d19d66357236f66fe8e22920933",
        },
    ),
}


@dataclass(frozen=True)
class ImageOptions:
    """Source of labeled images, which are accepted, and how they are split."""

    source: Path | None = option(
        None,
        type=Path,
        metavar="PATH",
        help=(
            "the official files, in an archive or a folder; for CIFAR and MNIST also a folder with "
            "{train,test}/<class>/*.png or with train.npz and test.npz (default: the root)"
        ),
    )
    download: bool = option(
        False,
        action="store_true",
        help="download the official files if they are missing",
    )
    unofficial: bool = option(
        False,
        action="store_true",
        help="accept images that differ from the published ones, such as a subset",
    )
    order: Path | None = option(
        None,
        type=Path,
        metavar="FILE",
        help=(
            "put the images into the order of FILE, so that indices of clients mean the same "
            "images whatever the source (docs/runs/clients has that of the published runs)"
        ),
    )
    overlap: Literal[OVERLAP] = option(
        OVERLAP[0],
        "--shared",
        choices=OVERLAP,
        help=(
            "images that are in both train and test: refuse (unless the official files have them), "
            "keep, or drop them from train"
        ),
    )
    overwrite: bool = option(
        False,
        action="store_true",
        help=OVERWRITE,
    )
    partition: Literal[(*PARTITIONS, NO_SPLIT)] = option(
        NO_SPLIT,
        choices=[*PARTITIONS, NO_SPLIT],
        help=(
            "rule of the splits in ROOT/splits. dirichlet: clients of equal size, each with a "
            "class mix drawn from Dir(alpha/classes for each class); alpha 0: one class per "
            "client. dirichlet-class: each class is divided by Dir(alpha), sizes differ. pachinko: "
            "superclasses, then classes (CIFAR-100). homogeneous: equal class mixes. natural: by "
            "user ids. none: no split"
        ),
    )
    alpha: Sequence[float] | None = option(
        None,
        action="extend",
        nargs="+",
        type=float,
        metavar="A",
        help="writes a split for each value (default: those of the configs)",
    )
    beta: float = option(
        PACHINKO["beta"],
        type=float,
        help="pachinko only",
    )
    num_clients: int | None = option(
        None,
        type=int,
        metavar="K",
        help=f"number of clients (default: 100; MNIST: 5; pachinko: {PACHINKO['clients']})",
    )
    seed: int = option(
        0,
        type=int,
        metavar="N",
        help="of the splits",
    )
    users: Path | None = option(
        None,
        type=Path,
        metavar="CSV",
        help=(
            "natural only: the client of each training image, columns user_id and image_id "
            "(default: the users of the .npz file)"
        ),
    )
    synthetic: bool = option(
        False,
        action="store_true",
        help="render images of 10 classes instead of CIFAR-10",
    )
    released: Path | None = option(
        None,
        "--from",
        type=Path,
        metavar="DIR",
        help=(
            "convert the released split files in DIR to ROOT/splits/released instead of drawing "
            "splits, and check them against the archive's images"
        ),
    )


@dataclass(frozen=True)
class LandmarksOptions:
    """The folder of photographs, and how thoroughly they are checked."""

    images: Path = option(
        Path("images"),
        type=Path,
        metavar="DIR",
        help="folder of the images, absolute or below the root",
    )
    unofficial: bool = option(
        False,
        action="store_true",
        help="accept other numbers of users, images and classes than the published ones",
    )
    decode: bool = option(
        False,
        action="store_true",
        help="decode every image (slow), not only check its header and end",
    )
    missing: Path | None = option(
        None,
        type=Path,
        metavar="FILE",
        help="write the names of missing images to FILE, one per line",
    )


PREPARED = """\
The images are stored as arrays in ROOT with a checksum, which the next call verifies.
Splits go to ROOT/splits/<name>.json, each with a chart and a note of its options."""

IMAGE_SETS = (
    DataSet(
        "cifar",
        "CIFAR-10 and CIFAR-100",
        "Verify CIFAR-10 or CIFAR-100, convert it once, and write federated splits.",
        f"""\
examples:
  the official archive, in data/cifar10 or somewhere else:
    fedseg prepare cifar
    fedseg prepare cifar --dataset cifar100 --source cifar-100-python.tar.gz
  downloaded from the authors' page:
    fedseg prepare cifar --download
  a split of your own:
    fedseg prepare cifar --partition dirichlet --alpha 0.1 0.5 --num-clients 50
  the clients of the split files released with the ECCV 2022 and FedGloSS papers:
    fedseg prepare cifar --from fedsam/data/cifar10
  synthetic images, no download:
    fedseg prepare cifar --synthetic

{PREPARED}""",
        ImageOptions,
        "data_prep.classification:prepare",
        "put cifar-10-python.tar.gz (cifar-100-python.tar.gz), folders or .npz files there",
        {"cifar10": CIFAR10, "cifar100": CIFAR100},
        defaults={"partition": "dirichlet"},
    ),
    DataSet(
        "mnist",
        "MNIST",
        "Verify MNIST, convert it once, and write federated splits.",
        f"""\
The four idx files ({{train,t10k}}-{{images-idx3,labels-idx1}}-ubyte, with or without .gz) are
expected in data/mnist or in --source.

examples:
  fedseg prepare mnist --source path/to/MNIST/raw
  fedseg prepare mnist --download --partition dirichlet-class --alpha 0.1 --num-clients 5

{PREPARED}""",
        ImageOptions,
        "data_prep.classification:prepare",
        "put its four idx files there",
        {"mnist": MNIST},
        defaults={"partition": "dirichlet-class"},
        left_out=("synthetic", "released", "order"),
    ),
    DataSet(
        "leaf",
        "FEMNIST and Shakespeare of LEAF (femnist, shakespeare)",
        "Convert FEMNIST or Shakespeare once; a client is a writer or a role.",
        f"""\
Expected in the root or in --source: train/*.json and test/*.json, as LEAF's preprocess.sh writes
them below data/; of FEMNIST also TensorFlow Federated's fed_emnist_train.h5 and fed_emnist_test.h5
(pip install 'fedseg[hdf5]'). There is no published checksum: counts are printed, not compared.

examples:
  fedseg prepare femnist --source leaf/data/femnist/data
  fedseg prepare shakespeare --source leaf/data/shakespeare/data --shared keep

{PREPARED}""",
        ImageOptions,
        "data_prep.classification:prepare",
        "put LEAF's train/*.json and test/*.json there",
        {"femnist": FEMNIST, "shakespeare": SHAKESPEARE},
        defaults={"partition": "natural"},
        left_out=("download", "synthetic", "released", "order"),
    ),
    DataSet(
        "landmarks",
        "Landmarks-User-160k",
        "Verify Landmarks-User-160k: split files and images.",
        f"""\
Expected below the root: federated_train.csv and test.csv (or mini_gld_train_split.csv and
mini_gld_test.csv, the 23k images of gld23k), and images/<id>.jpg or images/a/b/c/<id>.jpg.
{LANDMARKS_SOURCES}.

example:
  fedseg prepare landmarks --missing missing.txt

Nothing is converted. A chart of the clients goes to ROOT/splits/natural_users.png.""",
        LandmarksOptions,
        "data_prep.landmarks:prepare",
        "put its split files and images there",
        {"landmarks": LANDMARKS},
    ),
)
