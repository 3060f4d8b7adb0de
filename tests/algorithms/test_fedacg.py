"""FedACG: where clients start, what the momentum does, and where it is FedAvg."""

import numpy as np
import pytest
import toyalgorithms
import toyquad
import toyseg
from toyalgorithms import EQUAL_SIZES, FEDAVG, SAM
from toyquad import fixed, server_vector, trace


@pytest.mark.parametrize(
    "changes",
    [{}, {"optim_wrapper": SAM}, {"averaging": {"type": "WIMA", "window": 2}}],
    ids=["SGD", "SAM", "WIMA"],
)
def test_without_lam_and_beta_it_is_fedavg(tmp_path, changes):
    """Bit for bit on clients of equal size: its mean is uniform."""
    changes = {**EQUAL_SIZES, **changes}
    one = toyalgorithms.run(tmp_path / "a", {"type": "FedACG", "lam": 0.0, "beta": 0.0}, **changes)
    other = toyalgorithms.run(tmp_path / "b", FEDAVG, **changes)
    assert toyalgorithms.model_differences(one, other) == []


def test_the_first_round_is_fedproxs(tmp_path):
    """There is no momentum yet, and the proximal terms are the same."""
    first = toyseg.merge(EQUAL_SIZES, {"train_cfg": {"max_rounds": 1}})
    one = toyalgorithms.run(tmp_path / "a", {"type": "FedACG", "lam": 0.9, "beta": 2.0}, **first)
    other = toyalgorithms.run(tmp_path / "b", {"type": "FedProx", "mu": 2.0}, **first)
    assert toyalgorithms.model_differences(one, other) == []


def test_several_rounds_by_hand(tmp_path):
    """Clients of unequal size, uniform means; the proximal term is around w + lam m."""
    lam, beta = 0.8, 0.5
    config = toyquad.run(
        tmp_path,
        {"type": "FedACG", "lam": lam, "beta": beta},
        client_sampler=fixed("ab", "bd", "acd"),
    )
    w, m = np.array(toyquad.START), np.zeros(3)
    for number, clients in enumerate(("ab", "bd", "acd"), start=1):
        start = w + lam * m
        models = [
            toyquad.local_steps(k, start, 5, 0.1, lambda w_k, at=start: beta * (w_k - at))
            for k in clients
        ]
        m = lam * m + np.mean(models, axis=0) - start
        w = w + m
        np.testing.assert_allclose(trace(config)[number], w, rtol=1e-12)
        # in other words: the model is the mean of the clients' models
        np.testing.assert_allclose(w, np.mean(models, axis=0), rtol=1e-12)
    np.testing.assert_allclose(server_vector(config, "momentum"), m, rtol=1e-11)
    norm = toyseg.history(config)[-1]["norm_momentum"]
    assert norm == pytest.approx(np.linalg.norm(m), rel=1e-11)


def test_clients_that_do_not_move_let_it_coast(tmp_path):
    """m decays by lam a round, w follows it."""
    schedule = [{"type": "MultiStepLR", "milestones": [1], "gamma": 0.0}]
    config = toyquad.run(
        tmp_path,
        {"type": "FedACG", "lam": 0.5, "beta": 0.1},
        param_scheduler=schedule,
        train_cfg={"max_rounds": 4},
    )
    steps = np.diff(trace(config), axis=0)
    assert np.abs(steps[0]).min() > 0.01
    np.testing.assert_allclose(steps[1:], [0.5 * steps[0], 0.25 * steps[0], 0.125 * steps[0]])


def test_statistics_have_no_momentum(tmp_path):
    """BatchNorm's are the participants' mean, as FedAvg's: the first round's are the same bits."""
    first = {"train_cfg": {"max_rounds": 1}}
    one = toyalgorithms.run(tmp_path / "a", {"type": "FedACG", "lam": 0.9, "beta": 0.0}, **first)
    other = toyalgorithms.run(tmp_path / "b", FEDAVG, **first)
    states = [toyseg.checkpoint(config)["state_dict"] for config in (one, other)]
    statistics = [{n: t for n, t in state.items() if "running" in n} for state in states]
    assert len(statistics[0]) == 4
    assert toyseg.differences(*statistics) == []
