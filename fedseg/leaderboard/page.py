"""The board as a static page: one folder that opens in a browser, without server or network.

``index.html`` holds the tables, readable without JavaScript, and the data of the charts; ``page/``
holds style, scripts, Plotly's own file and the pictures of predictions. A run's folder may come
from anyone: the template escapes text, pictures are decoded and written anew, and no name in a file
becomes a path.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from fedseg.files import own_folder, write_text
from fedseg.leaderboard.benchmarks import (
    MODELS,
    Benchmark,
    Column,
    count_published,
    records_of,
)
from fedseg.leaderboard.board import OWN, Board, Table
from fedseg.leaderboard.methods import method_of_record, name_of
from fedseg.leaderboard.output import (
    header,
    number,
    to_csv,
    to_json,
    to_markdown,
    traffic,
    value_text,
)
from fedseg.leaderboard.page_runs import remove_unused, run_data
from fedseg.leaderboard.rows import Row, fedavg_bytes

ASSETS = "page_assets"
COPIED = ("page.css", "start.js", "page.js", "charts.js")
MARKS = "●■▲◆▼✚★"  # beside the colors of charts, in the order of their markers
AXES = (("algorithm", "Algorithm"), ("averaging", "Averaging"), ("bn", "BatchNorm"))
MODEL_NAMES = {name: cls.removesuffix("Segmentor") for cls, name in MODELS.items()}
TIMES = "\u00d7"
GAP = Column("gap", "seen - unseen (points)", "", "difference", (None, ""), False, unit="")


def write_board(
    board: Board, folder: str | Path, everything: bool = False, further: bool = False
) -> list[Path]:
    """Write Markdown, two CSV (ranked, apart), JSON and the page; its path comes last."""
    texts = {
        "leaderboard.md": to_markdown(board, everything, further),
        "leaderboard.csv": to_csv(board.rankings),
        "not_comparable.csv": to_csv(board.apart, "reasons"),
        "leaderboard.json": json.dumps(to_json(board), ensure_ascii=False, allow_nan=False) + "\n",
    }
    for name, text in texts.items():
        write_text(Path(folder) / name, text)
    return [*(Path(folder) / name for name in texts), write_page(board, folder)]


def write_page(board: Board, folder: str | Path) -> Path:
    """Write ``index.html`` and ``page/``; each file atomically, ``index.html``, the path, last."""
    folder = Path(folder)
    place = own_folder(folder, "page")
    messages = list(board.messages)
    runs = {id_: run_data(run, place, messages) for id_, run in board.runs.items()}
    remove_unused(folder, runs.values())
    for name in COPIED:
        asset = resources.files("fedseg.leaderboard").joinpath(ASSETS, name)
        write_text(place / name, asset.read_text(encoding="utf-8"))
    write_text(place / "plotly.min.js", get_plotlyjs())
    write_text(folder / "index.html", render(board, runs, messages))
    return folder / "index.html"


def render(
    board: Board,
    runs: Mapping[str, Mapping[str, Any]],
    messages: Sequence[str] = (),
) -> str:
    """The text of ``index.html``; ``runs``: by id, what charts need of each run."""
    rankings = board.shown(everything=True)
    own_tables = [table for table in rankings if table.is_own]
    benchmarks = [table for table in rankings if not table.is_own]
    benchmarks.sort(key=lambda table: not table.runs)  # tabs and tables with a run come first
    tables = [_table(table, board, runs) for table in (*own_tables, *board.overviews, *benchmarks)]
    _make_unique(tables, "id")  # of titles, which have names of strangers
    groups: dict[str, list[dict[str, Any]]] = {}
    for table in tables:
        groups.setdefault(table["group"], []).append(table)
    rows = [row for table in tables for row in (*table["rows"], *table["further_rows"])]
    style = {"autoescape": True, "undefined": StrictUndefined}
    style |= {"trim_blocks": True, "lstrip_blocks": True}
    environment = Environment(loader=PackageLoader("fedseg.leaderboard", ASSETS), **style)
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False}  # the order stays as it is
    text = environment.get_template("index.html").render(
        groups=groups,
        papers={row["paper"]: row for row in rows if row["paper"]},
        messages=messages,
        run_count=len(board.runs),
        published=count_published(),
        axes=AXES,
        marks=MARKS,
        header=header,
        value_text=value_text,
        number=number,
        model_names=MODEL_NAMES,
        data={"tables": {table["id"]: _chart_data(table) for table in tables}, "runs": runs},
    )
    lines = (line.strip() for line in text.split("\n"))  # no text here depends on its indentation
    return "\n".join(filter(None, lines)) + "\n"


def _table(table: Table, board: Board, runs: Mapping[str, Any]) -> dict[str, Any]:
    """A table's fields for the template, with what is derived from them."""
    benchmark = table.benchmark
    costs = _published_costs(benchmark) if table.ranked else {}
    make = partial(_row, table=table, board=board, runs=runs, costs=costs)
    rows, further = [*map(make, table.rows)], [*map(make, table.further_rows)]
    _make_unique([*rows, *further], "key")
    for place, row in enumerate(row for row in rows if row["kind"] == "run"):
        row["mark"] = place % len(MARKS)
    cells = [row["cells"][column.key] for row in rows for column in table.columns]
    choices = {key: {row["axes"][key] for row in (*rows, *further)} for key, _ in AXES}
    return {
        **vars(table),
        "ranked": table.ranked,
        "id": benchmark.id if table.ranked else f"own-{_short_digest(table.title)}",
        "group": OWN if table.is_own else benchmark.group,
        "target": benchmark.target if table.ranked else None,
        "trafficUnit": "share" if table.ranked else "bytes",
        "rows": rows,
        "further_rows": further,
        "choices": {key: sorted(names) for key, names in choices.items() if len(names) > 1},
        "kinds": {row["kind"] for row in rows},
        "doubtful": any(cell.doubt and cell.value is not None for cell in cells),
    }


