"""SCAFFOLD's control variates: the correction to the bit, and what they are after one step."""

import numpy as np
import pytest
import toyquad
import toyseg
from toyquad import client_vector, fixed, server_vector, trace

NAME = {"type": "SCAFFOLD"}
ONE_STEP = {"train_cfg": {"local_steps": 1}}


def test_one_client_is_fedavg(tmp_path):
    """Its control variate is the server's, up to the rounding of the sum."""
    alone = {"client_sampler": fixed("b", "b", "b", "b")}
    one = toyquad.run(tmp_path / "a", NAME, **alone)
    other = toyquad.run(tmp_path / "b", {"type": "FedAvg"}, **alone)
    own = client_vector(one, "b", "control")
    np.testing.assert_allclose(len(toyquad.USERS) * server_vector(one, "control"), own, rtol=1e-12)
    # the other clients have none yet, so c is c_b / 4 here: only where K = 1 is c = c_k
    assert np.abs(trace(one)[-1] - trace(other)[-1]).max() > 1e-3


def test_after_one_step_a_control_variate_is_the_gradient(tmp_path):
    """c_k - c + (w - w_k)/eta = the gradient at w, whatever c and c_k were; decay is part of it.

    A schedule changes how far a client goes, not its mean gradient.
    """
    schedule = [{"type": "MultiStepLR", "milestones": [1], "gamma": 0.1}]
    decay = {"optim_wrapper": {"optimizer": {"type": "SGD", "lr": 0.1, "weight_decay": 0.3}}}
    config = toyquad.run(
        tmp_path,
        NAME,
        **ONE_STEP,
        **decay,
        client_sampler=fixed("ab", "bcd", "ad", "b"),
        param_scheduler=schedule,
    )
    rates = [line["lr"] for line in toyseg.history(config)]
    assert rates == pytest.approx([0.1, 0.01, 0.01, 0.01])
    w = trace(config)
    for client, last_round in {"a": 3, "b": 4, "c": 2, "d": 3}.items():
        at = w[last_round - 1]
        expected = toyquad.gradient(client, at) + 0.3 * at
        np.testing.assert_allclose(client_vector(config, client, "control"), expected, rtol=1e-8)
