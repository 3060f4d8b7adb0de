"""The board as a static page: one folder that opens in a browser, without server and network.

``index.html`` holds the tables, readable without JavaScript, and the data of the charts; ``page/``
holds style, scripts, Plotly's own file and the pictures of predictions. What comes from a run's
folder is a stranger's: text is escaped by the template, pictures are decoded and written anew, and
no name in a file becomes a path.
"""

import hashlib
import io
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from PIL import Image
from plotly.offline import get_plotlyjs

from fedseg.leaderboard.benchmarks import MODELS, Benchmark, Column
from fedseg.leaderboard.board import Apart, Board, Ranking, Row, Run
from fedseg.leaderboard.methods import NAMES, method_of_record
from fedseg.leaderboard.output import STATUS, header, number, shown, traffic
from fedseg.leaderboard.reference import read_published
from fedseg.runs.schema import FILE_NAME

ASSETS = "page_assets"
COPIED = ("page.css", "start.js", "page.js", "charts.js")
APART = "Not comparable"
MARKS = "●■▲◆▼✚★"  # beside the colours of charts, in the order of their markers
AXES = (("algorithm", "Algorithm"), ("averaging", "Averaging"), ("bn", "BatchNorm"))
MODEL_NAMES = {name: cls.removesuffix("Segmentor") for cls, name in MODELS.items()}
STATISTICS = {"window": "mean over the last {} rounds", "final": "last evaluation"}
TIMES = "\u00d7"
MOST_ROUNDS = 100  # columns of the map of clients
MOST_PICTURES = 12  # of a run
PICTURE_WIDTH = 1100  # pixels; a larger picture is made smaller
LARGEST_PICTURE = 40_000_000  # pixels; more is not decoded


def write_page(board: Board, folder: str | Path, everything: bool = False) -> Path:
    """Write ``index.html`` and ``page/``; each file atomically, ``index.html`` last.

    Args:
        board: what to show. folder: where to; it is made.
        everything: benchmarks without a run too: the published numbers.

    Returns:
        The path of ``index.html``.
    """
    folder = Path(folder)
    assets = folder / "page"
    (assets / "pictures").mkdir(parents=True, exist_ok=True)
    messages = list(board.messages)
    runs = {id_: _run(run, assets / "pictures", messages) for id_, run in board.runs.items()}
    used = {picture["src"] for run in runs.values() for picture in run["pictures"]}
    for path in (assets / "pictures").iterdir():  # of an earlier page
        named_here = re.fullmatch(r"[0-9a-f]{20}\.jpg", path.name)
        if named_here and f"page/pictures/{path.name}" not in used:
            path.unlink()
    for name in COPIED:
        _write(assets / name, _asset(name))
    _write(assets / "plotly.min.js", get_plotlyjs())
    index = folder / "index.html"
    _write(index, render(board, runs, messages, everything))
    return index


def render(
    board: Board,
    runs: Mapping[str, Mapping[str, Any]],
    messages: Sequence[str] = (),
    everything: bool = False,
) -> str:
    """The text of ``index.html``.

    Args:
        board: what to show.
        runs: by id, what charts need of each run.
        messages: what was left out. everything: as for :func:`write_page`.
    """
    tables = [_ranking(ranking, board.runs) for ranking in shown(board, everything)]
    tables += [_apart(apart) for apart in board.apart]
    _make_unique(tables)
    groups: dict[str, list[dict[str, Any]]] = {}
    for table in tables:
        groups.setdefault(table["group"], []).append(table)
    papers = {record.paper: record.title for record in read_published()}
    cited = {row["paper"] for table in tables for row in table["rows"]}
    environment = Environment(
        loader=PackageLoader("fedseg.leaderboard", ASSETS),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False}  # the order stays as it is
    text = environment.get_template("index.html").render(
        groups=[
            {"name": name, "id": f"group-{n}", "tables": found}
            for n, (name, found) in enumerate(groups.items())
        ],
        papers={paper: title for paper, title in papers.items() if paper in cited},
        messages=messages,
        run_count=len(board.runs),
        published_count=sum(row["kind"] == "published" for t in tables for row in t["rows"]),
        axes=AXES,
        marks=MARKS,
        data={"tables": {table["id"]: _table_data(table) for table in tables}, "runs": runs},
    )
    lines = (line.strip() for line in text.split("\n"))  # no text here hangs on its indentation
    return "\n".join(filter(None, lines)) + "\n"


