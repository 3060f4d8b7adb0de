"""Verify or render IDDA and write its federated splits."""

from itertools import product

from data_prep import idda
from data_prep.arguments import add_benchmark, options, parser
from data_prep.segmentation import Options, prepare, show_summary
from fedseg.cli import run

EPILOG = """\
examples:
  everything, from the real images in data/idda/IDDAsmall:
    python tools/prepare_idda.py
  published split files:
    python tools/prepare_idda.py --from feddrive/idda
  a small synthetic data set, no download:
    python tools/prepare_idda.py --synthetic --setting rainy --distribution heterogeneous \\
        --limit-per-user 8 --limit-test 2

Splits go to ROOT/splits/<distribution>/<setting>/{train,test}; split.json next to them says how
they were made."""


def main() -> None:
    arguments = parser(__doc__, EPILOG, "data/idda")
    arguments.add_argument(
        "--setting",
        action="append",
        choices=list(idda.SETTINGS),
        help="which domains are unseen: T07 (country), hard rain (rainy), viewpoint B (bus); can "
        "be repeated (default: all)",
    )
    add_benchmark(arguments, idda.DISTRIBUTIONS, "464x256")
    args = arguments.parse_args()
    places = list(product(args.distribution or idda.DISTRIBUTIONS, args.setting or idda.SETTINGS))
    show_summary(prepare(idda, options(Options, args, places=places)), args.root)


if __name__ == "__main__":
    run(main)
