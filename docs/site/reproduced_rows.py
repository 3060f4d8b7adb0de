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
from fedseg.leaderboard.methods import method_of_results
from fedseg.leaderboard.page import train_command
from fedseg.runs.run_files import read_runs
from fedseg.runs.schema import Results

RUNS = Path(__file__).parents[1] / "runs"
# what the runs of these names have besides their setting and methods
OPTIONS = {
    "cifar10_a005_fedavg_wima": ("averaging.start=9801",),
    "cifar10_a005_fedasam_wima": ("averaging.start=9801",),
}
FILE = Path(reference.__file__).with_name("reproduced.json")


def clients_options(results: Results) -> list[str]:
    """The options that train on the clients of a run, where the current version draws others."""
    file = RUNS / "clients" / f"{results.setting}.json"
    packed = file.with_suffix(".json.xz")
    if not packed.is_file():
        return []
    digest = hashlib.sha256(results.train.split_checksum.encode())
    clients = json.loads(lzma.decompress(packed.read_bytes()))
    for client, indices in clients.items():
        digest.update(json.dumps([client, [str(index) for index in indices]]).encode())
    if digest.hexdigest() != results.train.partition_sha256:
        return []
    partition = "train_dataloader.partition"
    values = ("_delete_=True", "type=FixedPartition", f"file=docs/runs/clients/{file.name}")
    return [f"{partition}.{value}" for value in values]


def command(results: Results) -> str:
    """The command that trains a run again."""
    options = [*OPTIONS.get(results.name, ()), *clients_options(results)]
    line = train_command(results)
    return f"{line} --cfg-options {' '.join(options)}" if options else line


def text() -> str:
    """The content of the file."""
    board = build_board(*read_runs([RUNS]))
    rows = []
    for benchmark in board.benchmarks:
        lines = board.lines(benchmark)
        for _, row in lines[lines["kind"] == "run"].groupby("row"):
            first = row.iloc[0]
            results = board.runs[first["runs"][0]].results
            known = row[row["value"].notna()].sort_values("place")
            method = method_of_results(results, benchmark.setting.local_epochs)
            facts = {
                "benchmark": benchmark.id,
                "cells": dict(zip(known["column"], known["value"], strict=True)),
                "seeds": first["seeds"],
                "method": asdict(method),
                "command": command(results),
                "name": first["experiment"],
                "bytes": float(first["bytes"]),
                "seconds": float(first["seconds"]),
                "rounds": int(first["rounds"]),
                "year": int(first["year"]),
                "experiment_sha256": results.experiment_sha256,
            }
            rows.append(facts)
    return json.dumps({"rows": rows}, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
