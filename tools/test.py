"""``fedseg test``: python tools/test.py (see --help)."""

from fedseg import cli
from fedseg.commands.test import main

if __name__ == "__main__":
    cli.run(main)
