"""Options that a message names: a user types them, so the command must have them."""

import contextlib
import functools
import io
import re
import sys
from unittest import mock

from fedseg.commands import main as commands

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
COMMAND = re.compile(r"\b(fedseg (prepare \w+|leaderboard verify|[a-z]+)[^;:()]*)")
OTHERS = re.compile(r"\b(?:pip|ray|docker) [^;:()]*")


@functools.cache
def help_of(command: str) -> str:
    """What ``fedseg COMMAND --help`` prints, of a command such as ``test`` or ``prepare idda``."""
    text = io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["fedseg", *command.split(), "--help"]),
        contextlib.redirect_stdout(text),
        contextlib.suppress(SystemExit),
    ):
        commands.main()
    return text.getvalue()


def options_of(command: str) -> set[str]:
    """The options that a command's help lists."""
    return set(OPTION.findall(help_of(command)))


def unknown_options(command: str, message: str) -> list[str]:
    """Options that a message of a command names, and neither it nor a named command has."""
    if "unrecognized arguments" in message:
        return []  # argparse repeats them
    message = OTHERS.sub("", message)
    unknown = []
    for line, name in COMMAND.findall(message):
        if name.split()[0] in commands.COMMANDS:
            unknown += sorted(set(OPTION.findall(line)) - options_of(name))
    rest = COMMAND.sub("", message)
    return unknown + sorted(set(OPTION.findall(rest)) - options_of(command))
