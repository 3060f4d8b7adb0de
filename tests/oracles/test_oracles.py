"""The engine against the transcriptions, after every round of eight.

Partial participation, clients of unequal size, momentum and weight decay on, float64: the global
model, what server and clients keep, and what was sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import problem
import pytest
from harness import ASAM, LOCAL, PLAIN, SAM, TOLERANCE, federation, relative_error, run_engine
from transcriptions import History, swa, transcribed, weights, wima

# momentum makes SCAFFOLD's and FedCM's K_k eta a guess, of which they warn; the equation stands
pytestmark = pytest.mark.filterwarnings("ignore:algorithm. .* divides by K_k eta")

RAMP = {"rho0": 0.001, "rho_rounds": 4}
KINDS = {"SGD": LOCAL, "SAM": SAM, "ASAM": ASAM, "SGD without momentum": PLAIN}
KINDS |= {
    f"{name} without momentum": replace(KINDS[name], momentum=0.0) for name in ("SAM", "ASAM")
}
KINDS |= {f"{name}, rho schedule": replace(KINDS[name], **RAMP) for name in ("SAM", "ASAM")}
ANY = ("SGD", "SAM", "ASAM", "SGD without momentum")
UNPERTURBED = ("SGD", "SGD without momentum")
WITHOUT_MOMENTUM = tuple(f"{name} without momentum" for name in ("SGD", "SAM", "ASAM"))


@dataclass(frozen=True)
class Case:
    """An algorithm's config, and what engine and transcription call the same vectors.

    Attributes:
        algorithm: the config.
        kinds: the local optimizers; with the first one also on full batches.
        server, clients: the engine's name of a vector -> the transcription's.
        down, up: vectors that a client receives and sends in a round.
    """

    algorithm: Mapping[str, Any]
    kinds: tuple[str, ...]
    server: Mapping[str, str] = field(default_factory=dict)
    clients: Mapping[str, str] = field(default_factory=dict)
    down: int = 1
    up: int = 1


ADAM = {"lr": 0.05, "betas": (0.9, 0.99), "tau": 1e-3}
FEDAVGM = {"type": "FedAvg", "server_optim": {"type": "SGD", "lr": 0.7, "momentum": 0.9}}
GLOSS = {"type": "FedGloSS", "rho_server": 0.1, "beta": 2.0}
NAIVE = {**GLOSS, "type": "NaiveFedGloSS"}
SMOO = {"type": "FedSMOO", "rho": 0.1, "beta": 2.0}
SPEED = {"type": "FedSpeed", "rho": 0.1, "alpha": 0.9, "lam": 2.0}
CONTROLS = {"server": {"control": "c"}, "clients": {"control": "c_k"}, "down": 2, "up": 2}
DIRECTION = {"server": {"direction": "d"}, "down": 2}
MOMENTUM = {"server": {"m": "m"}, "down": 2, "up": 2}
SIGMA = {"server": {"sigma": "sigma"}, "clients": {"sigma": "sigma_k"}}
BOTH = {"server": {"s": "s", "sigma": "sigma"}, "clients": {"mu": "mu_k", "sigma": "sigma_k"}}
BOTH |= {"down": 2, "up": 2}
TWICE = {"down": 2, "up": 2}
CASES = {
    "FedAvg": Case(
        {"type": "FedAvg", "server_optim": {"type": "SGD", "lr": 1.0, "momentum": 0.0}},
        ("ASAM", "SGD", "SAM", "SAM, rho schedule", "ASAM, rho schedule"),
    ),
    "FedAvg, uniform": Case({**FEDAVGM, "uniform": True}, ("SAM",)),
    "FedAvgM": Case(FEDAVGM, ("SGD",)),
    "FedAdam": Case({"type": "FedAvg", "server_optim": {"type": "Adam", **ADAM}}, ("SGD", "ASAM")),
    "FedYogi": Case({"type": "FedAvg", "server_optim": {"type": "Yogi", **ADAM}}, ("SGD",)),
    "FedAdagrad": Case(
        {"type": "FedAvg", "server_optim": {"type": "Adagrad", "lr": 0.05, "tau": 1e-3}}, ("SGD",)
    ),
    "FedDyn": Case({"type": "FedDyn", "beta": 2.0}, ("SGD", "SAM", "ASAM"), **SIGMA),
    "FedGloSS": Case(GLOSS, ("SAM", "SGD"), **SIGMA),
    "FedGloSS, rho schedules": Case({**GLOSS, **RAMP}, ("SAM, rho schedule",), **SIGMA),
    "FedGloSS, released rules": Case(
        {**GLOSS, **RAMP, "released_rules": True}, ("SAM, rho schedule",), **SIGMA
    ),
    "FedGloSS, released rules, no schedule": Case(
        {**GLOSS, "released_rules": True}, ("SGD",), **SIGMA
    ),
    "FedGloSS, dual from w": Case(
        {**GLOSS, **RAMP, "dual_from_w": True}, ("SAM, rho schedule",), **SIGMA
    ),
    "FedGloSS without ADMM": Case({**GLOSS, "admm": False}, ("SGD", "SAM")),
    "NaiveFedGloSS": Case(NAIVE, ("SGD",), **SIGMA, **TWICE),
    "NaiveFedGloSS, released rules, dual from w": Case(
        {**NAIVE, "released_rules": True, "dual_from_w": True}, ("SGD",), **SIGMA, **TWICE
    ),
    "NaiveFedGloSS, rho schedule": Case({**NAIVE, **RAMP}, ("SAM",), **SIGMA, **TWICE),
    "NaiveFedGloSS without ADMM": Case({**NAIVE, "admm": False}, ("SAM",), **TWICE),
    "FedProx": Case({"type": "FedProx", "mu": 0.5}, ANY),
    "FedACG": Case({"type": "FedACG", "lam": 0.8, "beta": 0.5}, ANY, server={"momentum": "m"}),
    "SCAFFOLD": Case({"type": "SCAFFOLD"}, ANY, **CONTROLS),
    "SCAFFOLD, eta_g": Case({"type": "SCAFFOLD", "eta_g": 0.8}, ("SGD",), **CONTROLS),
    "SCAFFOLD, momentum counted": Case(
        {"type": "SCAFFOLD", "count_momentum": True}, ("SGD",), **CONTROLS
    ),
    "FedGamma": Case({"type": "FedGamma"}, ("SAM", "ASAM", "SAM without momentum"), **CONTROLS),
    "FedCM": Case({"type": "FedCM", "alpha": 0.3}, ANY, **DIRECTION),
    "FedCM, momentum counted": Case(
        {"type": "FedCM", "alpha": 0.3, "count_momentum": True}, ("SGD",), **DIRECTION
    ),
    "FedCM by samples": Case(
        {"type": "FedCM", "alpha": 0.3, "weigh_samples": True}, ("SGD",), **DIRECTION
    ),
    "MIME": Case({"type": "MIME", "momentum": 0.6}, WITHOUT_MOMENTUM, **MOMENTUM),
    "MIME-SGD": Case({"type": "MIME"}, ("SGD without momentum",), **MOMENTUM),
    "MIMELite": Case({"type": "MIMELite", "momentum": 0.6}, WITHOUT_MOMENTUM, **MOMENTUM),
    "AdaBest": Case(
        {"type": "AdaBest", "beta": 0.9, "mu": 0.2}, ANY, server={"h": "h"}, clients={"h": "h_k"}
    ),
    "FedSpeed": Case(SPEED, UNPERTURBED, clients={"ghat": "ghat_k"}),
    "FedSpeed, all corrections": Case(
        {**SPEED, "all_corrections": True},
        UNPERTURBED,
        server={"ghat": "ghat"},
        clients={"ghat": "ghat_k"},
    ),
    "FedSMOO": Case(SMOO, UNPERTURBED, **BOTH),
    "FedSMOO, its radius growing": Case(
        {**SMOO, "rho0": 0.01, "rho_rounds": 2}, UNPERTURBED, **BOTH
    ),
}


def compare(trace, expected: History, case: Case) -> None:
    """Every round's model and vectors; clients have a state from their first round on."""
    assert relative_error(trace.weights, weights(expected)) <= TOLERANCE
    seen: set[str] = set()
    for number, state in enumerate(expected):
        for own, name in case.server.items():
            assert close(trace.server[number][own], state[name]), (number, own)
        seen.update(problem.PARTICIPANTS[number])
        assert set(trace.clients[number]) == (seen if case.clients else set())
        for k, vectors in trace.clients[number].items():
            for own, name in case.clients.items():
                assert close(vectors[own], state[name][k]), (number, k, own)


