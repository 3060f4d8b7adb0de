"""``fedseg prepare mnist``: python tools/prepare_mnist.py (see --help)."""

from fedseg import cli
from fedseg.commands.prepare_mnist import main

if __name__ == "__main__":
    cli.run(main)
