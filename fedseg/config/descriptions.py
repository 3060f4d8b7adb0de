"""What the docstring of a method's file says, read without executing the file.

Its first line is a sentence; a paragraph ``Paper: ...`` may follow, and the source of the values.
"""

import ast
from dataclasses import dataclass
from pathlib import Path

from fedseg.config.layers import CONFIGS

PAPER = "Paper: "


@dataclass(frozen=True)
class Description:
    """The parts of a method's docstring, without the periods at their ends."""

    sentence: str  # what the method does
    paper: str  # "Karimireddy et al., ICML 2020", or empty


def read_description(path: Path) -> Description | None:
    """The description of a method's file; None if the file has no docstring."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"), str(path)))
    if docstring is None:
        return None
    sentence, *paragraphs = docstring.split("\n\n")
    paper = ""
    for paragraph in paragraphs:
        if paragraph.startswith(PAPER):
            paper = paragraph.removeprefix(PAPER)
    return Description(sentence.removesuffix("."), paper.removesuffix("."))


def described_methods() -> dict[str, Path]:
    """The file of each method of the suite, by name."""
    return {path.stem: path for path in sorted((CONFIGS / "methods").glob("*.py"))}
