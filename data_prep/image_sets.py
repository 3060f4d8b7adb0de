"""Labeled images: CIFAR, MNIST, LEAF, Landmarks. Nothing slow is imported."""

from dataclasses import dataclass
from pathlib import Path

from fedseg.names import LANDMARKS_SOURCES

from .description import (
    OVERWRITE,
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
    dataset="CIFAR10Dataset",
    setting="cifar10_a005",
    read="data_prep.cifar:read_cifar",
    released=ReleasedFiles(archive_names=False, left_out={"train": 1, "test": 1}),
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
    dataset="CIFAR100Dataset",
    setting="cifar100_a05",
    read="data_prep.cifar:read_cifar",
    coarse_labels=tuple(_COARSE_100[name] for name in sorted(_COARSE_100)),
    released=ReleasedFiles(archive_names=True, left_out={"train": 0, "test": 1}),
)

MNIST = ImageSet(
    "MNIST",
    (28, 28, 1),
    tuple("0123456789"),
    dataset="MNISTDataset",
    setting="mnist_a01",
    read="data_prep.mnist:read_mnist",
)

FEMNIST = ImageSet(
    "FEMNIST",
    (28, 28, 1),
    (*"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",),
    dataset="FEMNISTDataset",
    setting="femnist",
    read="data_prep.femnist:read_femnist",
)

SHAKESPEARE = ImageSet(
    "Shakespeare",
    (80, 1, 1),  # a sequence is an image of one column
    (*"\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}",),
    dataset="ShakespeareDataset",
    setting="shakespeare",
    read="data_prep.leaf:read_shakespeare",
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
    """Source of labeled images."""

    source: Path | None = option(
        None,
        type=Path,
        metavar="DIR",
        help="folder of the official files (default: the root)",
    )
    download: bool = option(
        False,
        action="store_true",
        help="download the official files if they are missing, and unpack them",
    )
    npz: Path | None = option(
        None,
        type=Path,
        metavar="DIR",
        help=(
            "take the images from train.npz and test.npz in DIR, which have images (uint8 "
            "[N, H, W, C]), labels (integers [N]) and classes (the published names, in order); "
            "results say that these are not the official files"
        ),
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
    overwrite: bool = option(
        False,
        action="store_true",
        help=OVERWRITE,
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
            "convert the released split files in DIR to ROOT/splits/released, and check them "
            "against the archive's images"
        ),
    )


@dataclass(frozen=True)
class LandmarksOptions:
    """Which photographs are accepted, and where to list those that are missing."""

    unofficial: bool = option(
        False,
        action="store_true",
        help="accept other numbers of users, images and classes than the published ones",
    )
    missing: Path | None = option(
        None,
        type=Path,
        metavar="FILE",
        help="write the names of missing images to FILE, one per line",
    )


PREPARED = """\
The images are stored as arrays in ROOT with a checksum, which the next call verifies. Clients are
drawn by the configs: fedseg splits shows them."""

IMAGE_SETS = (
    DataSet(
        "cifar",
        "CIFAR-10 and CIFAR-100",
        "Verify CIFAR-10 or CIFAR-100 and convert it once.",
        f"""\
examples:
  the folder cifar-10-batches-py of the official archive, in data/cifar10:
    fedseg prepare cifar
  the archive in data/cifar100, unpacked, or downloaded from the authors' page if it is missing:
    fedseg prepare cifar --dataset cifar100 --download
  the clients of the split files released with the ECCV 2022 and FedGloSS papers:
    fedseg prepare cifar --from fedsam/data/cifar10
  images whose archive is not at hand:
    fedseg prepare cifar --npz DIR
  synthetic images, no download:
    fedseg prepare cifar --synthetic

{PREPARED}""",
        ImageOptions,
        "data_prep.classification:prepare",
        "put cifar-10-batches-py (cifar-100-python) there",
        {"cifar10": CIFAR10, "cifar100": CIFAR100},
    ),
    DataSet(
        "mnist",
        "MNIST",
        "Verify MNIST and convert it once.",
        f"""\
The four idx files ({{train,t10k}}-{{images-idx3,labels-idx1}}-ubyte), unpacked, are expected in
MNIST/raw of data/mnist or of --source.

examples:
  fedseg prepare mnist
  fedseg prepare mnist --download

{PREPARED}""",
        ImageOptions,
        "data_prep.classification:prepare",
        "put its four idx files into MNIST/raw there",
        {"mnist": MNIST},
        left_out=("synthetic", "released"),
    ),
    DataSet(
        "leaf",
        "FEMNIST and Shakespeare of LEAF (femnist, shakespeare)",
        "Convert FEMNIST or Shakespeare once; a client is a writer or a role.",
        f"""\
Expected in the root or in --source: of FEMNIST TensorFlow Federated's fed_emnist_train.h5 and
fed_emnist_test.h5 (pip install 'fedseg[hdf5]'); of Shakespeare train/*.json and test/*.json, as
LEAF's preprocess.sh writes them below data/. There is no published checksum: counts are printed,
not compared.

examples:
  fedseg prepare femnist --source DIR
  fedseg prepare shakespeare --source leaf/data/shakespeare/data

{PREPARED}""",
        ImageOptions,
        "data_prep.classification:prepare",
        "put its files there",
        {"femnist": FEMNIST, "shakespeare": SHAKESPEARE},
        left_out=("download", "npz", "order", "synthetic", "released"),
    ),
    DataSet(
        "landmarks",
        "Landmarks-User-160k",
        "Verify Landmarks-User-160k: split files and images.",
        f"""\
Expected below the root: federated_train.csv and test.csv (or mini_gld_train_split.csv and
mini_gld_test.csv, the 23k images of gld23k), and images/a/b/c/abc0123456789def.jpg.
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
