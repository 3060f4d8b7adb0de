"""Verify CIFAR-10 or CIFAR-100, convert it once, and write federated splits."""

from pathlib import Path

from data_prep.arguments import add_images, add_splits, add_synthetic, options, parser, splits
from data_prep.cifar import KINDS
from data_prep.classification import ImageOptions, prepare_and_split, print_next
from data_prep.released_splits import prepare_released
from fedseg.cli import run
from fedseg.report.partition_charts import show_partition

EPILOG = """\
examples:
  the official archive, in data/cifar10 or somewhere else:
    python tools/prepare_cifar.py
    python tools/prepare_cifar.py --dataset cifar100 --source cifar-100-python.tar.gz
  downloaded from the authors' page:
    python tools/prepare_cifar.py --download
  a split of your own:
    python tools/prepare_cifar.py --partition dirichlet --alpha 0.1 0.5 --num-clients 50
  the clients of the split files released with the ECCV 2022 and FedGloSS papers:
    python tools/prepare_cifar.py --from fedsam/data/cifar10
  synthetic images, no download:
    python tools/prepare_cifar.py --root data/shapes --synthetic

The images become memory-mapped arrays in ROOT, with a checksum: run again, the tool verifies them.
Splits go to ROOT/splits/<name>.json, with a chart and a note of how they were made."""

ALPHAS = {
    "cifar10": {"dirichlet": (0, 0.05, 100), "dirichlet-class": (0.5,)},
    "cifar100": {"dirichlet": (0, 0.5, 1000), "dirichlet-class": (0.5,)},
}


def main() -> None:
    arguments = parser(__doc__, EPILOG)
    add_images(
        arguments,
        "an official archive, the folder it unpacks to, a folder with {train,test}/<class>/*.png, "
        "or one with train.npz and test.npz",
    )
    arguments.add_argument(
        "--dataset", choices=list(KINDS), default="cifar10", help="(default: %(default)s)"
    )
    add_synthetic(arguments, "render images of 10 classes instead of CIFAR-10")
    add_splits(arguments, "dirichlet", 100)
    arguments.add_argument(
        "--from",
        dest="released",
        type=Path,
        metavar="DIR",
        help="instead of drawing splits, write those of the released split files in DIR to "
        "ROOT/splits/released, checked against the archive's images",
    )
    args = arguments.parse_args()
    asked = splits(args, ALPHAS[args.dataset])
    chosen = options(ImageOptions, args, root=args.root or Path("data") / args.dataset)
    kind = KINDS[args.dataset]
    if args.released is None:
        prepare_and_split(kind, chosen, asked, show_partition)
    else:
        prepare_released(kind, chosen, args.released)
        print_next(kind, chosen.root, "--with released_split ")


if __name__ == "__main__":
    run(main)
