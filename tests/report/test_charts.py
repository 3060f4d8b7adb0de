"""Curves and the heat map, drawn from whatever a run left."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import same_color, to_rgb
from toyhistory import record

from fedseg.report.charts import draw_client_accuracy, draw_curves, draw_iou_by_class
from fedseg.runs.run_files import RunFiles


def run_of(folder: Path, rounds: int, metric: str = "mIoU") -> RunFiles:
    """Evaluated every other round."""
    records = [record(i) for i in range(1, rounds + 1)]
    for line in records[1::2]:
        line["metrics"] = {f"unseen/{metric}": line["round"], f"seen/{metric}": 2.0}
    return RunFiles(folder, None, records)


@pytest.mark.parametrize(("metric", "rounds", "lines"), [("mIoU", 12, 1), ("accuracy", 80, 2)])
def test_curves_have_a_line_for_each_domain(tmp_path, metric, rounds, lines):
    run = run_of(tmp_path, rounds, metric)
    left, right = draw_curves(run).axes
    assert len(left.lines) == lines  # of many rounds a pale line, and its moving mean
    assert left.lines[0].get_xydata().tolist() == [[r, run.losses[r]] for r in run.losses]
    assert right.get_ylabel() == f"{metric} (%)"
    unseen, seen = sorted(right.lines, key=lambda line: -max(line.get_ydata()))
    assert unseen.get_xydata().tolist() == [[r, r] for r in range(2, rounds + 1, 2)]
    assert set(seen.get_ydata()) == {2.0}
    assert not same_color(unseen.get_color(), seen.get_color())
    texts = {text.get_text() for text in right.get_legend().get_texts()}
    assert texts == {f"unseen: {rounds}.0", "seen: 2.0"}


def test_curves_of_missing_values(tmp_path):
    run = run_of(tmp_path, 8)
    run.history[2]["loss"] = None
    run.history[3]["metrics"] = {"unseen/mIoU": None, "seen/mIoU": 1.0}
    run.history[5].pop("metrics")
    left, right = draw_curves(run).axes
    assert 3 not in left.lines[0].get_xdata()
    assert [[2, 2], [8, 8]] in [line.get_xydata().tolist() for line in right.lines]


@pytest.mark.parametrize("records", [[], [record(1, loss=None)], [record(1, metrics={})]])
def test_curves_without_evaluation(tmp_path, records):
    _, right = draw_curves(RunFiles(tmp_path, None, records)).axes
    assert not right.lines and "nothing was evaluated" in [t.get_text() for t in right.texts]


def test_heat_map_has_values_means_and_colors_of_classes():
    domains = {
        "unseen": {"mIoU": 50.0, "IoU": {"road": 100.0, "car": 0.0, "sky": None}},
        "seen": {"mIoU": 75.0, "IoU": {"road": 50.0, "car": 100.0, "sky": None}},
    }
    palette = [[128, 64, 128], [0, 0, 142], [70, 130, 180]]
    (axes,) = draw_iou_by_class(domains, palette).axes
    values = axes.collections[0].get_array()
    expected = [[100, 50], [0, 100], [np.nan, np.nan], [50, 75]]
    np.testing.assert_array_equal(np.ma.filled(values, np.nan), expected)
    assert [t.get_text() for t in axes.get_yticklabels()] == ["road", "car", "sky", "mIoU"]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["unseen", "seen"]
    assert sum(text.get_text() == "–" for text in axes.texts) == 2  # noqa: RUF001
    squares = [line.get_color() for line in axes.lines if line.get_marker() == "s"]
    np.testing.assert_allclose([to_rgb(color) for color in squares], np.array(palette) / 255)


def test_no_heat_map_without_iou():
    assert draw_iou_by_class({"seen": {"accuracy": 90.0}}) is None


def test_clients_are_sorted_by_their_main_class():
    entry = {"rounds": [5, 10], "accuracy": [[10, 20, None], [40, 50, 60]]}
    entry |= {"main_class": [1, 0, 1], "classes": ["cat", "dog"]}
    axes, scale = draw_client_accuracy(entry, "run").axes
    rows = np.ma.filled(axes.images[0].get_array(), np.nan)
    np.testing.assert_array_equal(rows, [[20, 50], [10, 40], [np.nan, 60]])
    assert [t.get_text() for t in axes.get_yticklabels()] == ["cat", "dog"]
    assert scale.get_ylabel() == "accuracy (%)"
