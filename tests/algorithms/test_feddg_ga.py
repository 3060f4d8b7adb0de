"""FedDG-GA's shares where few of many clients take part; its equations are in tests/oracles."""

from types import SimpleNamespace

import numpy as np
import torch

from fedseg.algorithms.feddg_ga import FedDGGA


def move(server, algorithm, gaps):
    """The first exchange of a round, and what the second one keeps."""
    server.exchange = 0
    algorithm.step(server, SimpleNamespace(numbers={"gap": gaps}))
    server.state["shares"] = server.scratch["shares"]
    return server.state["shares"]


def test_shares_that_would_all_vanish_stay():
    """Where averaging helps every client, all gaps are negative; the step is as long as a share."""
    algorithm = FedDGGA(step_size=1.0)
    algorithm.max_rounds = 4
    server = SimpleNamespace(state={}, scratch={}, round=1, num_clients=10)
    assert (move(server, algorithm, dict.fromkeys(range(10), -0.3)) == 1).all()


def test_sampled_clients_keep_their_weight():
    """Five of 144 in each of 200 rounds: no share vanishes, and no client dominates."""
    rng, rounds = np.random.default_rng(0), 200
    algorithm = FedDGGA(step_size=0.2)
    algorithm.max_rounds = rounds
    server = SimpleNamespace(state={}, scratch={}, num_clients=144)
    for server.round in range(1, rounds + 1):
        sampled = rng.choice(144, 5, replace=False).tolist()
        shares = move(server, algorithm, dict(zip(sampled, rng.normal(size=5), strict=True)))
    assert 0.2 < shares.min() < shares.max() < 2
    torch.testing.assert_close(shares.mean(), torch.ones((), dtype=torch.float64))
