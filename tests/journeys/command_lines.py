"""Command lines as pages and programs give them: collected, made small, parsed."""

import argparse
import contextlib
import io
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).parents[2]
TRAINING = ("fedseg train ", "fedseg sweep ", "fedseg demo", "python tools/train.py ")
# a run in seconds; the data are small, too
SMALL = (
    "train_cfg.max_rounds=1",
    "train_cfg.val_interval=1",
    "client_sampler.clients_per_round=2",
    "default_hooks.pictures.images=0",  # most of the time of such a run
)


class Parsed(Exception):
    """The arguments were accepted."""


def printed_commands(text: str) -> list[str]:
    """The lines of an output that are commands, each once."""
    lines = re.findall(r"^\s*(?:Next: )?((?:fedseg|python tools/|bash tools/).*)$", text, re.M)
    return list(dict.fromkeys(line.strip() for line in lines))


def advised_commands(message: str) -> list[str]:
    """The commands within the sentences of a message: each ends where its clause does."""
    return re.findall(r"\bfedseg [a-z]+(?: [^\s,;:()]+)*", message)


def small(line: str) -> str:
    """A command that trains, with options that make it short; any other as it is."""
    if not line.startswith(TRAINING):
        return line
    return f"{line} --cfg-options {' '.join(SMALL)}"


def words(line: str) -> list[str]:
    """A command line as a shell splits it; only bash knows about braces."""
    if "{" not in line:
        return shlex.split(line)
    script = f"set -f; printf '%s\\n' {line}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def parse(line: str) -> argparse.Namespace:
    """The arguments of ``fedseg ...`` or ``python tools/...`` by its own parser; nothing is run.

    Raises:
        AssertionError: with the parser's message if it refuses them.
    """
    program, *arguments = words(line)
    script = "fedseg/__main__.py" if program == "fedseg" else arguments.pop(0)
    parse_args = argparse.ArgumentParser.parse_args
    parsed = []

    def stop(parser: argparse.ArgumentParser, *values: object) -> None:
        parsed.append(parse_args(parser, *values))
        raise Parsed

    message = io.StringIO()
    with (
        mock.patch.object(argparse.ArgumentParser, "parse_args", stop),
        mock.patch.object(sys, "argv", [script, *arguments]),
        contextlib.redirect_stdout(message),
        contextlib.redirect_stderr(message),
    ):
        try:
            runpy.run_path(str(ROOT / script), run_name="__main__")
        except Parsed:
            return parsed[0]
        except SystemExit as end:
            raise AssertionError(f"$ {line}\n{message.getvalue()}") from end
    raise AssertionError(f"$ {line}\nreads no arguments")
