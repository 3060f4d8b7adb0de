"""Test: fedseg test RUN, or CONFIG CHECKPOINT [--with METHOD ...] (see --help)."""

import argparse
from pathlib import Path

from fedseg import cli
from fedseg.errors import DataError


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Evaluate a checkpoint on every domain; prints a table and writes "
        "test_results.json, iou_by_class.csv and pictures. Needs no training data. A run's "
        "recorded config is read as data; a config file is executed."
    )
    text = "work dir of a run, or the config that the checkpoint was trained with"
    parser.add_argument("config", type=cli.run_path, metavar="RUN|CONFIG", help=text)
    text = "for example .../checkpoints/round_000030.pth (default: the newest of the run)"
    parser.add_argument("checkpoint", type=Path, nargs="?", help=text)
    cli.add_trust(parser)
    cli.add_methods(parser, "the methods of the checkpoint's run, for example fedasam swa")
    text = "default: test/<checkpoint's name> in the work dir of its run"
    parser.add_argument("--out", "--work-dir", dest="out", type=cli.folder, help=text)
    parser.add_argument("--amp", action="store_true", help="bfloat16 arithmetic, on CPU and GPU")
    cli.add_cfg_options(parser, "override fields, for example test_dataloader.seen.batch_size=4")
    text = "pictures per domain (default: %(default)s)"
    parser.add_argument("--pictures", type=int, default=3, metavar="N", help=text)
    arguments = vars(parser.parse_args())
    run = arguments.pop("config")
    if run.is_dir() and not arguments["checkpoint"] and not any(run.glob("checkpoints/*.pth")):
        raise DataError(f"{run / 'checkpoints'}: {cli.NO_CHECKPOINT}")  # before torch is imported
    from fedseg.api import evaluate

    cli.say_trust(arguments["trust"])
    done = evaluate(run, **arguments)
    from fedseg.report.summary import print_test

    shown = (done.folder, done.folder / "pictures")  # of single images the folder
    paths = dict.fromkeys(path if path.parent in shown else path.parent for path in done.files)
    print_test(done.results, list(paths))
