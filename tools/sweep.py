"""``fedseg sweep``: python tools/sweep.py (see --help)."""

from fedseg import cli
from fedseg.commands.sweep import main

if __name__ == "__main__":
    cli.run(main)
