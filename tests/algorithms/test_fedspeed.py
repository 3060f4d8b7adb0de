"""FedSpeed: which values make it another algorithm, where it ends, what is kept and sent."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import toyalgorithms
import toyquad
import toyseg
from toyalgorithms import EQUAL_SIZES, FEDAVG, SAM, TRAINED
from toyquad import client_vector, final, fixed, local_steps, long, trace

from fedseg.errors import ConfigError
from fedseg.optim import OptimWrapper
from fedseg.registry import ALGORITHMS, OPTIM_WRAPPERS, build

VALUES = {"rho": 0.1, "alpha": 0.7, "lam": 5.0}
NAME = {"type": "FedSpeed", **VALUES}
INFINITE = 1e12


def named(**values):
    return {**NAME, **values}


# ---------------------------------------------------------------- reductions


def test_alpha_zero_is_rho_zero(tmp_path):
    """Either takes plain gradients; the other value has then nothing to say."""
    frozen = {"freeze_statistics": True}
    one = toyalgorithms.run(tmp_path / "a", named(alpha=0.0, rho=3.0, **frozen))
    other = toyalgorithms.run(tmp_path / "b", named(alpha=0.0, rho=0.0, **frozen))
    assert toyalgorithms.model_differences(one, other) == []
    mixed = toyquad.run(tmp_path / "c", named(alpha=0.3, rho=0.0))
    plain = toyquad.run(tmp_path / "d", named(alpha=0.0, rho=3.0))
    np.testing.assert_allclose(trace(mixed), trace(plain), rtol=1e-12)
    perturbed = toyquad.run(tmp_path / "e", named(alpha=0.3, rho=3.0))
    assert np.abs(trace(perturbed)[-1] - trace(plain)[-1]).max() > 1e-3


def test_alpha_zero_with_all_clients_is_feddyn(tmp_path):
    """The mean of what clients send is then FedDyn's server step; with some of them it is not."""
    feddyn = {"type": "FedDyn", "beta": 5.0}
    speed = toyquad.run(tmp_path / "a", named(alpha=0.0))
    dyn = toyquad.run(tmp_path / "b", feddyn)
    np.testing.assert_allclose(trace(speed), trace(dyn), rtol=1e-12)
    some = {"client_sampler": fixed("ab", "bc", "ad")}
    speed = toyquad.run(tmp_path / "c", named(alpha=0.0), **some)
    dyn = toyquad.run(tmp_path / "d", feddyn, **some)
    assert np.abs(trace(speed)[-1] - trace(dyn)[-1]).max() > 1e-3


@pytest.mark.parametrize(
    ("values", "wrapper"),
    [({"alpha": 0.0}, toyalgorithms.SGD), ({"alpha": 1.0, "rho": 0.05}, SAM)],
    ids=["FedAvg", "FedSAM"],
)
def test_lam_to_infinity_goes_twice_as_far_in_the_first_round(tmp_path, values, wrapper):
    """The clients train as without correction, and send their drift once more."""
    changes = {**EQUAL_SIZES, "train_cfg": {"max_rounds": 1}}
    speed = toyalgorithms.run(tmp_path / "a", named(lam=INFINITE, **values), **changes)
    plain = toyalgorithms.run(tmp_path / "b", FEDAVG, **changes, optim_wrapper=wrapper)
    still = toyalgorithms.run(
        tmp_path / "c", FEDAVG, **changes, optim_wrapper={"optimizer": {"lr": 0.0}}
    )
    w, once, twice = (toyseg.checkpoint(run)["state_dict"] for run in (still, plain, speed))
    for name, start in w.items():
        if "running" not in name and "num_batches" not in name:
            moved = 2 * (once[name] - start)
            torch.testing.assert_close(twice[name] - start, moved, rtol=1e-4, atol=1e-6)
    assert (once["conv2.weight"] - w["conv2.weight"]).abs().max() > 1e-3


def test_lam_to_infinity_sends_all_drifts_so_far(tmp_path):
    """Plain local training; lam cancels in lam ghat, as beta does in FedDyn's server."""
    participants = ("ab", "bcd", "ad", "b")
    config = toyquad.run(
        tmp_path, named(alpha=0.0, lam=INFINITE), client_sampler=fixed(*participants)
    )
    drifts = {client: 0.0 for client in toyquad.USERS}
    for w, after, chosen in zip(trace(config), trace(config)[1:], participants, strict=False):
        sent = []
        for client in chosen:
            trained = local_steps(client, w, 5, 0.1)
            drifts[client] = drifts[client] + trained - w
            sent.append(trained + drifts[client])
        np.testing.assert_allclose(after, np.mean(sent, 0), rtol=1e-9)
    for client, drift in drifts.items():
        own = client_vector(config, client, "ghat")
        np.testing.assert_allclose(-INFINITE * own, drift, rtol=1e-9)


# ---------------------------------------------------------------- where it ends


@pytest.fixture(scope="module")
def long_run(tmp_path_factory):
    return toyquad.run(tmp_path_factory.mktemp("long"), named(rho=0.0), **long(200))


