"""The board in words: tables on the terminal and as Markdown."""

from dataclasses import replace

from rich.console import Console
from rich.markup import escape
from rich.table import Table as TerminalTable
from rich.text import Text

from fedseg.cli import widen_console
from fedseg.leaderboard.benchmarks import Column
from fedseg.leaderboard.board import Board, Table
from fedseg.leaderboard.rows import Cell, Row
from fedseg.report.tables import markdown_text
from fedseg.units import format_bytes

DOUBT = "?"
LEGEND = f"{DOUBT}: in doubt, nothing is ranked against it"


def cell_text(cell: Cell, column: Column) -> str:
    """A cell for the reader: ``50.03 ± 0.41``, with a mark if it is in doubt."""
    text = value_text(cell, column)
    if cell.std is not None:
        text += f" ± {number(cell.std, column)}"
    return f"{text} {DOUBT}" if cell.doubt and cell.value is not None else text


def value_text(cell: Cell, column: Column) -> str:
    """A cell's value for the reader, or why there is none."""
    if cell.value is not None:
        return number(cell.value, column)
    status = cell.status or "missing"
    return "-" if status == "missing" else status.replace("_", " ")


def number(value: float, column: Column) -> str:
    """A value with its column's digits."""
    return f"{value:,.{column.digits}f}"


def header(column: Column) -> str:
    """A column's label with its unit."""
    return f"{column.label} (%)" if column.unit == "%" else column.label


def traffic(row: Row) -> str:
    """A run's bytes for the reader; a published row has none."""
    return "-" if row.bytes is None else format_bytes(row.bytes)


def _with_further(table: Table, further: bool) -> Table:
    """The table as it is printed: with what is not ranked, or without."""
    if not further:
        return table
    columns, rows = (*table.columns, *table.further_columns), (*table.rows, *table.further_rows)
    return replace(table, columns=columns, rows=rows)


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
    line = [(row.method.label, False)]
    for column in table.columns:
        cell = row.cells[column.key]
        line.append((cell_text(cell, column), cell.rank == 1))
    line.append((seeds, False))
    if table.ranked:
        rank = row.cells[table.columns[0].key].rank
        line = [(str(rank or ""), False), *line, (traffic(row), False)]
    return [*line, (row.source, False)]


def _note(table: Table) -> str:
    cells = (row.cells[column.key] for row in table.rows for column in table.columns)
    doubtful = any(cell.doubt and cell.value is not None for cell in cells)
    return "; ".join(filter(None, (table.benchmark.note, LEGEND if doubtful else "")))


# ---------------------------------------------------------------- terminal


def print_board(
    board: Board,
    console: Console | None = None,
    everything: bool = False,
    further: bool = False,
) -> None:
    """Print the tables and messages.

    ``everything``: benchmarks without a run too. ``further``: also what is not ranked.
    """
    console = console or Console()
    widen_console(console)
    tables = [*board.shown(everything), *board.apart]
    for table in (_with_further(table, further) for table in tables):
        console.print(_terminal_table(table))
        for note in [_note(table)] if table.ranked else _reasons(table):
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


def to_markdown(board: Board, everything: bool = False, further: bool = False) -> str:
    """The tables as Markdown, with the options of :func:`print_board`."""
    parts = ["# Leaderboard"]
    for table in (_with_further(table, further) for table in board.shown(everything)):
        note = markdown_text(_note(table))
        parts += [f"## {markdown_text(table.title)}", _markdown_table(table), note]
    if board.apart:
        parts.append("## Not comparable with published numbers")
    for table in (_with_further(table, further) for table in board.apart):
        title = markdown_text(f"{table.title[0].upper()}{table.title[1:]}")
        parts += [f"### {title}", _markdown_table(table)]
    if board.messages:
        lines = [f"- {markdown_text(message)}" for message in board.messages]
        parts += ["## Messages", "\n".join(lines)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _markdown_table(table: Table) -> str:
    heads = _heads(table) if table.ranked else [*_heads(table), ("why", False)]
    names = [markdown_text(name) for name, _ in heads]
    lines = [names, ["---:" if numeric else "---" for _, numeric in heads]]
    for row in table.rows:
        texts = [(markdown_text(text), best) for text, best in _line(row, table)]
        line = [f"**{text}**" if best else text for text, best in texts]
        lines.append(line if table.ranked else [*line, markdown_text("; ".join(row.reasons))])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
