"""Curves and the heat map, drawn from whatever a run left."""

from pathlib import Path

import numpy as np
import pytest
from drawn_labels import overprinted
from matplotlib.colors import to_rgb
from toyhistory import record

from fedseg.errors import DataError
from fedseg.report.compare import Side
from fedseg.report.compare_output import LARGEST_POINTS, draw_curves
from fedseg.report.figures import (
    draw_client_accuracy,
    draw_confusion,
    draw_iou_by_class,
    new_figure,
    save_figure,
)
from fedseg.runs.run_files import RunFiles


def run_of(folder: Path, rounds: int, metric: str = "mIoU") -> RunFiles:
    """Evaluated every other round."""
    records = [record(i) for i in range(1, rounds + 1)]
    for line in records[1::2]:
        line["metrics"] = {f"unseen/{metric}": line["round"], f"seen/{metric}": 2.0}
    return RunFiles(folder, None, records)


def drawn(run: RunFiles) -> list:
    return draw_curves([Side("", run.name, run.folder, (run,))], run.curves.figures).axes


@pytest.mark.parametrize(("metric", "rounds"), [("mIoU", 12), ("accuracy", 80)])
def test_curves_have_a_panel_for_each_domain(tmp_path, metric, rounds):
    run = run_of(tmp_path, rounds, metric)
    loss, unseen, seen, *_ = drawn(run)
    assert loss.lines[0].get_xydata().tolist() == [[r, run.losses[r]] for r in run.losses]
    assert (unseen.get_title(), unseen.get_ylabel()) == (f"unseen: {rounds}.0", f"{metric} (%)")
    assert unseen.lines[0].get_xydata().tolist() == [[r, r] for r in range(2, rounds + 1, 2)]
    assert set(seen.lines[0].get_ydata()) == {2.0}


def test_long_curves_have_means_over_equal_pieces(tmp_path):
    records = [record(r, loss=float(r)) for r in range(1, 2 * LARGEST_POINTS + 1)]
    loss, *_ = drawn(RunFiles(tmp_path, None, records))
    expected = [[r + 0.5, r + 0.5] for r in range(1, 2 * LARGEST_POINTS, 2)]
    assert loss.lines[0].get_xydata().tolist() == expected


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
    np.testing.assert_array_equal(np.ma.filled(values, np.nan).reshape(4, 2), expected)
    assert [t.get_text() for t in axes.get_yticklabels()] == ["road", "car", "sky", "mIoU"]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["unseen", "seen"]
    assert sorted(text.get_text() for text in axes.texts) == sorted(
        ["100.0", "50.0", "0.0", "100.0", "50.0", "75.0"]
    )
    squares = [line.get_color() for line in axes.lines if line.get_marker() == "s"]
    np.testing.assert_allclose([to_rgb(color) for color in squares], np.array(palette) / 255)


def test_no_heat_map_without_iou():
    assert draw_iou_by_class({"seen": {"accuracy": 90.0}}) is None


def test_clients_are_sorted_by_their_main_class():
    series = {5: [10, 20, None], 10: [40, 50, 60]}
    entry = {"main_class": [1, 0, 1], "classes": ["cat", "dog"]}
    axes, scale = draw_client_accuracy(entry, series, "run").axes
    rows = np.ma.filled(axes.collections[0].get_array(), np.nan).reshape(3, 2)
    np.testing.assert_array_equal(rows, [[20, 50], [10, 40], [np.nan, 60]])
    assert [t.get_text() for t in axes.get_yticklabels()] == ["cat", "dog"]
    assert scale.get_ylabel() == "accuracy (%)"


def test_rounds_and_names_of_classes_do_not_overprint():
    classes, clients = [f"class {number}" for number in range(29)], 20
    series = {round_: [10.0] * clients for round_ in range(100, 10_001, 100)}
    entry = {"main_class": list(range(clients)), "classes": classes}
    axes, _ = draw_client_accuracy(entry, series).axes
    assert overprinted(axes) == []
    names = [label.get_text() for label in axes.get_yticklabels()]
    places = axes.get_yticks().round().astype(int).tolist()
    assert names == [f"class {place}" for place in places] and len(names) > 5


def test_names_of_many_classes_do_not_overprint():
    names = [f"a long class name {number}" for number in range(30)]
    entry = {"classes": names, "pixels": np.full((30, 30), 7).tolist()}
    (axes,) = draw_confusion(entry).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == names
    assert axes.get_xticklabels()[0].get_rotation() == 45
    by_class = dict.fromkeys(names, 50.0)
    domains = {f"recording_{number}_by_domain": {"mIoU": 50.0, "IoU": by_class} for number in "123"}
    (axes,) = draw_iou_by_class(domains).axes
    assert overprinted(axes) == []


@pytest.mark.parametrize(
    ("suffix", "begin"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_the_suffix_is_the_format(tmp_path, suffix, begin):
    figure = new_figure(2, 2)
    figure.suptitle("a$\\frac{$")  # no formula
    path = save_figure(figure, tmp_path / "new" / f"figure.{suffix}")
    content = path.read_bytes()
    assert content.startswith(begin)
    assert save_figure(figure, path).read_bytes() == content  # without the time


@pytest.mark.parametrize("name", ["page.html", "folder"])
def test_other_formats_are_refused(tmp_path, name):
    with pytest.raises(DataError, match=rf"{name}: must end with \.png, \.svg or \.pdf"):
        save_figure(new_figure(2, 2), tmp_path / name)
