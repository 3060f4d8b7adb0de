"""The transcriptions of the drift-correction algorithms among themselves: limits, differences."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import problem
import pytest
from drift import (
    Round,
    adabest,
    fedacg,
    fedcm,
    fedprox,
    fedsmoo,
    fedspeed,
    full_gradient,
    mime,
    scaffold,
)
from harness import LOCAL, PLAIN, SAM, EvenFederation, federation, relative_error, with_a_stranger
from transcriptions import Federation, ServerSGD, fedavg, feddyn

EQUAL = federation(sizes=problem.EQUAL_SIZES)


def weights(history: list[Round]) -> list[np.ndarray]:
    return [state.w for state in history]


def all_in(fed: Federation) -> Federation:
    """Every client in every round."""
    return replace(fed, participants=[list(fed.batches)] * 4)


LIMITS = {
    "FedProx, mu = 0": lambda fed: fedprox(fed, SAM, 0.0),
    "FedCM, a = 1": lambda fed: fedcm(fed, SAM, 1.0, by_samples=True),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits_that_are_fedavg(name):
    expected = fedavg(federation(), SAM, ServerSGD())
    assert relative_error(weights(LIMITS[name](federation())), expected) < 1e-10


def test_limits_that_are_fedavg_with_a_uniform_mean():
    """FedACG, AdaBest, FedCM and MIME weigh every client the same."""
    expected = fedavg(EQUAL, LOCAL, ServerSGD())
    assert relative_error(weights(fedacg(EQUAL, LOCAL, 0.0, 0.0)), expected) < 1e-12
    assert relative_error(weights(adabest(EQUAL, LOCAL, 0.0, 0.0)), expected) < 1e-12
    assert relative_error(weights(fedcm(EQUAL, LOCAL, 1.0)), expected) < 1e-12
    assert relative_error(weights(mime(EQUAL, LOCAL, 0.0, lite=True)), expected) < 1e-12
    momentum = fedavg(EQUAL, LOCAL, ServerSGD(1.0, 0.8))
    assert relative_error(weights(fedacg(EQUAL, LOCAL, 0.8, 0.0)), momentum) > 1e-3


def test_fedsmoo_without_a_radius_is_feddyn():
    fed = federation()
    assert relative_error(weights(fedsmoo(fed, LOCAL, 0.0, 2.0)), feddyn(fed, LOCAL, 2.0)) < 1e-10


def test_fedspeed_with_everybody_is_feddyn():
    """With all clients in, mean_S(w_k - lam ghat_k) = mean(w_k) - lam sigma."""
    fed = all_in(federation())
    speed = weights(fedspeed(fed, LOCAL, 0.05, 0.0, 2.0))
    assert relative_error(speed, feddyn(fed, LOCAL, 2.0)) < 1e-10
    blended = weights(fedspeed(fed, LOCAL, 0.05, 1.0, 2.0))
    assert relative_error(blended, feddyn(fed, SAM, 2.0)) < 1e-10


def test_fedspeed_without_a_radius_does_not_blend():
    fed = federation()
    a, b = (weights(fedspeed(fed, LOCAL, 0.0, blend, 2.0)) for blend in (0.0, 0.9))
    assert relative_error(a, b) < 1e-10


def test_scaffolds_first_round_is_fedavgs_and_its_control_is_the_mean_of_the_clients():
    fed = federation(sizes=problem.EQUAL_SIZES)
    assert relative_error(
        weights(scaffold(fed, LOCAL))[:1], fedavg(fed, LOCAL, ServerSGD())[:1]
    ) < (1e-12)
    last = scaffold(federation(), LOCAL)[-1]
    np.testing.assert_allclose(
        last.server["c"], np.mean([own["c"] for own in last.clients.values()], axis=0), atol=1e-12
    )


def test_scaffolds_control_is_the_mean_gradient_along_the_way():
    """Without momentum and weight decay, c_k+ is what the client's steps went along, uncorrected.

    One full-batch step at w: c_k+ is the full gradient there.
    """
    fed = replace(federation("full"), participants=[["c0", "c2"]])
    local = replace(LOCAL, momentum=0.0, weight_decay=0.0, epochs=1)
    own = scaffold(fed, local)[0].clients
    for k in ("c0", "c2"):
        np.testing.assert_allclose(
            own[k]["c"], full_gradient(fed, k, fed.initial, local, 1), atol=1e-12
        )


def test_mime_of_one_client_with_full_batches_is_centralized():
    """g(w_k) - g(w) + c = g(w_k), so MIME-SGD is gradient descent."""
    fed = replace(federation("full"), participants=[["c5"]] * 4)
    expected = fedavg(fed, PLAIN, ServerSGD())  # one client: no weights
    assert relative_error(weights(mime(fed, PLAIN, 0.0)), expected) < 1e-12


def test_fedcm_of_one_client_with_one_step_is_momentum():
    """D is the last direction: D <- a g + (1 - a) D, w <- w - eta D."""
    fed = replace(federation("full"), participants=[["c5"]] * 6)
    local = replace(PLAIN, epochs=1, weight_decay=0.0)
    w, d, expected = fed.initial, np.zeros_like(fed.initial), []
    for _ in fed.participants:
        d = 0.3 * full_gradient(fed, "c5", w, local, 1) + 0.7 * d
        w = w - local.lr * d
        expected.append(w)
    assert relative_error(weights(fedcm(fed, local, 0.3)), expected) < 1e-10


def test_what_an_absent_client_remembers_matters():
    for run in (
        lambda fed: scaffold(fed, LOCAL),
        lambda fed: adabest(fed, LOCAL, 0.9, 0.2),
        lambda fed: fedspeed(fed, LOCAL, 0.05, 0.9, 2.0),
        lambda fed: fedsmoo(fed, LOCAL, 0.05, 2.0),
    ):
        a, b = (weights(run(fed)) for fed in with_a_stranger())
        assert relative_error(a[:6], b[:6]) == 0
        assert relative_error(a[6:], b[6:]) > 1e-3


def test_momentum_counted_makes_the_control_a_mean_gradient():
    """Along a constant gradient c_k+ is that gradient, at any momentum."""
    slope = np.arange(3.0)
    fed = Federation(
        initial=np.zeros(3),
        gradient=lambda w, batch: slope,
        scaled=np.ones(3, bool),
        batches={"c0": [np.arange(2)] * 5},
        participants=[["c0"]],
    )
    local = replace(LOCAL, weight_decay=0.0)
    own = scaffold(fed, local, count_momentum=True)[0].clients["c0"]["c"]
    np.testing.assert_allclose(own, slope, rtol=1e-12)
    own = scaffold(fed, local)[0].clients["c0"]["c"]
    assert own[1] > 2 * slope[1]


def test_no_two_algorithms_agree_on_this_problem():
    """Nor do a rule and its likely slip; otherwise an engine that mixes two up could pass."""
    fed = federation()
    even = EvenFederation(**vars(fed))
    few = replace(fed, batches={k: fed.batches[k] for k in ("c0", "c1", "c2", "c3", "c4", "c5")})
    few.batches["nobody"] = fed.batches["c0"]  # |K| is one more
    traces = {
        "fedavg": fedavg(fed, LOCAL, ServerSGD()),
        "feddyn": feddyn(fed, LOCAL, 2.0),
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
