"""H_N and H_D against a plain loop, and without the bias of noise."""

import math

import numpy as np
import pytest

from fedseg.curvature.clients import diagonal_norms, gram_matrix, hessian_differences
from fedseg.errors import TrainingError

RNG = np.random.default_rng(0)
DIAGONALS = RNG.normal(1, 1, (5, 40))


def test_exact_diagonals_give_the_means_over_pairs():
    norm_differences, cosines = [], []
    for k in range(5):
        for j in range(k):
            one = math.sqrt(sum(x * x for x in DIAGONALS[k]))
            other = math.sqrt(sum(x * x for x in DIAGONALS[j]))
            norm_differences.append((one - other) ** 2)
            inner = sum(x * y for x, y in zip(DIAGONALS[k], DIAGONALS[j], strict=True))
            cosines.append(inner / (one * other))
    found = hessian_differences(gram_matrix(DIAGONALS[:, None]))
    assert found["hessian_norm_diff"].value == pytest.approx(sum(norm_differences) / 10)
    assert found["hessian_direction_cos"].value == pytest.approx(sum(cosines) / 10)
    assert found["hessian_norm_diff"].standard_error == 0


def test_noise_has_a_standard_error_and_no_bias():
    exact = hessian_differences(gram_matrix(DIAGONALS[:, None]))
    norms = np.linalg.norm(DIAGONALS, axis=1)
    away, plain = [], []
    for _ in range(50):
        noisy = DIAGONALS[:, None] + RNG.normal(0, 1, (5, 6, 40))
        gram = gram_matrix(noisy)
        found = hessian_differences(gram)["hessian_direction_cos"]
        away.append((found.value - exact["hessian_direction_cos"].value) / found.standard_error)
        plain.append(np.linalg.norm(noisy.mean(1), axis=1) - norms)
        assert diagonal_norms(gram) == pytest.approx(norms, abs=2)
    assert abs(np.mean(away)) < 0.5
    assert np.std(away) < 2
    assert np.mean(plain) > 0.3  # what the mean of the estimates would give


def test_too_few_probes_are_told_and_give_no_number():
    noisy = 1e-3 * DIAGONALS[:, None] + RNG.normal(0, 1, (5, 3, 40))
    with pytest.raises(TrainingError, match="--probes: too few"):
        hessian_differences(gram_matrix(noisy))
