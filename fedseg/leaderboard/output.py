"""The board as text: tables on the terminal, Markdown, CSV, JSON."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from fedseg.cli import wide_console
from fedseg.leaderboard.benchmarks import Column
from fedseg.leaderboard.board import Board, Table
from fedseg.leaderboard.reference import read_published
from fedseg.leaderboard.rows import Row
from fedseg.metric_names import flatten
from fedseg.runs.run_files import FoundRun
from fedseg.runs.tables import Cell, TextTable, csv_text, markdown_text, spread_table
from fedseg.units import format_bytes

BOARD_SCHEMA_VERSION = 5  # of leaderboard.json
CSV_FIELDS = (
    *("benchmark", "title", "kind", "method", "experiment", "paper", "table", "column", "metric"),
    *("value", "std", "seeds", "rank", "doubt", "status", "bytes", "seconds", "year", "url"),
)
SETTING_FIELDS = (
    *("id", "dataset", "split", "model", "n_clients", "clients_per_round", "rounds"),
    *("local_epochs", "window", "command", "protocol"),
)
DOUBT = "?"
WHY = "--why"  # the option that shows all reasons
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
    words = {None: "-", "missing": "-", "lost": "not readable"}
    return words.get(cell.status) or cell.status.replace("_", " ")


def number(value: float, column: Column) -> str:
    """A value with its column's digits."""
    return f"{value:,.{column.digits}f}"


def header(column: Column) -> str:
    """A column's label with its unit."""
    return f"{column.label} (%)" if column.unit == "%" else column.label


def traffic(row: Row) -> str:
    """A run's bytes for the reader; a published row has none."""
    return "-" if row.bytes is None else format_bytes(row.bytes)


def text_table(table: Table, further: bool = False, reasons: bool = False) -> TextTable:
    """A table as text; ``further``: with what is not ranked; ``reasons``: why each row is apart."""
    columns, rows = _shown(table, further)
    values = range(2 if table.ranked else 1, len(columns) + (2 if table.ranked else 1))
    head = ["method", *map(header, columns), "seeds"]
    head = ["rank", *head, "traffic", "source"] if table.ranked else [*head, "experiment"]
    lines, bold = [], []
    for place, row in enumerate(rows):
        cells = [row.cells[column.key] for column in columns]
        line = [row.method.label, *map(cell_text, cells, columns)]
        line.append(", ".join(map(str, row.seeds)) or "published")
        if table.ranked:
            line = [str(row.cells[table.columns[0].key].rank or ""), *line, traffic(row)]
        source = f"{row.source}{', reproduced here' * row.reproduced}"
        lines.append((*line, source, *(["; ".join(row.reasons)] if reasons else [])))
        bold += [(place, n) for n, cell in zip(values, cells, strict=True) if cell.rank == 1]
    return TextTable(
        title=table.title if table.ranked else f"Not comparable: {table.title}",
        head=(*head, *(["why"] if reasons else [])),
        rows=lines,
        right=[0, *values, values.stop + 1] if table.ranked else values,
        bold=bold,
        dim=[place for place, row in enumerate(rows) if row.kind == "published"],
    )


def _shown(table: Table, further: bool) -> tuple[tuple[Column, ...], tuple[Row, ...]]:
    if not further:
        return table.columns, table.rows
    return (*table.columns, *table.further_columns), (*table.rows, *table.further_rows)


def _notes(table: Table, further: bool, why: bool) -> list[str]:
    """Remarks below a table: why its rows are apart, once if it is one reason."""
    if table.ranked:
        return [_ranking_note(table, further)]
    if len({row.reasons for row in table.rows}) == 1:
        return _reasons("Not comparable because", table.rows[0], why)
    notes = []
    for row in table.rows:
        notes += _reasons(f"{row.name} is not comparable because", row, why)
    return notes


def _reasons(because: str, row: Row, why: bool) -> list[str]:
    """The decisive reason in one line, or all of them in a line each."""
    decisive, *further = row.reasons
    if why:
        return [f"{because}: {decisive}", *(f"  and {reason}" for reason in further)]
    more = f" (and {len(further)} more: fedseg leaderboard {WHY})" if further else ""
    return [f"{because}: {decisive}{more}"]


def _ranking_note(table: Table, further: bool) -> str:
    columns, rows = _shown(table, further)
    cells = (row.cells[column.key] for row in rows for column in columns)
    doubtful = any(cell.doubt and cell.value is not None for cell in cells)
    return "; ".join(filter(None, (table.benchmark.note, LEGEND if doubtful else "")))


def _spread(board: Board, table: Table) -> list[TextTable]:
    """The results of a table's runs over clients or domains."""
    rows = [(f"{r.method.label}, {r.name}", [board.runs[i] for i in r.runs]) for r in table.runs]
    return spread_table([(n, [flatten(run.results.final) for run in runs]) for n, runs in rows])


