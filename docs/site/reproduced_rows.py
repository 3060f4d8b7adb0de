"""Writes the rows of the suite's own runs, docs/runs, which stand on every board.

python docs/site/reproduced_rows.py
"""

import hashlib
import json
import lzma
from dataclasses import asdict
from pathlib import Path

from fedseg.leaderboard import reference
from fedseg.leaderboard.board import build_board
from fedseg.leaderboard.page_runs import train_command
from fedseg.runs.run_files import read_runs
from fedseg.runs.schema import Results

RUNS = Path(__file__).parents[1] / "runs"
FILE = Path(reference.__file__).with_name("reproduced.json")


def clients_option(results: Results) -> str:
    """The option that trains on the clients of a run, where the current version draws others."""
    file = RUNS / "clients" / f"{results.setting}.json"
    packed = file.with_suffix(".json.xz")
    if not packed.is_file():
        return ""
    digest = hashlib.sha256(results.train.split_checksum.encode())
    clients = json.loads(lzma.decompress(packed.read_bytes()))
    for client, indices in clients.items():
        digest.update(json.dumps([client, [str(index) for index in indices]]).encode())
    if digest.hexdigest() != results.train.partition_sha256:
        return ""
    partition = "train_dataloader.partition"
    values = ("_delete_=True", "type=FixedPartition", f"file=docs/runs/clients/{file.name}")
    return " ".join(f"{partition}.{value}" for value in values)


def command(results: Results) -> str:
    """The command that trains a run again; empty if its options are more than a command holds."""
    line, remark = train_command(results)
    if remark:
        return ""
    clients = clients_option(results)
    if clients and "--cfg-options" in line:
        return f"{line} {clients}"
    if clients:
        return f"{line} --cfg-options {clients}"
    return line


def text() -> str:
    """The content of the file."""
    board = build_board(*read_runs([RUNS]))
    rows = []
    for table in board.rankings:
        for row in table.runs:
            results = board.runs[row.runs[0]].results
            values = {key: cell.value for key, cell in row.cells.items() if cell.value is not None}
            facts = {"benchmark": table.benchmark.id, "cells": values, "seeds": row.seeds}
            facts |= {"method": asdict(row.method), "command": command(results)}
            of_row = ("name", "bytes", "seconds", "rounds", "year")
            facts |= {name: getattr(row, name) for name in of_row}
            rows.append(facts | {"experiment_sha256": results.experiment_sha256})
    return json.dumps({"rows": rows}, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
