"""Verify MNIST, convert it once, and write federated splits."""

from fedseg.data_prep.arguments import add_images, add_splits, options, parse, parser, splits

EPILOG = """\
The four idx files ({train,t10k}-{images-idx3,labels-idx1}-ubyte, with or without .gz) are expected
in data/mnist or in --source.

examples:
  fedseg prepare mnist --source path/to/MNIST/raw
  fedseg prepare mnist --download --partition dirichlet-class --alpha 0.1 --num-clients 5

The images become memory-mapped arrays in ROOT, with a checksum: run again, the tool verifies them.
Splits go to ROOT/splits/<name>.json, with a chart and a note of how they were made."""

ALPHAS = dict.fromkeys(("dirichlet", "dirichlet-class"), (0.1, 0.5, 1, 1.5, 2))


def main() -> None:
    arguments = parser(__doc__, EPILOG, "data/mnist")
    add_images(arguments, "a folder with MNIST's idx files")
    add_splits(arguments, "dirichlet-class", 5)
    args = parse(arguments, "its four idx files")
    from fedseg.data_prep.classification import ImageOptions, prepare_and_split
    from fedseg.data_prep.mnist import PUBLISHED
    from fedseg.report.partition_charts import show_partition

    asked = splits(args, ALPHAS)
    prepare_and_split(PUBLISHED, options(ImageOptions, args), asked, show_partition)