# ---------------------------------------------------------------- tables


def _ranking(ranking: Ranking, runs: Mapping[str, Run]) -> dict[str, Any]:
    """A benchmark's table for the template."""
    benchmark, setting = ranking.benchmark, ranking.benchmark.setting
    costs = _published_costs(benchmark)
    rows = []
    for row in ranking.rows:
        share = costs.get((row.paper, row.method.label))
        if row.bytes is not None:  # FedAvg sends every parameter, 4 bytes, both ways
            parameters = runs[row.runs[0]].results.model.parameters
            share = row.bytes / (8 * parameters * setting.clients_per_round * setting.rounds)
        rows.append(
            _row(row, benchmark.columns)
            | {"rounds": setting.rounds, "traffic": share, "traffic_text": _share(row, share)}
        )
    facts = [
        f"{setting.n_clients:,} clients",
        f"{setting.clients_per_round} a round",
        f"{setting.rounds:,} rounds",
        f"{setting.local_epochs} local epochs" if setting.local_epochs > 1 else "1 local epoch",
        MODEL_NAMES.get(setting.model, setting.model),
    ]
    if benchmark.target is None:
        facts.append(STATISTICS[benchmark.columns[0].statistic].format(setting.window))
    return {
        "id": benchmark.id,
        "ranked": True,
        "group": benchmark.group,
        "title": benchmark.title,
        "note": "; ".join(filter(None, (benchmark.note, _lost(ranking.rows)))),
        "facts": facts,
        "reasons": [],
        "target": benchmark.target,
        "traffic_unit": "share",
        **_common(rows, benchmark.columns),
    }


def _lost(rows: Iterable[Row]) -> str:
    """What the word means, where it stands for a number."""
    lost = any(cell.status == "lost" for row in rows for cell in row.cells.values())
    return "lost: the number could not be read in the source's text" if lost else ""


def _apart(apart: Apart) -> dict[str, Any]:
    """A table of runs that no published number may stand beside."""
    rows = [
        _row(row, apart.columns)
        | {"rounds": None, "traffic": row.bytes, "traffic_text": traffic(row)}
        for row in apart.rows
    ]
    shared = [r for r in rows[0]["reasons"] if all(r in row["reasons"] for row in rows)]
    for row in rows:
        row["reasons"] = [reason for reason in row["reasons"] if reason not in shared]
    return {
        "id": f"apart-{_short_digest(f'{apart.title} {apart.closest}')}",
        "ranked": False,
        "group": APART,
        "title": apart.title[0].upper() + apart.title[1:],
        "note": "",
        "facts": [],
        "reasons": shared,
        "target": None,
        "traffic_unit": "bytes",
        **_common(rows, apart.columns),
    }


def _row(row: Row, columns: Sequence[Column]) -> dict[str, Any]:
    method = row.method
    identity = "\n".join((row.source, method.label, *row.reasons))
    return {
        "key": _short_digest(identity),
        "kind": "published" if row.published else "run",
        "label": method.label,
        "source": f"{row.paper}, {', '.join((row.table, *row.also))}" if row.paper else row.name,
        "paper": row.paper,
        "seeds": list(row.seeds),
        "runs": list(row.runs),
        "reasons": list(row.reasons),
        "axes": {
            "algorithm": method.label.split(" + ")[0].split(",")[0],
            "averaging": NAMES.get(method.averaging or "", method.averaging or "none"),
            "bn": NAMES.get(method.bn or "", method.bn or "none"),
        },
        "cells": {column.key: _cell(row, column) for column in columns},
    }


def _cell(row: Row, column: Column) -> dict[str, Any]:
    cell = row.cells[column.key]
    missing = cell.value is None
    return {
        "value": cell.value,
        "std": cell.std,
        "text": STATUS.get(cell.status or "missing", cell.status)
        if missing
        else number(cell.value, column),
        "std_text": None if missing or cell.std is None else number(cell.std, column),
        "best": cell.rank == 1,
        "rank": cell.rank,
        "doubt": None if missing else cell.doubt,
    }


