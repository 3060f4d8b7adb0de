"""Verify: fedseg verify FILE.zip [--out DIR] (see --help)."""

from pathlib import Path

from fedseg import cli

DETAILS = """\
The archive may come from anybody: nothing in it is executed, and files that fedseg share does not
write are refused. Its checksums show damage. Whether the metrics are those of the weights is
computed by fedseg leaderboard verify DIR, with the test images.

example:
  fedseg verify run.zip --out run
"""


def main() -> None:
    parser = cli.parser("Check an archive of fedseg share without trusting it.", DETAILS)
    parser.add_argument("file", type=Path, metavar="FILE.zip")
    parser.add_argument("--out", type=cli.folder, metavar="DIR", help="unpack it to a new folder")
    arguments = parser.parse_args()
    cli.check_there([arguments.file], "name an archive of fedseg share")
    from fedseg.api import verify

    found = verify(arguments.file, arguments.out)
    cli.say(f"{found['name']}, round {found['round']}: intact")
    cli.say(*(f"  {name} {value:.2f}" for name, value in found["metrics"].items()))
