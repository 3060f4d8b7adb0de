"""The runs in docs/runs stand on the board, with the figures that the page says."""

import csv
from pathlib import Path

from fedseg.runs.schema import read_results

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_runs_in_published_length_are_comparable_and_as_told(run_tool, tmp_path):
    code, _, err = run_tool("leaderboard", DOCS / "runs", "--out", tmp_path)
    assert code == 0, err
    rows = list(csv.DictReader((tmp_path / "leaderboard.csv").open(encoding="utf-8")))
    ranked = {
        row["experiment"]: float(row["value"]) for row in rows if row["rank"] and row["experiment"]
    }
    assert not list(csv.DictReader((tmp_path / "not_comparable.csv").open(encoding="utf-8")))
    folders = [file.parent for file in (DOCS / "runs").glob("*/seed*/results.json")]
    assert ranked.keys() == {folder.parent.name for folder in folders}
    page = (DOCS / "results.md").read_text(encoding="utf-8")
    for folder in folders:
        results = read_results(folder / "results.json")
        assert (folder / "history.jsonl").is_file() and (folder / "config.json").is_file()
        assert f"{ranked[results.name]:.2f}" in page
