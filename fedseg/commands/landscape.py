"""Loss landscapes: fedseg landscape KIND RUN|CHECKPOINT... (see --help)."""

from typing import get_args

from fedseg import cli
from fedseg.curvature.settings import Kind, Spec, add_options, read_options, read_source

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
    parser.add_argument("kind", type=str.lower, choices=get_args(Kind))
    add_options(parser, Spec)
    text = "default: curvature/landscape_<kind> in the first run, with the models' names, client "
    text += "and statistics"
    parser.add_argument("--out", type=cli.folder, help=text)
    arguments = parser.parse_args()
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
        cli.say(path)
