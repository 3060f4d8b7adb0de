"""FedCM: the direction that the server keeps, what it does to a step, and where it is FedAvg."""

import numpy as np
import pytest
import toyalgorithms
import toyquad
import toyseg
from toyalgorithms import FEDAVG, SAM
from toyquad import final, fixed, long, server_vector, trace

from fedseg.errors import ConfigError

ALONE = {"type": "FedCM", "alpha": 1.0}
BY_SAMPLES = {**ALONE, "weigh_samples": True}
ADAM = {"server_optim": {"type": "Adam", "lr": 0.05}}
ONE_STEP = {"train_cfg": {"local_steps": 1}}


@pytest.mark.parametrize(
    ("server", "changes"),
    [({}, {}), (ADAM, {"optim_wrapper": SAM}), ({}, {"dtype": "float64"})],
    ids=["SGD", "FedAdam and SAM", "float64"],
)
def test_with_an_alpha_of_one_it_is_fedavg(tmp_path, server, changes):
    """Bit for bit, clients of any size: the direction is kept, and not followed."""
    one = toyalgorithms.run(tmp_path / "a", {**BY_SAMPLES, **server}, **changes)
    other = toyalgorithms.run(tmp_path / "b", {**FEDAVG, **server}, **changes)
    assert toyalgorithms.model_differences(one, other) == []
    norms = [line["norm_direction"] for line in toyseg.history(one)]
    assert all(norm > 0.01 for norm in norms)


def test_several_rounds_by_hand(tmp_path):
    """Clients of unequal size: one uniform mean moves the direction and the model."""
    alpha, lr, server_lr = 0.3, 0.1, 0.8
    algorithm = {"type": "FedCM", "alpha": alpha, "server_optim": {"type": "SGD", "lr": server_lr}}
    config = toyquad.run(tmp_path, algorithm, client_sampler=fixed("ab", "bd", "acd"))
    w, direction = np.array(toyquad.START), np.zeros(3)
    for number, clients in enumerate(("ab", "bd", "acd"), start=1):
        moves = []
        for k in clients:
            w_k = w
            for _ in range(5):
                mixed = alpha * toyquad.gradient(k, w_k) + (1 - alpha) * direction
                w_k = w_k - lr * mixed
            moves.append(w - w_k)
        direction = np.mean(moves, axis=0) / (lr * 5)
        w = w - server_lr * lr * 5 * direction
        np.testing.assert_allclose(trace(config)[number], w, rtol=1e-12)
        np.testing.assert_allclose(server_vector(config, "direction", number), direction, rtol=1e-9)


def test_steps_of_clients_count_each_by_their_number(tmp_path):
    """Two epochs in batches of one: a takes 2 steps, d takes 8, and both are one mean gradient.

    The learning rate is so small that gradients stay those of the start.
    """
    tiny = {"optimizer": {"type": "SGD", "lr": 1e-9}}
    epochs = {"train_cfg": {"local_steps": None, "local_epochs": 2, "max_rounds": 1}}
    batches = {"train_dataloader": {"batch_size": 1, "shuffle": False}}
    config = toyquad.run(
        tmp_path, ALONE, client_sampler=fixed("ad"), optim_wrapper=tiny, **epochs, **batches
    )
    assert [p["steps"] for p in toyseg.history(config)[0]["participants"]] == [2, 8]
    start = np.array(toyquad.START)
    expected = (toyquad.gradient("a", start) + toyquad.gradient("d", start)) / 2
    np.testing.assert_allclose(server_vector(config, "direction"), expected, rtol=1e-6)
    steps = 2 / (1 / 2 + 1 / 8)  # their harmonic mean
    np.testing.assert_allclose(start - trace(config)[1], 1e-9 * steps * expected, rtol=1e-5)


def test_the_rounds_own_learning_rate_divides(tmp_path):
    """After one step of all clients D is the mean gradient, whatever the learning rate."""
    schedule = [{"type": "MultiStepLR", "milestones": [1], "gamma": 0.1}]
    config = toyquad.run(tmp_path, ALONE, **ONE_STEP, param_scheduler=schedule)
    at = trace(config)[2]
    expected = np.mean([toyquad.gradient(k, at) for k in toyquad.USERS], axis=0)
    np.testing.assert_allclose(server_vector(config, "direction"), expected, rtol=1e-9)


def test_full_participation_ends_nearer_than_fedavg(tmp_path):
    """One common direction makes the clients' steps alike."""
    equal = fixed(*["ac"] * 80)  # one sample each: the same goal, weighted by N_k or not
    near, far = (
        toyquad.run(
            tmp_path / str(alpha),
            {"type": "FedCM", "alpha": alpha},
            client_sampler=equal,
            **long(80),
        )
        for alpha in (0.1, 1.0)
    )
    goal = toyquad.minimizer("ac")
    assert np.abs(final(near) - goal).max() < 0.2 * np.abs(final(far) - goal).max()


def test_a_rejected_update_does_not_bend_the_direction(tmp_path):
    one, other = toyquad.rejected_and_absent(tmp_path, {"type": "FedCM", "alpha": 0.2}, "ab")
    np.testing.assert_array_equal(trace(one), trace(other))


@pytest.mark.filterwarnings("ignore:algorithm. FedCM divides by K_k eta")
def test_momentum_has_to_be_counted(tmp_path):
    """Divided by K_k eta alone, the direction feeds on itself."""
    heavy = {"optim_wrapper": {"optimizer": {"lr": 0.02, "momentum": 0.9}}}
    heavy["train_cfg"] = {"local_steps": 8}
    algorithm = {"type": "FedCM", "alpha": 0.1}
    counted = toyquad.run(
        tmp_path / "a", {**algorithm, "count_momentum": True}, **toyseg.merge(long(30), heavy)
    )
    literal = toyquad.run(tmp_path / "b", algorithm, **toyseg.merge(long(12), heavy))
    ends = []
    for config in (counted, literal):
        norms = [line["norm_direction"] for line in toyseg.history(config)]
        ends.append(norms[-1] / norms[0])
    assert ends[0] < 10 < 1000 < ends[1]


def test_adam_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="FedCM takes the mean gradient"):
        toyquad.run(tmp_path, ALONE, optim_wrapper={"optimizer": {"type": "Adam", "lr": 0.1}})
