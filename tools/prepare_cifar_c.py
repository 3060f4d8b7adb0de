"""``fedseg prepare cifar_c``: python tools/prepare_cifar_c.py (see --help)."""

from fedseg import cli
from fedseg.commands.prepare_cifar_c import main

if __name__ == "__main__":
    cli.run(main)
