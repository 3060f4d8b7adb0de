"""Curves and the heat map, drawn from whatever a run left."""

from pathlib import Path

import numpy as np
import pytest
from drawn_labels import overprinted
from matplotlib.colors import to_rgb
from toyhistory import record

from fedseg.report.charts import draw_client_accuracy, draw_iou_by_class
from fedseg.report.compare import Side
from fedseg.report.compare_output import draw_curves
from fedseg.runs.run_files import RunFiles


def run_of(folder: Path, rounds: int, metric: str = "mIoU") -> RunFiles:
    """Evaluated every other round."""
    records = [record(i) for i in range(1, rounds + 1)]
    for line in records[1::2]:
        line["metrics"] = {f"unseen/{metric}": line["round"], f"seen/{metric}": 2.0}
    return RunFiles(folder, None, records)


def drawn(run: RunFiles) -> list:
    return draw_curves([Side("", run.name, run.folder, (run,))], run.curves.figures).axes


@pytest.mark.parametrize(("metric", "rounds", "lines"), [("mIoU", 12, 1), ("accuracy", 80, 2)])
def test_curves_have_a_panel_for_each_domain(tmp_path, metric, rounds, lines):
    run = run_of(tmp_path, rounds, metric)
    loss, unseen, seen, *_ = drawn(run)
    assert len(loss.lines) == lines  # of many rounds a pale line, and its moving mean
    assert loss.lines[0].get_xydata().tolist() == [[r, run.losses[r]] for r in run.losses]
    assert (unseen.get_title(), unseen.get_ylabel()) == (f"unseen: {rounds}.0", f"{metric} (%)")
    assert unseen.lines[0].get_xydata().tolist() == [[r, r] for r in range(2, rounds + 1, 2)]
    assert set(seen.lines[0].get_ydata()) == {2.0}


def test_curves_of_missing_values(tmp_path):
    run = run_of(tmp_path, 8)
    run.history[2]["loss"] = None
    run.history[3]["metrics"] = {"unseen/mIoU": None, "seen/mIoU": 1.0}
    run.history[5].pop("metrics")
    loss, unseen, *_ = drawn(run)
    assert 3 not in loss.lines[0].get_xdata()
    assert unseen.lines[0].get_xydata().tolist() == [[2, 2], [8, 8]]


@pytest.mark.parametrize("records", [[], [record(1, loss=None)], [record(1, metrics={})]])
def test_curves_without_evaluation(tmp_path, records):
    assert len([axes for axes in drawn(RunFiles(tmp_path, None, records)) if axes.axison]) == 1


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
    series = {5: [10, 20, None], 10: [40, 50, 60]}
    entry = {"main_class": [1, 0, 1], "classes": ["cat", "dog"]}
    axes, scale = draw_client_accuracy(entry, series, "run").axes
    rows = np.ma.filled(axes.images[0].get_array(), np.nan)
    np.testing.assert_array_equal(rows, [[20, 50], [10, 40], [np.nan, 60]])
    assert [t.get_text() for t in axes.get_yticklabels()] == ["cat", "dog"]
    assert scale.get_ylabel() == "accuracy (%)"


def test_names_of_classes_do_not_overprint():
    classes, clients = [f"class {number}" for number in range(29)], 20
    series = {5: [10.0] * clients, 10: [40.0] * clients}
    entry = {"main_class": list(range(clients)), "classes": classes}
    axes, _ = draw_client_accuracy(entry, series).axes
    assert overprinted(axes) == []
    names = [label.get_text() for label in axes.get_yticklabels()]
    places = axes.get_yticks().round().astype(int).tolist()
    assert names == [f"class {place}" for place in places] and len(names) > 5