def _common(rows: list[dict[str, Any]], columns: Sequence[Column]) -> dict[str, Any]:
    """What both kinds of tables have: choices of the filters, figures in doubt, colours of runs."""
    choices = {
        key: sorted({row["axes"][key] for row in rows}, key=lambda name: (name == "none", name))
        for key, _ in AXES
    }
    for place, row in enumerate(row for row in rows if row["kind"] == "run"):
        row["mark"] = place % len(MARKS)
    return {
        "rows": rows,
        "columns": [
            {
                "key": column.key,
                "label": header(column),
                "name": column.label,
                "figure": column.figure,
                "unit": column.unit,
                "digits": column.digits,
                "higher": column.higher,
            }
            for column in columns
        ],
        "choices": {key: found for key, found in choices.items() if len(found) > 1},
        "kinds": sorted({row["kind"] for row in rows}),
        "doubts": [
            (row["label"], row["source"], column.label, row["cells"][column.key]["doubt"])
            for row in rows
            for column in columns
            if row["cells"][column.key]["doubt"]
        ],
    }


def _published_costs(benchmark: Benchmark) -> dict[tuple[str, str], int]:
    """Traffic a round relative to FedAvg's, of the published methods whose source states it."""
    return {
        (record.paper, method_of_record(record, benchmark.setting.local_epochs).label): cost
        for record in read_published()
        if (cost := record.comm_cost) and benchmark.matches(record)
    }


def _share(row: Row, share: float | None) -> str:
    """A run's bytes and what they are relative to FedAvg's; a paper tells the latter only."""
    if share is None:
        return "-"
    times = f"{share:.3g} {TIMES}"
    return times if row.bytes is None else f"{traffic(row)} ({times})"


def _short_digest(text: str) -> str:
    """A name that stays the same from one board to the next, for links."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:8]


def _make_unique(tables: Iterable[dict[str, Any]]) -> None:
    """Number ids of tables, and keys of a table's rows, that occur twice."""
    tables = list(tables)
    _number(tables, "id")
    for table in tables:
        _number(table["rows"], "key")


def _number(entries: Iterable[dict[str, Any]], field: str) -> None:
    seen: dict[str, int] = {}
    for entry in entries:
        seen[entry[field]] = count = seen.get(entry[field], 0) + 1
        if count > 1:
            entry[field] += f"-{count}"


def _table_data(table: Mapping[str, Any]) -> dict[str, Any]:
    """What charts need of a table."""
    return {
        "ranked": table["ranked"],
        "title": table["title"],
        "columns": table["columns"],
        "target": table["target"],
        "trafficUnit": table["traffic_unit"],
        "rows": [
            {
                "key": row["key"],
                "kind": row["kind"],
                "label": row["label"],
                "source": row["source"],
                "mark": row.get("mark", 0),
                "runs": row["runs"],
                "traffic": row["traffic"],
                "values": {
                    key: [cell["value"], cell["std"]]
                    for key, cell in row["cells"].items()
                    if cell["value"] is not None and cell["doubt"] is None
                },
            }
            for row in table["rows"]
        ],
    }


# ---------------------------------------------------------------- runs


def _run(run: Run, pictures: Path, messages: list[str]) -> dict[str, Any]:
    """What charts need of a run; what cannot be read of it is left out, with a message."""
    results = run.results
    curves = results.curves
    facts = [
        ("experiment", results.name),
        ("seed", str(results.seed)),
        ("rounds", f"{results.completed_rounds:,}"),
        ("clients", f"{results.train.clients:,}, {_range(results)} a round"),
        (
            "network",
            f"{results.model.network or results.model.type}, "
            f"{results.model.parameters:,} parameters",
        ),
        ("device", f"{results.device}{', bfloat16' if results.amp else ''}"),
        ("config", results.config_sha256[:12]),
    ]
    return {
        "name": results.name,
        "seed": results.seed,
        "facts": facts,
        "curves": curves
        and {
            "rounds": curves.rounds,
            "bytes": curves.bytes,
            "figures": {"training loss": curves.loss, **curves.figures},
        },
        "classes": {
            domain: found
            for domain, figures in results.final.items()
            if (found := _numbers(figures.get("IoU")))
        },
        "miou": _numbers({domain: f.get("mIoU") for domain, f in results.final.items()}),
        "corruptions": _corruptions(results.final),
        "clients": _clients(run, messages),
        "pictures": _pictures(run, pictures, messages),
    }


def _range(results: Any) -> str:
    least, most = results.clients_per_round.min, results.clients_per_round.max
    return str(most) if least == most else f"{least} to {most}"


def _is_number(value: Any) -> bool:
    """Whether JavaScript reads it as a finite number, too."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _numbers(found: Any) -> dict[str, float | None]:
    """Name -> number of a detail of the results, which may be anything in a stranger's file."""
    if not isinstance(found, dict):
        return {}
    return {str(k): round(v, 3) if _is_number(v) else None for k, v in found.items()}


