"""Parts of the draws: extreme weights, sizes, generators."""

import numpy as np
import pytest

from fedseg.errors import ConfigError
from fedseg.partition.draws import draw_counts, equal_sizes, generator, log_gammas, proportions


def test_the_largest_weight_takes_over_however_small_it_is():
    drawn = draw_counts(generator(0, "test"), np.array([0.0, -1e5, -3e5]), np.array([2, 3, 4]), 6)
    assert drawn.tolist() == [2, 3, 1]


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
