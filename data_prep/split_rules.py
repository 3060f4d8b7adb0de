"""Who holds which images of Cityscapes, IDDA and CamVid, where no published split says so.

A rule ``build_*`` takes the images of each domain, the split's place (distribution, setting), a
seed and the function that reads the classes that samples show, and returns the train and the test
split. Below them are the assignments of images to clients that rules are made of.
"""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np

from fedseg.core.seeds import generator_for
from fedseg.datasets import CityscapesDataset, IDDADataset, SegmentationDataset
from fedseg.datasets.segmentation import class_of_ids
from fedseg.datasets.templates import fields_of
from fedseg.names import DISTRIBUTIONS, IDDA_SETTINGS
from fedseg.partition import Split

from .disk import Images, Sample
from .facts import Place
from .parallel import in_threads
from .street_sets import CITIES, CITYSCAPES, DOMAINS, IDDA

T = TypeVar("T", bound=Hashable)
Presence = Callable[[Sequence[Sample]], np.ndarray]  # samples -> bool [samples, classes]

# Cityscapes
PARTS_PER_CITY = 8
SIZES = {  # images per client -> number of clients, as published
    "uniform": {10: 32, 15: 49, 25: 40, 30: 8, 40: 17},
    "class_imbalance": {10: 26, 15: 49, 25: 39, 30: 12, 40: 16},
}
SPREAD = {"uniform": (5, 17), "class_imbalance": (1, 7)}  # fewest and most cities per client
# IDDA: how a client's name calls a class; the last word is for -1, images without any
WORDS = [*(name.removeprefix("traffic ") for name in IDDADataset.classes), "void"]
SMALLEST_DOMAIN = 3  # images: one to test, and two to train, which BatchNorm needs
# CamVid
PIECE = 20
HELD_OUT = 20
LONGEST_GAP = 60  # frames, 2 s


def read_presence(label_root: Path, kind: type[SegmentationDataset]) -> Presence:
    """A function that reads which classes have a pixel in samples' label maps, each map once."""
    table, classes = class_of_ids(kind), np.arange(len(kind.classes))
    known: dict[str, np.ndarray] = {}

    def read(label: str) -> np.ndarray:
        counts = np.bincount(kind.read_label(str(label_root / label)).ravel(), minlength=256)
        return np.isin(classes, table[counts > 0])

    def present(samples: Sequence[Sample]) -> np.ndarray:
        unread = [label for _, label in samples if label not in known]
        known.update(zip(unread, in_threads(read, unread, "reading label maps"), strict=True))
        return np.stack([known[label] for _, label in samples])

    return present


