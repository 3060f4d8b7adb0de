"""Verify CIFAR-10 or CIFAR-100, convert it once, and write federated splits."""

from pathlib import Path

from fedseg.data_prep.arguments import (
    add_images,
    add_splits,
    options,
    parse,
    parser,
    print_next,
    splits,
)

EPILOG = """\
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
        "--dataset",
        choices=list(ALPHAS),
        type=str.lower,
        default="cifar10",
        help="(default: %(default)s)",
    )
    arguments.add_argument(
        "--synthetic", action="store_true", help="render images of 10 classes instead of CIFAR-10"
    )
    add_splits(arguments, "dirichlet", 100)
    arguments.add_argument(
        "--from",
        dest="released",
        type=Path,
        metavar="DIR",
        help="instead of drawing splits, write those of the released split files in DIR to "
        "ROOT/splits/released, checked against the archive's images",
    )
    args = parse(
        arguments, "cifar-10-python.tar.gz (cifar-100-python.tar.gz), folders or .npz files"
    )
    from fedseg.data_prep.cifar import KINDS
    from fedseg.data_prep.classification import ImageOptions, prepare_and_split
    from fedseg.data_prep.released_splits import prepare_released
    from fedseg.report.partition_charts import show_partition

    asked = splits(args, ALPHAS[args.dataset])
    chosen = options(ImageOptions, args)
    kind = KINDS[args.dataset]
    if args.released is None:
        prepare_and_split(kind, chosen, asked, show_partition)
    else:
        prepare_released(kind, chosen, args.released)
        usual = Path("data", args.dataset)
        print_next(f"{kind.setting} --with released_split", usual, args.root)
