"""Verify: fedseg verify FILE.zip [--out DIR] (see --help)."""

from pathlib import Path

from fedseg import cli

DETAILS = """\
Archives of others are safe to check: nothing in them is executed, unexpected files are rejected.
Checksums detect damage; fedseg leaderboard verify DIR recomputes the metrics from the weights and
the test images.

example:
  fedseg verify run.zip --out run
"""


def main() -> None:
    parser = cli.parser("Check an archive of fedseg share without trusting it.", DETAILS)
    parser.add_argument("file", type=Path, metavar="FILE.zip")
    parser.add_argument("--out", type=cli.folder, metavar="DIR", help="unpack to this new folder")
    arguments = parser.parse_args()
    cli.check_there([arguments.file], "name an archive of fedseg share")
    from fedseg.api import verify

    summary = verify(arguments.file, arguments.out)
    print(f"{summary['name']}, round {summary['round']}: intact")
    print(*(f"  {name} {value:.2f}" for name, value in summary["metrics"].items()), sep="\n")
