"""H_N and H_D against a plain loop, and without the bias of noise."""

import math

import numpy as np
import pytest

from fedseg.errors import TrainingError
from fedseg.local_losses.fedalign import diagonal_norms, gram_matrix, hessian_differences

RNG = np.random.default_rng(0)
DIAGONALS = RNG.normal(1, 1, (5, 40))


def test_exact_diagonals_give_the_means_over_pairs():
    norm_differences, cosines = [], []
    for k in range(5):
        for j in range(k):
            first = math.sqrt(sum(x * x for x in DIAGONALS[k]))
            second = math.sqrt(sum(x * x for x in DIAGONALS[j]))
            norm_differences.append((first - second) ** 2)
            inner = sum(x * y for x, y in zip(DIAGONALS[k], DIAGONALS[j], strict=True))
            cosines.append(inner / (first * second))
    differences = hessian_differences(DIAGONALS[:, None])
    assert differences.norm == pytest.approx(sum(norm_differences) / 10)
    assert differences.cosine == pytest.approx(sum(cosines) / 10)
    assert differences.norm_error == differences.cosine_error == 0


def test_noise_has_a_standard_error_and_no_bias():
    exact = hessian_differences(DIAGONALS[:, None])
    norms = np.linalg.norm(DIAGONALS, axis=1)
    away, plain = [], []
    for _ in range(50):
        noisy = DIAGONALS[:, None] + RNG.normal(0, 1, (5, 6, 40))
        estimate = hessian_differences(noisy)
        away.append((estimate.cosine - exact.cosine) / estimate.cosine_error)
        plain.append(np.linalg.norm(noisy.mean(1), axis=1) - norms)
        assert diagonal_norms(gram_matrix(noisy)) == pytest.approx(norms, abs=2)
    assert abs(np.mean(away)) < 0.5
    assert np.std(away) < 2
    assert np.mean(plain) > 0.3  # what the mean of the estimates would give


def test_too_few_probes_give_no_number():
    noisy = 1e-3 * DIAGONALS[:, None] + RNG.normal(0, 1, (5, 3, 40))
    with pytest.raises(TrainingError, match="--probes: too few"):
        hessian_differences(noisy)