def _corruptions(final: Mapping[str, Mapping[str, Any]]) -> dict[str, list[float | None]]:
    """Accuracy by corruption, one a severity, of the first test set that has it."""
    for figures in final.values():
        found = figures.get("corruptions")
        if isinstance(found, dict) and found:
            lists = {str(k): v for k, v in found.items() if isinstance(v, list)}
            return {
                name: [round(v, 3) if _is_number(v) else None for v in values]
                for name, values in lists.items()
            }
    return {}


def _clients(run: Run, messages: list[str]) -> dict[str, Any] | None:
    """Accuracy by client over rounds, clients of one main class together; None without it."""
    try:
        found = json.loads((run.folder / FILE_NAME).read_text(encoding="utf-8"))
        found = found.get("client_accuracy")
    except (OSError, ValueError):  # the board was read from a file of another name
        return None
    if found is None:
        return None
    try:
        clients, main, classes = found["clients"], found["main_class"], found["classes"]
        every = max(1, -(-len(found["rounds"]) // MOST_ROUNDS))
        rounds = [int(value) for value in found["rounds"]][::-every][::-1]
        lines = found["accuracy"][::-every][::-1]
        order = sorted(range(len(clients)), key=lambda i: (main[i], i))
        values = [
            [round(line[i], 1) if _is_number(line[i]) else None for line in lines] for i in order
        ]
        names = [f"{clients[i]} ({classes[main[i]]})" for i in order]
        if len(lines) != len(rounds) or not values or not rounds:
            raise ValueError("lists of different lengths")
    except (KeyError, IndexError, TypeError, ValueError) as error:
        messages.append(
            f"{run.folder / FILE_NAME}: client_accuracy: is damaged ({error!r}): the run has no "
            "map of its clients"
        )
        return None
    own = found.get("images") == "train"
    return {
        "rounds": rounds,
        "names": names,
        "values": values,
        "images": "their own training images" if own else "test images in their mix of classes",
    }


def _pictures(run: Run, folder: Path, messages: list[str]) -> list[dict[str, Any]]:
    """Copy a run's predictions, ``pictures/<domain>/<image>.png``, as JPEG files of our own.

    A file is named by its content, so that runs share equal ones and a page can be written over an
    earlier one.
    """
    source = run.folder / "pictures"
    if source.is_symlink() or not source.is_dir():
        return []
    paths = [p for p in sorted(source.glob("*/*.png")) if not p.is_symlink() and p.is_file()]
    domains: dict[str, list[Path]] = {}
    for path in paths:
        if not path.parent.is_symlink():
            domains.setdefault(path.parent.name, []).append(path)
    each = max(1, MOST_PICTURES // max(1, len(domains)))
    copied = []
    for domain, found in list(domains.items())[:MOST_PICTURES]:
        for path in found[:each]:
            try:
                name, width, height = _copy(path, folder)
            except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
                messages.append(f"{path}: is no picture ({error}): left out")
                continue
            copied.append(
                {
                    "src": f"page/pictures/{name}",
                    "domain": domain,
                    "image": path.stem,
                    "width": width,
                    "height": height,
                }
            )
    return copied


def _copy(path: Path, folder: Path) -> tuple[str, int, int]:
    with Image.open(path, formats=("PNG",)) as picture:
        if picture.width * picture.height > LARGEST_PICTURE:
            raise ValueError(f"it has {picture.width} x {picture.height} pixels")
        picture = picture.convert("RGB")
    picture.thumbnail((PICTURE_WIDTH, PICTURE_WIDTH * 4), Image.Resampling.LANCZOS)
    content = io.BytesIO()
    picture.save(content, "JPEG", quality=85, optimize=True)
    name = f"{hashlib.sha256(content.getvalue()).hexdigest()[:20]}.jpg"
    _write(folder / name, content.getvalue())
    return name, picture.width, picture.height


# ---------------------------------------------------------------- files


def _asset(name: str) -> str:
    return resources.files("fedseg.leaderboard").joinpath(ASSETS, name).read_text(encoding="utf-8")


def _write(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all."""
    scratch = path.with_name(f"{path.name}.tmp")
    if isinstance(content, str):
        content = content.encode(errors="replace")  # JSON can hold halves of characters
    scratch.write_bytes(content)
    os.replace(scratch, path)
