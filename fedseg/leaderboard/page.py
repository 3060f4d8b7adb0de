"""The board as a static page: one folder that opens in a browser, without server or network.

``index.html`` holds the tables, readable without JavaScript, and the charts; ``page/`` holds style,
script and Plotly's own file. A run's folder may come from anyone: the template escapes text, and
results and pictures are linked only if they lie in the run's folder. Nothing of them is read here.
"""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from fedseg.errors import DataError
from fedseg.files import own_folder, own_path, write_text
from fedseg.leaderboard.benchmarks import MODELS, Benchmark, count_published
from fedseg.leaderboard.board import Board
from fedseg.leaderboard.charts import draw_charts
from fedseg.leaderboard.output import to_csv, to_latex, to_markdown, traffic_text
from fedseg.leaderboard.reference import read_published
from fedseg.leaderboard.values import DOUBT
from fedseg.runs.run_files import FoundRun
from fedseg.runs.schema import FILE_NAME, Results

ASSETS = "page_assets"
COPIED = ("page.css", "page.js")
MODEL_NAMES = {name: cls.removesuffix("Segmentor") for cls, name in MODELS.items()}
MOST_PICTURES = 12  # of a run
CONFIGS = Path(__file__).parents[1] / "configs"


def write_board(
    board: Board, folder: str | Path, everything: bool = False, further: bool = False
) -> list[Path]:
    """Write Markdown, two CSV (benchmarks, your runs), LaTeX and the page; its path comes last."""
    folder = Path(folder)
    texts = {
        "leaderboard.md": to_markdown(board, everything, further),
        "leaderboard.csv": to_csv(board, board.benchmarks),
        "your_runs.csv": to_csv(board, board.own, reasons=True),
        "leaderboard.tex": to_latex(board),
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    return [*(folder / name for name in texts), write_page(board, folder)]


def write_page(board: Board, folder: str | Path) -> Path:
    """Write ``index.html`` and ``page/``; each file atomically, ``index.html``, the path, last."""
    folder = Path(folder)
    place = own_folder(folder, "page")
    for name in COPIED:
        asset = resources.files("fedseg.leaderboard").joinpath(ASSETS, name)
        write_text(place / name, asset.read_text(encoding="utf-8"))
    write_text(place / "plotly.min.js", get_plotlyjs())
    write_text(folder / "index.html", render(board, folder))
    return folder / "index.html"


def render(board: Board, folder: Path) -> str:
    """Make the text of ``index.html``, which will lie in ``folder``."""
    tables = sorted(board.shown(everything=True), key=lambda table: not board.has_runs(table))
    groups: dict[str, list[dict[str, Any]]] = {}
    for benchmark in (*board.own, *tables):  # tabs and tables with a run come first
        groups.setdefault(benchmark.group, []).append(_table(board, benchmark, folder))
    environment = Environment(
        loader=PackageLoader("fedseg.leaderboard", ASSETS),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("index.html").render(
        groups=groups,
        papers={record.paper: record for record in read_published()},
        messages=board.messages,
        run_count=len(board.runs),
        published=count_published(),
    )


# ---------------------------------------------------------------- tables


def _table(board: Board, benchmark: Benchmark, folder: Path) -> dict[str, Any]:
    """What the template needs of a table: ranked rows, others, charts."""
    lines = board.records(benchmark)
    ranked = [line for line in lines if line["is_ranked"] or not benchmark.columns]
    unranked = [line for line in lines if not line["is_ranked"]]
    unranked = [line for line in unranked if _has_value(line) or line["kind"] == "published"]
    is_own = benchmark.setting is None
    parts = [_part(board, ranked, is_own, folder)]
    if unranked:
        parts.append(_part(board, unranked, is_own, folder))
    return {
        "benchmark": benchmark,
        "setting": benchmark.setting,
        "network": _network(benchmark),
        "parts": parts,
        "doubts": [line for line in ranked if _has_value(line) and _doubt(line)],
        "charts": draw_charts(board, benchmark),
    }


def _network(benchmark: Benchmark) -> str:
    setting = benchmark.setting
    if setting is None:
        return ""
    name = MODEL_NAMES.get(setting.model, setting.model)
    return f"{name}, {setting.parameters / 1e6:.3g} M parameters"


def _has_value(line: Mapping[str, Any]) -> bool:
    return pd.notna(line["value"])


def _doubt(line: Mapping[str, Any]) -> str:
    return line["doubt"] if isinstance(line["doubt"], str) else ""


def _part(
    board: Board, lines: Sequence[Mapping[str, Any]], is_own: bool, folder: Path
) -> dict[str, Any]:
    """Columns and rows of one of a table's parts, without columns that have no value."""
    columns: dict[int, Mapping[str, Any]] = {}
    rows: dict[int, dict[str, Any]] = {}
    for line in lines:
        row = rows.setdefault(line["row"], {"cells": {}})
        row["cells"][line["place"]] = _cell(line)
        if line["place"] == 0 or "facts" not in row:
            row |= _row(board, line, is_own, folder)
        if line["place"] == 0 or _has_value(line):
            columns[line["place"]] = line
    return {
        "columns": [columns[place] for place in sorted(columns)],
        "rows": list(rows.values()),
        "kinds": {line["kind"] for line in lines},
    }


def _row(board: Board, line: Mapping[str, Any], is_own: bool, folder: Path) -> dict[str, Any]:
    """What the template needs of a row besides its cells.

    Args:
        board: which has the row.
        line: of its first column.
        is_own: the table has nothing but runs; a row names its places in benchmarks.
        folder: of the page.
    """
    runs = line["runs"]
    return {
        "facts": line,
        "rank": "" if pd.isna(line["rank"]) else line["rank"],
        "source": ", ".join((line["source"], *line["also"])),
        "places": board.places[runs[0]] if is_own else [],
        "runs": [_run(board.runs[id_], folder) for id_ in runs],
        "rounds": "" if pd.isna(line["rounds"]) else line["rounds"],
        "year": "" if pd.isna(line["year"]) else line["year"],
        "bytes": "" if pd.isna(line["bytes"]) else line["bytes"],
        "traffic": traffic_text(line["bytes"]),
    }


def _cell(line: Mapping[str, Any]) -> dict[str, Any]:
    """A cell's texts: the number, its deviation, and whether it is the best or in doubt."""
    number, _, std = line["text"].removesuffix(f" {DOUBT}").partition(" ± ")
    return {
        "value": line["value"] if _has_value(line) else "",
        "number": number,
        "std": std,
        "doubt": _doubt(line) if _has_value(line) else "",
        "is_best": pd.notna(line["rank"]) and line["rank"] == 1,
        "is_missing": not _has_value(line),
    }


# ---------------------------------------------------------------- runs


@dataclass(frozen=True)
class Picture:
    """A picture of a run's predictions."""

    link: str  # from the page
    name: str  # of domain and image


def _run(run: FoundRun, folder: Path) -> dict[str, Any]:
    """What the template needs of a run: links from the page's folder, and commands."""
    return {
        "seed": run.results.seed,
        "folder": str(run.folder),
        "link": _link(run, FILE_NAME, folder),
        "command": train_command(run.results),
        "verify": f"fedseg leaderboard verify {shlex.quote(str(run.folder))}",
        "pictures": list(islice(_pictures(run, folder), MOST_PICTURES)),
    }


def train_command(results: Results) -> str:
    """The command that trains a setting of the suite with its methods again; else empty.

    A reader may execute it, so that no other name stands in it.
    """
    methods = results.methods or []
    if results.setting is None or not _is_config("settings", results.setting):
        return ""
    if not all(_is_config("methods", method) for method in methods):
        return ""
    words = ["fedseg", "train", results.setting]
    if methods:
        words += ["--with", *methods]
    words += ["--seed", str(results.seed)]
    if results.amp:
        words.append("--amp")
    return " ".join(words)


def _is_config(kind: str, name: str) -> bool:
    """True if the suite has a file of this name in ``configs/settings`` or ``configs/methods``."""
    return name in _config_names(kind)


@cache
def _config_names(kind: str) -> set[str]:
    return {path.stem for path in (CONFIGS / kind).glob("*.py")}


def _link(run: FoundRun, name: str, folder: Path) -> str:
    """The address of a file of a run from the page's folder; empty if it lies elsewhere."""
    try:
        path = os.path.realpath(own_path(run.folder, name))
    except DataError:  # a link out of the run's folder
        return ""
    return quote(os.fsencode(os.path.relpath(path, os.path.realpath(folder))))


def _pictures(run: FoundRun, folder: Path) -> Iterator[Picture]:
    """The predictions of a run, ``pictures/<domain>/<image>.png``, by name."""
    for path in sorted((run.folder / "pictures").glob("*/*.png")):
        link = _link(run, str(path.relative_to(run.folder)), folder)
        if link and path.is_file():
            yield Picture(link, f"{path.stem} of {path.parent.name}")
