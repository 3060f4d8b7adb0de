"""The board as files: Markdown, CSV and JSON."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedseg.cli import printable
from fedseg.files import write_text
from fedseg.leaderboard.benchmarks import Benchmark, Column
from fedseg.leaderboard.board import Board, Table
from fedseg.leaderboard.collect import FoundRun
from fedseg.leaderboard.page import write_page
from fedseg.leaderboard.reference import read_published
from fedseg.leaderboard.rows import Row, present
from fedseg.leaderboard.text import to_markdown
from fedseg.runs.tables import csv_text

BOARD_SCHEMA_VERSION = 4  # of leaderboard.json
CSV_FIELDS = (
    *("benchmark", "title", "kind", "method", "experiment", "paper", "table", "column", "metric"),
    *("value", "std", "seeds", "rank", "doubt", "status", "bytes", "seconds", "year", "url"),
)
FROM_ROW = ("kind", "paper", "table", "bytes", "seconds", "year", "url")
SETTING_FIELDS = (
    *("id", "dataset", "split", "model", "n_clients", "clients_per_round", "rounds"),
    *("local_epochs", "window", "command", "protocol"),
)


def write_board(
    board: Board, folder: str | Path, everything: bool = False, further: bool = False
) -> list[Path]:
    """Write ``leaderboard.md``, two ``.csv``, ``leaderboard.json`` and the page; each atomically.

    ``everything``: benchmarks without a run in Markdown and page too. ``further``: what is not
    ranked in Markdown too. CSV and JSON have all.
    Returns the paths, that of the page's ``index.html`` last.
    """
    texts = {
        "leaderboard.md": to_markdown(board, everything, further),
        "leaderboard.csv": to_csv(board.rankings),
        "not_comparable.csv": to_csv(board.apart, "reasons"),
        "leaderboard.json": json.dumps(to_json(board), ensure_ascii=False, allow_nan=False) + "\n",
    }
    for name, text in texts.items():
        write_text(Path(folder) / name, text)
    return [*(Path(folder) / name for name in texts), write_page(board, folder, everything)]


def to_csv(tables: Iterable[Table], *more: str) -> str:
    """A line for every value of some tables, in full precision; ``more`` names further columns."""
    lines: list[dict[str, Any]] = []
    for table in tables:
        for row in table.rows:
            columns = (*table.columns, *present(table.further_columns, [row]))
            lines += _csv_lines(row, table, columns)
        for row in table.further_rows:
            columns = present((*table.columns, *table.further_columns), [row])
            lines += _csv_lines(row, table, columns)
    return csv_text((*CSV_FIELDS, *more), lines)


def _csv_lines(row: Row, table: Table, columns: Iterable[Column]) -> Iterator[dict[str, Any]]:
    for column in columns:
        yield {
            **{name: getattr(row, name) for name in FROM_ROW},
            **asdict(row.cells[column.key]),
            "benchmark": table.benchmark.id if table.benchmark else "",
            "title": table.title,
            "method": row.method.label,
            "experiment": row.name,
            "column": column.key,
            "metric": column.metric,
            "seeds": " ".join(str(seed) for seed in row.seeds),
            "reasons": "; ".join(row.reasons),
        }


# ---------------------------------------------------------------- JSON


def to_json(board: Board) -> dict[str, Any]:
    """Everything of the board as plain values.

    ``groups``: names of the page's tabs, in order. ``benchmarks``: every table with its ``columns``
    and ``rows``, and with ``further_columns`` and ``further_rows``, which are not ranked.
    ``apart``: tables of what is not comparable. ``runs``: by id, with curves and details of the
    last evaluation. ``papers``: titles by short name. ``messages``.
    """
    return {
        "version": BOARD_SCHEMA_VERSION,
        "groups": list(dict.fromkeys(table.benchmark.group for table in board.rankings)),
        "papers": {record.paper: record.title for record in read_published()},
        "benchmarks": [_benchmark(table.benchmark) | _table(table) for table in board.rankings],
        "apart": [
            {"closest": table.benchmark and table.benchmark.id, "synthetic": table.synthetic}
            | _table(table)
            for table in board.apart
        ],
        "runs": {id_: _run(run) for id_, run in board.runs.items()},
        "messages": list(board.messages),
    }


def _benchmark(benchmark: Benchmark) -> dict[str, Any]:
    setting = {name: getattr(benchmark.setting, name) for name in SETTING_FIELDS}
    kept = {name: getattr(benchmark, name) for name in ("id", "group", "note", "target")}
    return {**kept, "setting": setting}


def _table(table: Table) -> dict[str, Any]:
    return {
        "title": table.title,
        **{
            name: [asdict(column) for column in getattr(table, name)]
            for name in ("columns", "further_columns")
        },
        **{
            name: [
                {"kind": row.kind, "label": row.method.label, "source": row.source, **asdict(row)}
                for row in getattr(table, name)
            ]
            for name in ("rows", "further_rows")
        },
    }


def _run(run: FoundRun) -> dict[str, Any]:
    left_out = {"versions", "extras", "config", "parameters"}
    config = run.results.model_dump(exclude=left_out)
    apart = {name: config.pop(name) for name in ("last_rounds", "final", "curves")}
    about = {"folder": printable(str(run.folder)), "synthetic": run.results.synthetic}
    return {**about, **apart, "config": config}
