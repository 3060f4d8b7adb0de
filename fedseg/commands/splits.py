"""Look at splits: fedseg splits CONFIG_OR_FILE... (--help lists the options)."""

from pathlib import Path

from fedseg import cli

EXAMPLES = """\
Each argument is a config, a split file in a prepared folder, or the folder of a prepared split.
Nothing is trained.

examples:
  fedseg splits cifar10_a0 cifar10_a005
  fedseg splits data/cifar10/splits/released/*.json
  fedseg splits idda_rainy idda_bus --pixels
"""


def main() -> None:
    parser = cli.parser(
        "Show how training images are split across clients, as a table and a plot: classes or "
        "domains, sizes, and the test sets.",
        EXAMPLES,
    )
    parser.add_argument("splits", type=Path, nargs="+", metavar="CONFIG_OR_SPLIT")
    style = {"type": cli.folder, "default": Path("work_dirs/splits/splits.png"), "metavar": "FILE"}
    text = "the plot, PNG, SVG or PDF by its suffix (default: %(default)s)"
    parser.add_argument("--out", **style, help=text)
    text = "segmentation: count the pixels of each class per client; reads every label map"
    parser.add_argument("--pixels", action="store_true", help=text)
    cli.add_methods(parser, "methods to merge over each config (configs/README.md)")
    cli.add_cfg_options(parser, "override fields, for example train_dataloader.partition.alpha=0.1")
    arguments = parser.parse_args()
    from fedseg.config.components import TRAIN
    from fedseg.config.compose import setting_file
    from fedseg.runner.experiment import load_config, prepare_config

    for number, path in enumerate(arguments.splits):
        if not path.exists() or path.suffix == ".py":
            arguments.splits[number] = setting_file(path)
            config = load_config(path, arguments.methods, options=arguments.options)
            prepare_config(config, TRAIN)
    from fedseg.report.figures import save_figure
    from fedseg.report.splits import read_split_views
    from fedseg.report.splits_output import draw_splits, print_splits

    views = read_split_views(
        arguments.splits, arguments.options, arguments.methods, arguments.pixels
    )
    print_splits(views)
    print(save_figure(draw_splits(views), arguments.out))
