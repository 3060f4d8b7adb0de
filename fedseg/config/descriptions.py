"""What a method's file says of itself, read without executing the file.

The first line of its docstring is a sentence; a paragraph ``Paper: ...`` may follow, and the source
of the values. The source of a row of ``values`` is the comment over or beside it.
"""

import ast
import io
import tokenize
from dataclasses import dataclass
from pathlib import Path

from fedseg.config.layers import CONFIGS

PAPER = "Paper: "


@dataclass(frozen=True)
class Description:
    """The parts of a method's docstring, without the periods at their ends."""

    sentence: str  # what the method does
    paper: str  # "Karimireddy et al., ICML 2020", or empty
    source: str = ""  # of the values that it has in every setting


def read_description(path: Path) -> Description | None:
    """The description of a method's file; None if the file has no docstring."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"), str(path)))
    if docstring is None:
        return None
    sentence, *paragraphs = docstring.split("\n\n")
    paper, source = "", []
    for paragraph in paragraphs:
        if paragraph.startswith(PAPER):
            paper = paragraph.removeprefix(PAPER)
        else:
            source.append(" ".join(paragraph.split()))
    return Description(
        sentence=sentence.removesuffix("."),
        paper=paper.removesuffix("."),
        source=" ".join(source).removesuffix("."),
    )


def read_source(path: Path, row: str | None) -> str:
    """The source of a method's values: of a row of its table, or of what it has everywhere."""
    text = path.read_text(encoding="utf-8")
    source = _read_row_sources(text).get(row, "") if row else ""
    if source:
        return source
    description = read_description(path)
    return description.source if description else ""


def _read_row_sources(text: str) -> dict[str, str]:
    """The comments of each row of ``values``: over it, or over rows above it, and beside it."""
    over: dict[int, str] = {}
    beside: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            is_alone = token.line.lstrip().startswith("#")
            (over if is_alone else beside)[token.start[0]] = token.string.lstrip("# ")
    sources: dict[str, str] = {}
    common = ""
    for line, key in _row_lines(text):
        first = line
        while first - 1 in over:
            first -= 1
        if first < line:
            common = " ".join(over[number] for number in range(first, line))
        sources[key] = "; ".join(part for part in (common, beside.get(line)) if part)
    return sources


def _row_lines(text: str) -> list[tuple[int, str]]:
    """The line and the key of each row of ``values``."""
    for node in ast.parse(text).body:
        is_table = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "values"
        if is_table and isinstance(node.value, ast.Dict):
            keys = [key for key in node.value.keys if isinstance(key, ast.Constant)]
            return [(key.lineno, str(key.value)) for key in keys]
    return []


def described_methods() -> dict[str, Path]:
    """The file of each method of the suite, by name."""
    return {path.stem: path for path in sorted((CONFIGS / "methods").glob("*.py"))}
