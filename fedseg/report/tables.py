"""Tables of text for the terminal and as Markdown."""

import html
from dataclasses import dataclass

from rich import box
from rich.markup import escape
from rich.table import Table

from fedseg.cli import printable


@dataclass(frozen=True)
class TextTable:
    """Cells as text, for any medium."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]  # as many cells each
    right: tuple[int, ...] = ()  # columns of numbers
    group: int = 1  # rows that belong together; a line between groups

    def to_rich(self) -> Table:
        """For the terminal."""
        table = Table(title=_shown(self.title), title_justify="left", box=box.SIMPLE_HEAD)
        for number, name in enumerate(self.head):
            right = number in self.right
            justify = "right" if right else "left"
            table.add_column(_shown(name), justify=justify, no_wrap=right, overflow="fold")
        for number, row in enumerate(self.rows, start=1):
            end = self.group > 1 and number % self.group == 0
            table.add_row(*map(_shown, row), end_section=end)
        return table

    def to_markdown(self) -> str:
        """Without the title."""
        rule = ["---:" if number in self.right else "---" for number in range(len(self.head))]
        lines = [map(markdown_text, self.head), rule, *(map(markdown_text, r) for r in self.rows)]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _shown(text: str) -> str:
    return escape(printable(text))


def markdown_text(text: str) -> str:
    """Text as Markdown that shows it as it is, in one line: no markup gets through."""
    plain = html.escape(printable(" ".join(text.split())), quote=False)
    for character in "\\|*_`[]~#":
        plain = plain.replace(character, f"\\{character}")
    return plain
