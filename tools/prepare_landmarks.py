"""``fedseg prepare landmarks``: python tools/prepare_landmarks.py (see --help)."""

from fedseg import cli
from fedseg.commands.prepare_landmarks import main

if __name__ == "__main__":
    cli.run(main)
