"""Verify MNIST, convert it once, and write federated splits."""

from pathlib import Path

from data_prep import mnist
from data_prep.classification import ImageSet, prepare, show_next, write_splits
from data_prep.image_options import add_splits, options, parser, splits
from fedseg.cli import run
from fedseg.datasets import MNISTDataset

EPILOG = """\
The four idx files ({train,t10k}-{images-idx3,labels-idx1}-ubyte, with or without .gz) are expected
in data/mnist, or where --source says.

examples:
  python tools/prepare_mnist.py --source path/to/MNIST/raw
  python tools/prepare_mnist.py --download --partition dirichlet-class --alpha 0.1 --num-clients 5

The images become memory-mapped arrays in ROOT, with a checksum: run again, the tool verifies them.
Splits go to ROOT/splits/<name>.json, with a picture and a note of how they were made."""

ALPHAS = dict.fromkeys(("dirichlet", "dirichlet-class"), (0.1, 0.5, 1, 1.5, 2))


def main() -> None:
    arguments = parser(__doc__, EPILOG, "data/mnist", "a folder with MNIST's idx files")
    add_splits(arguments, "dirichlet-class", 5)
    args = arguments.parse_args()
    asked = splits(args, ALPHAS)
    kind = ImageSet(
        published=mnist.PUBLISHED,
        dataset=MNISTDataset,
        find=mnist.find_source,
        read=mnist.read,
        download=mnist.download,
        hint="MNIST's idx files",
        setting="mnist_a01",
    )
    chosen = options(args, Path("data") / "mnist")
    dataset = prepare(kind, chosen)
    show_next(kind, chosen.root, write_splits(chosen.root, dataset, asked, args.overwrite))


if __name__ == "__main__":
    run(main)
