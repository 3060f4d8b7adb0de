"""Rules that assign images to clients; nothing here depends on a data set.

Every rule is a pure function of its arguments and of the generator it is given.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T", bound=Hashable)


def spread_groups(
    groups: Sequence[Sequence[T]], clients: int, rng: np.random.Generator
) -> list[list[T]]:
    """Equal clients whose images come from as many different groups as possible.

    Every client takes one image from each of the groups that have most left (ties at random).
    Taking from the fullest groups first is what lets every later client find enough different
    groups (the Havel-Hakimi argument): if all groups are equal and a client's size is at most
    their number, every client ends up with as many groups as images.

    Args:
        groups: images by group; their total must be a multiple of ``clients``.
    """
    size = sum(len(group) for group in groups) // clients
    left = [list(rng.permutation(len(group))) for group in groups]
    assigned = []
    for _ in range(clients):
        chosen: list[tuple[int, int]] = []
        while len(chosen) < size:
            counts = np.array([len(rest) for rest in left])
            order = np.lexsort((rng.random(len(groups)), -counts))[: size - len(chosen)]
            chosen += [(int(g), int(left[g].pop())) for g in order if counts[g]]
        assigned.append([groups[g][i] for g, i in sorted(chosen)])
    return assigned


def cut(items: Sequence[T], sizes: Sequence[int]) -> list[list[T]]:
    """Consecutive pieces of the given sizes; what is left over at the end belongs to none."""
    ends = np.cumsum(sizes).tolist()
    return [list(items[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


def rarest_class(present: np.ndarray) -> np.ndarray:
    """For each image the rarest class that it shows.

    Args:
        present: bool [images, classes], whether a class occurs in the image.

    Returns:
        int64 [images], the occurring class that the fewest images show (ties: the lower class id);
        -1 for an image that shows no class.
    """
    classes = present.shape[1]
    order = np.lexsort((np.arange(classes), present.sum(axis=0)))
    rank = np.empty(classes, dtype=np.int64)
    rank[order] = np.arange(classes)
    best = np.where(present, rank, classes).min(axis=1)
    return np.append(order, -1)[best]


def class_order(present: np.ndarray, groups: Sequence[str], rng: np.random.Generator) -> np.ndarray:
    """Images sorted for class imbalance: by their rarest class, rarest first.

    Images of the same rarest class are sorted by group (groups in random order), and within a group
    at random. Images without any class come last.

    Args:
        present: bool [images, classes].
        groups: the group (domain, city) of each image.

    Returns:
        int64 [images], a permutation.
    """
    rarest = rarest_class(present)
    frequency = np.append(present.sum(axis=0), len(present) + 1)
    names = sorted(set(groups))
    place = dict(zip(names, rng.permutation(len(names)).tolist(), strict=True))
    tie = rng.random(len(present))
    return np.lexsort((tie, [place[g] for g in groups], rarest, frequency[rarest]))


def fit_groups(
    clients: Sequence[Sequence[int]],
    groups: Sequence[str],
    kinds: Sequence[Hashable],
    low: int,
    high: int,
    rng: np.random.Generator,
) -> list[list[int]]:
    """Swap single images between clients until they have low to high groups, both reached.

    Sizes of the clients stay. Partners are tried in random order, images of the same kind first, so
    that a swap changes as little as possible.

    Args:
        clients: images (indices) by client.
        groups: the group (city) of each image.
        kinds: the kind of each image.
        low, high: the fewest and the most groups a client may have; some client has so many.
    """
    swaps = _Swaps(clients, groups, kinds, low, high, rng)
    everyone = range(len(clients))
    for client in everyone:
        swaps.narrow(client, high)
        swaps.widen(client, low)
    widest = max(everyone, key=lambda c: (len(swaps.counts[c]), len(clients[c]), -c))
    swaps.widen(widest, high)
    others = [client for client in everyone if client != widest]
    narrowest = min(others, key=lambda c: (len(swaps.counts[c]), c))
    swaps.narrow(narrowest, low, keep=widest)
    return swaps.clients


class _Swaps:
    """Clients' images, and swaps that leave the partner within bounds."""

    def __init__(self, clients, groups, kinds, low, high, rng) -> None:
        self.clients = [list(client) for client in clients]
        self.counts = [Counter(groups[i] for i in images) for images in self.clients]
        self.groups, self.kinds = groups, kinds
        self.low, self.high, self.rng = low, high, rng

    def widen(self, client: int, target: int) -> None:
        """Give a client images of new groups until it has ``target`` of them."""
        images, own = self.clients[client], self.counts[client]
        while len(own) < target:
            spare = [place for place, i in enumerate(images) if own[self.groups[i]] > 1]
            if not spare:
                raise ValueError(f"a client of {len(images)} images cannot have {target} groups")
            place = spare[int(self.rng.integers(len(spare)))]
            self._swap(client, place, set(self.groups) - set(own))

    def narrow(self, client: int, target: int, keep: int | None = None) -> None:
        """Swap the client's least group for its others until ``target`` are left."""
        images, own = self.clients[client], self.counts[client]
        while len(own) > target:
            least = min(own, key=lambda group: (own[group], group))
            place = next(place for place, i in enumerate(images) if self.groups[i] == least)
            self._swap(client, place, set(own) - {least}, keep)

    def _swap(self, client: int, place: int, wanted: set[str], keep: int | None = None) -> None:
        """Swap one image of a client for one of a wanted group, from any client but ``keep``."""
        mine = self.clients[client][place]
        places = [(o, p) for o, images in enumerate(self.clients) for p in range(len(images))]
        order = [places[i] for i in self.rng.permutation(len(places))]
        order.sort(key=lambda at: self.kinds[self.clients[at[0]][at[1]]] != self.kinds[mine])
        for other, position in order:
            theirs = self.clients[other][position]
            gone, come = self.groups[theirs], self.groups[mine]
            if other in (client, keep) or gone not in wanted:
                continue
            if self._allowed(other, gone, come):
                self.clients[client][place], self.clients[other][position] = theirs, mine
                for owner, left, new in ((client, come, gone), (other, gone, come)):
                    self.counts[owner] += Counter([new])
                    self.counts[owner] -= Counter([left])  # drops what is at zero
                return
        raise ValueError("these images cannot be assigned with that many groups per client")

    def _allowed(self, other: int, gone: str, come: str) -> bool:
        counts = self.counts[other]
        now = len(counts)
        after = now - (counts[gone] == 1) + (come not in counts)
        # A partner that is still out of bounds itself must only not move further away.
        return self.low <= after <= self.high or self.high < now >= after or self.low > now <= after
