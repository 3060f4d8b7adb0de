"""Verify or render Cityscapes and write its federated splits."""

from fedseg.data_prep.arguments import add_benchmark, options, parse, parser
from fedseg.names import DISTRIBUTIONS

EPILOG = """\
examples:
  everything, from the real images in data/cityscapes/{leftImg8bit,gtFine}:
    fedseg prepare cityscapes
  published split files:
    fedseg prepare cityscapes --from feddrive/cityscapes
  a small synthetic data set, no download:
    fedseg prepare cityscapes --synthetic --distribution heterogeneous \\
        --limit-per-user 4 --limit-test 10

Splits go to ROOT/splits/<distribution>/{train,test}; split.json next to them says how they were
made."""


def main() -> None:
    arguments = parser(__doc__, EPILOG, "data/cityscapes")
    add_benchmark(arguments, DISTRIBUTIONS, "512x256")
    args = parse(arguments, "leftImg8bit_trainvaltest.zip and gtFine_trainvaltest.zip, unpacked,")
    from fedseg.data_prep import cityscapes
    from fedseg.data_prep.segmentation import Options, prepare, show_summary

    places = [(distribution,) for distribution in args.distribution or DISTRIBUTIONS]
    chosen = options(Options, args, places=places, named=(bool(args.distribution),))
    show_summary(prepare(cityscapes, chosen), args.root)
