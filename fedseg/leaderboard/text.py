"""The board in words: tables on the terminal and as Markdown."""

from rich.console import Console
from rich.text import Text

from fedseg.cli import widen_console
from fedseg.leaderboard.benchmarks import Column
from fedseg.leaderboard.board import Board, Table
from fedseg.leaderboard.rows import Row
from fedseg.runs.tables import Cell, TextTable, markdown_text
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


def text_table(table: Table, further: bool = False, why: bool = False) -> TextTable:
    """A table as text.

    ``further``: with what is not ranked; ``why``: with a column of the reasons against each row.
    """
    columns, rows = _shown(table, further)
    place, ranked = ["rank"] if table.ranked else [], table.ranked
    head = [*place, "method", *map(header, columns), "seeds"]
    head += ["traffic", "source"] if ranked else ["experiment"]
    begin = len(place) + 1
    right = [*range(len(place)), *range(begin, begin + len(columns))]
    lines, bold = [], []
    for number, row in enumerate(rows):
        cells = [row.cells[column.key] for column in columns]
        line = [row.method.label, *map(cell_text, cells, columns)]
        line.append(", ".join(map(str, row.seeds)) or "published")
        if ranked:
            line = [str(row.cells[table.columns[0].key].rank or ""), *line, traffic(row)]
        lines.append((*line, row.source, *(["; ".join(row.reasons)] if why else [])))
        bold += [(number, begin + n) for n, cell in enumerate(cells) if cell.rank == 1]
    return TextTable(
        title=table.title if ranked else f"Not comparable: {table.title}",
        head=(*head, *(["why"] if why else [])),
        rows=lines,
        right=[*right, begin + len(columns) + 1] if ranked else right,
        bold=bold,
        dim=[number for number, row in enumerate(rows) if row.kind == "published"],
    )


def _shown(table: Table, further: bool) -> tuple[tuple[Column, ...], tuple[Row, ...]]:
    if not further:
        return table.columns, table.rows
    return (*table.columns, *table.further_columns), (*table.rows, *table.further_rows)


def _notes(table: Table, further: bool) -> list[str]:
    """What a reader of a table must know; why its rows are apart, once if it is one reason."""
    if not table.ranked:
        if len({row.reasons for row in table.rows}) == 1:
            return [f"Not comparable because: {'; '.join(table.rows[0].reasons)}"]
        return [f"{r.name} is not comparable because: {'; '.join(r.reasons)}" for r in table.rows]
    columns, rows = _shown(table, further)
    cells = (row.cells[column.key] for row in rows for column in columns)
    doubtful = any(cell.doubt and cell.value is not None for cell in cells)
    return ["; ".join(filter(None, (table.benchmark.note, LEGEND if doubtful else "")))]


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
    for table in tables:
        console.print(text_table(table, further).to_rich())
        for note in _notes(table, further):
            console.print(Text(note, style="dim"))
        console.print()
    if not tables:
        console.print("There are no rows.")
    for message in board.messages:
        console.print(Text(message, style="yellow"), soft_wrap=True)


def to_markdown(board: Board, everything: bool = False, further: bool = False) -> str:
    """The tables as Markdown, with the options of :func:`print_board`."""
    parts = ["# Leaderboard"]
    for table in board.shown(everything):
        notes = map(markdown_text, _notes(table, further))
        parts += [f"## {markdown_text(table.title)}", text_table(table, further).to_markdown()]
        parts += notes
    if board.apart:
        parts.append("## Not comparable with published numbers")
    for table in board.apart:
        title = markdown_text(f"{table.title[0].upper()}{table.title[1:]}")
        parts += [f"### {title}", text_table(table, further, why=True).to_markdown()]
    if board.messages:
        lines = [f"- {markdown_text(message)}" for message in board.messages]
        parts += ["## Messages", "\n".join(lines)]
    return "\n\n".join(filter(None, parts)) + "\n"
