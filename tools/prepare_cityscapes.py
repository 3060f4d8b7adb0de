"""``fedseg prepare cityscapes``: python tools/prepare_cityscapes.py (see --help)."""

from fedseg import cli
from fedseg.commands.prepare_cityscapes import main

if __name__ == "__main__":
    cli.run(main)
