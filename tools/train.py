"""``fedseg train``: python tools/train.py (see --help)."""

from fedseg import cli
from fedseg.commands.train import main

if __name__ == "__main__":
    cli.run(main)
