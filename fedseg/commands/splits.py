"""Look at splits: fedseg splits CONFIG_OR_FILE... (--help lists the options)."""

from pathlib import Path

from fedseg import cli

EXAMPLES = """\
Each argument is a config, a split file (.json) or a folder of split files. Nothing is trained.

examples:
  fedseg splits cifar10_a0 cifar10_a005
  fedseg splits data/cifar10/splits/released/*.json
  fedseg splits idda_rainy idda_bus --pixels
"""


def main() -> None:
    parser = cli.parser(
        "Show how training images are split across clients, as tables and plots: classes or "
        "domains, sizes, and the test sets.",
        EXAMPLES,
    )
    parser.add_argument("splits", type=Path, nargs="+", metavar="CONFIG_OR_FILE")
    style = {"type": cli.folder, "default": Path("work_dirs/splits")}
    parser.add_argument("--out", **style, help="folder for the plots (default: %(default)s)")
    text = "segmentation: also count the pixels of each class per client; reads every label map"
    parser.add_argument("--pixels", action="store_true", help=text)
    cli.add_methods(parser, "methods to merge over each config (configs/README.md)")
    cli.add_cfg_options(parser, "override fields, for example train_dataloader.partition.alpha=0.1")
    arguments = parser.parse_args()
    from fedseg.config.components import TRAIN
    from fedseg.config.compose import setting_file
    from fedseg.runner.experiment import load_config, prepare_config

    for number, given in enumerate(arguments.splits):
        if not given.exists() or given.suffix == ".py":
            arguments.splits[number] = setting_file(given)
            config = load_config(given, arguments.methods, options=arguments.options)
            prepare_config(config, TRAIN)
    from fedseg.report.partition_charts import write_pictures
    from fedseg.report.partition_view import print_views
    from fedseg.report.split_views import pixel_counts, read_views

    views = read_views(arguments.splits, arguments.options, arguments.pixels, arguments.methods)
    pixels = {view.name: pixel_counts(view) for view in views} if arguments.pixels else None
    print_views(views)
    print(*write_pictures(views, arguments.out, pixels), sep="\n")
