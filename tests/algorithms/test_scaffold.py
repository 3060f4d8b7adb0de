"""SCAFFOLD: what its control variates are, what they are good for, and where it is FedAvg."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import toyalgorithms
import toyquad
import toyseg
from toyalgorithms import EQUAL_SIZES, FEDAVG
from toyquad import client_vector, final, fixed, long, server_vector, trace

from fedseg.algorithms import SCAFFOLD
from fedseg.errors import ConfigError, TrainingError

NAME = {"type": "SCAFFOLD"}
ONE_STEP = {"train_cfg": {"local_steps": 1}}


# ---------------------------------------------------------------- reductions


def correct(gradient, control, own):
    """One correction by itself."""
    algorithm = SCAFFOLD()
    algorithm.bind(SimpleNamespace(w=gradient))
    client = SimpleNamespace(
        grad=gradient.clone(), extras={"control": control}, state={"control": own}
    )
    algorithm.correct(client)
    return client.grad


def test_the_correction_is_c_minus_c_k():
    gradient, control, own = torch.tensor([1.0]), torch.tensor([10.0]), torch.tensor([4.0])
    assert correct(gradient, control, own) == torch.tensor([1.0 + 10.0 - 4.0])


def test_equal_control_variates_leave_every_bit():
    generator = torch.Generator().manual_seed(0)
    gradient = torch.randn(1000, generator=generator)
    control = 1e3 * torch.randn(1000, generator=generator)
    assert torch.equal(correct(gradient, control, control.clone()), gradient)


@pytest.mark.parametrize("changes", [{}, {"optim_wrapper": toyalgorithms.SAM}], ids=["SGD", "SAM"])
def test_the_first_round_is_fedavgs(tmp_path, changes):
    """All control variates are zero; equal sizes, because SCAFFOLD's mean is uniform."""
    changes = toyseg.merge({**EQUAL_SIZES, "train_cfg": {"max_rounds": 1}}, changes)
    one = toyalgorithms.run(tmp_path / "a", NAME, **changes)
    other = toyalgorithms.run(tmp_path / "b", FEDAVG, **changes)
    assert toyalgorithms.model_differences(one, other) == []


def test_one_client_is_fedavg(tmp_path):
    """Its control variate is the server's, up to the rounding of the sum."""
    alone = {"client_sampler": fixed("b", "b", "b", "b")}
    one = toyquad.run(tmp_path / "a", NAME, **alone)
    other = toyquad.run(tmp_path / "b", FEDAVG, **alone)
    own = client_vector(one, "b", "control")
    np.testing.assert_allclose(len(toyquad.USERS) * server_vector(one, "control"), own, rtol=1e-12)
    # the other clients have none yet, so c is c_b / 4 here: only where K = 1 is c = c_k
    assert np.abs(trace(one)[-1] - trace(other)[-1]).max() > 1e-3
    merged = {"train_dataloader": {"partition": {"_delete_": True, "type": "SinglePartition"}}}
    one = toyquad.run(tmp_path / "c", NAME, **merged)
    other = toyquad.run(tmp_path / "d", FEDAVG, **merged)
    np.testing.assert_allclose(trace(one), trace(other), rtol=1e-12)


# ---------------------------------------------------------------- the control variates


def test_after_one_step_a_control_variate_is_the_gradient(tmp_path):
    """c_k - c + (w - w_k)/eta = the gradient at w, whatever c and c_k were; decay is part of it."""
    decay = {"optim_wrapper": {"optimizer": {"type": "SGD", "lr": 0.1, "weight_decay": 0.3}}}
    participants = {"client_sampler": fixed("ab", "bcd", "ad", "b")}
    config = toyquad.run(tmp_path, NAME, **ONE_STEP, **decay, **participants)
    w = trace(config)
    for client, last_round in {"a": 3, "b": 4, "c": 2, "d": 3}.items():
        at = w[last_round - 1]
        expected = toyquad.gradient(client, at) + 0.3 * at
        np.testing.assert_allclose(client_vector(config, client, "control"), expected, rtol=1e-9)


def test_several_steps_by_hand(tmp_path):
    """Two rounds with absent clients: mean gradients, uniform means, and 1/K of the changes."""
    config = toyquad.run(
        tmp_path, {"type": "SCAFFOLD", "eta_g": 0.5}, client_sampler=fixed("ab", "bc")
    )
    w, c = np.array(toyquad.START), np.zeros(3)
    own = {k: np.zeros(3) for k in toyquad.USERS}
    for clients, after in zip(("ab", "bc"), trace(config)[1:], strict=True):
        moves, changes = [], []
        for k in clients:
            w_k = toyquad.local_steps(k, w, 5, 0.1, lambda _, d=c - own[k]: d)
            moves.append(w - w_k)
            changes.append(-c + (w - w_k) / (5 * 0.1))
            own[k] = own[k] + changes[-1]
        w, c = w - 0.5 * np.mean(moves, 0), c + np.sum(changes, 0) / 4
        np.testing.assert_allclose(after, w, rtol=1e-12)
    np.testing.assert_allclose(server_vector(config, "control"), c, rtol=1e-12)
    for k in "abc":
        np.testing.assert_allclose(client_vector(config, k, "control"), own[k], rtol=1e-12)
    assert set(toyseg.client_states(config)["clients"]) == {"a", "b", "c"}