def close(actual: np.ndarray, expected: np.ndarray) -> bool:
    """Equal to a billionth of the largest entry (a vector may be all zeros)."""
    scale = max(np.abs(expected).max(), 1e-12)
    return actual.shape == expected.shape and np.abs(actual - expected).max() <= TOLERANCE * scale


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name, case in CASES.items() for kind in case.kinds]
)
def test_algorithm_with_minibatches(name, kind, tmp_path):
    case, local = CASES[name], KINDS[kind]
    trace = run_engine(tmp_path, case.algorithm, local=local)
    compare(trace, transcribed(case.algorithm, federation(), local), case)
    size = 8 * sum(int(np.prod(shape)) for shape in problem.SHAPES.values())
    for line, sampled in zip(trace.history, problem.PARTICIPANTS, strict=True):
        assert line["bytes_down"] == case.down * size * len(sampled)
        assert line["bytes_up"] == case.up * size * len(sampled)


@pytest.mark.parametrize("name", CASES)
def test_algorithm_with_full_batches_and_a_falling_learning_rate(name, tmp_path):
    case, local = CASES[name], KINDS[CASES[name].kinds[0]]
    trace = run_engine(tmp_path, case.algorithm, local=local, batch_size="full", decay=0.8)
    rates = [0.1 * 0.8**i for i in range(8)]
    assert [line["lr"] for line in trace.history] == pytest.approx(rates)
    fed = federation("full")
    compare(trace, transcribed(case.algorithm, fed, local, lambda i: rates[i - 1]), case)


