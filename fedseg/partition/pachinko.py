"""The Pachinko allocation of CIFAR-100: label skew over superclasses, then classes within them."""

from typing import Any

import numpy as np
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from fedseg.errors import ConfigError
from fedseg.partition.draws import (
    RandomPartition,
    draw_counts,
    equal_sizes,
    labels_of,
    log_gammas,
    name_clients,
)
from fedseg.partition.natural import Clients
from fedseg.registry import PARTITIONS


@PARTITIONS.register_module()
class PachinkoPartition(RandomPartition):
    """Pachinko allocation (Reddi et al., ICLR 2021, appendix F): coarse labels, then fine ones.

    Client by client: a distribution ``Dir(alpha, ..., alpha)`` over coarse labels and, for each of
    them, ``Dir(beta, ..., beta)`` over its fine labels. Then one image at a time: a coarse label,
    one of its fine labels, and an image of that class, without replacement. An exhausted label
    drops out (a coarse one with the last of its fine labels), and the rest is renormalized.

    Every sample is used; sizes differ by at most one.

    Args:
        num_clients: K; clients are ``"0"`` to ``"K-1"``. The paper has 500 of 100 images.
        alpha: concentration of each coarse label.
        beta: concentration of each fine label.
        seed: of the draws; labels, options and seed determine the partition.
    """

    def __init__(
        self,
        num_clients: PositiveInt = 500,
        alpha: PositiveFloat = 0.1,
        beta: PositiveFloat = 10.0,
        seed: NonNegativeInt = 0,
    ) -> None:
        super().__init__(num_clients, seed)
        self.alpha, self.beta = float(alpha), float(beta)

    def __call__(self, dataset: Any) -> Clients:
        """Client id -> indices into ``dataset``, int64, ascending."""
        labels = labels_of(dataset, self)
        children = _children(dataset, labels)
        sizes = equal_sizes(len(labels), self.num_clients)
        rng = self.rng()
        left = np.bincount(labels)
        images = [rng.permutation(np.flatnonzero(labels == c)) for c in range(len(left))]
        clients = []
        for size in sizes:
            counts = self._draw(rng, left, children, int(size))
            # classes are in random order, so the next ones are as good as any
            drawn = [images[c][left[c] - counts[c] : left[c]] for c in np.flatnonzero(counts)]
            left -= counts
            clients.append(np.concatenate(drawn))
        return name_clients(clients)

    def _draw(
        self, rng: np.random.Generator, left: np.ndarray, children: list[np.ndarray], size: int
    ) -> np.ndarray:
        """A client's number of images of each class, int64 [classes]."""
        coarse_left = np.array([left[fine].sum() for fine in children])
        coarse = draw_counts(rng, log_gammas(rng, self.alpha, len(children)), coarse_left, size)
        counts = np.zeros_like(left)
        for fine, total in zip(children, coarse, strict=True):
            if total:  # otherwise its mix does not matter
                mix = log_gammas(rng, self.beta, len(fine))
                counts[fine] = draw_counts(rng, mix, left[fine], int(total))
        return counts


def _children(dataset: Any, labels: np.ndarray) -> list[np.ndarray]:
    """The classes that occur under each coarse label, without empty ones."""
    coarse = np.asarray(getattr(dataset, "coarse_labels", None))
    integers = coarse.ndim == 1 and np.issubdtype(coarse.dtype, np.integer)
    if not integers or labels.max() >= len(coarse):
        raise ConfigError(
            f"partition.type: PachinkoPartition needs {type(dataset).__name__}.coarse_labels, an "
            f"integer for each of {labels.max() + 1} classes, not {coarse.dtype} "
            f"{list(coarse.shape)}: use CIFAR-100 or DirichletPartition"
        )
    classes = np.unique(labels)
    return [classes[coarse[classes] == label] for label in np.unique(coarse[classes])]
