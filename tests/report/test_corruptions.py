"""The table and the picture of accuracy under corruptions."""

import numpy as np
import pytest

from fedseg.datasets.corrupted import CORRUPTIONS
from fedseg.errors import DataError
from fedseg.report.corruptions import corruption_table
from fedseg.report.figures import draw_corruptions


def domains(**others) -> dict:
    table = {
        name: [90.0 - number - 10 * s for s in range(5)]
        for number, name in enumerate(reversed(CORRUPTIONS))  # the order is put right
    }
    corrupted = {"accuracy": 1.0, "corruptions": table, "severities": [1, 2, 3, 4, 5]}
    return {"test": {"accuracy": 95.5}, "corrupted": corrupted} | others


def test_means_and_order():
    table = corruption_table(domains())
    assert table.index.tolist() == [*CORRUPTIONS, "mean"]
    assert table.columns.tolist() == [1, 2, 3, 4, 5, "mean"]
    assert table.loc["gaussian_noise"].tolist() == [72, 62, 52, 42, 32, 52]
    assert table.loc["mean"].tolist() == [81, 71, 61, 51, 41, 61]


def test_none_without_a_corrupted_set():
    assert corruption_table({"test": {"accuracy": 3.0}}) is None
    assert corruption_table({}) is None


def test_missing_values_give_no_mean():
    corrupted = {"corruptions": {"fog": [50.0, None], "snow": [40.0, 30.0]}, "severities": [1, 5]}
    table = corruption_table(domains(corrupted=corrupted))
    assert table.index.tolist() == ["snow", "fog", "mean"]
    none = np.nan
    np.testing.assert_array_equal(table, [[40, 30, 35], [50, none, none], [45, none, none]])


def test_another_number_of_values_than_severities():
    corrupted = {"corruptions": {"fog": [50.0]}, "severities": [1, 5]}
    with pytest.raises(DataError, match=r"corruptions\.fog"):
        corruption_table(domains(corrupted=corrupted))


def test_picture_has_the_accuracies_and_means():
    found = {"corruptions": {"fog": [50.0, None], "snow": [0.0, 100.0]}, "severities": [2, 4]}
    (axes,) = draw_corruptions(corruption_table({"c": found}), "a run").axes
    values = np.ma.filled(axes.collections[0].get_array(), np.nan).reshape(3, 3)
    none = np.nan
    expected = [[0, 100, 50], [50, none, none], [25, none, none]]
    np.testing.assert_array_equal(values, expected)
    assert [t.get_text() for t in axes.get_yticklabels()] == ["snow", "fog", "mean"]
    assert axes.get_title().startswith("a run")
