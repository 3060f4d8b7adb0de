"""Commands in one process, each as the program runs it: ``python several_commands.py FILE [SIGN]``.

Importing takes seconds, most commands less. FILE has one command line a line. Stops at the first
that fails, or after which a file called SIGN exists.
"""

import shlex
import sys
from pathlib import Path

from fedseg.commands.main import run


def main(file: str, sign: str | None = None) -> None:
    for line in Path(file).read_text().splitlines():
        print(f"$ fedseg {line}", flush=True)
        sys.argv[1:] = shlex.split(line)
        try:
            run()
        except SystemExit as end:
            if end.code or (sign and Path(sign).exists()):
                sys.exit(f"{line}: exit code {end.code}")


if __name__ == "__main__":  # what it starts may import it
    main(*sys.argv[1:])
