"""Limits in which one algorithm becomes a simpler one, run by the engine on both sides."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import problem
import pytest
import torch
from harness import (
    EQUAL,
    LOCAL,
    PLAIN,
    SAM,
    TOLERANCE,
    Trace,
    federation,
    relative_error,
    run_engine,
)
from transcriptions import FedAvg

from fedseg.hooks import FederatedHook
from fedseg.registry import HOOKS

# momentum makes SCAFFOLD's and FedCM's K_k eta a guess, of which they warn; the equation stands
pytestmark = pytest.mark.filterwarnings("ignore:algorithm. .* divides by K_k eta")

FEDAVG = {"type": "FedAvg"}
FEDDYN = {"type": "FedDyn", "beta": 2.0}
SCAFFOLD, GAMMA = {"type": "SCAFFOLD"}, {"type": "FedGamma"}
GLOSS = {"type": "FedGloSS", "rho_server": 0.0, "beta": 2.0}
SPEED = {"type": "FedSpeed", "lam": 2.0}
EVERYBODY = {"participants": [sorted(problem.make_clients())] * 4}
ALONE = {"partition": {"type": "SinglePartition"}, "participants": [["all"]] * 4}
UNIFORM = {"partition": EQUAL}

Run = Callable[..., Trace]


@HOOKS.register_module()
class EqualControlsHook(FederatedHook):
    """Every client's control variate is the server's, whatever it was."""

    def before_client(self, runner: Any, client: Any) -> None:
        client.state["control"].copy_(client.extras["control"])


@HOOKS.register_module()
class ShiftedControlsHook(FederatedHook):
    """The clients' and the server's control variates start at one and the same vector."""

    def before_round(self, runner: Any) -> None:
        if runner.round == 1:
            runner.server.state["control"].fill_(0.3)

    def before_client(self, runner: Any, client: Any) -> None:
        if not client.state["control"].any():
            client.state["control"].fill_(0.3)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    """Runs the engine; the same run is made once."""
    made: dict[str, Trace] = {}

    def cached(algorithm: dict[str, Any], local: Any = LOCAL, **options: Any) -> Trace:
        key = repr((algorithm, local, sorted(options.items())))
        if key not in made:
            folder = tmp_path_factory.mktemp("run")
            made[key] = run_engine(folder, algorithm, local=local, **options)
        return made[key]

    return cached


def same(a: Trace, b: Trace) -> bool:
    return relative_error(a.weights, b.weights) <= TOLERANCE


def equal_controls(algorithm, local):
    hooks = [{"type": "EqualControlsHook"}]
    return (algorithm, local, {"hooks": hooks, **UNIFORM}), (FEDAVG, local, UNIFORM)


def alone(algorithm, local=PLAIN, **more):
    return (algorithm, local, {**ALONE, **more}), (FEDAVG, local, {**ALONE, **more})


STEP = {"batch_size": "full", "rounds": 1}
SHIFTED = {**EVERYBODY, "hooks": [{"type": "ShiftedControlsHook"}]}
# what is the same; (algorithm, local training, options) on both sides
SAME = {
    **{
        f"{kind} without a radius is SGD": (
            (FEDAVG, replace(LOCAL, kind=kind, rho=0.0, eta=0.2), {}),
            (FEDAVG, LOCAL, {}),
        )
        for kind in ("sam", "asam")
    },
    **{
        f"{name} without ADMM and radius is FedAvg": (
            ({**GLOSS, "type": name, "admm": False}, LOCAL, {}),
            (FEDAVG, LOCAL, {}),
        )
        for name in ("FedGloSS", "NaiveFedGloSS")
    },
    # of equal clients: FedGloSS weights its pseudo-gradient, FedDyn's mean is uniform
    "FedGloSS without a radius is FedDyn": ((GLOSS, LOCAL, UNIFORM), (FEDDYN, LOCAL, UNIFORM)),
    "FedACG without momentum is FedProx": (
        ({"type": "FedACG", "lam": 0.0, "beta": 0.5}, LOCAL, UNIFORM),
        ({"type": "FedProx", "mu": 0.5}, LOCAL, UNIFORM),
    ),
    # the sign of the correction aside, c_k = c takes it away in every round
    "SCAFFOLD with equal control variates is FedAvg": equal_controls(SCAFFOLD, LOCAL),
    "FedGamma with equal control variates is FedSAM": equal_controls(GAMMA, SAM),
    # only c - c_k matters, and c_k+ forgets what both had; if all take part, so does c
    "what all control variates share changes nothing": (
        (SCAFFOLD, LOCAL, SHIFTED),
        (SCAFFOLD, LOCAL, EVERYBODY),
    ),
    # mu_k = s = 0 then: one round of one full-batch step is FedDyn's with SAM
    "FedSMOO's first step perturbs as SAM": (
        ({"type": "FedSMOO", "rho": SAM.rho, "beta": 2.0}, replace(LOCAL, epochs=1), STEP),
        (FEDDYN, replace(SAM, epochs=1), STEP),
    ),
    "FedSpeed without a radius does not perturb": (
        ({**SPEED, "rho": 0.0, "alpha": 1.0}, LOCAL, {}),
        ({**SPEED, "rho": 0.0, "alpha": 0.9}, LOCAL, {}),
    ),
    # mean_S(w_k - lam ghat_k) is mean(w_k) - lam sigma when all take part; the released code's
    # server rule is FedDyn's with whoever takes part
    **{
        f"FedSpeed of {who} is FedDyn, alpha {alpha}": (
            ({**SPEED, **more, "rho": SAM.rho, "alpha": alpha}, LOCAL, options),
            (FEDDYN, local, options),
        )
        for alpha, local in ((0.0, LOCAL), (1.0, SAM))
        for who, more, options in (
            ("everybody", {}, EVERYBODY),
            ("all corrections", {"all_corrections": True}, {}),
        )
    },
    # alone, a client's control variate is the server's, its full gradient the only one
    "SCAFFOLD of one client": alone(SCAFFOLD),
    "SCAFFOLD of one client with momentum": alone(SCAFFOLD, LOCAL),
    "FedGamma of one client": alone(GAMMA, SAM),
    "MIME-SGD of one client on full batches": alone({"type": "MIME"}, batch_size="full"),
    "MIMELite of one client": alone({"type": "MIMELite"}),
}


@pytest.mark.parametrize("name", SAME)
def test_limits(name, run):
    one, other = (run(algorithm, local, **options) for algorithm, local, options in SAME[name])
    assert same(one, other)
    if "equal control variates" in name:
        assert abs(one.server[-1]["control"]).max() > 1e-2


@pytest.mark.parametrize(("alpha", "local"), [(0.0, LOCAL), (1.0, SAM)], ids=["SGD", "SAM"])
def test_fedspeed_without_all_corrections_is_not_feddyn(alpha, local, run):
    assert not same(run({**SPEED, "rho": SAM.rho, "alpha": alpha}), run(FEDDYN, local))


def test_fedspeed_lam_to_infinity(run):
    """Clients train like FedAvg's; what they send still holds all of their own moves so far."""
    speed = {"type": "FedSpeed", "rho": 0.1, "alpha": 0.0, "lam": 1e12}
    fed = federation()
    start, moved, expected = fed.initial, dict.fromkeys(fed.batches, 0.0), []
    for sampled in fed.participants:
        sent = []
        for k in sampled:
            w_k = FedAvg(fed, LOCAL).train(k, start)
            moved[k] = moved[k] + w_k - start
            sent.append(w_k + moved[k])
        start = sum(sent) / len(sent)
        expected.append(start)
    # lam (w_k - w)/lam loses some digits: of a dual of 1e-12 none, of its product a few
    assert relative_error(run(speed).weights, expected) <= 1e-8