def build_cityscapes(
    images: Images, place: Place, seed: int, presence: Presence | None = None
) -> tuple[Split, Split]:
    """Clients of the 18 training cities; the test set is the 500 validation images.

    How many clients have how many images is the published table. The published rule of
    ``class_imbalance`` is unknown, it is ours. Of fewer images than are published there are fewer
    clients, and a client may have any number of cities.
    """
    (distribution,) = place
    validation = [sample for city in CITIES["val"] for sample in images.get(city, ())]
    test = Split({CITYSCAPES.test_users[0]: validation})
    training = [city for city in images if city not in CITIES["val"]]
    rng = generator_for(seed, "cityscapes clients", DISTRIBUTIONS.index(distribution))
    clients: Images = {}
    if distribution == "heterogeneous":
        for city in training:
            order = rng.permutation(len(images[city])).tolist()
            count = min(PARTS_PER_CITY, len(order))
            parts = cut(order, [len(order) // count] * count)
            for number, part in enumerate(parts):
                clients[f"{city}{number}"] = [images[city][i] for i in part]
        return Split(clients), test
    samples = [s for city in training for s in images[city]]
    cities = [fields_of(CityscapesDataset.image_path, image)["domain"] for image, _ in samples]
    sizes = [size for size, times in SIZES[distribution].items() for _ in range(times)]
    sizes = rng.permutation(sizes).tolist()
    if distribution == "uniform":
        order, kinds = rng.permutation(len(samples)), np.zeros(len(samples))
    else:
        present = presence(samples)
        order, kinds = class_order(present, cities, rng), rarest_class(present)
    if sum(sizes) <= len(samples):
        parts = cut(order.tolist(), sizes)
        parts = fit_groups(parts, cities, kinds, *SPREAD[distribution], rng)
    else:
        parts = cut(order.tolist(), _fitting_sizes(sizes, len(samples)))
    word = "client" if distribution == "uniform" else "user"
    return Split({f"{word}_{n}": [samples[i] for i in part] for n, part in enumerate(parts)}), test


def _fitting_sizes(sizes: Sequence[int], images: int) -> list[int]:
    """The first of the sizes that so many images suffice for; all images if none does."""
    count = int((np.cumsum(sizes) <= images).sum())
    return list(sizes[:count]) or [images]


def is_unseen(setting: str, domain: str) -> bool:
    """True if a setting of IDDA keeps a domain for the test of unseen domains."""
    part, value = IDDA_SETTINGS[setting]
    return domain.split("_")[part] == value


def build_idda(
    images: Images, place: Place, seed: int, presence: Presence | None = None
) -> tuple[Split, Split]:
    """A setting leaves domains unseen; of every seen one a random fifth is the seen test set.

    The rest of a seen domain (48 of 60) is the train pool. Pool and test sets depend on the seed
    alone, so a setting's three distributions share them. The rule of ``class_imbalance`` is ours,
    the published is unknown. A seen domain of fewer than three images is left out.
    """
    distribution, setting = place
    pool: Images = {}
    held_out: list[Sample] = []
    unseen: list[Sample] = []
    for domain, samples in images.items():
        if is_unseen(setting, domain):
            unseen += samples
            continue
        if len(samples) < SMALLEST_DOMAIN:
            continue
        rng = generator_for(seed, "idda seen test", DOMAINS.index(domain))
        order = rng.permutation(len(samples))
        tests = max(1, len(samples) // 5)
        held_out += [samples[i] for i in sorted(order[:tests])]
        pool[domain] = [samples[i] for i in order[tests:]]
    counter = (IDDA.settings.index(setting), DISTRIBUTIONS.index(distribution))
    rng = generator_for(seed, "idda clients", *counter)
    if distribution == "heterogeneous":
        clients = pool
    elif distribution == "uniform":
        assigned = spread_groups(list(pool.values()), len(pool), rng)
        clients = {f"client_{i}": samples for i, samples in enumerate(assigned, start=1)}
    else:
        clients = _by_class(pool, presence, rng)
    return Split(clients), Split(dict(zip(IDDA.test_users, (unseen, held_out), strict=True)))


def _by_class(pool: Images, presence: Presence, rng: np.random.Generator) -> Images:
    samples = [sample for group in pool.values() for sample in group]
    present = presence(samples)
    domains = [fields_of(IDDADataset.image_path, image)["domain"] for image, _ in samples]
    order = class_order(present, domains, rng)
    kinds = rarest_class(present)
    clients: Images = {}
    numbers: dict[str, int] = {}
    for part in cut(order.tolist(), [len(group) for group in pool.values()]):
        words = [WORDS[kind] for kind in dict.fromkeys(kinds[part].tolist())]
        name = "client_" + "_".join(words)
        if len(words) == 1:
            numbers[name] = numbers.get(name, 0) + 1
            name = f"{name}_{numbers[name]}"
        clients[name] = [samples[i] for i in part]
    return clients


def build_camvid(images: Images, *_: object) -> tuple[Split, Split]:
    """Contiguous pieces of two recordings; there is no choice in it, so there is no seed.

    Neighboring frames look alike, so nothing is shuffled, and what is held out is contiguous too:
    it borders on training frames only at the ends of a stretch, 1 s apart. Test users:
    ``test_user_same_domain`` (seen), ``test_user_0001TP`` (at dusk; with the images that the usual
    split trains on) and ``test_user_Seq05VD``.
    """
    town, bridge = images["0006R0"], images["0016E5"]
    trained = [sample for sample in bridge if sample[0].startswith("train/")]
    clients: Images = {}
    for name, samples in (("0006R0", town[:-HELD_OUT]), ("0016E5", trained)):
        pieces = [
            [stretch[i] for i in piece]
            for stretch in _stretches(samples)
            for piece in np.array_split(range(len(stretch)), max(1, round(len(stretch) / PIECE)))
        ]
        clients.update({f"{name}_{number}": piece for number, piece in enumerate(pieces)})
    validation = [sample for sample in bridge if sample not in trained]
    test = {
        "test_user_same_domain": [*town[-HELD_OUT:], *validation],
        "test_user_0001TP": images["0001TP"],
        "test_user_Seq05VD": images["Seq05VD"],
    }
    return Split(clients), Split(test)


def _stretches(samples: Sequence[Sample]) -> list[list[Sample]]:
    """Samples in order of frame, cut where frames are missing for longer than LONGEST_GAP."""

    def frame(sample: Sample) -> int:  # train/0006R0_f00930.png: 930
        number = re.search(r"\d+$", Path(sample[0]).stem)
        return int(number.group()) if number else -1

    stretches = [[samples[0]]]
    for before, sample in pairwise(samples):
        if frame(sample) - frame(before) > LONGEST_GAP:
            stretches.append([])
        stretches[-1].append(sample)
    return stretches


# ---- assignments; pure functions of their arguments and their generator


def spread_groups(
    groups: Sequence[Sequence[T]], clients: int, rng: np.random.Generator
) -> list[list[T]]:
    """Equal clients whose images come from as many different groups as possible.

    Every client takes one image from each of the groups that have most left (ties at random), so
    that later clients still find different groups (the Havel-Hakimi argument): if all groups are
    equal and a client's size is at most their number, it has as many groups as images.
    """
    size = sum(len(group) for group in groups) // clients
    unassigned = [list(rng.permutation(len(group))) for group in groups]
    assigned = []
    for _ in range(clients):
        chosen: list[tuple[int, int]] = []
        while len(chosen) < size:
            counts = np.array([len(rest) for rest in unassigned])
            order = np.lexsort((rng.random(len(groups)), -counts))[: size - len(chosen)]
            chosen += [(int(g), int(unassigned[g].pop())) for g in order if counts[g]]
        assigned.append([groups[g][i] for g, i in sorted(chosen)])
    return assigned


def cut(items: Sequence[T], sizes: Sequence[int]) -> list[list[T]]:
    """Consecutive pieces of the given sizes; what is left over at the end belongs to none."""
    ends = np.cumsum(sizes).tolist()
    return [list(items[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


def rarest_class(present: np.ndarray) -> np.ndarray:
    """For each image the class in it that the fewest images show (ties: the lower id), or -1.

    Args:
        present: bool [images, classes].
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
    images_of = [list(client) for client in clients]
    counts = [Counter(groups[i] for i in images) for images in images_of]

    def swap(client: int, place: int, wanted: set[str], keep: int | None = None) -> None:
        """Swap an image of a client for one of a wanted group, of any client but ``keep``."""
        offered = images_of[client][place]
        places = [(o, p) for o, images in enumerate(images_of) for p in range(len(images))]
        order = [places[i] for i in rng.permutation(len(places))]
        order.sort(key=lambda at: kinds[images_of[at[0]][at[1]]] != kinds[offered])
        for other, position in order:
            taken = images_of[other][position]
            gone, come = groups[taken], groups[offered]
            if other in (client, keep) or gone not in wanted:
                continue
            current = counts[other]
            after = len(current) - (current[gone] == 1) + (come not in current)
            # A partner that is out of bounds itself must only not move further away.
            if min(low, len(current)) <= after <= max(high, len(current)):
                images_of[client][place], images_of[other][position] = taken, offered
                for owner, lost, new in ((client, come, gone), (other, gone, come)):
                    counts[owner] += Counter([new])
                    counts[owner] -= Counter([lost])  # drops what is at zero
                return
        raise ValueError("these images cannot be assigned with that many groups per client")

    def widen(client: int, target: int) -> None:
        """Give a client images of new groups until it has ``target`` of them."""
        while len(counts[client]) < target:
            spare = [p for p, i in enumerate(images_of[client]) if counts[client][groups[i]] > 1]
            if not spare:
                size = len(images_of[client])
                raise ValueError(f"a client of {size} images cannot have {target} groups")
            place = spare[int(rng.integers(len(spare)))]
            swap(client, place, set(groups) - set(counts[client]))

    def narrow(client: int, target: int, keep: int | None = None) -> None:
        """Swap the client's least group for its others until ``target`` are left."""
        while len(counts[client]) > target:
            least = min(counts[client], key=lambda group: (counts[client][group], group))
            place = next(p for p, i in enumerate(images_of[client]) if groups[i] == least)
            swap(client, place, set(counts[client]) - {least}, keep)

    everyone = range(len(images_of))
    for client in everyone:
        narrow(client, high)
        widen(client, low)
    widest = max(everyone, key=lambda c: (len(counts[c]), len(images_of[c]), -c))
    widen(widest, high)
    narrower = [client for client in everyone if client != widest]
    narrow(min(narrower, key=lambda c: (len(counts[c]), c)), low, keep=widest)
    return images_of
