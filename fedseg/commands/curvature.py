"""Curvature of checkpoints: fedseg curvature RUN|CHECKPOINT... (see --help)."""

import argparse
from pathlib import Path

from fedseg import cli

QUANTITIES = (
    "loss",
    "top",
    "spectrum",
    "trace",
    "density",
    "sharpness",
    "clients",
    "fedalign",
    "participants",
    "updated",
    "features",
)
USUAL = ("loss", "top", "trace", "sharpness")
DETAILS = """\
Quantities: loss, top (largest eigenvalues, lambda_max / lambda_5), spectrum (the 50 largest), trace
(and Frobenius norm), density, sharpness (SAM's and ASAM's), clients (lambda_max on each client's
data), fedalign (H_N and H_D), participants (lambda_max of the models that the next round's
participants train, on their own and on all data), updated (lambda_max of the model that each client
trains, on its own data), features (norms of the last features and of the outputs by class and
client). docs/flatness.md explains them.

Each quantity is written to RUN/curvature/<checkpoint>/<quantity>.json when it is finished; the same
command continues after an interruption. Nothing is overwritten.

examples:
  fedseg curvature work_dirs/cifar10_a005_fedavg work_dirs/cifar10_a005_fedasam
  fedseg curvature work_dirs/camvid_fedavg --data unseen_0001TP --quantities loss top
  fedseg curvature work_dirs/fedavg/checkpoints/*.pth --quantities updated --clients all
  fedseg curvature work_dirs/fedavg --round 500 --client 17
"""


def main() -> None:
    parser = make_parser()
    arguments = parser.parse_args()
    if arguments.out is not None and len(arguments.paths) > 1:
        parser.error("--out: name one checkpoint only")
    cli.check_there(arguments.paths, "name a run's work dir or a checkpoint")
    from fedseg.curvature.measure import measure
    from fedseg.curvature.run_data import Selection, find_checkpoint, open_run
    from fedseg.report.curvature import print_curvature, write_spectra

    cli.say_trust(arguments.trust)
    selection = Selection(
        domain=arguments.data,
        client=arguments.client,
        count=arguments.samples,
        batch_size=arguments.batch_size,
    )
    results = {}
    for path in arguments.paths:
        checkpoint = find_checkpoint(Path(path), arguments.round)
        with open_run(checkpoint, arguments.config, arguments.options, arguments.trust) as run:
            results[str(path)] = measure(
                run,
                checkpoint,
                selection,
                arguments.quantities or USUAL,
                vars(arguments),
                global_model=arguments.global_model,
                folder=arguments.out,
            )
    print_curvature(results)
    for file in write_spectra(results):
        print(file)


def make_parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = cli.parser(
        "Measure Hessian eigenvalues, trace, density, sharpness and clients' curvature of a "
        "checkpoint, or of a run's newest one.",
        DETAILS,
    )
    default = "(default: %(default)s)"
    cli.add_checkpoints(parser)
    parser.add_argument(
        "--quantities",
        **cli.MANY,
        choices=QUANTITIES,
        metavar="NAME",
        help=f"default: {' '.join(USUAL)}",
    )
    data = parser.add_mutually_exclusive_group()
    text = f"train, or a test domain {default}"
    data.add_argument("--data", default="train", metavar="DOMAIN", help=text)
    text = "this client's training images instead of --data"
    data.add_argument("--client", metavar="ID", help=text)
    text = "images at a time; default: 1 if they come from disk, else the evaluation's"
    parser.add_argument("--batch-size", type=cli.positive, metavar="N", help=text)
    text = f"number of largest eigenvalues {default}"
    parser.add_argument("--top", type=cli.positive, default=5, metavar="N", help=text)
    text = f"residuals, relative to the eigenvalue {default}"
    parser.add_argument("--tolerance", type=cli.positive_number, default=0.01, help=text)
    text = f"random vectors of a trace or a diagonal {default}"
    parser.add_argument("--probes", type=cli.positive, default=90, metavar="N", help=text)
    text = f"Lanczos steps of the density {default}"
    parser.add_argument("--steps", type=cli.positive, default=80, metavar="N", help=text)
    text = f"number of clients (the first that took part), or all {default}"
    parser.add_argument("--clients", type=client_count, default=10, metavar="N", help=text)
    text = f"SAM's radius {default}"
    parser.add_argument("--rho", type=cli.positive_number, default=0.05, help=text)
    text = f"ASAM's radius {default}"
    parser.add_argument("--asam-rho", type=cli.positive_number, default=0.5, help=text)
    text = f"ASAM's eta {default}"
    parser.add_argument("--eta", type=cli.positive_number, default=0.2, help=text)
    text = f"steps of gradient ascent {default}"
    parser.add_argument("--ascent", type=cli.positive, default=5, metavar="N", help=text)
    text = "default: curvature/<checkpoint> in the run"
    parser.add_argument("--out", type=cli.folder, help=text)
    return parser


def client_count(text: str) -> int | None:
    """A number of clients; None: all."""
    return None if text == "all" else cli.positive(text)
