"""The point of drift correction: which algorithms reach the minimum that clients disagree about.

Two-dimensional quadratics of ``docs/site/drift_picture.py`` with every client in every round and
several full-batch steps, by the engine; the minimizer and the gradients are computed here.
"""

from dataclasses import replace
from typing import Any

import drift_picture as example
import numpy as np
import pytest
from transcriptions import FedAvg, Federation, Local, transcribed, weights

ROUNDS = 25
LOCAL = Local(lr=example.LR, momentum=0.0, weight_decay=0.0, epochs=example.LOCAL_STEPS)


def hessian(angle: float, curvatures: tuple[float, float]) -> np.ndarray:
    """sum_i curvature_i v_i v_i^T with v_1 at ``angle`` and v_2 across it."""
    first = np.array([np.cos(angle), np.sin(angle)])
    second = np.array([-np.sin(angle), np.cos(angle)])
    return curvatures[0] * np.outer(first, first) + curvatures[1] * np.outer(second, second)


HESSIANS = [hessian(angle, curvatures) for _, angle, curvatures in example.CLIENTS]
CENTERS = [np.array(center) for center, _, _ in example.CLIENTS]


def global_gradient(w: np.ndarray) -> np.ndarray:
    """Of the mean of the clients' losses."""
    return np.mean([a @ (w - b) for a, b in zip(HESSIANS, CENTERS, strict=True)], axis=0)


FEDERATION = Federation(
    initial=np.array(example.START),
    gradient=lambda w, batch: HESSIANS[batch[0]] @ (w - CENTERS[batch[0]]),
    scaled=np.ones(2, bool),
    batches={f"client {k}": [np.array([k])] for k in range(len(CENTERS))},
    participants=[[f"client {k}" for k in range(len(CENTERS))]] * ROUNDS,
)


EXACT = {
    "SCAFFOLD": {"type": "SCAFFOLD"},
    "FedDyn": {"type": "FedDyn", "beta": 2.0},
    "FedGloSS, its radius falling to 0": {
        **{"type": "FedGloSS", "beta": 2.0, "rho_server": 0.0},
        **{"rho0": 0.3, "rho_rounds": 15},
    },
    "FedSpeed without a radius": {"type": "FedSpeed", "rho": 0.0, "alpha": 0.9, "lam": 2.0},
    "MIME": {"type": "MIME"},
}
ELSEWHERE = {
    "FedAvg": {"type": "FedAvg"},
    "FedProx": {"type": "FedProx", "mu": 0.1},
    "FedCM": {"type": "FedCM", "alpha": 0.3},
    "FedACG": {"type": "FedACG", "lam": 0.5, "beta": 0.1},
    "MIMELite": {"type": "MIMELite"},
}


def path(algorithm: dict[str, Any]) -> np.ndarray:
    """The engine's path, which is the transcription's."""
    points = example.trajectory(algorithm, ROUNDS)
    np.testing.assert_allclose(points[0], example.START)
    expected = weights(transcribed(algorithm, FEDERATION, LOCAL))
    np.testing.assert_allclose(points[1:], expected, rtol=1e-9, atol=1e-10)
    return points


def test_the_minimizer_is_where_the_global_gradient_is_zero():
    np.testing.assert_allclose(global_gradient(example.minimizer()), 0, atol=1e-12)
    away = [np.linalg.norm(example.minimizer() - center) for center in CENTERS]
    assert min(away) > 1, "no client wants it"


@pytest.mark.parametrize("name", EXACT)
def test_it_reaches_the_exact_minimizer(name):
    points = path(EXACT[name])
    assert np.linalg.norm(points[-1] - example.minimizer()) < 1e-4
    assert np.linalg.norm(global_gradient(points[-1])) < 1e-4
    gap = np.linalg.norm(points - example.minimizer(), axis=1)
    assert gap[-1] < gap[-10] / 5, "it is still on its way"


@pytest.mark.parametrize("name", ELSEWHERE)
def test_it_ends_elsewhere(name):
    """It comes to rest, where the clients' drifts cancel and the gradient does not vanish."""
    points = path(ELSEWHERE[name])
    assert np.linalg.norm(points[-1] - points[-2]) < 1e-3
    assert np.linalg.norm(points[-1] - example.minimizer()) > 0.2
    assert np.linalg.norm(global_gradient(points[-1])) > 0.1


def test_fedgloss_stays_within_its_radius():
    """Its perturbation has the length rho however small the pseudo-gradient is."""
    gloss = {"type": "FedGloSS", "beta": 2.0, "rho_server": 0.1}
    points = path(gloss)
    gap = np.linalg.norm(points[10:] - example.minimizer(), axis=1)
    assert gap.min() > 0.02 and gap.max() < 0.15


def test_where_perturbations_of_the_clients_end():
    """FedSMOO's clients are perturbed, with duals so that they agree; AdaBest's h_k is damped."""
    smoo = {"type": "FedSMOO", "rho": 0.1, "beta": 2.0}
    points = path(smoo)
    assert np.linalg.norm(points[-1] - example.minimizer()) < 0.1
    best = {"type": "AdaBest", "mu": 0.02, "beta": 0.8}
    points = path(best)
    assert np.linalg.norm(points[-1] - example.minimizer()) < 0.3


def test_fewer_local_steps_leave_fedavg_closer():
    """With one step a round FedAvg is gradient descent and has no drift."""
    one = replace(LOCAL, epochs=1)
    ends = [FedAvg(FEDERATION, local).run()[-1]["w"] for local in (one, LOCAL)]
    gaps = [np.linalg.norm(w - example.minimizer()) for w in ends]
    assert gaps[0] < 1e-2 < 0.5 < gaps[1]


def test_the_picture_is_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(example, "ROUNDS", 2)
    short = {name: example.ALGORITHMS[name] for name in ("FedAvg", "SCAFFOLD")}
    monkeypatch.setattr(example, "ALGORITHMS", short)
    assert example.draw(tmp_path / "new" / "drift.png").read_bytes()[:4] == b"\x89PNG"
