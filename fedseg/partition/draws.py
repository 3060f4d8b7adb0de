"""Common parts of random partitions: labels, sizes, and draws without replacement."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import NonNegativeInt, PositiveInt

from fedseg.errors import ConfigError

# Below this a Dirichlet draw has a single non-zero entry for every purpose, and 1/concentration
# would overflow.
LEAST_CONCENTRATION = 1e-100


def generator(seed: int, purpose: str) -> np.random.Generator:
    """A generator (Philox) for one purpose, for example the name of a partition, and its seed."""
    digest = hashlib.blake2b(f"{purpose}\0{int(seed)}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))


class RandomPartition:
    """Base of partitions that draw: their number of clients and their generator."""

    def __init__(self, num_clients: PositiveInt, seed: NonNegativeInt = 0) -> None:
        self.num_clients, self.seed = num_clients, seed

    def rng(self) -> np.random.Generator:
        """The generator of all draws, which depends on the class and the seed."""
        return generator(self.seed, type(self).__name__)


def labels_of(dataset: Any, partition: Any) -> np.ndarray:
    """The class id of every sample, int64 [N]."""
    labels, size = np.asarray(getattr(dataset, "labels", None)), len(dataset)
    sound = size and labels.shape == (size,) and np.issubdtype(labels.dtype, np.integer)
    if not sound or labels.min() < 0:
        raise ConfigError(
            f"partition.type: {type(partition).__name__} needs {type(dataset).__name__}.labels, "
            f"class ids >= 0, one for each of {size} samples: use NaturalPartition, "
            "HomogeneousPartition or FixedPartition"
        )
    return labels.astype(np.int64)


def equal_sizes(samples: int, clients: int) -> np.ndarray:
    """Sizes of the clients, int64 [clients], which sum to ``samples`` and differ by at most 1.

    The first clients have the larger size.
    """
    if clients > samples:
        raise ConfigError(
            f"partition.num_clients: {clients} clients, but the data set has only {samples} "
            "samples: use fewer clients"
        )
    size, rest = divmod(samples, clients)
    return size + (np.arange(clients) < rest).astype(np.int64)


def name_clients(indices: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Clients ``"0"``, ``"1"``, ... with their indices in ascending order, int64."""
    return {str(i): np.sort(held).astype(np.int64) for i, held in enumerate(indices)}


def log_gammas(rng: np.random.Generator, concentration: float, shape: Any) -> np.ndarray:
    """Logarithms of Gamma(concentration, 1) draws: scaled to sum 1 they are a Dirichlet draw.

    As logarithms they stay distinct where the draws themselves would underflow to 0: at a
    concentration of 0.0005 (100 classes, alpha 0.05) one is e^-2000 on average, and yet the largest
    of them must take over when the classes above it are exhausted. Any subset, scaled to sum 1, is
    again a Dirichlet draw of that concentration.
    """
    a = max(concentration, LEAST_CONCENTRATION)
    uniform = 1 - rng.random(shape)  # (0, 1]
    # Gamma(a) is Gamma(a + 1) U^(1/a), Marsaglia and Tsang 2000, section 6
    return np.log(rng.standard_gamma(a + 1, shape)) + np.log(uniform) / a


def proportions(log_weights: np.ndarray) -> np.ndarray:
    """Weights given by their logarithms, scaled to sum 1 along the last axis."""
    weights = np.exp(log_weights - log_weights.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def draw_counts(
    rng: np.random.Generator, log_weights: np.ndarray, left: np.ndarray, total: int
) -> np.ndarray:
    """Draw ``total`` times without replacement; the number of draws of each category.

    Each draw is in proportion to the weights; an exhausted category drops out and the weights of
    the others are renormalized. The counts are drawn in blocks: discarding what exceeds the stock
    and drawing as many again has the same distribution.

    Args:
        log_weights: logarithms of the weights, finite [categories].
        left: the stock, int64 [categories], at least ``total`` together.

    Returns:
        int64 [categories] with the sum ``total``, nowhere more than ``left``.
    """
    drawn = np.zeros_like(left)
    missing = total
    while missing:
        there = np.flatnonzero(drawn < left)
        block = rng.multinomial(missing, proportions(log_weights[there]))
        drawn[there] += np.minimum(block, (left - drawn)[there])
        missing = total - int(drawn.sum())
    return drawn