def test_all_clients_reach_the_minimizer_where_fedavg_does_not(long_run, tmp_path):
    np.testing.assert_allclose(final(long_run), toyquad.minimizer(), rtol=1e-8)
    average = toyquad.run(tmp_path, FEDAVG, **long(200))
    assert np.abs(final(average) - toyquad.minimizer()).max() > 0.01


def test_at_the_end_a_correction_is_the_clients_gradient(long_run):
    for client in toyquad.USERS:
        expected = toyquad.gradient(client, toyquad.minimizer())
        np.testing.assert_allclose(client_vector(long_run, client, "ghat"), expected, rtol=1e-6)


def test_no_gradient_no_perturbation_no_nan():
    algorithm = build(ALGORITHMS, NAME, "algorithm")
    model = torch.nn.Linear(2, 1)
    algorithm.bind(SimpleNamespace(w=torch.zeros(3), model=model))
    client = SimpleNamespace(w=torch.tensor([1.0, 2.0, 3.0]), grad=torch.zeros(3))
    algorithm.perturb(client)
    assert client.w.tolist() == [1, 2, 3]
    client.grad = torch.tensor([3.0, 0.0, 4.0])
    algorithm.perturb(client)
    torch.testing.assert_close(client.w, torch.tensor([1.06, 2.0, 3.08]))


# ---------------------------------------------------------------- passes, states, traffic, errors


def test_both_passes_share_dropout(tmp_path):
    """Where they are at the same weights they are the same gradient."""
    dropout = {"model": {"dropout": 0.5}}
    one = toyalgorithms.run(tmp_path / "a", named(rho=0.0, alpha=0.5), **dropout)
    other = toyalgorithms.run(tmp_path / "b", named(rho=0.0, alpha=0.0), **dropout)
    a, b = (toyseg.checkpoint(config)["state_dict"] for config in (one, other))
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("freeze", [False, True])
def test_running_statistics(tmp_path, freeze):
    """Client b with 4 images in batches of 3, two epochs: 2 steps (a last one is left out)."""
    config = toyalgorithms.run(
        tmp_path,
        named(freeze_statistics=freeze),
        client_sampler={"_delete_": True, "type": "FixedSampler", "participants": [["b"]]},
        train_cfg={"max_rounds": 1},
    )
    steps = toyseg.history(config)[0]["participants"][0]["steps"]
    counted = int(toyseg.checkpoint(config)["state_dict"]["bn1.num_batches_tracked"])
    assert counted == (steps if freeze else 2 * steps)


def test_states_and_traffic(tmp_path):
    config = toyalgorithms.run(tmp_path / "a", NAME)
    states = toyseg.client_states(config)["clients"]
    assert states.keys() == TRAINED and all(s.keys() == {"ghat"} for s in states.values())
    assert toyseg.checkpoint(config)["server"]["state"] == {}
    average = toyalgorithms.run(tmp_path / "b", FEDAVG)
    assert toyalgorithms.bytes_of(config) == toyalgorithms.bytes_of(average)


def test_with_all_corrections_the_server_keeps_their_mean_and_sends_nothing_more(tmp_path):
    config = toyalgorithms.run(tmp_path / "a", named(all_corrections=True))
    plain = toyalgorithms.run(tmp_path / "b", NAME)
    assert toyalgorithms.bytes_of(config) == toyalgorithms.bytes_of(plain)
    states = toyseg.client_states(config)["clients"]
    mean = sum(state["ghat"].double() for state in states.values()) / len(toyseg.USERS)
    server = toyseg.checkpoint(config)["server"]["state"]
    assert server.keys() == {"ghat"} and server["ghat"].norm() > 0
    torch.testing.assert_close(server["ghat"].double(), mean, rtol=1e-4, atol=1e-7)


@OPTIM_WRAPPERS.register_module()
class SignOptimWrapper(OptimWrapper):
    """A user's own: the signs of the gradient."""

    def gradient(self, client, replay=False):
        client.backward(replay)
        client.grad.sign_()


@pytest.mark.parametrize("kind", ["FedSpeed", "FedSMOO"])
def test_gradients_of_ones_own_are_refused_where_they_would_not_be_taken(kind):
    values = VALUES if kind == "FedSpeed" else {"rho": 0.1, "beta": 5.0}
    sgd = {"optimizer": {"type": "SGD", "lr": 0.1}}
    algorithm = build(ALGORITHMS, {"type": kind, **values}, "algorithm")
    algorithm.check(*toyalgorithms.wrapper(sgd))
    own = toyalgorithms.wrapper({"type": "SignOptimWrapper", **sgd})
    with pytest.raises(ConfigError, match=rf"optim_wrapper\.type: SignOptimWrapper.*{kind}"):
        algorithm.check(*own)


@pytest.mark.parametrize("kind", ["SAMOptimWrapper", "ASAMOptimWrapper"])
def test_a_second_perturbation_is_refused(tmp_path, kind):
    with pytest.raises(ConfigError, match=rf"optim_wrapper\.type: {kind}.*FedSpeed.*rule of its"):
        toyalgorithms.run(tmp_path, NAME, optim_wrapper={"type": kind, "rho": 0.1})
