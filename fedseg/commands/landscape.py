"""Loss landscapes: fedseg landscape KIND RUN|CHECKPOINT... (see --help)."""

import argparse
from pathlib import Path

from fedseg import cli

DETAILS = """\
kinds:
  line          between successive models, beyond both ends: loss, metrics, height of the barrier
  plane         through three models, which are marked, with the rounds of their runs
  random        a surface around each model along two random, filter-normalized directions, the
                same draws for all models
  eigenvectors  the same along the two top eigenvectors of the Hessian

--client ID uses the model that a client trains in the next round: a line from the global model to
it and a surface around it, on its own and on all data; with two clients, a plane through the global
model and theirs.

The same command continues after an interruption; nothing is overwritten. docs/flatness.md explains
the plots.

examples:
  fedseg landscape line work_dirs/fedavg work_dirs/fedasam --data train test
  fedseg landscape plane work_dirs/fedavg work_dirs/fedasam work_dirs/swa --data test
  fedseg landscape random work_dirs/fedavg work_dirs/fedasam --samples 5000
  fedseg landscape random work_dirs/fedavg --client 17
  fedseg landscape plane work_dirs/fedavg --round 500 --client 3 17 --data train test
"""


def main() -> None:
    parser = make_parser()
    arguments = parser.parse_args()
    cli.check_there(arguments.paths, "name a run's work dir or a checkpoint")
    from fedseg.curvature.landscape import Spec, compute_landscape, default_folder
    from fedseg.curvature.run_data import find_checkpoint, open_run
    from fedseg.report.landscapes import write_landscape

    cli.say_trust(arguments.trust)
    spec = Spec(
        kind=arguments.kind,
        global_model=arguments.global_model,
        clients=tuple(arguments.client),
        data=tuple(arguments.data or ("train",)),
        count=arguments.samples,
        points=arguments.points,
        ends=tuple(arguments.ends) if arguments.ends else None,
        statistics=arguments.statistics,
        metrics=arguments.metrics,
    )
    spec.check(len(arguments.paths))
    files = {str(path): find_checkpoint(Path(path), arguments.round) for path in arguments.paths}
    first, *_ = files.values()
    folder = arguments.out or default_folder(spec, files)
    with (
        open_run(first, arguments.config, arguments.options, arguments.trust) as run,
        cli.progress() as bars,
    ):
        bar = bars.add_task("points")

        def advance(done: int, total: int) -> None:
            bars.update(bar, completed=done, total=total)

        content = compute_landscape(run, spec, files, folder, advance)
    for path in write_landscape(content, folder):
        print(path)


def make_parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = cli.parser(
        "Plot the loss between and around models: PNG, SVG and rotatable surfaces.", DETAILS
    )
    parser.add_argument("kind", choices=["line", "plane", "random", "eigenvectors"])
    cli.add_checkpoints(parser)
    text = "use the model that this client trains in the next round (a plane: two clients)"
    parser.add_argument("--client", **cli.MANY, metavar="ID", help=text)
    text = "train, test domains (default: train)"
    parser.add_argument("--data", **cli.MANY, metavar="DOMAIN", help=text)
    text = "statistics of BatchNorm; reestimate: from training data at every point "
    text += "(default: %(default)s)"
    choices = ["running", "batch", "reestimate"]
    parser.add_argument("--statistics", choices=choices, default="running", help=text)
    text = "points per axis (default: 21, on a line 31)"
    parser.add_argument("--points", type=cli.positive, metavar="N", help=text)
    text = "ends of the axes (default: -1 2 on a line, -1 1 around a model)"
    parser.add_argument("--ends", nargs=2, type=float, metavar=("LOW", "HIGH"), help=text)
    text = "also compute the metrics (always on a line)"
    parser.add_argument("--metrics", action="store_true", help=text)
    text = "default: curvature/landscape_<kind>-<models> in the first run"
    parser.add_argument("--out", type=cli.folder, help=text)
    return parser
