"""The board for the terminal, as Markdown, as CSV and as JSON."""

import csv
import io
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fedseg.cli import widen_console
from fedseg.leaderboard.benchmarks import Benchmark, Column, benchmarks
from fedseg.leaderboard.board import Apart, Board, Cell, Ranking, Row, Run
from fedseg.leaderboard.reference import read_published
from fedseg.units import format_bytes

JSON_VERSION = 1
DOUBT = "?"
LEGEND = f"{DOUBT}: in doubt, nothing is ranked against it"
STATUS = {
    "not_reached": "not reached",
    "no_convergence": "no convergence",
    "lost": "lost",
    "missing": "-",
}
CSV_FIELDS = (
    "benchmark",
    "title",
    "kind",
    "method",
    "experiment",
    "paper",
    "table",
    "column",
    "figure",
    "value",
    "std",
    "seeds",
    "rank",
    "doubt",
    "status",
    "bytes",
    "seconds",
)


def shown(board: Board, everything: bool = False) -> list[Ranking]:
    """The rankings worth printing: those with a run, or all that have any row."""
    return [r for r in board.rankings if (r.rows if everything else r.runs)]


def figure(cell: Cell, column: Column) -> str:
    """A cell in words: ``50.03 ± 0.41``, with a mark where it is in doubt."""
    if cell.value is None:
        return STATUS.get(cell.status or "missing", cell.status or "-")
    text = number(cell.value, column)
    if cell.std is not None:
        text += f" ± {number(cell.std, column)}"
    return f"{text} {DOUBT}" if cell.doubt else text


def number(value: float, column: Column) -> str:
    """A figure at its column's digits; rounds with a mark at the thousands."""
    return f"{value:,.{column.digits}f}"


def traffic(row: Row) -> str:
    """A run's bytes in words; a published row has none."""
    return "-" if row.bytes is None else format_bytes(row.bytes)


def seeds(row: Row) -> str:
    """Which seeds a row is of, or that it is published."""
    return "published" if row.published else ", ".join(str(seed) for seed in row.seeds)


def header(column: Column) -> str:
    """A column's label with its unit."""
    return f"{column.label} (%)" if column.unit == "%" else column.label


def in_doubt(rows: Iterable[Row]) -> bool:
    """Whether a legend is needed."""
    return any(cell.doubt and cell.value is not None for r in rows for cell in r.cells.values())


# ---------------------------------------------------------------- terminal


def print_board(board: Board, console: Console | None = None, everything: bool = False) -> None:
    """Print the tables and messages.

    Args:
        board: what to print.
        console: where to; by default standard output, wide enough for a line a row where that is
            no terminal.
        everything: benchmarks without a run too, with their published rows.
    """
    console = console or Console()
    widen_console(console)
    for ranking in shown(board, everything):
        console.print(_ranking_table(ranking))
        notes = [ranking.benchmark.note, LEGEND if in_doubt(ranking.rows) else ""]
        console.print("; ".join(filter(None, notes)), style="dim", end="\n\n")
    for apart in board.apart:
        console.print(_apart_table(apart))
        for reason in _reasons(apart):
            console.print(Text(reason, style="dim"))
        console.print()
    if not shown(board, everything) and not board.apart:
        console.print("There is no row.")
    for message in board.messages:
        console.print(Text(message, style="yellow"), soft_wrap=True)


def _ranking_table(ranking: Ranking) -> Table:
    benchmark = ranking.benchmark
    table = Table(title=escape(benchmark.title), title_justify="left")
    table.add_column("", justify="right")
    table.add_column("method", overflow="fold")
    for column in benchmark.columns:
        table.add_column(escape(header(column)), justify="right", no_wrap=True)
    table.add_column("seeds")
    table.add_column("traffic", justify="right", no_wrap=True)
    table.add_column("source", overflow="fold")
    first = benchmark.columns[0].key
    for row in ranking.rows:
        rank = row.cells[first].rank
        table.add_row(
            str(rank) if rank else "",
            escape(row.method.label),
            *(_bold_first(row.cells[c.key], c) for c in benchmark.columns),
            seeds(row),
            traffic(row),
            escape(row.source),
            style="dim" if row.published else "",
        )
    return table


