"""Random partitions: label skew by Dirichlet distributions and Pachinko allocation, i.i.d. clients.

The literature has two conventions of alpha. :class:`DirichletPartition` draws each client's class
distribution, with total concentration alpha; :class:`DirichletClassPartition` draws each class's
split over the clients, with concentration alpha per client.
"""

import warnings
from typing import Any

import numpy as np
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from fedseg.errors import ConfigError
from fedseg.partition.draws import (
    RandomPartition,
    draw_counts,
    equal_sizes,
    labels_of,
    log_gammas,
    name_clients,
    proportions,
)
from fedseg.partition.natural import Clients
from fedseg.registry import PARTITIONS

# Redraws after which DirichletClassPartition gives up, within seconds: a split that is accepted
# once in 500 draws is still found 49 times in 50.
MOST_DRAWS = 2000
# Share of the clients that may be drawn after a class has run out without a warning.
SHARE_LATE = 0.1


@PARTITIONS.register_module()
class DirichletPartition(RandomPartition):
    """Clients of equal size with Dirichlet class distributions (Hsu et al., 2019).

    Client by client, the class distribution is ``q ~ Dir(alpha * prior)`` with a uniform prior,
    that is with concentration alpha/classes for each class. The client then draws its images one at
    a time, without replacement, an image of class c in proportion to q_c (divided by the number of
    images of class c in the data set, which matters for unbalanced labels only). So a class is
    drawn less often as it runs low, and once it is exhausted, the prior and every distribution are
    renormalized over the remaining classes.

    The paper does not say what happens as classes run out. This rule comes close to the published
    splits' mean number of classes per client: 1.32, 3.6 and 4.8 on CIFAR-10 with 100 clients at
    alpha 0.05, 0.5 and 1, and 5.1 on CIFAR-100 at 0.5, where it has 1.37, 3.4, 4.9 and 5.0 on
    average over seeds.

    Every sample is used; sizes differ by at most one.

    ``alpha = 0``: one class per client. Each class has a number of clients in proportion to its
    images, at least one, and its images are split evenly over them; sizes then differ if the labels
    are unbalanced or the number of classes does not divide the number of clients. Clients are in
    order of their class.

    Of label maps, the mixes are of pixels: an image is drawn in proportion to the sum over classes
    of its share of pixels in class c times q_c (divided by the sum of these shares over the data
    set). Images of a single class each are drawn as above; ``alpha = 0`` is refused.

    Args:
        num_clients: K; clients are ``"0"`` to ``"K-1"``.
        alpha: small: few classes per client; large: mixes close to uniform, which unbalanced labels
            give to the first clients only (a warning says so). For clients alike see
            ``HomogeneousPartition``.
        seed: of the draws; labels, options and seed determine the partition.
    """

    def __init__(
        self, num_clients: PositiveInt, alpha: NonNegativeFloat, seed: NonNegativeInt = 0
    ) -> None:
        super().__init__(num_clients, seed)
        self.alpha = float(alpha)

    def __call__(self, dataset: Any) -> Clients:
        """Client id -> indices into ``dataset``, int64, ascending."""
        pixels = None if hasattr(dataset, "labels") else getattr(dataset, "class_pixels", None)
        if pixels is not None:
            return name_clients(self._pixel_mixes(pixels()))
        labels = labels_of(dataset, self)
        sizes = equal_sizes(len(labels), self.num_clients)
        # classes that do not occur are nobody's: the prior is over those that do
        _, labels, counts = np.unique(labels, return_inverse=True, return_counts=True)
        rng = self.rng()
        if self.alpha == 0:
            return name_clients(self._one_class_each(rng, labels, counts))
        return name_clients(self._mixes(rng, labels, counts, sizes))

    def _pixel_mixes(self, pixels: np.ndarray) -> list[np.ndarray]:
        """Clients from the pixels of every class in each image, int64 [N, classes]."""
        sizes = equal_sizes(len(pixels), self.num_clients)
        if self.alpha == 0:
            raise ConfigError("partition.alpha: must be above 0 for label maps of several classes")
        shares = pixels[:, pixels.any(axis=0)] / np.maximum(pixels.sum(axis=1, keepdims=True), 1)
        with np.errstate(divide="ignore"):
            logs = np.log(shares)
        return self._mixes(self.rng(), logs, shares.sum(axis=0), sizes)

    def _mixes(
        self, rng: np.random.Generator, held: np.ndarray, counts: np.ndarray, sizes: np.ndarray
    ) -> list[np.ndarray]:
        """Clients by what images hold: a class each, or logarithms of the shares of classes."""
        rest = rng.permutation(len(held))
        clients = []
        late = 0  # clients that are drawn after a class has run out
        for size in sizes:
            of = held[rest]
            left = np.bincount(of, minlength=len(counts)) if of.ndim == 1 else np.isfinite(of)
            classes = np.flatnonzero(left if of.ndim == 1 else left.any(axis=0))
            late += len(classes) < len(counts)
            weights = np.full(len(counts), -np.inf)
            weights[classes] = log_gammas(rng, self.alpha / max(1, len(classes)), len(classes))
            weights[classes] -= np.log(counts[classes])
            scores = weights[of] if of.ndim == 1 else np.logaddexp.reduce(weights + of, axis=1)
            # The images with the first `size` arrivals of exponential clocks with these rates
            # are as if drawn one at a time (Efraimidis and Spirakis 2006).
            arrival = np.log(rng.standard_exponential(len(rest))) - scores
            # Only the value that parts them is taken from the partial sort: the order in which it
            # leaves the others is another one on every kind of processor.
            last = np.partition(arrival, size - 1)[size - 1]
            drawn = arrival < last
            drawn[np.flatnonzero(arrival == last)[: size - drawn.sum()]] = True
            clients.append(rest[drawn])
            rest = rest[~drawn]
        # With a smaller alpha most mixes leave classes out, whatever is left.
        if self.alpha >= len(counts) and late > SHARE_LATE * len(sizes):
            warnings.warn(
                f"partition.alpha: the last {late} of {len(sizes)} clients lack a class that the "
                f"others used up, since mixes of alpha {self.alpha:g} are close to uniform and the "
                "labels are not: use HomogeneousPartition for clients alike",
                stacklevel=2,
            )
        return clients

    def _one_class_each(
        self, rng: np.random.Generator, labels: np.ndarray, counts: np.ndarray
    ) -> list[np.ndarray]:
        if self.num_clients < len(counts):
            raise ConfigError(
                f"partition.num_clients: {self.num_clients} clients of one class (alpha = 0) for "
                f"{len(counts)} classes: use at least {len(counts)} clients, or alpha > 0"
            )
        holders = np.ones_like(counts)
        for _ in range(self.num_clients - len(counts)):
            holders[np.argmax(counts / holders)] += 1  # where clients have the most images
        clients = []
        for class_, number in enumerate(holders):
            images = rng.permutation(np.flatnonzero(labels == class_))
            clients += np.array_split(images, number)
        return clients