def print_board(
    board: Board,
    console: Console | None = None,
    everything: bool = False,
    further: bool = False,
    why: bool = False,
) -> None:
    """Print tables and messages.

    Args:
        everything: also tables without a run.
        further: also what is not ranked.
        why: every reason why a run is not comparable, not the decisive one alone.
    """
    console = console or wide_console()
    tables = [*board.shown(everything), *board.apart]
    for table in tables:
        console.print(text_table(table, further).to_rich())
        for note in _notes(table, further, why):
            console.print(Text(note, style="dim"), soft_wrap=not table.ranked)
        for spread in _spread(board, table):
            console.print(spread.to_rich())
        console.print()
    if not tables:
        console.print("There are no rows.")
    for message in board.messages:
        console.print(Text(message, style="yellow"), soft_wrap=True)


def to_markdown(board: Board, everything: bool = False, further: bool = False) -> str:
    """The tables as Markdown, with options of :func:`print_board`, and with every reason."""
    parts = ["# Leaderboard"]
    for table in board.shown(everything):
        parts += [f"## {markdown_text(table.title)}", text_table(table, further).to_markdown()]
        parts.append(markdown_text(_ranking_note(table, further)))
        parts += (f"{one.title}:\n\n{one.to_markdown()}" for one in _spread(board, table))
    parts += ["## Not comparable with published numbers"] * bool(board.apart)
    for table in board.apart:
        parts += [f"### {markdown_text(table.title)}"]
        parts += [text_table(table, further, reasons=True).to_markdown()]
    lines = [f"- {markdown_text(message)}" for message in board.messages]
    parts += ["## Messages", "\n".join(lines)] if lines else []
    return "\n\n".join(filter(None, parts)) + "\n"


def to_csv(tables: Iterable[Table], *more: str) -> str:
    """A line for every value of some tables, in full precision; ``more`` names further columns."""
    head, lines = (*CSV_FIELDS, *more), []
    for table in tables:
        for row in (*table.rows, *table.further_rows):
            of_row = {
                **vars(row),
                "benchmark": table.benchmark.id if table.benchmark else "",
                "title": table.title,
                "kind": row.kind,
                "method": row.method.label,
                "experiment": row.name,
                "seeds": " ".join(map(str, row.seeds)),
                "reasons": "; ".join(row.reasons),
            }
            for column in (*table.columns, *table.further_columns):
                cell = row.cells[column.key]
                if cell.value is not None or cell.status not in (None, "missing"):
                    of_cell = {**vars(cell), "column": column.key, "metric": column.metric}
                    lines.append([{**of_row, **of_cell}[name] for name in head])
    return csv_text(head, lines)


def to_json(board: Board) -> dict[str, Any]:
    """Everything of the board as plain values.

    ``groups``: names of the page's tabs, in order. ``benchmarks``: every table with its ``columns``
    and ``rows``, and with ``further_columns`` and ``further_rows``, which are not ranked.
    ``own``: tables of all runs by data set, each row with its ``ranks`` in benchmarks and the
    ``reasons`` why it is not comparable in the ``closest`` one. ``runs``: by id, with curves and
    details of the last evaluation. ``papers``: titles by short name. ``messages``.
    """
    return {
        "version": BOARD_SCHEMA_VERSION,
        "groups": list(dict.fromkeys(table.benchmark.group for table in board.rankings)),
        "papers": {record.paper: record.title for record in read_published()},
        "benchmarks": [
            {name: getattr(table.benchmark, name) for name in ("id", "group", "note", "target")}
            | {"setting": {k: getattr(table.benchmark.setting, k) for k in SETTING_FIELDS}}
            | _table(table)
            for table in board.rankings
        ],
        "own": [{"synthetic": table.synthetic} | _table(table) for table in board.own],
        "runs": {id_: _run(run) for id_, run in board.runs.items()},
        "messages": list(board.messages),
    }


def _table(table: Table) -> dict[str, Any]:
    def plain(row: Row) -> dict[str, Any]:
        content = {"kind": row.kind, "label": row.method.label, "source": row.source, **asdict(row)}
        return content | {"cells": {key: content["cells"][key] for key in shown}}

    shown = [column.key for column in (*table.columns, *table.further_columns)]
    columns = {n: [*map(asdict, getattr(table, n))] for n in ("columns", "further_columns")}
    rows = {n: [*map(plain, getattr(table, n))] for n in ("rows", "further_rows")}
    return {"title": table.title, **columns, **rows}


def _run(run: FoundRun) -> dict[str, Any]:
    config = run.results.model_dump(exclude={"versions", "extras", "config", "parameters"})
    apart = {name: config.pop(name) for name in ("last_rounds", "final", "curves")}
    about = {"folder": str(run.folder), "synthetic": run.results.synthetic}
    return {**about, **apart, "config": config}
