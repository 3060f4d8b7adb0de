"""The transcriptions among themselves: known limits, torch's SGD, and that no two are the same."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import problem
import pytest
import torch
from drift import adabest, fedacg, fedcm, fedprox, fedsmoo, fedspeed, mime, scaffold
from harness import ASAM, LOCAL, SAM, EvenFederation, federation, relative_error, with_a_stranger
from transcriptions import (
    ServerAdagrad,
    ServerAdam,
    ServerSGD,
    ServerYogi,
    asam_perturbation,
    fedavg,
    feddyn,
    fedgloss,
    sam_perturbation,
    train_client,
)


def test_local_sgd_equals_torch():
    fed = federation()
    model = problem.OracleMLP().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    x, y = map(torch.from_numpy, problem.make_data())
    for _ in range(LOCAL.epochs):
        for batch in fed.batches["c4"]:
            optimizer.zero_grad()
            model(x[batch], y[batch], mode="loss")["loss"].backward()
            optimizer.step()
    expected = problem.join({n: p.detach().numpy() for n, p in model.named_parameters()})
    actual = train_client(fed, "c4", fed.initial, LOCAL, 1)
    assert relative_error([actual], [expected]) < 1e-10


def test_perturbations_have_the_length_that_defines_them():
    rng = np.random.default_rng(0)
    w, g = rng.normal(size=20), rng.normal(size=20)
    scaled = np.arange(20) < 12
    assert np.linalg.norm(sam_perturbation(g, 0.3)) == pytest.approx(0.3)
    t = np.where(scaled, np.abs(w) + 0.2, 1.0)
    eps = asam_perturbation(w, g, 0.3, 0.2, scaled)
    assert np.linalg.norm(eps / t) == pytest.approx(0.3)  # ASAM's ball: ||eps / T|| <= rho
    # Of all points of that ball it climbs the most: no other scores higher against g.
    others = rng.normal(size=(1000, 20))
    others = 0.3 * t * others / np.linalg.norm(others, axis=1, keepdims=True)
    assert (others @ g).max() < eps @ g
    assert not sam_perturbation(np.zeros(3), 0.3).any()
    assert not asam_perturbation(w, np.zeros(20), 0.3, 0.2, scaled).any()


def weights(history):
    return [state.w for state in history]


def test_what_an_absent_client_remembers_matters():
    for run in (
        lambda fed: feddyn(fed, LOCAL, beta=2.0),
        lambda fed: weights(scaffold(fed, LOCAL)),
        lambda fed: weights(adabest(fed, LOCAL, 0.9, 0.2)),
        lambda fed: weights(fedspeed(fed, LOCAL, 0.05, 0.9, 2.0)),
        lambda fed: weights(fedsmoo(fed, LOCAL, 0.05, 2.0)),
    ):
        a, b = map(run, with_a_stranger())
        assert relative_error(a[:6], b[:6]) == 0
        assert relative_error(a[6:], b[6:]) > 1e-3


def test_no_two_algorithms_agree_on_this_problem():
    """Nor do a rule and its likely slip; otherwise an engine that mixes two up could pass."""
    fed = federation()
    even = EvenFederation(**vars(fed))
    few = replace(fed, batches={k: fed.batches[k] for k in ("c0", "c1", "c2", "c3", "c4", "c5")})
    few.batches["nobody"] = fed.batches["c0"]  # |K| is one more
    traces = {
        "fedavg": fedavg(fed, LOCAL, ServerSGD()),
        "fedavg, lr": fedavg(fed, LOCAL, ServerSGD(lr=0.9)),
        "fedavg, equal weights": fedavg(even, LOCAL, ServerSGD()),
        "fedavgm": fedavg(fed, LOCAL, ServerSGD(1.0, 0.9)),
        "fedadam": fedavg(fed, LOCAL, ServerAdam(0.05, (0.9, 0.99), 1e-3)),
        "fedyogi": fedavg(fed, LOCAL, ServerYogi(0.05, (0.9, 0.99), 1e-3)),
        "fedadagrad": fedavg(fed, LOCAL, ServerAdagrad(0.05, 1e-3)),
        "fedsam": fedavg(fed, SAM, ServerSGD()),
        "fedsam, ramp": fedavg(fed, replace(SAM, rho0=0.001, rho_rounds=4), ServerSGD()),
        "fedasam": fedavg(fed, ASAM, ServerSGD()),
        "fedasam, T on biases": fedavg(
            replace(fed, scaled=np.ones_like(fed.scaled)), ASAM, ServerSGD()
        ),
        "fedasam, no T on norm scales": fedavg(
            replace(fed, scaled=fed.scaled & ~norm_scales()), ASAM, ServerSGD()
        ),
        # Their server rules do not depend on beta, their clients do.
        "feddyn": feddyn(fed, LOCAL, beta=2.0),
        "feddyn, beta": feddyn(fed, LOCAL, beta=4.0),
        "fedgloss": fedgloss(fed, LOCAL, 0.1, 2.0),
        "fedgloss, sam": fedgloss(fed, SAM, 0.1, 2.0),
        "fedgloss, ramp": fedgloss(fed, LOCAL, 0.1, 2.0, rho0=0.001, rho_rounds=4),
        "fedgloss, released": fedgloss(fed, LOCAL, 0.1, 2.0, released=True),
        "fedgloss, released, ramp": fedgloss(
            fed, LOCAL, 0.1, 2.0, rho0=0.001, rho_rounds=4, released=True
        ),
        "fedgloss, no admm": fedgloss(fed, LOCAL, 0.1, 2.0, admm=False),
        "naive": fedgloss(fed, LOCAL, 0.1, 2.0, naive=True),
        "naive, no admm": fedgloss(fed, LOCAL, 0.1, 2.0, admm=False, naive=True),
        "fedprox": weights(fedprox(fed, LOCAL, 0.5)),
        "fedprox, equal weights": weights(fedprox(even, LOCAL, 0.5)),
        "fedprox, sam": weights(fedprox(fed, SAM, 0.5)),
        "fedacg": weights(fedacg(fed, LOCAL, 0.8, 0.5)),
        "fedacg, no prox": weights(fedacg(fed, LOCAL, 0.8, 0.0)),
        "scaffold": weights(scaffold(fed, LOCAL)),
        "scaffold, eta_g": weights(scaffold(fed, LOCAL, 0.8)),
        "scaffold, sam": weights(scaffold(fed, SAM)),
        "scaffold, |K|": weights(scaffold(few, LOCAL)),
        "scaffold, momentum counted": weights(scaffold(fed, LOCAL, count_momentum=True)),
        "fedcm, momentum counted": weights(fedcm(fed, LOCAL, 0.3, count_momentum=True)),
        "fedcm": weights(fedcm(fed, LOCAL, 0.3)),
        "fedcm, by samples": weights(fedcm(fed, LOCAL, 0.3, by_samples=True)),
        "fedcm, the mean of the models": weights(fedcm(even, LOCAL, 0.3, by_samples=True)),
        "mime": weights(mime(fed, LOCAL, 0.5)),
        "mime, sam": weights(mime(fed, SAM, 0.5)),
        "mime sgd": weights(mime(fed, LOCAL, 0.0)),
        "mimelite": weights(mime(fed, LOCAL, 0.5, lite=True)),
        "adabest": weights(adabest(fed, LOCAL, 0.9, 0.2)),
        "adabest, no h_k": weights(adabest(fed, LOCAL, 0.9, 0.0)),
        "adabest, no h": weights(adabest(fed, LOCAL, 0.0, 0.2)),
        "fedspeed": weights(fedspeed(fed, LOCAL, 0.1, 0.9, 2.0)),
        "fedspeed, sam only": weights(fedspeed(fed, LOCAL, 0.1, 1.0, 2.0)),
        "fedspeed, no sam": weights(fedspeed(fed, LOCAL, 0.1, 0.0, 2.0)),
        "fedsmoo": weights(fedsmoo(fed, LOCAL, 0.1, 2.0)),
        "feddyn, sam": feddyn(fed, replace(SAM, rho=0.1), 2.0),
    }
    for (name_a, a), (name_b, b) in combinations(traces.items(), 2):
        assert relative_error(a, b) > 1e-3, (name_a, name_b)


def norm_scales() -> np.ndarray:
    """True at the norm's scales."""
    named = {n: np.full(s, n == "norm.weight") for n, s in problem.SHAPES.items()}
    return problem.join(named) == 1
