"""``fedseg prepare camvid``: python tools/prepare_camvid.py (see --help)."""

from fedseg import cli
from fedseg.commands.prepare_camvid import main

if __name__ == "__main__":
    cli.run(main)