def _bold_first(cell: Cell, column: Column) -> Text:
    return Text(figure(cell, column), style="bold" if cell.rank == 1 else "")


def _apart_table(apart: Apart) -> Table:
    table = Table(title=escape(f"Not comparable: {apart.title}"), title_justify="left")
    table.add_column("method", overflow="fold")
    for column in apart.columns:
        table.add_column(escape(header(column)), justify="right", no_wrap=True)
    table.add_column("seeds")
    table.add_column("experiment", overflow="fold")
    for row in apart.rows:
        table.add_row(
            escape(row.method.label),
            *(figure(row.cells[column.key], column) for column in apart.columns),
            seeds(row),
            escape(row.name),
        )
    return table


def _reasons(apart: Apart) -> list[str]:
    """Why the rows of a table are apart: once if it is the same for all, else a line for each."""
    if len({tuple(row.reasons) for row in apart.rows}) == 1:
        return [f"Apart because: {'; '.join(apart.rows[0].reasons)}"]
    return [f"{row.name} is apart because: {'; '.join(row.reasons)}" for row in apart.rows]


# ---------------------------------------------------------------- Markdown


def to_markdown(board: Board, everything: bool = False) -> str:
    """The tables as Markdown; arguments as for :func:`print_board`."""
    parts = ["# Leaderboard"]
    for ranking in shown(board, everything):
        columns = ranking.benchmark.columns
        first = columns[0].key
        head = ["rank", "method", *(header(c) for c in columns), "seeds", "traffic", "source"]
        rows = [
            [
                str(row.cells[first].rank or ""),
                row.method.label,
                *(_best(row.cells[c.key], c) for c in columns),
                seeds(row),
                traffic(row),
                row.source,
            ]
            for row in ranking.rows
        ]
        parts.append(f"## {ranking.benchmark.title}")
        parts.append(_markdown_table(head, rows, right=range(2, 2 + len(columns))))
        notes = [ranking.benchmark.note, LEGEND if in_doubt(ranking.rows) else ""]
        parts.append("; ".join(filter(None, notes)))
    if board.apart:
        parts.append("## Not comparable with published numbers")
    for apart in board.apart:
        head = ["method", *(header(c) for c in apart.columns), "seeds", "experiment", "why"]
        rows = [
            [
                row.method.label,
                *(figure(row.cells[c.key], c) for c in apart.columns),
                seeds(row),
                row.name,
                "; ".join(row.reasons),
            ]
            for row in apart.rows
        ]
        parts.append(f"### {apart.title[0].upper()}{apart.title[1:]}")
        parts.append(_markdown_table(head, rows, right=range(1, 1 + len(apart.columns))))
    if board.messages:
        parts.append("## Left out")
        parts.append("\n".join(f"- {message}" for message in board.messages))
    return "\n\n".join(filter(None, parts)) + "\n"


def _best(cell: Cell, column: Column) -> str:
    text = figure(cell, column)
    return f"**{text}**" if cell.rank == 1 else text


def _markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]], right: range) -> str:
    rule = ["---:" if number in right else "---" for number in range(len(head))]
    lines = [head, rule, *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines
    )


# ---------------------------------------------------------------- CSV


def to_csv(board: Board) -> str:
    """A line for every figure of the benchmarks, in full precision."""
    return _csv(
        CSV_FIELDS,
        (
            line
            for ranking in board.rankings
            for row in ranking.rows
            for line in _csv_lines(
                row, ranking.benchmark.columns, ranking.benchmark.id, ranking.benchmark.title
            )
        ),
    )


def apart_to_csv(board: Board) -> str:
    """A line for every figure of the runs that are not comparable, with the reasons."""
    return _csv(
        (*CSV_FIELDS, "reasons"),
        (
            {**line, "reasons": "; ".join(row.reasons)}
            for apart in board.apart
            for row in apart.rows
            for line in _csv_lines(row, apart.columns, apart.closest or "", apart.title)
        ),
    )


