"""Run a federated experiment: fedseg train CONFIG [--with METHOD ...] (see --help)."""

import argparse
import gc
import sys
from pathlib import Path

from fedseg import cli


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Run a federated experiment. A config is a program: it runs with your rights."
    )
    parser.add_argument(
        "config", type=Path, help="a setting or experiment: its name (fedseg list) or its path"
    )
    cli.add_methods(parser, "methods to merge over it, for example fedasam swa (configs/README.md)")
    parser.add_argument(
        "--work-dir", type=cli.folder, help="default: work_dirs/<experiment>/seed<seed>"
    )
    parser.add_argument("--resume", action="store_true", help="go on from the newest checkpoint")
    parser.add_argument("--seed", type=int, help="the run's seed (default: the config's, else 0)")
    parser.add_argument("--amp", action="store_true", help="bfloat16 arithmetic, on CPU and GPU")
    parser.add_argument(
        "--workers",
        type=lambda text: int(text) if text.isdecimal() else text,
        metavar="N",
        help="train clients on N workers in parallel, or 'auto' (needs the extra 'ray')",
    )
    cli.add_cfg_options(parser, "override config fields, for example train_cfg.max_rounds=10")
    parser.add_argument(
        "--dry-run", action="store_true", help="check everything and print the plan; train nothing"
    )
    parser.add_argument(
        "--quiet", action="store_true", help="no progress, no warnings: errors and the final table"
    )
    arguments = parser.parse_args()
    if arguments.dry_run:
        gc.disable()  # many objects and little garbage: looking for it is a tenth of the time
    from fedseg.runner.experiment import load_config, train

    config = load_config(
        arguments.config,
        methods=arguments.methods,
        work_dir=arguments.work_dir,
        options=arguments.cfg_options,
        seed=arguments.seed,
        amp=arguments.amp,
        resume=arguments.resume,
        workers=arguments.workers,
    )
    if not arguments.quiet:  # before the imports that take seconds
        what = "is checked" if arguments.dry_run else f"goes to {config.work_dir}"
        print(f"{config.experiment_name} {what}", file=sys.stderr, flush=True)
    train(config, dry_run=arguments.dry_run, quiet=arguments.quiet)
    if not arguments.dry_run:
        from fedseg.report.summary import print_summary

        print_summary(config.work_dir, arguments.config)
    return 0
