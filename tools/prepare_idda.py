"""``fedseg prepare idda``: python tools/prepare_idda.py (see --help)."""

from fedseg import cli
from fedseg.commands.prepare_idda import main

if __name__ == "__main__":
    cli.run(main)
