"""``fedseg curvature``: python tools/curvature.py (see --help)."""

from fedseg import cli
from fedseg.commands.curvature import main

if __name__ == "__main__":
    cli.run(main)