def test_the_servers_is_the_mean_of_all_clients(tmp_path):
    """Absent ones count as zero; in float32 too."""
    config = toyalgorithms.run(tmp_path, NAME)
    states = toyseg.client_states(config)["clients"]
    assert set(states) == toyalgorithms.TRAINED
    mean = sum(state["control"].double() for state in states.values()) / len(toyseg.USERS)
    server = toyseg.checkpoint(config)["server"]["state"]["control"]
    assert server.abs().max() > 0.01
    torch.testing.assert_close(server, mean, rtol=1e-5, atol=1e-7)
    norm = toyseg.history(config)[-1]["norm_control"]
    assert norm == pytest.approx(float(server.norm()), rel=1e-12)


def test_the_rounds_own_learning_rate_divides(tmp_path):
    """A schedule changes how far a client goes, not its mean gradient."""
    schedule = [{"type": "MultiStepLR", "milestones": [1], "gamma": 0.1}]
    config = toyquad.run(tmp_path, NAME, **ONE_STEP, param_scheduler=schedule)
    assert [line["lr"] for line in toyseg.history(config)] == pytest.approx([0.1, 0.01, 0.01])
    expected = toyquad.gradient("a", trace(config)[2])
    np.testing.assert_allclose(client_vector(config, "a", "control"), expected, rtol=1e-9)


def test_a_learning_rate_of_zero_stops_the_run(tmp_path):
    schedule = [{"type": "MultiStepLR", "milestones": [1], "gamma": 0.0}]
    with pytest.raises(TrainingError, match=r"round 2: the local learning rate is 0"):
        toyquad.run(tmp_path, NAME, param_scheduler=schedule)


def test_a_rejected_update_changes_nobodys_control_variate(tmp_path):
    """Bit for bit the run in which that client did not take part."""
    one, other = toyquad.rejected_and_absent(tmp_path, NAME, "ab")
    np.testing.assert_array_equal(trace(one), trace(other))
    states = (toyseg.client_states(config)["clients"] for config in (one, other))
    assert toyseg.differences(*states) == []


# ---------------------------------------------------------------- what it is good for


def distance(config, goal):
    return float(np.abs(final(config) - goal).max())


def test_full_participation_reaches_the_minimizer(tmp_path):
    """FedAvg stops beside its own, the minimum of the mean weighted by N_k; it has drifted."""
    scaffold = toyquad.run(tmp_path / "a", NAME, **long(40))
    assert distance(scaffold, toyquad.minimizer()) < 1e-8
    fedavg = toyquad.run(tmp_path / "b", FEDAVG, **long(40))
    weighted = "".join(k * n for k, n in toyquad.USERS.items())
    assert distance(fedavg, toyquad.minimizer(weighted)) > 1e-2


def test_partial_participation_reaches_it_too(tmp_path):
    rounds = fixed(*["ab", "cd", "ac", "bd", "ad", "bc"] * 20)
    algorithm = {**NAME, "eta_g": 0.5}
    config = toyquad.run(tmp_path, algorithm, client_sampler=rounds, **long(120))
    assert distance(config, toyquad.minimizer()) < 1e-8


@pytest.mark.filterwarnings("ignore:algorithm. SCAFFOLD divides by K_k eta")
def test_momentum_has_to_be_counted(tmp_path):
    """Divided by K_k eta alone, the control variates overshoot a little more every round."""
    heavy = {"optim_wrapper": {"optimizer": {"lr": 0.02, "momentum": 0.9}}}
    heavy["train_cfg"] = {"local_steps": 8}
    counted = toyquad.run(
        tmp_path / "a", {**NAME, "count_momentum": True}, **toyseg.merge(long(40), heavy)
    )
    assert distance(counted, toyquad.minimizer()) < 1e-6
    literal = toyquad.run(tmp_path / "b", NAME, **toyseg.merge(long(12), heavy))
    norms = [line["norm_control"] for line in toyseg.history(literal)]
    assert norms[-1] > 100 * norms[0]
    norms = [line["norm_control"] for line in toyseg.history(counted)]
    assert norms[-1] < 1e-4 * norms[0]


def test_counting_without_momentum_changes_no_bit(tmp_path):
    one = toyquad.run(tmp_path / "a", NAME)
    other = toyquad.run(tmp_path / "b", {**NAME, "count_momentum": True})
    np.testing.assert_array_equal(trace(one), trace(other))


# ---------------------------------------------------------------- arguments


def test_adam_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="SCAFFOLD takes the mean gradient"):
        toyquad.run(tmp_path, NAME, optim_wrapper={"optimizer": {"type": "Adam", "lr": 0.1}})
