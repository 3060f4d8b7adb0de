"""Measured curvature in the table of a benchmark, beside published values."""

import json
import re

import toyresults

from fedseg.leaderboard.board import build_board
from fedseg.leaderboard.collect import read_runs
from fedseg.leaderboard.page import write_page
from fedseg.runs.curvature_files import measured_value


def test_measured_values_stand_in_the_columns_of_published_ones(tmp_path):
    content = toyresults.results("idda_rainy_heterogeneous", {"unseen/mIoU": 50.0})
    folder = toyresults.write(tmp_path / "a", content)
    quantities = {
        "top": {"lambda_max": 12.5, "lambda_max_over_lambda5": "many", "eigenvalues": [12.5, 3]},
        "trace": {"trace": {"value": 340.0, "standard_error": 2.0}},
        "participants": {"lambda_max_local": {"a": 2.0, "b": 4.0}},
    }
    path = folder / "curvature" / f"round_{content['completed_rounds']:06d}" / "curvature.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"quantities": quantities}))
    runs, messages = read_runs([tmp_path])
    board = build_board(runs, messages)
    (row,) = (r for t in (*board.rankings, *board.apart) for r in t.runs)
    values = {key: row.cells[key].value for key in row.cells}
    assert values["lambda_max"] == 12.5
    assert values["trace"] == 340.0
    assert values["lambda_max_local"] == 3.0
    assert values.get("lambda_ratio") is None  # of another form than expected
    text = write_page(board, tmp_path / "board").read_text()
    data = json.loads(re.search(r'<script[^>]*id="data"[^>]*>(.*?)</script>', text, re.S)[1])
    (table,) = (t for t in data["tables"].values() if any(r["kind"] == "run" for r in t["rows"]))
    assert {"lambda_max", "trace"} <= {column["key"] for column in table["further"]}
    (run,) = data["runs"].values()
    assert run["spectrum"] == [12.5, 3.0]
    path.write_text("[1, 2")
    (run,), _ = read_runs([tmp_path])
    assert measured_value(run.results.extras["curvature"], "top/lambda_max") is None
