"""The transcriptions among themselves: known limits, torch's SGD, and that no two are the same."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import problem
import pytest
import torch
from harness import ASAM, LOCAL, SAM, EvenFederation, federation, relative_error, with_a_stranger
from transcriptions import (
    Local,
    ServerAdagrad,
    ServerAdam,
    ServerSGD,
    ServerYogi,
    asam_perturbation,
    fedavg,
    feddyn,
    fedgloss,
    sam_perturbation,
    scheduled_rho,
    swa,
    swa_lr,
    train_client,
    wima,
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


def test_rho_schedule():
    assert [scheduled_rho(0.1, 0.02, 4, i) for i in (1, 2, 3, 4, 5, 6)] == pytest.approx(
        [0.02, 0.04, 0.06, 0.08, 0.1, 0.1]
    )
    assert scheduled_rho(0.1, None, 4, 1) == scheduled_rho(0.1, 0.02, 0, 1) == 0.1


def test_swa_learning_rates_and_collections():
    rates = [swa_lr(0.1, 0.01, 3, 4.0, i) for i in range(1, 9)]
    assert rates == pytest.approx([0.1, 0.1, 0.1, 0.07, 0.04, 0.01, 0.07, 0.04])
    weights, averaged = swa(federation(), LOCAL, ServerSGD(), start=0.5, cycle=2, lr2=0.01)
    for i in (1, 2, 3):
        assert averaged[i - 1] is weights[i - 1]
    np.testing.assert_allclose(averaged[3], weights[3])
    np.testing.assert_allclose(averaged[4], weights[3])
    np.testing.assert_allclose(averaged[5], (weights[3] + weights[5]) / 2)
    np.testing.assert_allclose(averaged[7], (weights[3] + weights[5] + weights[7]) / 3)


@pytest.mark.parametrize("kind", ["sam", "asam"])
def test_rho_zero_is_sgd(kind):
    flat_rho = Local(kind=kind, rho=0.0, eta=0.2)
    actual = fedavg(federation(), flat_rho, ServerSGD())
    assert relative_error(actual, fedavg(federation(), LOCAL, ServerSGD())) == 0


@pytest.mark.parametrize("naive", [False, True])
def test_fedgloss_without_admm_and_rho_is_fedavg(naive):
    actual = fedgloss(federation(), SAM, rho_server=0.0, beta=2.0, admm=False, naive=naive)
    assert relative_error(actual, fedavg(federation(), SAM, ServerSGD())) < 1e-12


def test_fedgloss_without_rho_on_equal_sizes_is_feddyn():
    fed = federation(sizes=problem.EQUAL_SIZES)
    actual = fedgloss(fed, LOCAL, rho_server=0.0, beta=2.0)
    assert relative_error(actual, feddyn(fed, LOCAL, beta=2.0)) < 1e-10


def test_wima_windows():
    weights = fedavg(federation(), LOCAL, ServerSGD())
    assert relative_error(wima(weights, 1), weights) == 0
    np.testing.assert_allclose(wima(weights, 3)[1], (weights[0] + weights[1]) / 2)
    np.testing.assert_allclose(wima(weights, 3)[7], (weights[5] + weights[6] + weights[7]) / 3)


def test_what_an_absent_client_remembers_matters():
    """Its dual variable."""
    a, b = (feddyn(fed, LOCAL, beta=2.0) for fed in with_a_stranger())
    assert relative_error(a[:6], b[:6]) == 0
    assert relative_error(a[6:], b[6:]) > 1e-3


def test_no_two_algorithms_agree_on_this_problem():
    """Otherwise an engine that mixes two up could pass."""
    fed = federation()
    traces = {
        "fedavg": fedavg(fed, LOCAL, ServerSGD()),
        "fedavg, lr": fedavg(fed, LOCAL, ServerSGD(lr=0.9)),
        "fedavg, equal weights": fedavg(EvenFederation(**vars(fed)), LOCAL, ServerSGD()),
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
    }
    for (name_a, a), (name_b, b) in combinations(traces.items(), 2):
        assert relative_error(a, b) > 1e-3, (name_a, name_b)


def norm_scales() -> np.ndarray:
    """True at the norm's scales."""
    named = {n: np.full(s, n == "norm.weight") for n, s in problem.SHAPES.items()}
    return problem.join(named) == 1
