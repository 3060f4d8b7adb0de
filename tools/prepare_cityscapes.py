"""Verify or render Cityscapes and write its federated splits."""

from data_prep import cityscapes
from data_prep.arguments import add_benchmark, options, parser
from data_prep.segmentation import Options, prepare, show_summary
from fedseg.cli import run

EPILOG = """\
examples:
  everything, from the real images in data/cityscapes/{leftImg8bit,gtFine}:
    python tools/prepare_cityscapes.py
  published split files:
    python tools/prepare_cityscapes.py --from feddrive/cityscapes
  a small synthetic data set, no download:
    python tools/prepare_cityscapes.py --synthetic --distribution heterogeneous \\
        --limit-per-user 4 --limit-test 10

Splits go to ROOT/splits/<distribution>/{train,test}; split.json next to them says how they were
made."""


def main() -> None:
    arguments = parser(__doc__, EPILOG, "data/cityscapes")
    add_benchmark(arguments, cityscapes.DISTRIBUTIONS, "512x256")
    args = arguments.parse_args()
    places = [(distribution,) for distribution in args.distribution or cityscapes.DISTRIBUTIONS]
    show_summary(prepare(cityscapes, options(Options, args, places=places)), args.root)


if __name__ == "__main__":
    run(main)
