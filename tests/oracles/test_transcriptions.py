"""The transcriptions among themselves: known limits, torch's SGD, and that no two are the same."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import problem
import pytest
import torch
from harness import ASAM, LOCAL, SAM, federation, relative_error
from transcriptions import (
    FedAvg,
    Federation,
    asam_perturbation,
    sam_perturbation,
    transcribed,
    weights,
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
    actual = FedAvg(fed, LOCAL).train("c4", fed.initial)
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


def test_what_an_absent_client_remembers_matters():
    """A stranger comes in c3's place in round 7, with its data and without its vectors."""
    fed = federation()
    fed = replace(fed, batches=fed.batches | {"stranger": fed.batches["c3"]})
    swapped = [["stranger" if k == "c3" else k for k in sampled] for sampled in fed.participants]
    other = replace(fed, participants=fed.participants[:6] + swapped[6:])
    for algorithm in (
        {"type": "FedDyn", "beta": 2.0},
        {"type": "SCAFFOLD"},
        {"type": "AdaBest", "beta": 0.9, "mu": 0.2},
        {"type": "FedSpeed", "rho": 0.05, "alpha": 0.9, "lam": 2.0},
        {"type": "FedSMOO", "rho": 0.05, "beta": 2.0},
    ):
        a, b = (weights(transcribed(algorithm, one, LOCAL)) for one in (fed, other))
        assert relative_error(a[:6], b[:6]) == 0
        assert relative_error(a[6:], b[6:]) > 1e-3


class EvenFederation(Federation):
    """Every client counts the same."""

    def size(self, client: str) -> int:
        return 1


def server(kind, **options):
    return {"type": "FedAvg", "server_optim": {"type": kind, **options}}


def test_no_two_algorithms_agree_on_this_problem():
    """Nor do a rule and its likely slip; otherwise an engine that mixes two up could pass."""
    fed = federation()
    even = EvenFederation(**vars(fed))
    few = replace(fed, batches={**fed.batches, "nobody": fed.batches["c0"]})  # |K| is one more
    norm = {n: np.full(s, n == "norm.weight") for n, s in problem.SHAPES.items()}
    biased = replace(fed, scaled=np.ones_like(fed.scaled))
    unscaled = replace(fed, scaled=fed.scaled & (problem.join(norm) != 1))
    adam, ramp = {"lr": 0.05, "tau": 1e-3}, {"rho0": 0.001, "rho_rounds": 4}
    avg, moments = {"type": "FedAvg"}, {"betas": (0.9, 0.99)}
    prox, acg = {"type": "FedProx", "mu": 0.5}, {"type": "FedACG", "lam": 0.8, "beta": 0.5}
    gloss = {"type": "FedGloSS", "rho_server": 0.1, "beta": 2.0}
    naive, released = gloss | {"type": "NaiveFedGloSS"}, gloss | {"released_rules": True}
    scaffold, cm = {"type": "SCAFFOLD"}, {"type": "FedCM", "alpha": 0.3}
    mime, best = {"type": "MIME", "momentum": 0.5}, {"type": "AdaBest", "beta": 0.9, "mu": 0.2}
    speed = {"type": "FedSpeed", "rho": 0.1, "alpha": 0.9, "lam": 2.0}
    of_fed = [  # algorithm, local training
        *((avg, local) for local in (LOCAL, SAM, replace(SAM, **ramp), ASAM)),
        (server("SGD", lr=0.9), LOCAL),
        (server("SGD", momentum=0.9), LOCAL),
        (server("Adam", **adam, **moments), LOCAL),
        (server("Yogi", **adam, **moments), LOCAL),
        (server("Adagrad", **adam), LOCAL),
        # their server rules do not depend on beta, their clients do
        *(({"type": "FedDyn", "beta": beta}, LOCAL) for beta in (2.0, 4.0)),
        ({"type": "FedDyn", "beta": 2.0}, replace(SAM, rho=0.1)),
        (gloss, SAM),
        (gloss | ramp, LOCAL),
        (released, LOCAL),
        (released | ramp, LOCAL),
        *((one | {"admm": admm}, LOCAL) for one in (gloss, naive) for admm in (False, True)),
        *((prox, local) for local in (LOCAL, SAM)),
        *((acg | more, LOCAL) for more in ({}, {"beta": 0.0})),
        *((scaffold, local) for local in (LOCAL, SAM)),
        *((scaffold | more, LOCAL) for more in ({"eta_g": 0.8}, {"count_momentum": True})),
        *((cm | more, LOCAL) for more in ({}, {"count_momentum": True}, {"weigh_samples": True})),
        *((mime, local) for local in (LOCAL, SAM)),
        *((mime | more, LOCAL) for more in ({"momentum": 0.0}, {"type": "MIMELite"})),
        *((best | more, LOCAL) for more in ({}, {"mu": 0.0}, {"beta": 0.0})),
        *((speed | {"alpha": alpha}, LOCAL) for alpha in (0.9, 1.0, 0.0)),
        ({"type": "FedSMOO", "rho": 0.1, "beta": 2.0}, LOCAL),
    ]
    slips = [
        *((one, LOCAL, even) for one in (avg, prox, cm | {"weigh_samples": True})),
        *((avg, ASAM, one) for one in (biased, unscaled)),  # T on biases, none on norm scales
        (scaffold, LOCAL, few),
    ]
    runs = [*((algorithm, local, fed) for algorithm, local in of_fed), *slips]
    traces = [weights(transcribed(algorithm, one, local)) for algorithm, local, one in runs]
    for (a, one), (b, other) in combinations(zip(runs, traces, strict=True), 2):
        assert relative_error(one, other) > 1e-3, (a[:2], b[:2])