@PARTITIONS.register_module()
class DirichletClassPartition(RandomPartition):
    """Each class split over the clients by a Dirichlet distribution; sizes differ.

    For every class, ``p ~ Dir(alpha, ..., alpha)`` over the clients, and client k gets the share
    p_k of its images, to the nearest image. Everything is redrawn until every client has
    ``min_samples``. This is the convention of FedAlign (Mendieta et al., CVPR 2022) and NIID-Bench
    (Li et al., ICDE 2022). Their released code also gives no further class to a client that already
    has the mean size, which the papers do not say: ``balanced``.

    Args:
        num_clients: K; clients are ``"0"`` to ``"K-1"``.
        alpha: small: few classes per client and very different sizes. For one class per client see
            ``DirichletPartition`` with alpha 0.
        seed: of the draws; labels, options and seed determine the partition.
        min_samples: the least size of a client.
        balanced: class by class, a client that has its share of all images, 1/K, gets no more, and
            the others get what it would have had, in proportion.
    """

    def __init__(
        self,
        num_clients: PositiveInt,
        alpha: PositiveFloat,
        seed: NonNegativeInt = 0,
        min_samples: PositiveInt = 10,
        balanced: bool = False,
    ) -> None:
        super().__init__(num_clients, seed)
        self.alpha, self.min_samples, self.balanced = float(alpha), min_samples, balanced

    def __call__(self, dataset: Any) -> Clients:
        """Client id -> indices into ``dataset``, int64, ascending."""
        labels = labels_of(dataset, self)
        equal_sizes(len(labels), self.num_clients)  # refuses more clients than samples
        if self.num_clients * self.min_samples > len(labels):
            raise ConfigError(
                f"partition.min_samples: {self.num_clients} clients of {self.min_samples} or more "
                f"samples need more than the {len(labels)} of the data set: use fewer"
            )
        _, labels, counts = np.unique(labels, return_inverse=True, return_counts=True)
        rng = self.rng()
        shares = [
            np.split(rng.permutation(np.flatnonzero(labels == class_)), cut)
            for class_, cut in enumerate(self._cuts(rng, counts))
        ]
        return name_clients([np.concatenate(parts) for parts in zip(*shares, strict=True)])

    def _cuts(self, rng: np.random.Generator, counts: np.ndarray) -> np.ndarray:
        """The first image of each class for the second and later clients, int64 [C, K-1]."""
        for _ in range(MOST_DRAWS):
            shares = proportions(log_gammas(rng, self.alpha, (len(counts), self.num_clients)))
            ends = np.empty(shares.shape, np.int64)
            sizes = np.zeros(self.num_clients, np.int64)
            for share, count, end in zip(shares, counts, ends, strict=True):
                if self.balanced:
                    room = sizes < counts.sum() / self.num_clients
                    share = share * room if share[room].any() else room
                    share = share / share.sum()
                end[:] = np.rint(np.cumsum(share) * count)
                end[-1] = count
                sizes += np.diff(end, prepend=0)
            if sizes.min() >= self.min_samples:
                return ends[:, :-1]
        raise ConfigError(
            f"partition.alpha: none of {MOST_DRAWS} draws with alpha {self.alpha:g} gave each of "
            f"{self.num_clients} clients {self.min_samples} samples: use a larger alpha, fewer "
            "clients or a smaller min_samples"
        )


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


