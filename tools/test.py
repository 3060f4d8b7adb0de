"""Test: python tools/test.py CONFIG CHECKPOINT [--with METHOD ...] (see --help)."""

import argparse
from pathlib import Path

from fedseg import cli


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Evaluate a checkpoint on every domain: a table, test_results.json, "
        "iou_by_class.csv and pictures. The training data are not needed."
    )
    parser.add_argument("config", type=Path, help="the config that the checkpoint was trained with")
    parser.add_argument(
        "checkpoint", type=Path, help="for example .../checkpoints/round_000030.pth"
    )
    parser.add_argument(
        "--with",
        dest="methods",
        nargs="+",
        default=[],
        metavar="METHOD",
        help="the methods that it was trained with, for example fedasam swa",
    )
    parser.add_argument(
        "--out",
        "--work-dir",
        dest="out",
        type=cli.folder,
        help="default: test/<checkpoint's name> in the work dir of its run",
    )
    parser.add_argument("--amp", action="store_true", help="bfloat16 arithmetic, on CPU and GPU")
    parser.add_argument(
        "--cfg-options",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="override config fields, for example test_dataloader.seen.batch_size=4",
    )
    parser.add_argument(
        "--pictures", type=int, default=3, metavar="N", help="images per domain (default: 3)"
    )
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    from fedseg.report.pictures import write_test_pictures
    from fedseg.report.summary import print_test
    from fedseg.runner.experiment import load_config, naming
    from fedseg.runner.testing import default_folder, evaluate_checkpoint, write_test_results
    from fedseg.runner.work_dir import hold

    folder = arguments.out or default_folder(arguments.checkpoint)
    config = load_config(
        arguments.config,
        methods=arguments.methods,
        work_dir=folder,
        options=arguments.cfg_options,
        amp=arguments.amp,
    )
    with naming(config), hold(folder):
        runner, results = evaluate_checkpoint(config, arguments.checkpoint)
        files = write_test_results(results, folder)
        if arguments.pictures > 0:
            files += write_test_pictures(
                runner.test_loop, results["domains"], folder / "pictures", arguments.pictures
            )
    shown = (folder, folder / "pictures")  # of single images the folder
    paths = dict.fromkeys(path if path.parent in shown else path.parent for path in files)
    print_test(results, list(paths))


if __name__ == "__main__":
    cli.run(main)
