"""Pictures of landscapes, by the data that they show."""

import json

import numpy as np
import pytest
from matplotlib.colors import LogNorm

from fedseg.errors import DataError
from fedseg.report.landscapes import draw_landscape, write_landscape


def landscape(kind: str, losses, axes, **entries) -> dict:
    one = {"models": ["runs/a", "runs/b"], "data": "test", "loss": losses, "metrics": {}}
    content = {"spec": {"kind": kind}, "axes": axes, "marks": {}, "trajectory": {}}
    return {**content, "series": [one, {**one, "data": "train"}], **entries}


def test_a_line_has_its_losses_and_barrier():
    content = landscape("line", [3.0, None, 0.1], [[-1.0, 0.0, 1.0]])
    content["series"][0]["barrier"] = 0.25
    figure = draw_landscape(content)
    (axes,) = figure.axes
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [3.0, np.nan, 0.1])
    assert axes.get_yscale() == "log"  # they differ by a factor of 10 or more
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["a to b, test, barrier 0.25", "a to b, train"]


def test_a_plane_has_models_rounds_and_one_scale():
    marks = {"runs/a": [0.0, 0.0], "runs/b": [1.0, 0.5]}
    steps = {"runs/a": [{"coordinates": [0.0, 0.0]}, {"coordinates": [0.5, 0.5]}]}
    losses = [[1.0, 2.0], [3.0, 4.0]]
    content = landscape("plane", losses, [[0, 1], [0, 1]], marks=marks, trajectory=steps)
    left, right, _ = draw_landscape(content).axes
    assert left.collections[0].norm.vmin == right.collections[0].norm.vmin == 1.0
    lines = [line.get_xydata().tolist() for line in left.lines]
    assert [[0.0, 0.0], [0.5, 0.5]] in lines and [[1.0, 0.5]] in lines
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["a", "b"]


def test_surfaces_have_a_map_and_a_page(tmp_path):
    content = landscape("random", [[1.0, 20.0], [3.0, None]], [[-1, 1], [-1, 1]])
    assert isinstance(draw_landscape(content).axes[0].collections[0].norm, LogNorm)
    names = {path.name for path in write_landscape(content, tmp_path)}
    assert names == {"landscape.png", "landscape.svg", "landscape.html"}
    page = (tmp_path / "landscape.html").read_text()
    assert json.dumps("a to b, test") in page and "log10 loss" in page


def test_losses_that_are_not_finite_have_no_picture():
    with pytest.raises(DataError, match="--ends"):
        draw_landscape(landscape("line", [None, None], [[0.0, 1.0]]))
