"""``python -m fedseg``: the command ``fedseg``."""

from fedseg.commands.main import run

if __name__ == "__main__":
    run()
