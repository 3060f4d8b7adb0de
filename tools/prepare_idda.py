"""Verify or render IDDA and write its federated splits."""

from itertools import product

from data_prep.arguments import add_benchmark, options, parser
from data_prep.idda import DISTRIBUTIONS, IMAGES_PER_DOMAIN, SETTINGS
from data_prep.segmentation import IDDA, Options, prepare, show_summary
from fedseg.cli import run
from fedseg.errors import ConfigError

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
        choices=list(SETTINGS),
        help="which domains are unseen: T07 (country), hard rain (rainy), viewpoint B (bus); can "
        "be repeated (default: all)",
    )
    add_benchmark(arguments, DISTRIBUTIONS, "464x256")
    arguments.add_argument(
        "--images-per-domain",
        type=int,
        metavar="N",
        help="take N images of each domain, one fifth of them (at least one) for the seen test "
        f"(default: {IMAGES_PER_DOMAIN})",
    )
    args = arguments.parse_args()
    if args.images_per_domain is not None and not 2 <= args.images_per_domain <= IMAGES_PER_DOMAIN:
        raise ConfigError(
            f"--images-per-domain {args.images_per_domain}: must be 2 to {IMAGES_PER_DOMAIN}"
        )
    places = list(product(args.distribution or DISTRIBUTIONS, args.setting or SETTINGS))
    show_summary(prepare(IDDA, options(Options, args, places=places)), args.root)


if __name__ == "__main__":
    run(main)
