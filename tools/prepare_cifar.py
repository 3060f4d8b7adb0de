"""``fedseg prepare cifar``: python tools/prepare_cifar.py (see --help)."""

from fedseg import cli
from fedseg.commands.prepare_cifar import main

if __name__ == "__main__":
    cli.run(main)
