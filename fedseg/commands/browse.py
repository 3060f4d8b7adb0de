"""Browse: fedseg browse SETTING [--with METHOD ...] (see --help)."""

from pathlib import Path

from fedseg import cli

EXAMPLES = """\
examples:
  fedseg browse demo_shapes --with cutout
  fedseg browse idda_rainy --with lab --clients 4 --images 8 --out lab.png
"""


def main() -> None:
    parser = cli.parser(
        "Write a contact sheet of the training images and labels that clients see in the first "
        "local steps of a round, after augmentation.",
        EXAMPLES,
    )
    parser.add_argument("config", type=Path, help="a setting or experiment: name or path")
    cli.add_methods(parser, "methods to merge over it, for example lab")
    for name, number, text in (
        ("--clients", 10, "number of clients, evenly spaced in the list of all"),
        ("--images", 6, "largest number of images per client"),
        ("--round", 1, "round whose random augmentation is shown"),
    ):
        text = f"{text} (default: %(default)s)"
        parser.add_argument(name, type=cli.positive, default=number, metavar="N", help=text)
    style = {"type": cli.folder, "default": Path("browse.png"), "metavar": "FILE"}
    parser.add_argument("--out", **style, help="default: %(default)s")
    cli.add_cfg_options(parser, "override config fields")
    arguments = vars(parser.parse_args())
    from fedseg.api import browse

    print(browse(arguments.pop("config"), arguments.pop("methods"), **arguments))
