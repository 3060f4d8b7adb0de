"""Eigenvalues, trace, norm, density and diagonal of a symmetric matrix that is known by products.

``products`` is a function of float64 arrays [n] to ``H v`` [n], with the attribute ``n``. Random
vectors come from ``rng``.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh_tridiagonal, qr
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh

from fedseg.errors import ConfigError, TrainingError


@dataclass(frozen=True)
class Estimate:
    """A mean over random vectors, with its standard error."""

    value: float
    standard_error: float


@dataclass(frozen=True)
class Spectrum:
    """The largest eigenvalues."""

    values: np.ndarray  # [k], the largest first
    vectors: np.ndarray  # [n, k], of length 1
    residuals: np.ndarray  # [k], ``||H v - lambda v||``


def largest(products: Any, k: int, rng: np.random.Generator, tolerance: float = 0.01) -> Spectrum:
    """The k largest eigenvalues (algebraically) by Lanczos with implicit restarts (ARPACK).

    Args:
        products: of the matrix.
        k: from 1 to n - 1.
        rng: draws the start vector.
        tolerance: of a residual, relative to the eigenvalue, whose own error is of its square.

    Raises:
        ConfigError: k is out of bounds.
        TrainingError: fewer than k eigenvalues converge.
    """
    n = products.n
    if not 0 < k < n:
        raise ConfigError(f"--top: must be from 1 to {n - 1}, not {k}")
    start = rng.standard_normal(n)
    try:
        values, vectors = _search(products, k, start, tolerance)
        values, vectors = _find_copies(products, values, vectors, tolerance)
    except ArpackNoConvergence as error:
        raise TrainingError(
            f"--top: {len(error.eigenvalues)} of {k} eigenvalues converged: ask for "
            "fewer, or raise --tolerance"
        ) from error
    except ArpackError:
        if products(start).any():
            raise
        return Spectrum(np.zeros(k), np.eye(n, k), np.zeros(k))  # ARPACK refuses a matrix of zeros
    pairs = zip(values, vectors.T, strict=True)
    residuals = [np.linalg.norm(products(v) - value * v) for value, v in pairs]
    return Spectrum(values, vectors, np.array(residuals))


def _search(
    products: Any, k: int, start: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """ARPACK's k largest eigenvalues and their vectors, the largest first."""
    n = len(start)
    operator = LinearOperator((n, n), matvec=products, dtype=np.float64)
    basis = min(n, max(2 * k + 1, 20) if k < 20 else k + 20)  # ARPACK's 2 k + 1 needs more memory
    values, vectors = eigsh(operator, k, which="LA", tol=tolerance, v0=start, ncv=basis)
    return values[::-1], vectors[:, ::-1]


