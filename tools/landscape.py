"""Loss landscapes: python tools/landscape.py KIND RUN|CHECKPOINT... (see --help)."""

import argparse
import os
from dataclasses import fields
from pathlib import Path

from fedseg import cli

DETAILS = """\
kinds:
  line          between successive models, beyond both ends: loss, metrics, height of the barrier
  plane         through three models, which are marked, with the rounds of their runs
  random        a surface around each model along two random, filter-normalized directions, which
                are the same draws for all models
  eigenvectors  the same along the two top eigenvectors of the Hessian

Points are computed in processes of their own; the same command again goes on where it was stopped.
docs/flatness.md says what the pictures mean.

examples:
  python tools/landscape.py line work_dirs/fedavg work_dirs/fedasam --data train test
  python tools/landscape.py plane work_dirs/fedavg work_dirs/fedasam work_dirs/swa --data test
  python tools/landscape.py random work_dirs/fedavg work_dirs/fedasam --samples 5000
  python tools/landscape.py random work_dirs/fedavg --client 17
"""


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="The loss between, around and across models: PNG, SVG and an interactive page.",
        epilog=DETAILS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kind", choices=("line", "plane", "random", "eigenvectors"))
    parser.add_argument("paths", type=Path, nargs="+", metavar="RUN|CHECKPOINT")
    parser.add_argument("--data", nargs="+", default=["train"], help="train, test domains")
    parser.add_argument("--client", help="the model that this participant trains, on its own data")
    parser.add_argument("--samples", type=int, metavar="N", help="a seeded subset of each data")
    parser.add_argument("--points", type=int, metavar="N", help="on an axis (21; on a line 31)")
    parser.add_argument(
        "--range",
        type=float,
        nargs=2,
        metavar=("LOW", "HIGH"),
        help="ends of the axes (line: -1 2; around a model: -1 1; plane: HIGH is the margin, 0.25)",
    )
    parser.add_argument("--statistics", default="running", help="running, batch or reestimate")
    parser.add_argument("--metrics", action="store_true", help="also beyond a line")
    parser.add_argument("--global", dest="averaged", action="store_false", help="no average")
    parser.add_argument("--linear", action="store_true", help="no logarithmic scale of the loss")
    parser.add_argument("--seed", type=int, default=0, help="of random directions (default: 0)")
    parser.add_argument("--jobs", type=int, metavar="N", help="processes (default: all cores)")
    parser.add_argument("--config", help="of the first run; default: its own copy")
    parser.add_argument("--cfg-options", nargs="+", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, help="default: landscape_<kind> beside the first")
    arguments = parser.parse_args()
    if arguments.jobs is not None and arguments.jobs < 1:
        parser.error(f"--jobs: must be at least 1, not {arguments.jobs}")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    from rich.progress import MofNCompleteColumn, Progress

    from fedseg.curvature.checkpoint import find_checkpoint, run_folder
    from fedseg.curvature.landscape import Spec, landscape
    from fedseg.report.landscapes import write_pictures

    ends = {"line": (-1.0, 2.0), "plane": (0.0, 0.25)}.get(arguments.kind, (-1.0, 1.0))
    arguments.low, arguments.high = arguments.range or ends
    arguments.checkpoints = map(str, arguments.paths)
    arguments.options = arguments.cfg_options
    arguments.metrics |= arguments.kind == "line"
    arguments.points = arguments.points or (31 if arguments.kind == "line" else 21)
    given = {field.name: getattr(arguments, field.name) for field in fields(Spec)}
    for name in ("checkpoints", "options", "data"):
        given[name] = tuple(given[name])
    spec = Spec(**given)
    run = run_folder(find_checkpoint(arguments.paths[0]))
    folder = arguments.out or run / f"landscape_{arguments.kind}"
    with Progress(*Progress.get_default_columns(), MofNCompleteColumn()) as bars:
        task = bars.add_task("points")
        content = landscape(
            spec,
            folder,
            arguments.jobs or os.cpu_count() or 1,
            lambda done, total: bars.update(task, completed=done, total=total),
        )
    for path in write_pictures(content, folder, logarithmic=not arguments.linear):
        print(path)


if __name__ == "__main__":
    cli.run(main)
