"""FedProx: what its term does, and where it is FedAvg."""

import itertools

import numpy as np
import pytest
import toyalgorithms
import toyquad
import toyseg
from toyalgorithms import FEDAVG, SAM

SWA = {"type": "SWA", "start": 1, "cycle": 1}
MOMENTUM = {"optim_wrapper": {"optimizer": {"type": "SGD", "lr": 0.1, "momentum": 0.9}}}
ADAM = {"server_optim": {"type": "Adam", "lr": 0.05}}


@pytest.mark.parametrize(
    ("server", "changes"),
    [
        ({}, {}),
        (ADAM, MOMENTUM),
        ({}, {"optim_wrapper": SAM}),
        ({}, {"averaging": SWA}),
        ({}, {"dtype": "float64"}),
    ],
    ids=["SGD", "momentum and FedAdam", "SAM", "SWA", "float64"],
)
def test_without_mu_it_is_fedavg(tmp_path, server, changes):
    prox = toyalgorithms.run(tmp_path / "a", {"type": "FedProx", "mu": 0.0, **server}, **changes)
    plain = toyalgorithms.run(tmp_path / "b", {**FEDAVG, **server}, **changes)
    assert toyseg.run_differences(prox, plain) == []


def test_the_first_step_is_fedavgs(tmp_path):
    """At the start there is no distance to hold on to, to the last bit."""
    one = {"train_cfg": {"local_steps": 1, "local_epochs": None}}
    prox = toyalgorithms.run(tmp_path / "a", {"type": "FedProx", "mu": 3.0}, **one)
    plain = toyalgorithms.run(tmp_path / "b", FEDAVG, **one)
    assert toyseg.run_differences(prox, plain) == []


def test_many_steps_end_where_pull_and_gradient_are_equal(tmp_path):
    """curvature (w_k - minimizer) + mu (w_k - w) = 0 at every client, weighted by N_k."""
    mu = 0.7
    changes = {"train_cfg": {"local_steps": 60, "max_rounds": 2}}
    changes["optim_wrapper"] = {"optimizer": {"lr": 0.4}}
    config = toyquad.run(tmp_path, {"type": "FedProx", "mu": mu}, **changes)
    w = toyquad.trace(config)
    sizes = np.array(list(toyquad.USERS.values()))
    for before, after in itertools.pairwise(w):
        models = []
        for client in toyquad.USERS:
            curvature, minimizer = toyquad.of_client(client)
            models.append((curvature * minimizer + mu * before) / (curvature + mu))
        np.testing.assert_allclose(after, np.average(models, axis=0, weights=sizes), rtol=1e-9)


def test_a_larger_mu_keeps_the_clients_nearer(tmp_path):
    moves = []
    for mu in (0.0, 0.5, 5.0):
        config = toyquad.run(tmp_path / str(mu), {"type": "FedProx", "mu": mu})
        moves.append(toyseg.history(config)[0]["norm_delta"])
    assert moves[0] > 1.1 * moves[1] > 1.1**2 * moves[2]
