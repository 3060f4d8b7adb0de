"""Counter-based seeds."""

import itertools
import random

import numpy as np
import pytest
import torch

from fedseg.core.seeds import generator_for, seed_for, seed_model
from fedseg.loaders.streaming import seed_global


def test_known_values():
    """Pinned: another value would silently change every published run."""
    assert seed_for(0, "participants", 1) == 6473929389465345834
    assert seed_for(0, "shuffle", 1, 2, 3) == 6255119912747897878
    assert generator_for(0, "participants", 1).integers(1000, size=3).tolist() == [179, 180, 818]


def test_no_two_keys_share_a_seed():
    keys = list(
        itertools.product([0, 1, -1], ["a", "b", "ab"], [(), (0,), (1,), (0, 0), (0, 1), (1, 0)])
    )
    seeds = {seed_for(seed, purpose, *counters) for seed, purpose, counters in keys}
    assert len(seeds) == len(keys)
    assert all(0 <= s < 2**63 for s in seeds)


def test_counters_fill_64_bits():
    assert seed_for(0, "x", 2**62) != seed_for(0, "x", 2**62 + 1)
    assert seed_for(0, "x", 1, 256) != seed_for(0, "x", 256, 1)


def test_bits_of_neighboring_seeds_are_independent():
    seeds = np.array([seed_for(0, "augment", i) for i in range(4000)], dtype=np.uint64)
    bits = (seeds[:, None] >> np.arange(63, dtype=np.uint64)) & np.uint64(1)
    assert np.abs(bits.mean(0) - 0.5).max() < 5 * 0.5 / np.sqrt(4000)


def test_a_generator_is_a_pure_function_and_touches_nothing_global():
    torch.manual_seed(0)
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    a = generator_for(3, "x", 1).random(5)
    b = generator_for(3, "x", 1).random(5)
    assert (a == b).all() and (a != generator_for(3, "x", 2).random(5)).all()
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()  # noqa: NPY002
    assert before[2] == random.getstate()


@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1])
def test_seed_global_takes_any_seed(seed):
    draws = []
    for _ in range(2):
        seed_global(seed)
        draws.append((random.random(), np.random.rand(), float(torch.rand(()))))  # noqa: NPY002
    assert draws[0] == draws[1]


def test_a_model_draws_as_after_a_global_seed():
    torch.manual_seed(12)
    expected = torch.rand(3)
    seed_model(12, torch.device("cpu"))
    assert torch.equal(torch.rand(3), expected)
