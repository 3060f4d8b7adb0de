"""Curvature of checkpoints: python tools/curvature.py RUN|CHECKPOINT... (see --help)."""

import argparse
from dataclasses import fields
from pathlib import Path

from fedseg import cli

DETAILS = """\
Quantities: loss, top (largest eigenvalues, lambda_max / lambda_5), spectrum (the 50 largest), trace
(and Frobenius norm), density, sharpness (SAM's and ASAM's), clients (lambda_max on each client's
data), fedalign (H_N and H_D), participants (lambda_max of the models that the next round's
participants train, on their own and on all data), features (norms of the last features by class and
client). docs/flatness.md says what each of them means.

Each finished quantity is written to curvature.json in RUN/curvature/<checkpoint>; the same command
again goes on where it was stopped.

examples:
  python tools/curvature.py work_dirs/cifar10_a005_fedavg work_dirs/cifar10_a005_fedasam
  python tools/curvature.py work_dirs/camvid_fedavg --data unseen_0001TP --quantities loss top
"""


def count(text: str) -> int | None:
    """A number of clients; None for all."""
    return None if text == "all" else int(text)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Hessian eigenvalues, trace, density, sharpness and clients' curvature of a "
        "checkpoint, or of the newest one of a run.",
        epilog=DETAILS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", type=Path, nargs="+", metavar="RUN|CHECKPOINT")
    parser.add_argument("--quantities", nargs="+", metavar="NAME", help="default: the first few")
    parser.add_argument("--data", default="train", help="train (default) or a test domain")
    parser.add_argument("--samples", type=int, metavar="N", help="a seeded subset, of clients too")
    parser.add_argument("--augment", action="store_true", help="training images as in training")
    parser.add_argument(
        "--statistics", default="running", help="BatchNorm's: running (default) or batch"
    )
    ggn = {"action": "store_const", "const": "ggn", "default": "hessian"}
    parser.add_argument("--ggn", dest="matrix", help="Gauss-Newton in place of the Hessian", **ggn)
    parser.add_argument("--global", dest="averaged", action="store_false", help="no average")
    parser.add_argument("--double", action="store_true", help="compute in float64")
    parser.add_argument("--batch-size", type=int, metavar="N")
    parser.add_argument("--top", type=int, default=5, metavar="K", help="eigenvalues (default: 5)")
    parser.add_argument("--tolerance", type=float, default=1e-3, help="of residuals, relative")
    parser.add_argument("--probes", type=int, default=90, metavar="N", help="of trace, diagonals")
    parser.add_argument("--steps", type=int, default=80, metavar="N", help="of the density")
    parser.add_argument("--clients", type=count, default=10, metavar="N|all", help="in order")
    parser.add_argument("--rho", type=float, default=0.05, help="SAM's radius (default: 0.05)")
    parser.add_argument("--asam-rho", type=float, default=0.5, help="ASAM's radius (default: 0.5)")
    parser.add_argument("--eta", type=float, default=0.2, help="ASAM's eta (default: 0.2)")
    parser.add_argument("--ascent", type=int, default=5, metavar="N", help="steps of ascent")
    parser.add_argument("--config", type=Path, help="of the run; default: its own copy")
    parser.add_argument("--cfg-options", nargs="+", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, help="default: curvature/<checkpoint> in the run")
    arguments = parser.parse_args()
    if arguments.out is not None and len(arguments.paths) > 1:
        parser.error("--out: name one checkpoint only")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    from fedseg.curvature.checkpoint import open_run
    from fedseg.curvature.measure import DEFAULT, Measurement, Settings
    from fedseg.report.curvature_tables import print_curvature

    given = {field.name: getattr(arguments, field.name) for field in fields(Settings)}
    settings = Settings(**given)
    found = []
    for path in arguments.paths:
        opened, (checkpoint,) = open_run(
            [path], arguments.config, arguments.cfg_options, arguments.double
        )
        measurement = Measurement(opened, checkpoint, settings, arguments.out)
        found.append((path, measurement.run(arguments.quantities or DEFAULT)))
    print_curvature(found)


if __name__ == "__main__":
    cli.run(main)
