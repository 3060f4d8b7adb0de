"""Limits in which one algorithm becomes another, run by the engine on both sides."""

from dataclasses import replace

import numpy as np
import problem
import pytest
import torch
from harness import EQUAL, LOCAL, TOLERANCE, Trace, federation, relative_error, run_engine
from transcriptions import train_client

FEDAVG = {"type": "FedAvg", "server_optim": {"type": "SGD", "lr": 1.0}}


@pytest.fixture(scope="module")
def fedavg_trace(tmp_path_factory) -> Trace:
    """FedAvg with SGD, clients of unequal size."""
    return run_engine(tmp_path_factory.mktemp("fedavg"), FEDAVG)


@pytest.mark.parametrize("kind", ["sam", "asam"])
def test_rho_zero_is_sgd(kind, fedavg_trace, tmp_path):
    zero = replace(LOCAL, kind=kind, rho=0.0, eta=0.2)
    trace = run_engine(tmp_path, FEDAVG, local=zero)
    assert relative_error(trace.weights, fedavg_trace.weights) <= TOLERANCE


@pytest.mark.parametrize("name", ["FedGloSS", "NaiveFedGloSS"])
def test_fedgloss_without_admm_and_rho_is_fedavg(name, fedavg_trace, tmp_path):
    off = {"type": name, "rho_server": 0.0, "beta": 2.0, "admm": False}
    trace = run_engine(tmp_path, off)
    assert relative_error(trace.weights, fedavg_trace.weights) <= TOLERANCE


def test_fedgloss_without_rho_on_equal_clients_is_feddyn(tmp_path):
    """Equal sizes, because FedGloSS weights its pseudo-gradient and FedDyn's mean is uniform."""
    gloss = {"type": "FedGloSS", "rho_server": 0.0, "beta": 2.0, "admm": True}
    a = run_engine(tmp_path / "a", gloss, partition=EQUAL)
    b = run_engine(tmp_path / "b", {"type": "FedDyn", "beta": 2.0}, partition=EQUAL)
    assert relative_error(a.weights, b.weights) <= TOLERANCE


INFINITE_BETA = {
    "FedDyn": {"type": "FedDyn", "beta": 1e12},
    "FedGloSS": {"type": "FedGloSS", "rho_server": 0.0, "beta": 1e12, "admm": True},
}


@pytest.mark.parametrize("name", INFINITE_BETA)
def test_beta_to_infinity_is_fedavg_and_the_servers_sum(name, tmp_path):
    """The client rule becomes FedAvg's. The server's dual stays: beta cancels in beta sigma.

    It is the sum of all clients' moves so far over the number of clients, so that
    w = (FedAvg's new model) + sum over rounds and S of (w_k - w_start) / |K|. Taking that sum away
    leaves FedAvg's round from the same start. Equal sizes: FedDyn's mean is uniform.
    """
    trace = run_engine(tmp_path, INFINITE_BETA[name], partition=EQUAL)
    fed = federation(sizes=problem.EQUAL_SIZES)
    start, moved, averaged, expected = fed.initial, np.zeros_like(fed.initial), [], []
    for i, (w, sampled) in enumerate(zip(trace.weights, fed.participants, strict=True), start=1):
        models = [train_client(fed, k, start, LOCAL, i) for k in sampled]
        moved = moved + sum(w_k - start for w_k in models) / fed.num_clients
        averaged.append(w - moved)
        expected.append(np.mean(models, axis=0))
        start = w
    assert relative_error(averaged, expected) <= TOLERANCE


@pytest.mark.parametrize("name", INFINITE_BETA)
def test_beta_to_infinity_takes_fedavgs_first_step(name, tmp_path):
    """As above, engine against engine: |S| of |K| clients go (1 + |S|/|K|) times FedAvg's way."""
    a = run_engine(tmp_path / "a", INFINITE_BETA[name], partition=EQUAL, rounds=1)
    b = run_engine(tmp_path / "b", FEDAVG, partition=EQUAL, rounds=1)
    w = problem.initial_weights()
    share = len(problem.PARTICIPANTS[0]) / len(problem.EQUAL_SIZES)
    assert relative_error([w + (a.weights[0] - w) / (1 + share)], b.weights) <= TOLERANCE


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
def test_one_client_with_everything_is_centralized_training(tmp_path, momentum):
    """Without momentum one unbroken loop; with it the buffer starts fresh every round."""
    trace = run_engine(
        tmp_path,
        FEDAVG,
        local=replace(LOCAL, momentum=momentum),
        partition={"type": "SinglePartition"},
        participants=[["all"]] * 8,
    )
    expected = centralized(8, momentum, fresh_momentum=momentum > 0)
    assert relative_error(trace.weights, expected) <= TOLERANCE
