"""Rules that assign images to clients; nothing here depends on a data set.

Every rule is a pure function of its arguments and of the generator it is given.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
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
    total = sum(len(group) for group in groups)
    if total % clients:
        raise ValueError(f"{total} images do not divide into {clients} equal clients")
    size = total // clients
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
    if sum(sizes) > len(items):
        raise ValueError(f"{len(items)} images cannot fill {sum(sizes)} places")
    ends = np.cumsum(sizes).tolist()
    return [list(items[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


def equal_sizes(total: int, pieces: int) -> list[int]:
    """Sizes that differ by one at most, the larger ones first."""
    return [total // pieces + (i < total % pieces) for i in range(pieces)]


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
    clients: Sequence[Sequence[T]],
    group_of: Callable[[T], str],
    low: int,
    high: int,
    rng: np.random.Generator,
    kind_of: Callable[[T], Hashable] = lambda item: None,
) -> list[list[T]]:
    """Swap single images between clients until they have low to high groups, both reached.

    Sizes of the clients stay. Partners are tried in random order, images of the same kind first, so
    that a swap changes as little as possible.

    Args:
        clients: images by client.
        group_of: the group (city) of an image.
        low: the fewest groups a client may have; some client has so few.
        high: the most groups a client may have; some client has so many.
        kind_of: images of one kind are preferred for a swap.
    """
    swaps = _Swaps(clients, group_of, low, high, rng, kind_of)
    everyone = range(len(clients))
    for client in everyone:
        swaps.narrow(client, high)
        swaps.widen(client, low)
    widest = max(everyone, key=lambda c: (swaps.groups(c), len(clients[c]), -c))
    swaps.widen(widest, high)
    others = [client for client in everyone if client != widest]
    narrowest = min(others, key=lambda c: (swaps.groups(c), c))
    swaps.narrow(narrowest, low, keep=widest)
    return swaps.clients


class _Swaps:
    """Clients' images, and swaps that leave the partner within bounds."""

    def __init__(self, clients, group_of, low, high, rng, kind_of) -> None:
        self.clients = [list(client) for client in clients]
        self.counts = [Counter(map(group_of, images)) for images in self.clients]
        self.group_of, self.kind_of = group_of, kind_of
        self.low, self.high, self.rng = low, high, rng

    def groups(self, client: int) -> int:
        return len(self.counts[client])

    def widen(self, client: int, target: int) -> None:
        """Give a client images of new groups until it has ``target`` of them."""
        while self.groups(client) < target:
            own, images = self.counts[client], self.clients[client]
            spare = [i for i, x in enumerate(images) if own[self.group_of(x)] > 1]
            if not spare:
                raise ValueError(f"a client of {len(images)} images cannot have {target} groups")
            position = spare[int(self.rng.integers(len(spare)))]
            self._swap(client, position, lambda group, own=frozenset(own): group not in own)

    def narrow(self, client: int, target: int, keep: int | None = None) -> None:
        """Swap the client's least group for its others until ``target`` are left."""
        while self.groups(client) > target:
            own = self.counts[client]
            least = min(own, key=lambda group, own=own: (own[group], group))
            images = self.clients[client]
            position = next(i for i, x in enumerate(images) if self.group_of(x) == least)
            others = frozenset(own) - {least}
            self._swap(client, position, others.__contains__, keep)

    def _swap(
        self, client: int, position: int, wanted: Callable[[str], bool], keep: int | None = None
    ) -> None:
        """Swap one image of a client for one of a wanted group, from any client but ``keep``."""
        mine = self.clients[client][position]
        places = [(o, p) for o, images in enumerate(self.clients) for p in range(len(images))]
        order = [places[i] for i in self.rng.permutation(len(places))]
        order.sort(key=lambda at: self.kind_of(self.clients[at[0]][at[1]]) != self.kind_of(mine))
        for other, place in order:
            theirs = self.clients[other][place]
            if other in (client, keep) or not wanted(self.group_of(theirs)):
                continue
            if self._allowed(other, self.group_of(theirs), self.group_of(mine)):
                self.clients[client][position], self.clients[other][place] = theirs, mine
                for owner in (client, other):
                    self.counts[owner] = Counter(map(self.group_of, self.clients[owner]))
                return
        raise ValueError("these images cannot be assigned with that many groups per client")

    def _allowed(self, other: int, gone: str, come: str) -> bool:
        counts = self.counts[other]
        now = len(counts)
        after = now - (counts[gone] == 1) + (come not in counts)
        # A partner that is still out of bounds itself must only not move further away.
        return self.low <= after <= self.high or self.high < now >= after or self.low > now <= after
