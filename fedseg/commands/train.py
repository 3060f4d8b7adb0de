"""Run a federated experiment: fedseg train CONFIG [--with METHOD ...] (see --help)."""

import argparse
import sys
from pathlib import Path

from fedseg import cli


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Run a federated experiment. Configs are Python and are executed: run only "
        "those you trust."
    )
    text = "a setting or experiment: its name (fedseg list) or its path"
    parser.add_argument("config", type=Path, help=text)
    cli.add_methods(parser, "methods to merge over it, for example fedasam swa (configs/README.md)")
    text = "default: work_dirs/<experiment>/seed<seed>"
    parser.add_argument("--work-dir", type=cli.folder, help=text)
    earlier = parser.add_mutually_exclusive_group()
    text = "continue from the newest checkpoint"
    earlier.add_argument("--resume", action="store_true", help=text)
    text = "delete the run in the work dir, with its tests"
    earlier.add_argument("--overwrite", action="store_true", help=text)
    parser.add_argument("--seed", type=int, help="the run's seed (default: the config's, else 0)")
    parser.add_argument("--amp", action="store_true", help="bfloat16 arithmetic, on CPU and GPU")
    text = "train clients on N workers, or 'auto': one for each GPU (needs the extra 'ray')"
    parser.add_argument("--workers", type=cli.workers, metavar="N", help=text)
    cli.add_trackers(parser)
    cli.add_cfg_options(parser, "override config fields, for example train_cfg.max_rounds=10")
    text = "check everything and print the plan; train nothing"
    parser.add_argument("--dry-run", action="store_true", help=text)
    text = "show no progress: only errors, warnings about the config and the final table"
    parser.add_argument("--quiet", action="store_true", help=text)
    args = parser.parse_args()
    from fedseg.runner.experiment import load_config, train

    config = load_config(
        args.config,
        methods=args.methods,
        work_dir=args.work_dir,
        options=args.options,
        seed=args.seed,
        amp=args.amp,
        resume=args.resume,
        workers=args.workers,
        overwrite=args.overwrite,
        trackers=args.trackers,
    )
    if not args.quiet:  # before the imports that take seconds
        run = config.experiment_name
        text = f"checking {run}" if args.dry_run else f"{run} -> {config.work_dir}"
        print(text, file=sys.stderr)
    train(config, dry_run=args.dry_run, quiet=args.quiet)
    if not args.dry_run:
        from fedseg.report.summary import print_summary

        print_summary(config.work_dir)
    return 0
