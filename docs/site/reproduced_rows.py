"""Writes the rows of the suite's own runs, docs/runs, which stand on every board.

python docs/site/reproduced_rows.py
"""

import json
from dataclasses import asdict
from pathlib import Path

from fedseg.leaderboard import reference
from fedseg.leaderboard.board import build_board
from fedseg.leaderboard.page_runs import train_command
from fedseg.runs.run_files import read_runs

RUNS = Path(__file__).parents[1] / "runs"
FILE = Path(reference.__file__).with_name("reproduced.json")


def text() -> str:
    """The content of the file."""
    board = build_board(*read_runs([RUNS]))
    rows = []
    for table in board.rankings:
        for row in table.runs:
            results = board.runs[row.runs[0]].results
            values = {key: cell.value for key, cell in row.cells.items() if cell.value is not None}
            facts = {"benchmark": table.benchmark.id, "cells": values, "seeds": row.seeds}
            command, remark = train_command(results)
            facts |= {"method": asdict(row.method), "command": "" if remark else command}
            facts |= {name: getattr(row, name) for name in ("name", "bytes", "seconds", "rounds")}
            rows.append(facts | {"year": 2026, "experiment_sha256": results.experiment_sha256})
    return json.dumps({"rows": rows}, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