@PARTITIONS.register_module()
class HomogeneousPartition(RandomPartition):
    """Samples assigned to clients uniformly at random (i.i.d.); needs no labels.

    Every sample is used; sizes differ by at most one.

    Args:
        num_clients: K; clients are ``"0"`` to ``"K-1"``.
        seed: of the order; number of samples, number of clients and seed determine the partition.
    """

    def __call__(self, dataset: Any) -> Clients:
        """Client id -> indices into ``dataset``, int64, ascending."""
        sizes = equal_sizes(len(dataset), self.num_clients)
        order = self.rng().permutation(len(dataset))
        return name_clients(np.split(order, np.cumsum(sizes)[:-1]))


@PARTITIONS.register_module()
class SizePartition(RandomPartition):
    """Clients that differ in their number of samples only: ``p ~ Dir(alpha, ..., alpha)``.

    Samples are assigned at random; needs no labels. Client k has ``min_samples`` and the share p_k
    of the rest, to the nearest sample. Every sample is used.

    Args:
        num_clients: K; clients are ``"0"`` to ``"K-1"``.
        alpha: concentration; the larger, the more alike the sizes.
        min_samples: the fewest samples of a client.
        seed: of the draws; number of samples, options and seed determine the partition.
    """

    def __init__(
        self,
        num_clients: PositiveInt,
        alpha: PositiveFloat,
        min_samples: PositiveInt = 1,
        seed: NonNegativeInt = 0,
    ) -> None:
        super().__init__(num_clients, seed)
        self.alpha, self.min_samples = float(alpha), min_samples

    def __call__(self, dataset: Any) -> Clients:
        """Client id -> indices into ``dataset``, int64, ascending."""
        rest = len(dataset) - self.num_clients * self.min_samples
        if rest < 0:
            raise ConfigError(
                f"partition.num_clients: {self.num_clients} clients of {self.min_samples} or more "
                f"samples need more than the {len(dataset)} of the data set: use fewer"
            )
        rng = self.rng()
        ends = np.rint(np.cumsum(proportions(log_gammas(rng, self.alpha, self.num_clients))) * rest)
        ends = ends.astype(np.int64) + self.min_samples * np.arange(1, self.num_clients + 1)
        return name_clients(np.split(rng.permutation(len(dataset)), ends[:-1]))


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
