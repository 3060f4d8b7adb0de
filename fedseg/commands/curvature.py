"""Curvature of checkpoints: fedseg curvature RUN|CHECKPOINT... (see --help)."""

from fedseg import cli
from fedseg.curvature.settings import USED, Settings, add_source, read_options, read_source

DETAILS = """\
Quantities: loss, top (largest eigenvalues, lambda_max / lambda_5), spectrum (the 50 largest), trace
(and Frobenius norm), density, sharpness (SAM's and ASAM's), clients (lambda_max on each client's
data), fedalign (H_N and H_D), participants (lambda_max of the models that the next round's
participants train, on their own and on all data), updated (lambda_max of the model that each client
trains, on its own data), features (norms of the last features and of the outputs by class and
client). docs/flatness.md explains them.

Each quantity is written to RUN/curvature/<checkpoint>/curvature.json when it is finished; the same
command continues after an interruption.

examples:
  fedseg curvature work_dirs/cifar10_a005_fedavg work_dirs/cifar10_a005_fedasam
  fedseg curvature work_dirs/camvid_fedavg --data unseen_0001TP --quantities loss top
  fedseg curvature work_dirs/fedavg/checkpoints/*.pth --quantities updated --clients all
  fedseg curvature work_dirs/fedavg:client=17@500
"""


def main() -> None:
    parser = cli.parser(
        "Measure Hessian eigenvalues, trace, density, sharpness and clients' curvature of a "
        "checkpoint, or of a run's newest one.",
        DETAILS,
    )
    add_source(parser)
    default = "(default: %(default)s)"
    text = f"statistics of BatchNorm {default}"
    choices = ["running", "batch"]
    parser.add_argument("--statistics", choices=choices, default=Settings.statistics, help=text)
    text = f"train, or a test domain {default}"
    parser.add_argument("--data", default=Settings.data, help=text)
    text = "this client's training images instead of --data"
    parser.add_argument("--client", help=text)
    text = "augment training images, with one fixed draw"
    parser.add_argument("--augment", action="store_true", help=text)
    text = f"ggn: the Gauss-Newton matrix {default}"
    choices = ["hessian", "ggn"]
    parser.add_argument("--matrix", choices=choices, default=Settings.matrix, help=text)
    text = "images at a time; default: 1 if they come from disk, else the evaluation's"
    parser.add_argument("--batch-size", type=int, metavar="N", help=text)
    text = f"number of largest eigenvalues {default}"
    parser.add_argument("--top", type=int, default=Settings.top, metavar="N", help=text)
    text = f"residuals, relative to the eigenvalue {default}"
    parser.add_argument("--tolerance", type=float, default=Settings.tolerance, help=text)
    text = f"random vectors of a trace or a diagonal {default}"
    parser.add_argument("--probes", type=int, default=Settings.probes, metavar="N", help=text)
    text = f"Lanczos steps of the density {default}"
    parser.add_argument("--steps", type=int, default=Settings.steps, metavar="N", help=text)
    text = f"number of clients (the first that took part), or all {default}"
    parser.add_argument(
        "--clients", type=_read_count, default=Settings.clients, metavar="N", help=text
    )
    text = f"SAM's radius {default}"
    parser.add_argument("--rho", type=float, default=Settings.rho, help=text)
    text = f"ASAM's radius {default}"
    parser.add_argument("--asam-rho", type=float, default=Settings.asam_rho, help=text)
    text = f"ASAM's eta {default}"
    parser.add_argument("--eta", type=float, default=Settings.eta, help=text)
    text = f"steps of gradient ascent {default}"
    parser.add_argument("--ascent", type=int, default=Settings.ascent, metavar="N", help=text)
    usual = ["loss", "top", "trace", "sharpness"]
    text = f"default: {' '.join(usual)}"
    parser.add_argument("--quantities", **cli.MANY, choices=list(USED), metavar="NAME", help=text)
    parser.add_argument("--out", type=cli.folder, help="default: curvature/<checkpoint> in the run")
    arguments = parser.parse_args()
    if arguments.out is not None and len(arguments.paths) > 1:
        parser.error("--out: name one checkpoint only")
    sources = [read_source(arguments, path) for path in arguments.paths]
    settings = read_options(Settings, arguments)
    from fedseg.curvature.checkpoint import opened
    from fedseg.curvature.measure import Measurement
    from fedseg.errors import DataError
    from fedseg.report.landscapes import print_curvature, write_spectra

    cli.say_trust(arguments.trust)
    results = {}
    for source in sources:
        with opened(source) as run:
            measurement = Measurement(run, source, settings, arguments.out)
            results[source.paths[0]] = measurement.measure(arguments.quantities or usual)
    try:
        print_curvature(results)
        files = write_spectra(results, measurement.folder)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        places = ", ".join(str(path) for path in arguments.paths)
        raise DataError(
            f"{places}: this command cannot continue an earlier curvature.json "
            f"({error!r}): delete it"
        ) from error
    for file in files:
        print(file)


def _read_count(text: str) -> int | None:
    """A number of clients; None: all."""
    if text == "all":
        return None
    return int(text)
