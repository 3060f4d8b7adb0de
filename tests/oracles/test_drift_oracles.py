"""The drift-correction algorithms of the engine against the transcriptions, after every round.

As :mod:`test_oracles`; also what server and clients keep, and what was sent.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import problem
import pytest
from drift import (
    Rate,
    Round,
    adabest,
    fedacg,
    fedcm,
    feddg_ga,
    fedprox,
    fedsmoo,
    fedspeed,
    mime,
    scaffold,
)
from harness import (
    ASAM,
    LOCAL,
    PLAIN,
    SAM,
    TOLERANCE,
    decayed,
    federation,
    relative_error,
    run_engine,
)
from transcriptions import Federation, Local

# momentum makes SCAFFOLD's and FedCM's K_k eta a guess, of which they warn; the equation stands
pytestmark = pytest.mark.filterwarnings("ignore:algorithm. .* divides by K_k eta")

KINDS = {"SGD": LOCAL, "SAM": SAM, "ASAM": ASAM, "SGD without momentum": PLAIN}
OWN_PERTURBATION = {"SGD": LOCAL, "SGD without momentum": PLAIN}
WITHOUT_MOMENTUM = {n: replace(KINDS[n], momentum=0.0) for n in ("SGD", "SAM", "ASAM")}
PERTURBED = {"SAM": SAM, "ASAM": ASAM, "SAM without momentum": replace(SAM, momentum=0.0)}


@dataclass(frozen=True)
class Case:
    """An algorithm's config, its transcription, and what the two call the same vectors.

    Attributes:
        algorithm: the config.
        transcribed: (federation, local training, learning rate by round) -> history.
        locals: the local optimizers that it is compared with.
        server, clients: the engine's name of a vector -> the transcription's.
        down, up: vectors that a client receives and sends in a round.
    """

    algorithm: dict[str, Any]
    transcribed: Callable[[Federation, Local, Rate | None], list[Round]]
    locals: dict[str, Local]
    server: dict[str, str] = field(default_factory=dict)
    clients: dict[str, str] = field(default_factory=dict)
    down: int = 1
    up: int = 1


CONTROLS = {"server": {"control": "c"}, "clients": {"control": "c"}, "down": 2, "up": 2}
DIRECTION = {"server": {"direction": "d"}, "down": 2}
MOMENTUM = {"server": {"m": "m"}, "down": 2, "up": 2}
CASES = {
    "FedProx": Case(
        {"type": "FedProx", "mu": 0.5},
        lambda fed, local, rate: fedprox(fed, local, 0.5, rate),
        KINDS,
    ),
    "FedACG": Case(
        {"type": "FedACG", "lam": 0.8, "beta": 0.5},
        lambda fed, local, rate: fedacg(fed, local, 0.8, 0.5, rate),
        KINDS,
        server={"momentum": "m"},
    ),
    "SCAFFOLD": Case(
        {"type": "SCAFFOLD"},
        lambda fed, local, rate: scaffold(fed, local, 1.0, rate),
        KINDS,
        **CONTROLS,
    ),
    "SCAFFOLD, eta_g": Case(
        {"type": "SCAFFOLD", "eta_g": 0.8},
        lambda fed, local, rate: scaffold(fed, local, 0.8, rate),
        {"SGD": LOCAL},
        **CONTROLS,
    ),
    "SCAFFOLD, momentum counted": Case(
        {"type": "SCAFFOLD", "count_momentum": True},
        lambda fed, local, rate: scaffold(fed, local, 1.0, rate, count_momentum=True),
        {"SGD": LOCAL},
        **CONTROLS,
    ),
    "FedCM, momentum counted": Case(
        {"type": "FedCM", "alpha": 0.3, "count_momentum": True},
        lambda fed, local, rate: fedcm(fed, local, 0.3, rate, count_momentum=True),
        {"SGD": LOCAL},
        **DIRECTION,
    ),
    "FedGamma": Case(
        {"type": "FedGamma"},
        lambda fed, local, rate: scaffold(fed, local, 1.0, rate),
        PERTURBED,
        **CONTROLS,
    ),
    "FedCM": Case(
        {"type": "FedCM", "alpha": 0.3},
        lambda fed, local, rate: fedcm(fed, local, 0.3, rate),
        KINDS,
        **DIRECTION,
    ),
    "FedCM by samples": Case(
        {"type": "FedCM", "alpha": 0.3, "weigh_samples": True},
        lambda fed, local, rate: fedcm(fed, local, 0.3, rate, by_samples=True),
        {"SGD": LOCAL},
        **DIRECTION,
    ),
    "MIME": Case(
        {"type": "MIME", "momentum": 0.6},
        lambda fed, local, rate: mime(fed, local, 0.6, rate=rate),
        WITHOUT_MOMENTUM,
        **MOMENTUM,
    ),
    "MIME-SGD": Case(
        {"type": "MIME"},
        lambda fed, local, rate: mime(fed, local, 0.0, rate=rate),
        {"SGD": PLAIN},
        **MOMENTUM,
    ),
    "MIMELite": Case(
        {"type": "MIMELite", "momentum": 0.6},
        lambda fed, local, rate: mime(fed, local, 0.6, lite=True, rate=rate),
        WITHOUT_MOMENTUM,
        **MOMENTUM,
    ),
    "AdaBest": Case(
        {"type": "AdaBest", "beta": 0.9, "mu": 0.2},
        lambda fed, local, rate: adabest(fed, local, 0.9, 0.2, rate),
        KINDS,
        server={"h": "h"},
        clients={"h": "h"},
    ),
    "FedSpeed": Case(
        {"type": "FedSpeed", "rho": 0.1, "alpha": 0.9, "lam": 2.0},
        lambda fed, local, rate: fedspeed(fed, local, 0.1, 0.9, 2.0, rate),
        OWN_PERTURBATION,
        clients={"ghat": "dual"},
    ),
    "FedSpeed, all corrections": Case(
        {"type": "FedSpeed", "rho": 0.1, "alpha": 0.9, "lam": 2.0, "all_corrections": True},
        lambda fed, local, rate: fedspeed(fed, local, 0.1, 0.9, 2.0, rate, all_corrections=True),
        OWN_PERTURBATION,
        server={"ghat": "mean dual"},
        clients={"ghat": "dual"},
    ),
    "FedSMOO": Case(
        {"type": "FedSMOO", "rho": 0.1, "beta": 2.0},
        lambda fed, local, rate: fedsmoo(fed, local, 0.1, 2.0, rate),
        OWN_PERTURBATION,
        server={"s": "s", "sigma": "sigma"},
        clients={"mu": "mu", "sigma": "sigma"},
        down=2,
        up=2,
    ),
    "FedSMOO, its radius growing": Case(
        {"type": "FedSMOO", "rho": 0.1, "beta": 2.0, "rho0": 0.01, "rho_rounds": 2},
        lambda fed, local, rate: fedsmoo(fed, local, 0.1, 2.0, rate, 0.01, 2),
        OWN_PERTURBATION,
        server={"s": "s", "sigma": "sigma"},
        clients={"mu": "mu", "sigma": "sigma"},
        down=2,
        up=2,
    ),
}
RUNS = [(name, kind) for name, case in CASES.items() for kind in case.locals]


def compare(trace, expected: list[Round], case: Case) -> None:
    """Every round's model and vectors; clients have a state from their first round on."""
    assert relative_error(trace.weights, [state.w for state in expected]) <= TOLERANCE
    seen: set[str] = set()
    for number, state in enumerate(expected):
        for own, name in case.server.items():
            assert close(trace.server[number][own], state.server[name]), (number, own)
        seen.update(problem.PARTICIPANTS[number])
        if not case.clients:
            assert not trace.clients[number]
            continue
        assert set(trace.clients[number]) == seen
        for k in seen:
            for own, name in case.clients.items():
                actual = trace.clients[number][k][own]
                assert close(actual, state.clients[k][name]), (number, k, own)


