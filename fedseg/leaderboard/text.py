"""The board in words: tables on the terminal and as Markdown."""

from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape
from rich.table import Table as TerminalTable
from rich.text import Text

from fedseg.cli import widen_console
from fedseg.leaderboard.benchmarks import Column
from fedseg.leaderboard.board import Board, Table
from fedseg.leaderboard.rows import Cell, Row
from fedseg.units import format_bytes

DOUBT = "?"
LEGEND = f"{DOUBT}: in doubt, nothing is ranked against it"
STATUS = {
    "not_reached": "not reached",
    "no_convergence": "no convergence",
    "lost": "lost",
    "missing": "-",
}
"""Why a cell has no value, for the reader."""


def cell_text(cell: Cell, column: Column) -> str:
    """A cell for the reader: ``50.03 ± 0.41``, with a mark if it is in doubt."""
    if cell.value is None:
        return STATUS.get(cell.status or "missing", cell.status or "-")
    text = number(cell.value, column)
    if cell.std is not None:
        text += f" ± {number(cell.std, column)}"
    return f"{text} {DOUBT}" if cell.doubt else text


def number(value: float, column: Column) -> str:
    """A value with its column's digits."""
    return f"{value:,.{column.digits}f}"


def header(column: Column) -> str:
    """A column's label with its unit."""
    return f"{column.label} (%)" if column.unit == "%" else column.label


def traffic(row: Row) -> str:
    """A run's bytes for the reader; a published row has none."""
    return "-" if row.bytes is None else format_bytes(row.bytes)


def _heads(table: Table) -> list[tuple[str, bool]]:
    """Heads of a table's columns, and whether they hold numbers."""
    metrics = [(header(column), True) for column in table.columns]
    if not table.ranked:
        return [("method", False), *metrics, ("seeds", False), ("experiment", False)]
    before, after = [("rank", True), ("method", False)], [("seeds", False), ("traffic", True)]
    return [*before, *metrics, *after, ("source", False)]


def _line(row: Row, table: Table) -> list[tuple[str, bool]]:
    """A row's texts, and whether each is the best of its column."""
    seeds = ", ".join(str(seed) for seed in row.seeds) or "published"
    cells = [row.cells[column.key] for column in table.columns]
    texts = [cell_text(cell, c) for cell, c in zip(cells, table.columns, strict=True)]
    middle = [(row.method.label, False)]
    middle += [(text, cell.rank == 1) for text, cell in zip(texts, cells, strict=True)]
    middle.append((seeds, False))
    if not table.ranked:
        return [*middle, (row.source, False)]
    return [(str(cells[0].rank or ""), False), *middle, (traffic(row), False), (row.source, False)]


def _note(table: Table) -> str:
    cells = (cell for row in table.rows for cell in row.cells.values())
    doubtful = any(cell.doubt and cell.value is not None for cell in cells)
    return "; ".join(filter(None, (table.benchmark.note, LEGEND if doubtful else "")))


# ---------------------------------------------------------------- terminal


def print_board(board: Board, console: Console | None = None, everything: bool = False) -> None:
    """Print the tables and messages.

    Args:
        board: what to print.
        console: default: standard output, wide enough for one line a row if that is no terminal.
        everything: benchmarks without a run too, with their published rows.
    """
    console = console or Console()
    widen_console(console)
    tables = [*board.shown(everything), *board.apart]
    for table in tables:
        console.print(_terminal_table(table))
        notes = [_note(table)] if table.ranked else _reasons(table)
        for note in notes:
            console.print(Text(note, style="dim"))
        console.print()
    if not tables:
        console.print("There are no rows.")
    for message in board.messages:
        console.print(Text(message, style="yellow"), soft_wrap=True)


def _terminal_table(table: Table) -> TerminalTable:
    title = table.title if table.ranked else f"Not comparable: {table.title}"
    made = TerminalTable(title=escape(title), title_justify="left")
    for name, numeric in _heads(table):
        made.add_column(
            escape("" if name == "rank" else name),
            justify="right" if numeric else "left",
            no_wrap=numeric,
            overflow="fold",
        )
    for row in table.rows:
        texts = [Text(text, style="bold" if best else "") for text, best in _line(row, table)]
        made.add_row(*texts, style="dim" if row.kind == "published" else "")
    return made


def _reasons(table: Table) -> list[str]:
    """Why the rows of a table are apart: once if it is the same for all, else a line for each."""
    if len({row.reasons for row in table.rows}) == 1:
        return [f"Not comparable because: {'; '.join(table.rows[0].reasons)}"]
    return [f"{row.name} is not comparable because: {'; '.join(row.reasons)}" for row in table.rows]


# ---------------------------------------------------------------- Markdown


def to_markdown(board: Board, everything: bool = False) -> str:
    """The tables as Markdown; arguments as for :func:`print_board`."""
    parts = ["# Leaderboard"]
    for table in board.shown(everything):
        parts += [f"## {table.title}", _markdown_table(table), _note(table)]
    if board.apart:
        parts.append("## Not comparable with published numbers")
    for table in board.apart:
        parts += [f"### {table.title[0].upper()}{table.title[1:]}", _markdown_table(table)]
    if board.messages:
        parts += ["## Left out", "\n".join(f"- {message}" for message in board.messages)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _markdown_table(table: Table) -> str:
    head = [name for name, _ in _heads(table)]
    rule = ["---:" if numeric else "---" for _, numeric in _heads(table)]
    lines = [
        [f"**{text}**" if best else text for text, best in _line(row, table)] for row in table.rows
    ]
    if not table.ranked:
        head, rule = [*head, "why"], [*rule, "---"]
        for line, row in zip(lines, table.rows, strict=True):
            line.append("; ".join(row.reasons))
    return "\n".join(_markdown_line(line) for line in (head, rule, *lines))


def _markdown_line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
