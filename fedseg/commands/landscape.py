"""Loss landscapes: fedseg landscape KIND RUN|CHECKPOINT... (see --help)."""

from fedseg import cli
from fedseg.curvature.settings import Spec, add_source, read_options, read_source

DETAILS = """\
kinds:
  line          between successive models, beyond both ends: loss, metrics, height of the barrier
  plane         through three models, which are marked, with the rounds of their runs
  random        a surface around each model along two random, filter-normalized directions, the
                same draws for all models
  eigenvectors  the same along the two top eigenvectors of the Hessian

The same command continues after an interruption. docs/flatness.md explains the plots.

examples:
  fedseg landscape line work_dirs/fedavg work_dirs/fedasam --data train test
  fedseg landscape plane work_dirs/fedavg work_dirs/swa:global work_dirs/swa --data test
  fedseg landscape random work_dirs/fedavg work_dirs/fedasam --samples 5000
  fedseg landscape random work_dirs/fedavg --client 17
  fedseg landscape plane work_dirs/fedavg work_dirs/fedavg:client={3,17}@500 --data train test
"""


def main() -> None:
    parser = cli.parser(
        "Plot the loss between and around models: PNG, SVG and rotatable surfaces.", DETAILS
    )
    parser.add_argument("kind", choices=["line", "plane", "random", "eigenvectors"])
    add_source(parser)
    text = "statistics of BatchNorm; reestimate: from training data at every point "
    text += "(default: %(default)s)"
    choices = ["running", "batch", "reestimate"]
    parser.add_argument("--statistics", choices=choices, default=Spec.statistics, help=text)
    parser.add_argument(
        "--data", nargs="+", action="extend", help="train, test domains (default: train)"
    )
    text = "use the model that this client trains in the next round, on its own and on all data; "
    text += "line: from the global model to it"
    parser.add_argument("--client", help=text)
    text = "points per axis (default: 21, on a line 31)"
    parser.add_argument("--points", type=int, metavar="N", help=text)
    text = (
        "ends of the axes (default: -1 2 on a line, -1 1 around a model); of a plane HIGH is the "
    )
    text += "margin around the models, as a share of their extent (0.25)"
    parser.add_argument("--ends", nargs=2, type=float, metavar=("LOW", "HIGH"), help=text)
    text = "also compute the metrics (always on a line)"
    parser.add_argument("--metrics", action="store_true", help=text)
    text = "default: curvature/landscape_<kind> in the first run, with the models' names, client "
    text += "and statistics"
    parser.add_argument("--out", type=cli.folder, help=text)
    arguments = parser.parse_args()
    arguments.data = tuple(arguments.data or Spec.data)
    if arguments.ends is not None:
        arguments.ends = tuple(arguments.ends)
    spec = read_options(Spec, arguments, source=read_source(arguments, *arguments.paths))
    from fedseg.curvature.landscape import compute_landscape, default_folder
    from fedseg.report.landscapes import write_landscape

    cli.say_trust(arguments.trust)
    folder = arguments.out or default_folder(spec)
    with cli.progress() as bars:
        task = bars.add_task("points")
        advance = lambda done, total: bars.update(task, completed=done, total=total)  # noqa: E731
        content = compute_landscape(spec, folder, advance)
    for path in write_landscape(content, folder):
        print(path)
