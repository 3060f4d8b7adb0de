"""``fedseg leaderboard``: python tools/leaderboard.py (see --help)."""

from fedseg import cli
from fedseg.commands.leaderboard import main

if __name__ == "__main__":
    cli.run(main)
