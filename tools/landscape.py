"""``fedseg landscape``: python tools/landscape.py (see --help)."""

from fedseg import cli
from fedseg.commands.landscape import main

if __name__ == "__main__":
    cli.run(main)
