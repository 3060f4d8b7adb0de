"""MIME and MIMELite: where they are gradient descent, their momentum, exchanges, rejections."""

import numpy as np
import pytest
import torch
import toyalgorithms
import toyquad
import toyseg
from toyalgorithms import SAM
from toyquad import fixed, server_vector, trace

from fedseg.errors import TrainingError

MIME = {"type": "MIME"}
ONE_STEP = {"train_cfg": {"local_steps": 1}}


def mean_gradient(clients, w):
    return np.mean([toyquad.gradient(client, w) for client in clients], 0)


# ---------------------------------------------------------------- the pass at w


@pytest.mark.parametrize("wrapper", [toyalgorithms.SGD, SAM], ids=["SGD", "SAM"])
def test_both_gradients_share_minibatch_and_dropout(tmp_path, wrapper):
    """At the first step w_k = w: what is left of g(w_k) - g(w) + c is c, to the last bit."""
    config = toyalgorithms.run(
        tmp_path,
        MIME,
        model={"dropout": 0.5},
        optim_wrapper=wrapper,
        train_cfg={"max_rounds": 1, "local_epochs": None, "local_steps": 1},
    )
    runner = toyseg.runner(config)
    runner.build_federation()
    w, m = runner.server.w.clone(), toyseg.checkpoint(config)["server"]["state"]["m"]
    runner.flat.load_state_dict(toyseg.checkpoint(config)["state_dict"])
    assert m.norm() > 0.01
    torch.testing.assert_close(w - runner.flat.w, 0.1 * m.float(), rtol=1e-3, atol=1e-7)


def test_the_loss_is_that_of_the_local_steps(tmp_path):
    """Of the same first step as FedAvg's, not of the pass at w or of the full gradient."""
    once = {"client_sampler": fixed("d"), **ONE_STEP}
    losses = [
        toyseg.history(toyquad.run(tmp_path / name, {"type": name}, **once))[0]["loss"]
        for name in ("MIME", "MIMELite", "FedAvg")
    ]
    assert losses[0] == losses[1] == losses[2]


# ---------------------------------------------------------------- exchanges


@pytest.mark.parametrize("momentum", [0.0, 0.6])
def test_a_rejected_gradient_is_not_in_c_and_its_client_goes_on(tmp_path, momentum):
    hooks = [{"type": "PoisonHook", "clients": ["b"], "vector": "gradient"}]
    config = toyquad.run(
        tmp_path,
        {**MIME, "momentum": momentum},
        client_sampler=fixed("abd", "bd"),
        custom_hooks=hooks,
        **ONE_STEP,
    )
    w, m = np.array(toyquad.START), np.zeros(3)
    for number, others in ((1, "ad"), (2, "d")):
        m = (1 - momentum) * mean_gradient(others, w) + momentum * m
        w = w - 0.1 * m  # every client's step, that of b too
        np.testing.assert_allclose(server_vector(config, "m", number), m, rtol=1e-12)
        np.testing.assert_allclose(trace(config)[number], w, rtol=1e-12)
    lines = toyseg.history(config)
    for line, clients in zip(lines, ("abd", "bd"), strict=True):
        assert [(r["client"], r["exchange"]) for r in line["rejected"]] == [("b", 0)]
        assert "gradient is not finite" in line["rejected"][0]["reason"]
        assert [p["client"] for p in line["participants"]] == list(clients)
        assert all(p["loss"] is not None for p in line["participants"])


def test_no_gradient_at_all_stops_the_run(tmp_path):
    poison = {"custom_hooks": [{"type": "PoisonHook", "clients": "all", "vector": "gradient"}]}
    with pytest.raises(TrainingError, match=r"round 1: all 4 updates were rejected.*gradient"):
        toyquad.run(tmp_path, MIME, **poison)


def test_a_clients_own_statistics_are_kept_once(tmp_path):
    """SiloBN's in the exchange that trains: those of the first are no state."""
    config = toyalgorithms.run(tmp_path, MIME, personal=["@batchnorm.statistics"])
    states = toyseg.client_states(config)["clients"]
    assert states.keys() == toyalgorithms.TRAINED
    counts = {client: int(state["personal.counters"][0]) for client, state in states.items()}
    steps = dict.fromkeys(counts, 0)
    for line in toyseg.history(config):
        for participant in line["participants"]:
            steps[participant["client"]] += participant["steps"]
    assert counts == steps
