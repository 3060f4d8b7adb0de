"""Draws without replacement against exact probabilities."""

from collections import Counter
from functools import cache

import numpy as np
import pytest

from fedseg.errors import ConfigError
from fedseg.partition.draws import (
    draw_counts,
    equal_sizes,
    generator,
    log_gammas,
    proportions,
)

WEIGHTS, STOCK = (0.7, 0.2, 0.1), (2, 3, 4)


@cache
def exact(total: int, left: tuple[int, ...] = STOCK) -> dict[tuple[int, ...], float]:
    """Probability of every outcome: what is left after ``total`` draws, one at a time."""
    if total == 0:
        return {left: 1.0}
    there = [c for c in range(3) if left[c]]
    outcomes: dict[tuple[int, ...], float] = {}
    for c in there:
        share = WEIGHTS[c] / sum(WEIGHTS[i] for i in there)
        after = tuple(n - (i == c) for i, n in enumerate(left))
        for outcome, probability in exact(total - 1, after).items():
            outcomes[outcome] = outcomes.get(outcome, 0) + share * probability
    return outcomes


def test_draws_in_blocks_are_distributed_as_one_at_a_time():
    trials = 8000
    for total in (1, 4, 7, 9):
        rng, found = generator(0, "test"), Counter()
        for _ in range(trials):
            drawn = draw_counts(rng, np.log(WEIGHTS), np.array(STOCK), total)
            found[tuple((np.array(STOCK) - drawn).tolist())] += 1
        expected = exact(total)
        assert set(found) <= set(expected)
        for outcome, probability in expected.items():
            error = np.sqrt(max(0, probability * (1 - probability)) / trials)
            assert abs(found[outcome] / trials - probability) <= 4.5 * error + 1e-12


def test_the_largest_weight_takes_over_however_small_it_is():
    drawn = draw_counts(generator(0, "test"), np.array([0.0, -1e5, -3e5]), np.array([2, 3, 4]), 6)
    assert drawn.tolist() == [2, 3, 1]


def test_scaled_gammas_are_a_dirichlet_draw():
    trials, classes = 20000, 4
    for concentration in (0.02, 0.5, 1.0, 30.0):
        shares = proportions(log_gammas(generator(0, "test"), concentration, (trials, classes)))
        assert np.allclose(shares.sum(axis=1), 1)
        mean = 1 / classes
        variance = mean * (1 - mean) / (classes * concentration + 1)
        assert np.allclose(shares.mean(axis=0), mean, atol=5 * np.sqrt(variance / trials))
        # the error of a variance from the spread of the squares
        squares = (shares - mean) ** 2
        error = squares.std(axis=0) / np.sqrt(trials)
        assert (np.abs(squares.mean(axis=0) - variance) < 5 * error).all()


def test_extreme_concentrations_are_finite():
    for concentration in (5e-324, 1e-300, 1e-6, 1e9, 1e307):
        logs = log_gammas(generator(0, "test"), concentration, 5)
        assert np.isfinite(logs).all()
        shares = proportions(logs)
        assert shares.max() == pytest.approx(1 if concentration < 1 else 1 / 5, rel=1e-3)


def test_equal_sizes():
    assert equal_sizes(10, 5).tolist() == [2] * 5
    assert equal_sizes(11, 3).tolist() == [4, 4, 3]
    with pytest.raises(ConfigError, match=r"partition\.num_clients"):
        equal_sizes(3, 4)


def test_generators_of_two_purposes_or_seeds_differ():
    draws = [generator(s, p).random() for s, p in [(0, "a"), (1, "a"), (0, "b"), (-1, "a")]]
    assert len(set(draws)) == 4
    assert generator(0, "a").random() == draws[0]
    assert generator(np.int64(0), "a").random() == draws[0]
