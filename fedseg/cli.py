"""Shared by all command lines: a user's mistake is one message, not a traceback."""

import argparse
import os
import shlex
import shutil
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from fedseg.errors import (
    DEBUG,
    DataError,
    Interrupted,
    UserError,
    is_system_error,
    printable,
    system_message,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

PIPED_WIDTH = 160  # columns of tables that are piped to a file or program
LONGEST = 1000  # characters of an error's line
NO_CHECKPOINT = "has no checkpoint: name the work dir of a run that has one"
MANY = {"action": "extend", "nargs": "+", "default": []}  # options that add up when repeated


def run(main: Callable[[], int | None]) -> NoReturn:
    """Run a tool's ``main`` and exit with its return value (None: 0).

    A :class:`fedseg.errors.UserError` is printed on stderr without a traceback (exit code 2);
    so is a lack of memory, room or permissions. Ctrl-C, SIGTERM and SIGHUP end quietly (exit code
    130). Any other exception is a fault of the program and keeps its traceback. With the
    environment variable ``FEDSEG_DEBUG`` a user error shows its own, too. Warnings of MMEngine,
    MMCV and MMSegmentation, which a user cannot heed, are hidden.
    """
    warnings.filterwarnings("ignore", module="mmcv|mmseg|mmengine")
    warnings.formatwarning = lambda text, *_, **__: f"warning: {printable(str(text))}\n"
    # processes that we start import nothing of the current folder, which may be a stranger's
    os.environ["PYTHONSAFEPATH"] = "1"
    os.environ["MPLBACKEND"] = "agg"  # no command opens a window, and an unknown one would fail
    if isinstance(sys.stdout, TextIOWrapper):  # not closed by the shell, not replaced by a caller
        sys.stdout.reconfigure(errors="backslashreplace")  # of characters that it cannot hold
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    hangup = getattr(signal, "SIGHUP", None)  # None: Windows
    if hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN:  # as it is under nohup
        signal.signal(hangup, signal.default_int_handler)
    sys.exit(_exit_code(main))


def _exit_code(main: Callable[[], int | None]) -> int:
    """Run ``main``: its exit code, or that of its error, which is printed."""
    try:
        try:
            return main() or 0
        finally:
            _write_out()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return Interrupted.exit_code
    except BrokenPipeError:
        return 1  # the program that reads the output, such as head, has ended
    except UserError as error:
        kind = "" if isinstance(error, Interrupted) else "error: "
        _print_error(error, f"{kind}{error}")
        return error.exit_code
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # while a compiled module was imported
            print("interrupted", file=sys.stderr)
            return Interrupted.exit_code
        if not is_system_error(error):
            raise
        _print_error(error, f"error: {system_message(error)}")
        return UserError.exit_code


def _print_error(error: Exception, text: str) -> None:
    """Print a message, of a line for each mistake, on stderr."""
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    for line in text.split("\n"):
        print(_short(line), file=sys.stderr)


def _write_out() -> None:
    """Write out what is printed, or raise OSError and drop it.

    Otherwise Python would fail on it once more when it exits (recipe of Python's documentation on
    SIGPIPE).
    """
    try:
        print(end="", flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def parser(description: str, epilog: str) -> argparse.ArgumentParser:
    """A parser whose help keeps the lines of its texts."""
    kind = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(description=description, epilog=epilog, formatter_class=kind)


def folder(text: str) -> Path:
    """The type of an option that names a folder or file: ``Path("")`` is the current folder."""
    if not text.strip():
        raise argparse.ArgumentTypeError("must not be empty")
    return Path(text)


def run_path(text: str) -> Path:
    """The type of an option that names a run: its folder, or that of an experiment's only seed."""
    if Path(text).name == "results.json" and Path(text).is_file():
        return Path(text).parent
    seeds = sorted(file.parent for file in Path(text).glob("seed*/history.jsonl"))
    if len(seeds) > 1:
        raise argparse.ArgumentTypeError(
            f"{text} has {len(seeds)} runs, one per seed: name one, such as {seeds[0]}"
        )
    return seeds[0] if seeds else Path(text)


def _short(line: str) -> str:
    """A line, without its middle if a damaged file has made it very long."""
    return line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} ... {line[-LONGEST // 2 :]}"


def check_there(
    paths: Iterable[str | Path], fix: str = "name a run's work dir or its results.json"
) -> None:
    """Raise DataError for what is not there, before what reads it is imported."""
    for path in paths:
        if not os.path.exists(path):
            raise DataError(f"{path}: does not exist: {fix}")


def image_size(text: str) -> tuple[int, int]:
    """HEIGHTxWIDTH as two numbers."""
    height, _, width = text.partition("x")
    if not (height.isdecimal() and width.isdecimal() and int(height) * int(width)):
        raise argparse.ArgumentTypeError("must be HEIGHTxWIDTH, such as 512x1024")
    return int(height), int(width)


def positive(text: str) -> int:
    """A positive integer."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a positive integer, not {text!r}")
    return int(text)


def positive_number(text: str) -> float:
    """A positive number, whose square fits single precision."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1e-19 < value < 1e19:
        raise argparse.ArgumentTypeError(f"must be a number from 1e-19 to 1e19, not {text!r}")
    return value


def natural(text: str) -> int:
    """An integer from 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be an integer from 0, not {text!r}")
    return int(text)


def workers(text: str) -> int | str:
    """The value of ``--workers``: a number, or what is checked later, such as "auto"."""
    return int(text) if text.isdecimal() else text


def add_methods(parser: argparse.ArgumentParser, text: str) -> None:
    """The option ``--with``."""
    parser.add_argument("--with", dest="methods", **MANY, metavar="METHOD", help=text)


def add_trackers(parser: argparse.ArgumentParser) -> None:
    """The option ``--tracker``."""
    text = "log the rounds to tensorboard, wandb or mlflow, or to several (default: tensorboard)"
    parser.add_argument("--tracker", dest="trackers", **MANY, metavar="NAME", help=text)


def add_cfg_options(parser: argparse.ArgumentParser, text: str) -> None:
    """The option ``--cfg-options``."""
    parser.add_argument("--cfg-options", dest="options", **MANY, metavar="KEY=VALUE", help=text)


def add_trust(parser: argparse.ArgumentParser) -> None:
    """The option ``--trust`` of what reads a run that may come from anyone."""
    text = "execute code that the run imports: a file, the modules of a folder that the run names, "
    text += "or an installed module"
    parser.add_argument("--trust", **MANY, metavar="FILE.py|FOLDER|MODULE", help=text)


def add_checkpoints(parser: argparse.ArgumentParser) -> None:
    """The options of ``fedseg curvature`` and ``landscape`` that name models and their data."""
    text = "work dirs of runs, or checkpoints; network and data are those of the first one"
    parser.add_argument("paths", nargs="+", type=run_path, metavar="RUN|CHECKPOINT", help=text)
    text = "take each run's checkpoint of this round (default: the newest)"
    parser.add_argument("--round", type=natural, metavar="N", help=text)
    text = "take the global model of a run that has an average"
    parser.add_argument("--global-model", action="store_true", help=text)
    text = "size of a seeded subset of the data, per client too"
    parser.add_argument("--samples", type=positive, metavar="N", help=text)
    text = "a config of yours instead of the recorded one; it is executed"
    parser.add_argument("--config", help=text)
    add_cfg_options(parser, "override config fields, for example data_root=data/camvid")
    add_trust(parser)


def say_trust(trust: list[str]) -> None:
    """Say in a line what ``--trust`` allows."""
    if trust:
        print(f"trusted: {', '.join(trust)} and the classes registered there")


def is_command(name: str = "") -> bool:
    """True if this process runs ``fedseg NAME``, or any command; False in a user's program."""
    program, _, command = sys.argv[0].partition(" ")
    return program == "fedseg" and command != "" and name in ("", command)


def command_with(*words: str) -> str | None:
    """The command that this process runs, with more words; None in a program of the user's own."""
    if not is_command():
        return None
    name = sys.argv[0].removeprefix("fedseg ")
    return f"{program()} {shlex.join([name, *sys.argv[1:], *words])}"


def program() -> str:
    """The command that calls ``fedseg`` from the current folder, for commands shown to the user."""
    script, installed = Path(sys.executable).with_name("fedseg"), shutil.which("fedseg")
    if installed and Path(installed) == script:
        return "fedseg"
    folder = Path.cwd()
    if script.is_file():
        if script.is_relative_to(folder):
            script = script.relative_to(folder)
        return shlex.quote(str(script))
    return f"{shlex.quote(sys.executable)} -P -m fedseg"  # -P: nothing of the current folder


def wide_console() -> "Console":
    """Standard output, with room for wide tables unless a terminal or ``COLUMNS`` sets it."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = max(console.width, PIPED_WIDTH)
    return console


def progress(**options: Any) -> "Progress":
    """Bars with counts on standard error; none where it is no terminal."""
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress

    console = Console(stderr=True)
    columns = (*Progress.get_default_columns(), MofNCompleteColumn())
    return Progress(*columns, console=console, disable=not console.is_terminal, **options)