INFINITE_BETA = {"FedDyn": {**FEDDYN, "beta": 1e12}, "FedGloSS": {**GLOSS, "beta": 1e12}}


@pytest.mark.parametrize("name", INFINITE_BETA)
def test_beta_to_infinity_is_fedavg_and_the_servers_sum(name, run):
    """The client rule becomes FedAvg's. The server's dual stays: beta cancels in beta sigma.

    It is the sum of all clients' moves so far over the number of clients, so that
    w = (FedAvg's new model) + sum over rounds and S of (w_k - w_start) / |K|. Taking that sum away
    leaves FedAvg's round from the same start. Equal sizes: FedDyn's mean is uniform.
    """
    trace = run(INFINITE_BETA[name], **UNIFORM)
    fed = federation(sizes=problem.EQUAL_SIZES)
    start, moved, averaged, expected = fed.initial, np.zeros_like(fed.initial), [], []
    for w, sampled in zip(trace.weights, fed.participants, strict=True):
        models = [FedAvg(fed, LOCAL).train(k, start) for k in sampled]
        moved = moved + sum(w_k - start for w_k in models) / len(fed.batches)
        averaged.append(w - moved)
        expected.append(np.mean(models, axis=0))
        start = w
    assert relative_error(averaged, expected) <= TOLERANCE
    # engine against engine: |S| of |K| clients go (1 + |S|/|K|) times FedAvg's way
    w, fedavg = problem.initial_weights(), run(FEDAVG, **UNIFORM).weights[:1]
    share = len(problem.PARTICIPANTS[0]) / len(problem.EQUAL_SIZES)
    assert relative_error([w + (trace.weights[0] - w) / (1 + share)], fedavg) <= TOLERANCE


def centralized(rounds: int, momentum: float, fresh_momentum: bool) -> list[np.ndarray]:
    """A plain torch loop over all samples in their order; the weights after every two epochs."""
    x, y = map(torch.from_numpy, problem.make_data())
    model = problem.OracleMLP().double()
    history = []
    for i in range(rounds):
        if i == 0 or fresh_momentum:
            optimizer = torch.optim.SGD(
                model.parameters(), lr=0.1, momentum=momentum, weight_decay=0.01
            )
        for _ in range(2):
            for at in range(0, len(x), 4):
                optimizer.zero_grad()
                model(x[at : at + 4], y[at : at + 4], mode="loss")["loss"].backward()
                optimizer.step()
        history.append(problem.join({n: p.detach().numpy() for n, p in model.named_parameters()}))
    return history


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_one_client_with_everything_is_centralized_training(run, momentum):
    """Without momentum one unbroken loop; with it the buffer starts fresh every round."""
    options = {**ALONE, "participants": [["all"]] * 8}
    trace = run(FEDAVG, replace(LOCAL, momentum=momentum), **options)
    expected = centralized(8, momentum, fresh_momentum=momentum > 0)
    assert relative_error(trace.weights, expected) <= TOLERANCE
