"""Doing what a page says."""

from collections.abc import Callable, Mapping

from command_lines import ROOT, small
from doc_pages import blocks, commands
from terminal import Terminal

# the environment of the tests is installed, test_all_pages.py gives targets to make, and a loop's
# commands are done once
DONE = ("python3 -m venv", "pip install", "source ", "make ", "export ", "for ", "done")


Step = Callable[[Terminal, str], object]


def skip(terminal: Terminal, line: str) -> None:
    """Run nothing: test_all_pages.py reads the command's arguments."""


def add(options: str) -> Step:
    """Run the command with further options."""

    def run(terminal: Terminal, line: str) -> None:
        terminal.run(f"{small(line)} {options}")

    return run


def walk(terminal: Terminal, page: str, instead: Mapping[str, Step]) -> None:
    """Write the files that a page names, and run its commands with small runs, in their order.

    Args:
        page: its path in the repository.
        instead: beginnings of commands, as of those that read real data, and what is done in
            their place. Each must be on the page.
    """
    replaced = set()
    for block in blocks(ROOT / page):
        if block.name:
            terminal.write(block.name, block.text)
        for line in commands(block):
            if line.startswith(DONE):
                continue
            beginning = next((text for text in instead if line.startswith(text)), None)
            if beginning is None:
                terminal.run(small(line))
            else:
                instead[beginning](terminal, line)
                replaced.add(beginning)
    assert replaced == set(instead), f"{page} no longer says {set(instead) - replaced}"
