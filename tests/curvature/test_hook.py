"""CurvatureHook: what it adds to a run, and that the run stays the same."""

from pathlib import Path

import numpy as np
import pytest
import toyquad
import toyseg

from fedseg.errors import ConfigError, TrainingError
from fedseg.registry import HOOKS, build
from fedseg.runs.curvature_files import measured_value
from fedseg.runs.run_files import read_runs

HOOK = {"type": "CurvatureHook", "interval": 2, "samples": 8}


def test_a_run_stays_the_same_and_has_curvature(tmp_path):
    rounds = {"train_cfg": {"max_rounds": 3}}
    plain = toyseg.run(tmp_path / "plain", **rounds)
    measured = toyseg.run(tmp_path / "measured", **rounds, custom_hooks=[HOOK])
    one, other = toyseg.checkpoint(plain), toyseg.checkpoint(measured)
    assert not toyseg.differences(one["state_dict"], other["state_dict"])
    assert not toyseg.differences(one["averaged_state_dict"], other["averaged_state_dict"])
    names = {"lambda_max", "client_drift", "update_cosine"}
    first, second, third = toyseg.history(measured)
    assert names.isdisjoint(first)
    assert names.isdisjoint(third)
    assert all(np.isfinite(second[name]) for name in names)
    assert -1 <= second["update_cosine"] <= 1
    (run,), _ = read_runs([Path(measured["work_dir"])])
    assert measured_value(run.results, "top/lambda_max") is None  # of the average it says nothing


@pytest.mark.parametrize(("rounds", "shown"), [(2, True), (3, False)])
def test_the_board_shows_the_value_of_the_last_round_only(tmp_path, rounds, shown):
    hook = {**HOOK, "quantities": ["lambda_max"]}
    few = {"train_cfg": {"max_rounds": rounds}, "custom_hooks": [hook]}
    config = {**toyseg.settings(tmp_path, **few), "averaging": None}
    toyseg.train(config)
    (run,), _ = read_runs([Path(config["work_dir"])])
    value = toyseg.history(config)[1]["lambda_max"]
    assert measured_value(run.results, "top/lambda_max") == (value if shown else None)


def test_what_cannot_be_computed_does_not_stop_the_run(tmp_path, monkeypatch):
    def fails(*_):
        raise TrainingError("no convergence")

    monkeypatch.setattr("fedseg.curvature.spectrum.largest", fails)
    config = toyseg.run(tmp_path, train_cfg={"max_rounds": 2}, custom_hooks=[HOOK])
    last = toyseg.history(config)[-1]
    assert last["lambda_max"] is None
    assert last["client_drift"] > 0
    assert "round 2: lambda_max: no convergence" in toyseg.logs(config)


def test_quantities_of_a_quadratic(tmp_path):
    config = toyquad.run(
        tmp_path,
        {"type": "FedAvg"},
        custom_hooks=[{**HOOK, "interval": 3, "tolerance": 1e-6}],
        val_dataloader={"seen": {"dataset": {"type": "ToyQuadratics"}}},
        val_evaluator={"type": "PixelAccuracy"},
    )
    line = toyseg.history(config)[-1]
    assert line["lambda_max"] == pytest.approx(toyquad.samples()[0].mean(0).max())
    start = toyquad.trace(config)[2]
    moved = [toyquad.local_steps(c, start, 5, 0.1) - start for c in toyquad.USERS]
    assert line["client_drift"] == pytest.approx(np.mean([np.linalg.norm(m) for m in moved]))


def test_models_that_are_thrown_away_do_not_count(tmp_path):
    """NaiveFedGloSS without radius and duals is FedAvg, whose clients train twice a round."""
    naive = {"type": "NaiveFedGloSS", "rho_server": 0.0, "admm": False}
    lines = []
    for name, algorithm in (("plain", {"type": "FedAvg"}), ("naive", naive)):
        config = toyseg.run(
            tmp_path / name,
            **toyseg.PLAIN,
            algorithm=algorithm,
            custom_hooks=[HOOK],
            train_cfg={"max_rounds": 2},
        )
        lines.append(toyseg.history(config)[-1])
    for figure in ("client_drift", "update_cosine"):
        assert lines[1][figure] == pytest.approx(lines[0][figure], rel=1e-5)


def test_images_that_only_come_augmented_are_refused_before_training(tmp_path):
    with pytest.raises(ConfigError, match="val_dataloader"):
        toyquad.run(tmp_path, {"type": "FedAvg"}, custom_hooks=[HOOK])


def test_wrong_quantities_are_named():
    with pytest.raises(ConfigError, match="quantities"):
        build(HOOKS, {"type": "CurvatureHook", "quantities": ["lamda"]}, "custom_hooks[0]")
