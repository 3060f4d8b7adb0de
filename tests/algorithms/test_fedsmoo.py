"""FedSMOO: FedDyn where nothing is perturbed, its duals, what is kept and sent."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import toyalgorithms
import toyquad
import toyseg
from toyalgorithms import FEDAVG, TRAINED
from toyquad import client_vector, final, fixed, long, server_vector, trace

from fedseg.errors import ConfigError
from fedseg.registry import ALGORITHMS, build

RHO, BETA = 0.1, 5.0
NAME = {"type": "FedSMOO", "rho": RHO, "beta": BETA}
FEDDYN = {"type": "FedDyn", "beta": BETA}
ONE_STEP = {"train_cfg": {"local_steps": 1}}


# ---------------------------------------------------------------- reductions


def test_rho_zero_is_feddyn(tmp_path):
    """Bit for bit, with BatchNorm's statistics left to the first pass."""
    none = {**NAME, "rho": 0.0, "freeze_statistics": True}
    one = toyalgorithms.run(tmp_path / "a", none)
    other = toyalgorithms.run(tmp_path / "b", FEDDYN)
    assert toyalgorithms.model_differences(one, other) == []
    states = toyseg.client_states(one)["clients"].values()
    assert all(not state["mu"].any() for state in states)
    assert not toyseg.checkpoint(one)["server"]["state"]["s"].any()


def test_the_first_step_is_feddyns_with_sam(tmp_path):
    """No dual yet, and s is zero: e = rho g/||g||."""
    sam = {"optim_wrapper": {"type": "SAMOptimWrapper", "rho": RHO}}
    changes = {**ONE_STEP, "client_sampler": fixed("abd")}
    one = toyquad.run(tmp_path / "a", NAME, **changes)
    other = toyquad.run(tmp_path / "b", FEDDYN, **changes, **sam)
    np.testing.assert_allclose(trace(one), trace(other), rtol=1e-12)
    perturbed = toyquad.run(tmp_path / "c", FEDDYN, **changes)
    assert np.abs(trace(perturbed)[-1] - trace(one)[-1]).max() > 1e-3


def test_all_clients_end_near_the_minimizer(tmp_path):
    """At the minimizer itself without a perturbation; with one it stays within its radius."""
    exact = toyquad.run(tmp_path / "a", {**NAME, "rho": 0.0}, **long(200))
    np.testing.assert_allclose(final(exact), toyquad.minimizer(), rtol=1e-8)
    near = toyquad.run(tmp_path / "b", {**NAME, "rho": 0.01}, **long(200))
    assert np.linalg.norm(final(near) - toyquad.minimizer()) < 0.02


# ---------------------------------------------------------------- the perturbation's duals


def perturbed(gradient, mu, s, rho=RHO):
    algorithm = build(ALGORITHMS, {**NAME, "rho": rho}, "algorithm")
    algorithm.bind(SimpleNamespace(w=gradient, model=torch.nn.Linear(1, 1)))
    client = SimpleNamespace(
        w=torch.zeros_like(gradient),
        grad=gradient.clone(),
        state={"mu": mu.clone()},
        extras={"s": s},
    )
    algorithm.perturb(client)
    return client


def test_a_perturbation():
    g, mu, s = torch.tensor([[5.0, 1.0], [1.0, 0.0], [1.0, -3.0]])
    client = perturbed(g, mu, s)
    e = torch.tensor([0.06, 0.08])  # rho (3, 4)/5
    torch.testing.assert_close(client.w, e)
    torch.testing.assert_close(client.state["mu"], mu + e - s)
    assert s.tolist() == [1.0, -3.0], "what was received is not changed"


def test_no_direction_no_perturbation_no_nan():
    """g = mu + s; the dual goes on without e."""
    g, mu, s = torch.tensor([[3.0, 1.0], [1.0, 1.0], [2.0, 0.0]])
    client = perturbed(g, mu, s)
    assert client.w.tolist() == [0, 0]
    assert client.state["mu"].tolist() == [-1, 1]


def test_a_single_step_sends_no_perturbation(tmp_path):
    """mu_k = e after one step of a first round: mu_k - e = 0, and s is zero, not NaN."""
    config = toyquad.run(tmp_path, NAME, **ONE_STEP, client_sampler=fixed("ab"))
    assert not server_vector(config, "s").any()
    for client in "ab":
        g = toyquad.gradient(client, np.array(toyquad.START))
        expected = RHO * g / np.linalg.norm(g)
        np.testing.assert_allclose(client_vector(config, client, "mu"), expected, rtol=1e-6)


def test_duals_add_up_over_steps_and_rounds(tmp_path):
    """mu_k and s by hand, at a learning rate of zero: the gradient is the same at every step."""
    steps, participants = 3, ("abd", "bd", "ab")
    config = toyquad.run(
        tmp_path,
        NAME,
        client_sampler=fixed(*participants),
        train_cfg={"local_steps": steps},
        optim_wrapper={"optimizer": {"lr": 0.0}},
    )
    w, s = np.array(toyquad.START), np.zeros(3)
    mu = {client: np.zeros(3) for client in toyquad.USERS}
    for number, chosen in enumerate(participants, start=1):
        sent = []
        for client in chosen:
            for _ in range(steps):
                d = toyquad.gradient(client, w) - mu[client] - s
                e = RHO * d / np.linalg.norm(d)
                mu[client] = mu[client] + e - s
            sent.append(mu[client] - e)
        m = np.mean(sent, 0)
        s = RHO * m / np.linalg.norm(m)
        np.testing.assert_allclose(server_vector(config, "s", number), s, rtol=1e-5)
    for client in "abd":
        np.testing.assert_allclose(client_vector(config, client, "mu"), mu[client], rtol=1e-5)
    np.testing.assert_array_equal(trace(config)[-1], w)


# ---------------------------------------------------------------- states, traffic, errors


def test_states_and_traffic(tmp_path):
    config = toyalgorithms.run(tmp_path / "a", NAME)
    states = toyseg.client_states(config)["clients"]
    assert states.keys() == TRAINED
    assert all(s.keys() == {"mu", "sigma"} for s in states.values())
    server = toyseg.checkpoint(config)["server"]["state"]
    assert server.keys() == {"s", "sigma"}
    assert float(server["s"].norm()) == pytest.approx(RHO)
    average = toyalgorithms.run(tmp_path / "b", FEDAVG, model={"norm": False})
    twice = toyalgorithms.run(tmp_path / "c", NAME, model={"norm": False})
    for one, two in zip(*map(toyalgorithms.bytes_of, (average, twice)), strict=True):
        assert two == (2 * one[0], 2 * one[1])


@pytest.mark.parametrize("kind", ["SAMOptimWrapper", "ASAMOptimWrapper"])
def test_a_second_perturbation_is_refused(tmp_path, kind):
    with pytest.raises(ConfigError, match=rf"optim_wrapper\.type: {kind}.*FedSMOO.*rule of its"):
        toyalgorithms.run(tmp_path, NAME, optim_wrapper={"type": kind, "rho": 0.1})
