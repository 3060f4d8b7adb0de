"""Verify or render IDDA and write its federated splits."""

from itertools import product

from fedseg.data_prep.arguments import add_benchmark, options, parse, parser
from fedseg.names import DISTRIBUTIONS, IDDA_SETTINGS

EPILOG = """\
examples:
  everything, from the real images in data/idda/IDDAsmall:
    fedseg prepare idda
  published split files:
    fedseg prepare idda --from feddrive/idda
  a small synthetic data set, no download:
    fedseg prepare idda --synthetic --setting rainy --distribution heterogeneous \\
        --limit-per-user 8 --limit-test 2

Splits go to ROOT/splits/<distribution>/<setting>/{train,test}; split.json next to them says how
they were made."""


def main() -> None:
    arguments = parser(__doc__, EPILOG, "data/idda")
    arguments.add_argument(
        "--setting",
        action="append",
        type=str.lower,
        choices=list(IDDA_SETTINGS),
        help="which domains are unseen: T07 (country), hard rain (rainy), viewpoint B (bus); can "
        "be repeated (default: all)",
    )
    add_benchmark(arguments, DISTRIBUTIONS, "464x256")
    args = parse(arguments, "IDDA (IDDAsmall/<domain>/{RGB,Semantic})")
    from fedseg.data_prep import idda
    from fedseg.data_prep.segmentation import Options, prepare, show_summary

    places = list(product(args.distribution or DISTRIBUTIONS, args.setting or IDDA_SETTINGS))
    named = bool(args.distribution), bool(args.setting)
    show_summary(prepare(idda, options(Options, args, places=places, named=named)), args.root)