def _row(
    row: Row,
    table: Table,
    board: Board,
    runs: Mapping[str, Any],
    costs: Mapping[tuple[str, str], int],
) -> dict[str, Any]:
    """A row for the template; traffic is relative to FedAvg's in a benchmark's table."""
    method, sent, text = row.method, row.bytes, traffic(row)
    if table.ranked and sent is not None:
        first = board.runs[row.runs[0]].results.model if row.runs else table.benchmark.setting
        sent /= fedavg_bytes(first.parameters, table.benchmark)
        text += f" ({sent:.3g} {TIMES})"
    elif table.ranked and (sent := costs.get((row.paper, method.label))) is not None:
        text = f"{sent:.3g} {TIMES}"
    return {
        **vars(row),
        "key": _short_digest("\n".join((row.source, method.label, *row.reasons))),
        "kind": row.kind,
        "label": method.label,
        "source": f"{row.paper}, {', '.join((row.table, *row.also))}" if row.paper else row.name,
        "details": [runs[id_] for id_ in row.runs if runs.get(id_)],
        "axes": {
            "algorithm": method.algorithm_name.split(" + ")[0],
            "averaging": name_of(method.averaging or "none"),
            "bn": name_of(method.bn or "none"),
        },
        "traffic": sent,
        "traffic_text": text,
        "mark": 0,
    }


def _published_costs(benchmark: Benchmark) -> dict[tuple[str, str], int]:
    """Traffic a round relative to FedAvg's, of the published methods whose source states it."""
    return {
        (record.paper, method_of_record(record, benchmark.setting.local_epochs).label): cost
        for record in records_of(benchmark.setting)
        if (cost := record.comm_cost) and benchmark.column_of(record)[1]
    }


def _short_digest(text: str) -> str:
    """For links: it stays the same from one board to the next."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:8]


def _make_unique(entries: Iterable[dict[str, Any]], name: str) -> None:
    """Number what occurs twice."""
    seen: dict[str, int] = {}
    for entry in entries:
        seen[entry[name]] = count = seen.get(entry[name], 0) + 1
        if count > 1:
            entry[name] += f"-{count}"


def _chart_data(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table for the charts; beside the curvature, the gap between domains is of interest."""
    fields = ("key", "kind", "label", "source", "paper", "mark", "runs", "traffic", "year")
    sharpness = [c for c in table["further_columns"] if c.statistic == "curvature"]
    rows = []
    for row in table["rows"]:
        cells = {key: cell for key, cell in row["cells"].items() if cell.doubt is None}
        values = {k: [cell.value, cell.std] for k, cell in cells.items() if cell.value is not None}
        unseen = next((key for key in values if key.startswith("unseen")), None)
        if sharpness and unseen is not None and "seen" in values:
            values[GAP.key] = [values["seen"][0] - values[unseen][0], None]
        rows.append({name: row[name] for name in fields} | {"values": values})
    has = {key for row in rows for key in row["values"]}
    further = [column for column in (*sharpness, GAP) if column.key in has]
    return {
        **{name: table[name] for name in ("target", "trafficUnit", "ranked")},
        "columns": list(map(_chart_column, table["columns"])),
        "further": list(map(_chart_column, further)),
        "rows": rows,
    }


def _chart_column(column: Column) -> dict[str, Any]:
    return {**vars(column), "name": column.label, "label": header(column)}