@pytest.mark.parametrize(("kind", "step_size"), [("SGD", 0.2), ("SAM", 6.0)])
def test_shares_by_generalization_gap(tmp_path, kind, step_size):
    """The model and the shares after every round; a step as long as the paper's clips a share."""
    algorithm = {"type": "FedDGGA", "step_size": step_size}
    trace = run_engine(tmp_path, algorithm, local=KINDS[kind])
    expected = transcribed(algorithm, federation(), KINDS[kind])
    assert relative_error(trace.weights, weights(expected)) <= TOLERANCE
    shares = [state["shares"] for state in expected]
    for state, expected_shares in zip(trace.server, shares, strict=True):
        assert close(state["shares"], 6 * expected_shares)  # in units of their mean
    assert len(np.unique(shares[-1])) > 4
    assert any(0 in s for s in shares) == (step_size > 1)
    parameters = sum(int(np.prod(shape)) for shape in problem.SHAPES.values())
    for line, sampled in zip(trace.history, problem.PARTICIPANTS, strict=True):
        # a number each way besides the model: the gap up, the share down
        assert line["bytes_down"] == line["bytes_up"] == 8 * (parameters + 1) * len(sampled)


# ---------------------------------------------------------------- averages


@pytest.mark.parametrize(
    ("start", "cycle", "local"),
    [(0.75, 2, LOCAL), (0.5, 3, ASAM), (0.25, 2, SAM), (0.5, 1, LOCAL)],
    ids=["from round 6", "from round 4, cycle 3", "from round 2", "cycle 1 keeps the rate"],
)
def test_swa(start, cycle, local, tmp_path):
    averaging = {"type": "SWA", "start": start, "cycle": cycle, "lr2": 0.001}
    trace = run_engine(tmp_path, {"type": "FedAvg"}, local=local, averaging=averaging)
    path, averaged = swa(federation(), local, start, cycle, 0.001)
    assert relative_error(trace.weights, path) <= TOLERANCE
    compare_evaluated(trace, averaged, first=round(start * len(path)))


@pytest.mark.parametrize("window", [3, 100])
def test_wima(window, tmp_path):
    trace = run_engine(tmp_path, FEDAVGM, averaging={"type": "WIMA", "window": window})
    path = weights(transcribed(FEDAVGM, federation(), LOCAL))
    assert relative_error(trace.weights, path) <= TOLERANCE
    compare_evaluated(trace, wima(path, window), first=1)


def compare_evaluated(trace, expected, first):
    """From round ``first`` on; while there is no average the global model is evaluated."""
    actual = [
        w if mean is None else mean for w, mean in zip(trace.weights, trace.averaged, strict=True)
    ]
    assert trace.averaged[-1] is not None
    assert relative_error(actual[first - 1 :], expected[first - 1 :]) <= TOLERANCE