def close(actual: np.ndarray, expected: np.ndarray) -> bool:
    """Equal to a billionth of the largest entry (a vector may be all zeros)."""
    scale = max(np.abs(expected).max(), 1e-12)
    return actual.shape == expected.shape and np.abs(actual - expected).max() <= TOLERANCE * scale


@pytest.mark.parametrize(("name", "kind"), RUNS)
def test_algorithm_with_minibatches(name, kind, tmp_path):
    case = CASES[name]
    trace = run_engine(tmp_path, case.algorithm, local=case.locals[kind])
    compare(trace, case.transcribed(federation(), case.locals[kind], None), case)
    size = 8 * sum(int(np.prod(shape)) for shape in problem.SHAPES.values())
    for line, sampled in zip(trace.history, problem.PARTICIPANTS, strict=True):
        assert line["bytes_down"] == case.down * size * len(sampled)
        assert line["bytes_up"] == case.up * size * len(sampled)


@pytest.mark.parametrize("name", CASES)
def test_algorithm_with_full_batches_and_a_falling_learning_rate(name, tmp_path):
    case = CASES[name]
    local = next(iter(case.locals.values()))
    trace = run_engine(tmp_path, case.algorithm, local=local, batch_size="full", decay=0.8)
    rates = [line["lr"] for line in trace.history]
    assert rates == pytest.approx([0.1 * 0.8**i for i in range(8)])
    compare(trace, case.transcribed(federation("full"), local, decayed(local.lr, 0.8)), case)


@pytest.mark.parametrize(("kind", "step_size"), [("SGD", 0.2), ("SAM", 1.0)])
def test_shares_by_generalization_gap(tmp_path, kind, step_size):
    """With a step size of 1 a share is clipped; the model and the shares after every round."""
    fed, (x, y) = federation(), problem.make_data()

    def loss(w, client):
        samples = np.concatenate(fed.batches[client])
        return problem.loss(w, x[samples], y[samples])

    expected = feddg_ga(fed, KINDS[kind], loss, step_size)
    algorithm = {"type": "FedDGGA", "step_size": step_size}
    trace = run_engine(tmp_path, algorithm, local=KINDS[kind])
    assert relative_error(trace.weights, [state.w for state in expected]) <= TOLERANCE
    shares = [state.server["shares"] for state in expected]
    for own, other in zip(trace.server, shares, strict=True):
        assert close(own["shares"], other)
    assert len(np.unique(shares[-1])) > 4 and (step_size < 1 or any(0 in s for s in shares))
