"""Limits in which a drift-correction algorithm becomes a simpler one, run by the engine."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import problem
import pytest
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
from transcriptions import Local, train_client

from fedseg.hooks import FederatedHook
from fedseg.registry import HOOKS

# momentum makes SCAFFOLD's and FedCM's K_k eta a guess, of which they warn; the equation stands
pytestmark = pytest.mark.filterwarnings("ignore:algorithm. .* divides by K_k eta")

ALL = [sorted(problem.make_clients())] * 4
FEDAVG = {"type": "FedAvg"}
FEDDYN = {"type": "FedDyn", "beta": 2.0}

Run = Callable[..., Trace]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    """Runs the engine; the same run is made once."""
    made: dict[str, Trace] = {}

    def cached(algorithm: dict[str, Any], local: Local = LOCAL, **options: Any) -> Trace:
        key = repr((algorithm, local, sorted(options.items())))
        if key not in made:
            folder = tmp_path_factory.mktemp("run")
            made[key] = run_engine(folder, algorithm, local=local, **options)
        return made[key]

    return cached


def same(a: Trace, b: Trace) -> bool:
    return relative_error(a.weights, b.weights) <= TOLERANCE


def test_fedacg_without_momentum_is_fedprox(run):
    acg = {"type": "FedACG", "lam": 0.0, "beta": 0.5}
    prox = {"type": "FedProx", "mu": 0.5}
    assert same(run(acg, partition=EQUAL), run(prox, partition=EQUAL))


# ---------------------------------------------------------------- control variates


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


@pytest.mark.parametrize("algorithm", ["SCAFFOLD", "FedGamma"])
def test_equal_control_variates_are_fedavg(algorithm, run):
    """The sign of the correction aside, c_k = c takes it away in every round."""
    local = SAM if algorithm == "FedGamma" else LOCAL
    hooks = [{"type": "EqualControlsHook"}]
    trace = run({"type": algorithm}, local, partition=EQUAL, hooks=hooks)
    assert same(trace, run(FEDAVG, local, partition=EQUAL))
    assert abs(trace.server[-1]["control"]).max() > 1e-2


def test_what_all_control_variates_share_changes_nothing(run):
    """Only c - c_k matters, and c_k+ forgets what both had; if all take part, so does c."""
    hooks = [{"type": "ShiftedControlsHook"}]
    shifted = run({"type": "SCAFFOLD"}, participants=ALL, hooks=hooks)
    assert same(shifted, run({"type": "SCAFFOLD"}, participants=ALL))


def test_fedgamma_without_a_radius_is_scaffold(run):
    zero = replace(SAM, rho=0.0)
    assert same(run({"type": "FedGamma"}, zero), run({"type": "SCAFFOLD"}))


# ---------------------------------------------------------------- perturbations of their own


def test_fedsmoos_first_step_perturbs_as_sam(run):
    """mu_k = s = 0 then: one round of one full-batch step is FedDyn's with SAM."""
    one = {"local": replace(SAM, epochs=1), "batch_size": "full", "rounds": 1}
    smoo = {"type": "FedSMOO", "rho": SAM.rho, "beta": 2.0}
    a = run(smoo, **{**one, "local": replace(LOCAL, epochs=1)})
    assert same(a, run(FEDDYN, **one))


def test_fedspeed_without_a_radius_or_without_a_share_of_it(run):
    speed = {"type": "FedSpeed", "lam": 2.0}
    expected = run({**speed, "rho": 0.0, "alpha": 0.9})
    assert same(run({**speed, "rho": 0.1, "alpha": 0.0}), expected)
    assert same(run({**speed, "rho": 0.0, "alpha": 1.0}), expected)


@pytest.mark.parametrize(("alpha", "local"), [(0.0, LOCAL), (1.0, SAM)], ids=["SGD", "SAM"])
def test_fedspeed_with_every_client_is_feddyn(alpha, local, run):
    """mean_S(w_k - lam ghat_k) is mean(w_k) - lam sigma when all take part."""
    speed = {"type": "FedSpeed", "rho": SAM.rho, "alpha": alpha, "lam": 2.0}
    assert same(run(speed, participants=ALL), run(FEDDYN, local, participants=ALL))


@pytest.mark.parametrize(("alpha", "local"), [(0.0, LOCAL), (1.0, SAM)], ids=["SGD", "SAM"])
def test_fedspeed_with_all_corrections_is_feddyn(alpha, local, run):
    """The released code's server rule is FedDyn's, with whoever takes part."""
    speed = {"type": "FedSpeed", "rho": SAM.rho, "alpha": alpha, "lam": 2.0}
    expected = run(FEDDYN, local)
    assert same(run({**speed, "all_corrections": True}), expected)
    assert not same(run(speed), expected)


def test_fedspeed_lam_to_infinity(run):
    """Clients train like FedAvg's; what they send still holds all of their own moves so far."""
    speed = {"type": "FedSpeed", "rho": 0.1, "alpha": 0.0, "lam": 1e12}
    fed = federation()
    start, moved, expected = fed.initial, dict.fromkeys(fed.batches, 0.0), []
    for i, sampled in enumerate(fed.participants, start=1):
        sent = []
        for k in sampled:
            w_k = train_client(fed, k, start, LOCAL, i)
            moved[k] = moved[k] + w_k - start
            sent.append(w_k + moved[k])
        start = sum(sent) / len(sent)
        expected.append(start)
    # lam (w_k - w)/lam loses some digits: of a dual of 1e-12 none, of its product a few
    assert relative_error(run(speed).weights, expected) <= 1e-8


# ---------------------------------------------------------------- one client

ONE = {"partition": {"type": "SinglePartition"}, "participants": [["all"]] * 4}
OF_ONE_CLIENT = {
    "SCAFFOLD": ({"type": "SCAFFOLD"}, PLAIN, {}),
    "SCAFFOLD with momentum": ({"type": "SCAFFOLD"}, LOCAL, {}),
    "FedGamma": ({"type": "FedGamma"}, SAM, {}),
    "MIME-SGD, full batches": ({"type": "MIME"}, PLAIN, {"batch_size": "full"}),
    "MIMELite": ({"type": "MIMELite"}, PLAIN, {}),
    "AdaBest without estimates": ({"type": "AdaBest", "mu": 0.0, "beta": 0.0}, LOCAL, {}),
}


@pytest.mark.parametrize("name", OF_ONE_CLIENT)
def test_one_client_with_everything(name, run):
    """It is alone: its control variate is the server's, its full gradient the only one."""
    algorithm, local, options = OF_ONE_CLIENT[name]
    expected = run(FEDAVG, local, **ONE, **options)
    assert same(run(algorithm, local, **ONE, **options), expected)
