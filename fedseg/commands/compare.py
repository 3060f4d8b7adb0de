"""Compare runs: fedseg compare RUN_A RUN_B ... (--help lists the options)."""

import math
from pathlib import Path

from fedseg import cli

DETAILS = """\
A RUN is a work dir (finished or not), its results.json, or the folder of an experiment with the
work dirs of its seeds. Differences are relative to the first, the reference.

The seed is the unit: means and deviations (divided by n - 1) are over the seeds of a side, and
differences are taken seed by seed. See docs/inspecting.md.

examples:
  fedseg compare work_dirs/camvid_fedavg work_dirs/camvid_fedasam
  fedseg compare work_dirs/fedavg work_dirs/fedprox work_dirs/scaffold --out drift
"""


def main() -> None:
    parser = cli.parser(
        "Compare runs side by side: differences of configs and final metrics, traffic, time, and "
        "curves.",
        DETAILS,
    )
    parser.add_argument("reference", type=Path, metavar="RUN_A", help="the reference")
    parser.add_argument("others", type=Path, nargs="+", metavar="RUN_B", help="one or more others")
    text = "folder for compare.md and the plots (default: %(default)s)"
    parser.add_argument("--out", type=cli.folder, default=Path("comparison"), help=text)
    text = "the round and traffic at which each run's mIoU or accuracy first reached this value"
    parser.add_argument("--until", type=float, metavar="PERCENT", help=f"also show {text}")
    text = "also show the mean over the window that ends at this share of the rounds"
    parser.add_argument("--at", type=float, **cli.MANY, metavar="PERCENT", help=text)
    text = "draw the accuracy at this severity of the corruptions, not the mean over severities"
    parser.add_argument("--severity", type=int, choices=range(1, 6), help=text)
    arguments = parser.parse_args()
    if arguments.until is not None and not math.isfinite(arguments.until):
        parser.error(f"--until: must be a number, not {arguments.until}")
    if not all(0 < share <= 100 for share in arguments.at):
        parser.error("--at: must be above 0, at most 100")
    cli.check_there([arguments.reference, *arguments.others])
    from fedseg.report.compare import compare, read_sides
    from fedseg.report.compare_output import print_comparison, write_comparison

    sides = read_sides([arguments.reference, *arguments.others])
    comparison = compare(sides, arguments.until, arguments.at)
    print_comparison(comparison)
    print(*write_comparison(comparison, arguments.out, arguments.severity), sep="\n")
