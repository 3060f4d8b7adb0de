"""Curvature of checkpoints: fedseg curvature RUN|CHECKPOINT... (see --help)."""

from fedseg import cli
from fedseg.curvature.settings import USED, Settings, add_options, read_options, read_source

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
    add_options(parser, Settings)
    usual = ["loss", "top", "trace", "sharpness"]
    text = f"default: {' '.join(usual)}"
    names = {"choices": list(USED), "type": str.lower, "metavar": "NAME"}
    parser.add_argument("--quantities", **cli.MANY, help=text, **names)
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
        cli.say(file)
