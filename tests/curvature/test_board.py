"""Measured curvature in the table of a benchmark, beside published values."""

import json
from pathlib import Path

import pytest
import toyresults

from fedseg.files import write_text
from fedseg.leaderboard.board import build_board
from fedseg.leaderboard.page import write_page
from fedseg.runs.curvature_files import measured_value, over_rounds
from fedseg.runs.run_files import read_runs

CONTENT = toyresults.results("idda_rainy_heterogeneous", {"unseen/mIoU": 50.0})
TOP = {
    "lambda_max": 12.5,
    "eigenvalues": [12.5, 3],
    "lambda_max_over_lambda5": None,
    "residuals": [0.0, 0.0],
    "products": 20,
}


def write_quantities(tmp_path: Path, quantities: dict[str, dict], **changes) -> Path:
    """A run with a file for each quantity; ``changes`` are of what it was measured of."""
    folder = toyresults.write(tmp_path / "a", CONTENT)
    for name, values in quantities.items():
        content = {"config_sha256": CONTENT["config_sha256"], "round": 1, "changed": []}
        content |= {"num_samples": 8, "values": values, **changes}
        write_text(quantity_path(folder, name), json.dumps(content))
    return folder


def quantity_path(folder: Path, name: str) -> Path:
    return folder / f"curvature/round_{CONTENT['completed_rounds']:06d}/{name}.json"


def test_measured_values_stand_in_the_columns_of_published_ones(tmp_path):
    quantities = {
        "top": TOP,
        "trace": {
            "trace": {"value": 340.0, "standard_error": 2.0},
            "frobenius_norm": {"value": 90.0, "standard_error": None},
            "products": 90,
        },
        "participants": {
            "lambda_max_local": {"a": 2.0, "b": 4.0},
            "lambda_max_global": {"a": 3.0, "b": 5.0},
        },
    }
    runs, messages = read_runs([write_quantities(tmp_path, quantities)])
    assert not messages
    board = build_board(runs, messages)
    values = board.lines(board.own[0]).set_index("column")["value"].dropna()
    assert values["lambda_max"] == 12.5
    assert values["trace"] == 340.0
    assert values["lambda_max_local"] == 3.0
    assert "lambda_ratio" not in values
    text = write_page(board, tmp_path / "board").read_text()
    assert "λ max" in text and "12.50" in text and "340" in text


@pytest.mark.parametrize(
    ("values", "changes"),
    [
        ({**TOP, "lambda_max": "<b>"}, {}),
        ({**TOP, "eigenvalues": [1e308]}, {}),
        ({**TOP, "eigenvalues": [[1]]}, {}),
        ({"lambda_max": 12.5}, {}),
        (TOP, {"values": 3}),
        (TOP, {"config_sha256": "<script>"}),
        (TOP, {"changed": ["dtype=float64"]}),
    ],
    ids=["text", "large", "nested", "a part", "no object", "of another run", "changed"],
)
def test_a_file_that_does_not_fit_is_named_and_the_run_stays(tmp_path, values, changes):
    folder = write_quantities(tmp_path, {"top": values}, **changes)
    (run,), (message,) = read_runs([folder])
    assert "top.json" in message
    assert measured_value(run.results, "top/lambda_max") is None


@pytest.mark.parametrize("text", ["[1, 2", "[" * 100 + "]" * 100], ids=["damaged", "deep"])
def test_a_damaged_file_is_named_and_the_run_stays(tmp_path, text):
    folder = write_quantities(tmp_path, {"top": TOP})
    write_text(quantity_path(folder, "top"), text)
    (run,), (message,) = read_runs([folder])
    assert "top.json" in message
    assert measured_value(run.results, "top/lambda_max") is None


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
