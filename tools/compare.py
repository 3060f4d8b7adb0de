"""``fedseg compare``: python tools/compare.py (see --help)."""

from fedseg import cli
from fedseg.commands.compare import main

if __name__ == "__main__":
    cli.run(main)
