"""The runs in docs/runs stand on the board, with the figures that the page says."""

import csv
import lzma
import runpy
import shutil
from pathlib import Path

from fedseg.runs.run_files import read_run

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_runs_in_published_length_are_comparable_and_as_told(run_tool, tmp_path):
    code, _, err = run_tool("leaderboard", DOCS / "runs", "--out", tmp_path)
    assert code == 0, err
    rows = list(csv.DictReader((tmp_path / "leaderboard.csv").open(encoding="utf-8")))
    ranked = {
        row["experiment"]: float(row["value"])
        for row in rows
        if row["rank"] and row["experiment"] and row["column"] == "test"
    }
    assert not list(csv.DictReader((tmp_path / "not_comparable.csv").open(encoding="utf-8")))
    folders = [file.parent for file in (DOCS / "runs").glob("*/seed*/results.json")]
    assert ranked.keys() == {folder.parent.name for folder in folders}
    page = (DOCS / "results.md").read_text(encoding="utf-8")
    for folder in folders:
        copy = shutil.copytree(folder, tmp_path / folder.parent.name)
        for packed in copy.glob("history.jsonl.xz"):
            packed.with_suffix("").write_bytes(lzma.decompress(packed.read_bytes()))
        run = read_run(copy)  # its history must be that of the results
        assert run.history and run.config
        assert f"{ranked[run.results.name]:.2f}" in page


def test_the_rows_that_every_board_has_are_these_runs():
    tool = runpy.run_path(str(DOCS / "site/reproduced_rows.py"))
    assert tool["FILE"].read_text(encoding="utf-8") == tool["text"]()
