"""Measured curvature in the table of a benchmark, beside published values."""

import json
import re
from pathlib import Path

import pytest
import toyresults

from fedseg.files import write_text
from fedseg.leaderboard.board import build_board
from fedseg.leaderboard.page import write_page
from fedseg.runs.curvature_files import eigenvalues, measured_value, over_rounds
from fedseg.runs.run_files import read_runs

CONTENT = toyresults.results("idda_rainy_heterogeneous", {"unseen/mIoU": 50.0})


def written(tmp_path: Path, text: str) -> Path:
    """A run with a ``curvature.json``."""
    folder = toyresults.write(tmp_path / "a", CONTENT)
    name = f"curvature/round_{CONTENT['completed_rounds']:06d}/curvature.json"
    write_text(folder / name, text)
    return folder


def test_measured_values_stand_in_the_columns_of_published_ones(tmp_path):
    quantities = {
        "top": {"lambda_max": 12.5, "eigenvalues": [12.5, 3]},
        "sharpness": {"sam": "many"},
        "trace": {"trace": {"value": 340.0, "standard_error": 2.0}},
        "participants": {"lambda_max_local": {"a": 2.0, "b": 4.0}},
    }
    measured = {"config_sha256": CONTENT["config_sha256"], "quantities": quantities}
    runs, messages = read_runs([written(tmp_path, json.dumps(measured))])
    board = build_board(runs, messages)
    (row,) = (row for table in board.own for row in table.rows)
    values = {key: row.cells[key].value for key in row.cells}
    assert values["lambda_max"] == 12.5
    assert values["trace"] == 340.0
    assert values["lambda_max_local"] == 3.0
    assert values.get("lambda_ratio") is None
    text = write_page(board, tmp_path / "board").read_text()
    data = json.loads(re.search(r'<script[^>]*id="data"[^>]*>(.*?)</script>', text, re.S)[1])
    tables = [table for table in data["tables"].values() if any(r["runs"] for r in table["rows"])]
    assert tables
    for table in tables:
        assert {"lambda_max", "trace"} <= {column["key"] for column in table["further"]}
    (run,) = data["runs"].values()
    assert run["spectrum"] == [12.5, 3.0]


@pytest.mark.parametrize(
    "text",
    [
        "[1, 2",
        '{"quantities": []}',
        '{"quantities": {"top": {"lambda_max": 1}}, "config_sha256": "<script>"}',
        '{"quantities": ' + "[" * 100 + "]" * 100 + "}",
        '{"quantities": {"top": {"eigenvalues": [1e308]}}}',
    ],
    ids=["damaged", "no object", "of another run", "deep", "large"],
)
def test_a_file_that_does_not_fit_is_named_and_the_run_stays(tmp_path, text):
    (run,), (message,) = read_runs([written(tmp_path, text)])
    assert "curvature.json" in message
    assert measured_value(run.results, "top/lambda_max") is None


def test_a_quantity_that_is_no_object_is_named(tmp_path):
    measured = {"config_sha256": CONTENT["config_sha256"], "quantities": {"top": 3}}
    (run,), (message,) = read_runs([written(tmp_path, json.dumps(measured))])
    fault = "quantities.top: must be a valid dictionary, not 3"
    assert f"curvature.json: {fault}" in message
    assert measured_value(run.results, "top/lambda_max") is None


@pytest.mark.parametrize(
    "entry", [{"lambda_max": "<b>"}, {"lambda_max": None}, {"eigenvalues": [[1]]}]
)
def test_quantities_of_another_form_are_not_measured(tmp_path, entry):
    quantities = {"top": entry, "trace": {"trace": {"value": 3.0, "standard_error": None}}}
    measured = {"config_sha256": CONTENT["config_sha256"], "quantities": quantities}
    (run,), messages = read_runs([written(tmp_path, json.dumps(measured))])
    assert measured_value(run.results, "top/lambda_max") is None
    assert eigenvalues(run.results, 5) == [] and not messages
    assert measured_value(run.results, "trace/trace") == 3.0


def test_what_the_hook_logged_stands_at_its_rounds(tmp_path):
    for hook, expected in (
        (3, {}),
        ({"rounds": 3}, {}),
        ({"rounds": [1, "2"], "lambda_max": [[], 3]}, {}),
        (
            {"rounds": [1, 3], "lambda_max": [2.5, None], "<b>": [1, 2]},
            {"lambda_max": [2.5, None, None]},
        ),
    ):
        content = {**CONTENT, "curvature": hook}
        (run,), _ = read_runs([toyresults.write(tmp_path / "a", content)])
        assert over_rounds(run.results, [1, 2, 3]) == expected
