"""Pictures of spectra and of clients over rounds, by the data that they show."""

import math
from pathlib import Path

import numpy as np
import pytest
from drawn_labels import overprinted
from matplotlib.colors import LogNorm

from fedseg.report.curvature import draw_clients, draw_spectra, pictures_folder


def test_pictures_of_several_checkpoints_are_named_by_them():
    folders = [Path(f"runs/{run}/curvature/round_000003") for run in "ab"]
    assert pictures_folder(folders[:1]) == folders[0]
    assert pictures_folder(folders).name == "round_000003-b_round_000003"
    rounds = [Path(f"a/curvature/round_00000{n}") for n in range(1, 7)]
    assert pictures_folder(rounds[:2]).name == "round_000001-round_000002"
    assert pictures_folder(rounds).name == "round_000001-to-round_000006-6_models"


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
