"""``fedseg splits``: python tools/splits.py (see --help)."""

from fedseg import cli
from fedseg.commands.splits import main

if __name__ == "__main__":
    cli.run(main)
