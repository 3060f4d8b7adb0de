"""Pictures of landscapes and spectra, by the data that they show."""

import json
import math

import numpy as np
import pytest
from drawn_labels import overprinted
from matplotlib.colors import LogNorm

from fedseg.errors import DataError
from fedseg.report.landscapes import draw_clients, draw_landscape, draw_spectra, write_landscape


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


def test_spectra_have_a_panel_for_each_quantity():
    quantities = {
        "top": {"eigenvalues": [5.0, 2.0]},
        "clients": {"lambda_max": {"x": 1.0, "y": 4.0}},
        "density": {"nodes": [[0.0, 1.0]], "weights": [[0.5, 0.5]]},
    }
    eigenvalues, density, clients = draw_spectra({"run": {"quantities": quantities}}).axes
    assert eigenvalues.lines[0].get_ydata().tolist() == [5.0, 2.0]
    assert clients.lines[0].get_ydata().tolist() == [4.0, 1.0]
    x, y = density.lines[0].get_data()
    assert np.nansum(y) * (x[1] - x[0]) == pytest.approx(1, rel=1e-2)
    assert draw_spectra({"run": {"quantities": {"loss": {}}}}) is None


def test_clients_by_rounds_are_maps_with_gaps():
    def result(round_: int, values: dict) -> dict:
        norms = {"of_clients": {client: {"0": v, "1": 3 * v} for client, v in values.items()}}
        quantities = {"updated": {"lambda_max": values}, "features": norms}
        return {"round": round_, "quantities": quantities}

    results = {"a/checkpoints/round_000009.pth": result(9, {"x": 1.0, "y": 40.0})}
    assert draw_clients(results) is None  # one round is no map
    results["a"] = result(20, {"y": 8.0, "z": 2.0})
    *panels, _, _ = draw_clients(results).axes
    largest, norms = (np.ma.filled(axes.images[0].get_array(), np.nan) for axes in panels)
    expected = np.array([[1, np.nan], [40, 8], [np.nan, 2]])
    np.testing.assert_array_equal(largest, expected)
    np.testing.assert_array_equal(norms, 2 * expected)
    assert isinstance(panels[0].images[0].norm, LogNorm)
    assert [text.get_text() for text in panels[0].get_yticklabels()] == ["x", "y", "z"]
    assert [text.get_text() for text in panels[0].get_xticklabels()] == ["9", "20"]

    for number, one in enumerate(results.values()):
        one["quantities"]["updated"]["lambda_max"] = {"x": None, "y": (None, math.inf)[number]}
    panel, _ = draw_clients(results).axes  # a map without a finite value is left out
    np.testing.assert_array_equal(np.ma.filled(panel.images[0].get_array(), np.nan), norms)
    for one in results.values():
        del one["quantities"]["features"]
    assert draw_clients(results) is None and draw_clients({}) is None


@pytest.mark.parametrize(("clients", "rounds"), [(100, 3), (30, 60)])
def test_labels_do_not_overprint(clients, rounds):
    results = {}
    for round_ in range(1, rounds + 1):
        values = {f"client {number}": float(number + round_) for number in range(clients)}
        quantities = {"updated": {"lambda_max": values}}
        results[f"run/checkpoints/round_{round_:06d}.pth"] = {
            "round": round_,
            "quantities": quantities,
        }
    axes = draw_clients(results).axes[0]
    assert overprinted(axes) == []
    assert axes.get_yticklabels()[0].get_text() == "client 0"
    assert 5 < len(axes.get_yticks()) < clients