def _csv(fields: Sequence[str], lines: Iterable[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, fields, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def _csv_lines(
    row: Row, columns: Sequence[Column], benchmark: str, title: str
) -> Iterable[dict[str, Any]]:
    for column in columns:
        cell = row.cells[column.key]
        yield {
            "benchmark": benchmark,
            "title": title,
            "kind": "published" if row.published else "run",
            "method": row.method.label,
            "experiment": row.name,
            "paper": row.paper,
            "table": row.table,
            "column": column.key,
            "figure": column.figure,
            "value": cell.value,
            "std": cell.std,
            "seeds": " ".join(str(seed) for seed in row.seeds),
            "rank": cell.rank,
            "doubt": cell.doubt,
            "status": cell.status,
            "bytes": row.bytes,
            "seconds": row.seconds,
        }


# ---------------------------------------------------------------- JSON


def to_json(board: Board) -> dict[str, Any]:
    """Everything of the board as plain values, for a page.

    ``groups``: names of tabs, in order. ``benchmarks``: every table with its ``columns`` and
    ``rows``. ``apart``: tables of what is not comparable. ``runs``: by id, what curves, maps and
    facts need. ``papers``: titles by short name. ``messages``.
    """
    return {
        "version": JSON_VERSION,
        "groups": list(dict.fromkeys(benchmark.group for benchmark in benchmarks())),
        "papers": {record.paper: record.title for record in read_published()},
        "benchmarks": [
            {
                **_benchmark(ranking.benchmark),
                "rows": [_row(row) for row in ranking.rows],
            }
            for ranking in board.rankings
        ],
        "apart": [
            {
                "title": apart.title,
                "closest": apart.closest,
                "synthetic": apart.synthetic,
                "columns": [asdict(column) for column in apart.columns],
                "rows": [_row(row) for row in apart.rows],
            }
            for apart in board.apart
        ],
        "runs": {id_: _run(run) for id_, run in board.runs.items()},
        "messages": list(board.messages),
    }


def _benchmark(benchmark: Benchmark) -> dict[str, Any]:
    setting = benchmark.setting
    return {
        "id": benchmark.id,
        "title": benchmark.title,
        "group": benchmark.group,
        "note": benchmark.note,
        "target": benchmark.target,
        "setting": {
            "id": setting.id,
            "dataset": setting.dataset,
            "split": dict(setting.split),
            "model": setting.model,
            "clients": setting.n_clients,
            "clients_per_round": setting.clients_per_round,
            "rounds": setting.rounds,
            "local_epochs": setting.local_epochs,
            "window": setting.window,
        },
        "columns": [asdict(column) for column in benchmark.columns],
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "kind": "published" if row.published else "run",
        "label": row.method.label,
        "method": asdict(row.method),
        "name": row.name,
        "paper": row.paper,
        "table": row.table,
        "also": list(row.also),
        "source": row.source,
        "seeds": list(row.seeds),
        "runs": list(row.runs),
        "bytes": row.bytes,
        "seconds": row.seconds,
        "reasons": list(row.reasons),
        "cells": {key: asdict(cell) for key, cell in row.cells.items()},
    }


def _run(run: Run) -> dict[str, Any]:
    """A run without what is in its row; ``final`` has IoU by class and accuracy by corruption."""
    results = run.results
    kept = asdict(results)
    for name in ("versions", "final", "curves", "last_rounds"):
        kept.pop(name)
    return {
        "folder": str(run.folder),
        "synthetic": results.synthetic,
        "last_rounds": asdict(results.last_rounds),
        "final": results.final,
        "curves": asdict(results.curves) if results.curves else None,
        "config": kept,
    }


# ---------------------------------------------------------------- files


def write_board(board: Board, folder: str | Path, everything: bool = False) -> list[Path]:
    """Write ``leaderboard.md``, ``.csv`` and ``.json`` and ``not_comparable.csv``; each atomically.

    Args:
        board: what to write. folder: where to; it is made.
        everything: benchmarks without a run in the Markdown too; CSV and JSON have all.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "leaderboard.md": to_markdown(board, everything),
        "leaderboard.csv": to_csv(board),
        "not_comparable.csv": apart_to_csv(board),
        "leaderboard.json": json.dumps(to_json(board), ensure_ascii=False, allow_nan=False) + "\n",
    }
    paths = []
    for name, text in texts.items():
        path = folder / name
        scratch = path.with_name(f"{name}.tmp")
        scratch.write_text(text, encoding="utf-8")
        os.replace(scratch, path)
        paths.append(path)
    return paths
