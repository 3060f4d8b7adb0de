"""AdaBest: estimates that forget, clients that come back, and where it is FedAvg."""

import numpy as np
import pytest
import toyalgorithms
import toyquad
import toyseg
from toyalgorithms import EQUAL_SIZES, FEDAVG, SAM
from toyquad import client_vector, fixed, server_vector, trace

BOTH = {"type": "AdaBest", "mu": 0.3, "beta": 0.8}


@pytest.mark.parametrize(
    "changes",
    [{}, {"optim_wrapper": SAM}, {"averaging": {"type": "SWA", "start": 1, "cycle": 1}}],
    ids=["SGD", "SAM", "SWA"],
)
def test_without_mu_and_beta_it_is_fedavg(tmp_path, changes):
    """Bit for bit on clients of equal size: its mean is uniform."""
    changes = {**EQUAL_SIZES, **changes}
    one = toyalgorithms.run(tmp_path / "a", {"type": "AdaBest", "mu": 0.0, "beta": 0.0}, **changes)
    other = toyalgorithms.run(tmp_path / "b", FEDAVG, **changes)
    assert toyalgorithms.model_differences(one, other) == []


def last_rounds(config):
    states = toyseg.client_states(config)["clients"]
    return {client: int(state["last_round"]) for client, state in states.items()}


def test_several_rounds_by_hand(tmp_path):
    """As the paper writes it, with wbar; a is away for two rounds, d is late, b is always there."""
    mu, beta = BOTH["mu"], BOTH["beta"]
    rounds = ("ab", "bc", "bd", "ab")
    config = toyquad.run(tmp_path, BOTH, client_sampler=fixed(*rounds))
    w = wbar = np.array(toyquad.START)
    h, last = {k: np.zeros(3) for k in toyquad.USERS}, dict.fromkeys(toyquad.USERS, 0)
    for t, clients in enumerate(rounds, start=1):
        models = []
        for k in clients:
            w_k = toyquad.local_steps(k, w, 5, 0.1, lambda _, d=-h[k]: d)
            h[k] = h[k] / (t - last[k]) + mu * (w - w_k)
            last[k] = t
            models.append(w_k)
        previous, wbar = wbar, np.mean(models, axis=0)
        server = beta * (previous - wbar)
        w = wbar - server
        np.testing.assert_allclose(trace(config)[t], w, rtol=1e-12)
        np.testing.assert_allclose(server_vector(config, "h", t), server, rtol=1e-10)
    for k in toyquad.USERS:
        np.testing.assert_allclose(client_vector(config, k, "h"), h[k], rtol=1e-11)
    assert last_rounds(config) == {"a": 4, "b": 4, "c": 2, "d": 3}
    norm = toyseg.history(config)[-1]["norm_h"]
    assert norm == pytest.approx(np.linalg.norm(server), rel=1e-10)


def test_an_absent_clients_estimate_fades(tmp_path):
    """Only the division: nobody's steps add anything when mu is zero, so h stays zero ..."""
    config = toyquad.run(tmp_path / "a", {**BOTH, "mu": 0.0}, client_sampler=fixed("a", "b", "a"))
    assert not client_vector(config, "a", "h").any()
    # ... and without movement it is what is left of the first round's
    schedule = [{"type": "MultiStepLR", "milestones": [1], "gamma": 0.0}]
    rounds = {"client_sampler": fixed("ab", "b", "b", "b", "ab")}
    config = toyquad.run(tmp_path / "b", BOTH, param_scheduler=schedule, **rounds)
    first = toyquad.run(tmp_path / "c", BOTH, client_sampler=fixed("ab"))
    for client, divisor in (("a", 4), ("b", 1)):
        expected = client_vector(first, client, "h") / divisor
        np.testing.assert_allclose(client_vector(config, client, "h"), expected, rtol=1e-15)


def test_a_late_first_round_is_like_any_first_round(tmp_path):
    """h_k = mu (w - w_k), undivided, whenever it is."""
    config = toyquad.run(
        tmp_path, {**BOTH, "beta": 0.0}, client_sampler=fixed("a", "a", "a", "a", "c")
    )
    w = trace(config)
    expected = BOTH["mu"] * (w[4] - w[5])  # c was alone: the model is its own
    np.testing.assert_allclose(client_vector(config, "c", "h"), expected, rtol=1e-9)


def test_a_rejected_update_counts_as_absence(tmp_path):
    """Bit for bit the run in which the client did not take part."""
    one, other = toyquad.rejected_and_absent(tmp_path, BOTH, "bd")
    np.testing.assert_array_equal(trace(one), trace(other))
    states = (toyseg.client_states(config)["clients"] for config in (one, other))
    assert toyseg.differences(*states) == []
    assert last_rounds(one) == {"a": 1, "b": 3, "c": 2, "d": 3}
