"""Command lines, each in a fork of this process, which has imported what they need.

Importing takes seconds, most commands less. Reads a JSON object a line from standard input:
``words`` (the command line), ``folder`` (where it runs) and ``output`` (the file for what it
prints); answers with its exit code. The commands are ``fedseg ...`` and ``python FILE ...``.
"""

import json
import os
import runpy
import sys
import traceback
from importlib import import_module
from pathlib import Path

IMPORTED = (
    "fedseg.commands.main",
    "fedseg.data_prep.classification",
    "fedseg.data_prep.feddrive",
    "fedseg.leaderboard.page",
    "fedseg.models",
    "fedseg.report.pictures",
    "fedseg.report.summary",
    "fedseg.runner.experiment",
    "mmseg.models",
    "timm",
    "torch.utils.tensorboard",
    "yapf.yapflib.yapf_api",
)


def main() -> None:
    os.fsync = lambda descriptor: None  # no test cuts the power
    for module in IMPORTED:
        import_module(module)
    for line in sys.stdin:
        command = json.loads(line)
        child = os.fork()
        if child == 0:
            be_the_command(**command)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def be_the_command(words: list[str], folder: str, output: str) -> None:
    """Run a command line as the program does, and end this process."""
    code = 1
    try:
        redirect(output)
        os.chdir(folder)
        code = run(words)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def redirect(output: str) -> None:
    """Write what this process prints to a file; it reads nothing."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for source, target in ((nothing, 0), (file, 1), (file, 2)):
        os.dup2(source, target)
        os.set_inheritable(target, True)


def run(words: list[str]) -> int:
    program, *arguments = words
    if program == "fedseg":
        from fedseg.commands import main as commands

        sys.argv = [str(Path(sys.executable).with_name("fedseg")), *arguments]
        commands.run()
    else:
        script = arguments[0]
        sys.argv = arguments
        sys.path.insert(0, str(Path(script).resolve().parent))
        runpy.run_path(script, run_name="__main__")
    return 0


if __name__ == "__main__":
    main()