def _find_copies(
    products: Any, values: np.ndarray, vectors: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Add the copies of repeated eigenvalues: one start vector sees a single copy of each.

    The largest eigenvalue of the rest of the space is sought until it is none of the k largest.
    """
    n, k = vectors.shape
    for seed in range(k if k + 1 < n else 0):
        start = np.random.default_rng(seed).standard_normal(n)
        rest = _deflated(products, values, vectors)
        value, vector = _search(rest, 1, start, tolerance)
        if value[0] <= values[-1] + tolerance * abs(values[-1]):
            break
        values = np.append(values[:-1], value)
        vectors = np.column_stack([vectors[:, :-1], vector])
        order = np.argsort(-values, kind="stable")
        values, vectors = values[order], vectors[:, order]
    return values, vectors


def _deflated(products: Any, values: np.ndarray, vectors: np.ndarray) -> Any:
    """Products of the matrix on the rest of the space, and below all of it on some vectors."""
    below = 2 * np.abs(values).max() + 1

    def product(v: np.ndarray) -> np.ndarray:
        inside = vectors.T @ v.ravel()
        image = products(v.ravel() - vectors @ inside)
        return image - vectors @ (vectors.T @ image) - below * (vectors @ inside)

    return product


def signs(n: int, rng: np.random.Generator) -> np.ndarray:
    """A Rademacher vector, float64 [n]."""
    return 2.0 * rng.integers(0, 2, n) - 1


def trace_and_norm(products: Any, budget: int, rng: np.random.Generator) -> dict[str, Estimate]:
    """Trace and Frobenius norm by Hutch++ (Meyer et al., SOSA 2021, algorithm 1) from one sketch.

    A third of the products makes a basis Q of the range, a third the exact trace within it, a third
    Hutchinson's estimate outside it, z^T B z. Its variance is at most 2 ||B||_F^2, which is also
    estimated: as a standard error that is steadier than the deviation of a few z^T B z, and seldom
    too small. The norm is the root of tr(H H), estimated from the same products. ``budget``:
    products, at least 6, a multiple of 3.
    """
    count = budget // 3
    if count < 2 or count >= products.n:
        raise ConfigError(f"--probes: must be from 6 to {3 * products.n - 3}, not {budget}")
    q = np.empty((products.n, count), order="F")
    for column in q.T:
        column[:] = products(signs(products.n, rng))
    q = qr(q, overwrite_a=True, mode="economic", check_finite=False)[0]  # in the same memory
    inside, square = 0.0, 0.0
    for column in q.T:
        product = products(column)
        inside += column @ product
        square += product @ product
    rest, outside, squares = np.empty((3, count))
    for number in range(count):
        z = signs(products.n, rng)
        z -= q @ (q.T @ z)
        product = products(z)
        rest[number], squares[number] = z @ product, product @ product
        outside[number] = squares[number] - np.square(q.T @ product).sum()
    error = np.sqrt(2 * outside.mean() / count)
    square_error = squares.std(ddof=1) / np.sqrt(count)
    norm = np.sqrt(square + squares.mean())
    return {
        "trace": Estimate(float(inside + rest.mean()), float(error)),
        "frobenius_norm": Estimate(float(norm), float(square_error / (2 * norm) if norm else 0.0)),
    }


@dataclass(frozen=True)
class Density:
    """Spectral density: point masses at ``nodes`` [probes, steps]; ``weights`` of a probe sum to 1.

    Their mean over probes estimates ``tr f(H) / n`` for every f, exactly up to polynomials of
    degree 2 steps - 1 for each probe.
    """

    nodes: np.ndarray
    weights: np.ndarray

    def moment(self, order: int) -> Estimate:
        """``tr(H^order) / n``."""
        moments = (self.weights * self.nodes**order).sum(1)
        error = moments.std(ddof=1) / np.sqrt(len(moments)) if len(moments) > 1 else float("nan")
        return Estimate(float(moments.mean()), float(error))


def density(products: Any, steps: int, probes: int, rng: np.random.Generator) -> Density:
    """Stochastic Lanczos quadrature (Ghorbani et al., ICML 2019, algorithm 1)."""
    steps = min(steps, products.n)
    nodes, weights = np.zeros((2, probes, steps))
    for probe in range(probes):
        values, first = _lanczos(products, steps, rng)
        nodes[probe, : len(values)], weights[probe, : len(values)] = values, first**2
    return Density(nodes, weights)


def _lanczos(products: Any, steps: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of the tridiagonal matrix of one probe, and their vectors' first components."""
    basis = np.zeros((steps, products.n))
    basis[0] = signs(products.n, rng) / np.sqrt(products.n)
    diagonal, beside = [], []
    for step in range(steps):
        v = products(basis[step])
        diagonal.append(basis[step] @ v)
        for _ in range(2):  # twice is enough to be orthogonal to rounding
            v -= basis[: step + 1].T @ (basis[: step + 1] @ v)
        length = np.linalg.norm(v)
        if step + 1 == steps or length <= 1e-10 * max(map(abs, (*diagonal, *beside))):
            break  # the space that the matrix spans is exhausted
        beside.append(length)
        basis[step + 1] = v / length
    values, vectors = eigh_tridiagonal(diagonal, beside)
    return values, vectors[0]


def diagonal(products: Any, probes: int, rng: np.random.Generator | None) -> np.ndarray:
    """The diagonal [n]: a mean of ``z * (H z)`` (Bekas et al., 2007); exact without ``rng``."""
    if rng is None:
        return np.array([products(unit)[i] for i, unit in enumerate(np.eye(products.n))])
    total = np.zeros(products.n)
    for _ in range(probes):
        z = signs(products.n, rng)
        total += z * products(z) / probes
    return total
