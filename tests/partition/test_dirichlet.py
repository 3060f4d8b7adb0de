"""Dirichlet partitions: published values, a slow transcription, and what every split must hold."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

from fedseg.errors import ConfigError
from fedseg.partition import check_clients
from fedseg.registry import PARTITIONS


class Labeled:
    """A data set as far as a partition sees it."""

    def __init__(self, labels):
        self.labels = labels

    def __len__(self):
        return 4 if self.labels is None else len(self.labels)


def balanced(classes: int, samples: int) -> Labeled:
    return Labeled(np.tile(np.arange(classes), samples // classes))


def split(dataset, kind="DirichletPartition", **options):
    return PARTITIONS.build(dict(type=kind, **options))(dataset)


def counts(clients, dataset) -> np.ndarray:
    """Images of each class [clients, classes]."""
    labels = np.asarray(dataset.labels)
    return np.stack([np.bincount(labels[i], minlength=labels.max() + 1) for i in clients.values()])


def mean_classes(clients, dataset) -> float:
    return float((counts(clients, dataset) > 0).sum(axis=1).mean())


def check_split(clients, dataset, number: int, equal: bool = True) -> None:
    """Every sample exactly once, ids and order, and equal sizes."""
    assert list(clients) == [str(i) for i in range(number)]
    check_clients(clients, len(dataset))
    assert all(i.dtype == np.int64 and (np.diff(i) > 0).all() for i in clients.values())
    held = np.concatenate(list(clients.values()))
    assert np.array_equal(np.sort(held), np.arange(len(dataset)))
    sizes = [len(i) for i in clients.values()]
    if equal:
        assert max(sizes) - min(sizes) <= 1


def same(one, other) -> bool:
    return all(np.array_equal(one[k], other[k]) for k in one)


# ---- equal sizes, mixes by client


KNOWN = [(10, 0.05, 1.32, 0.01), (10, 0.5, 3.6, 0.1), (10, 1, 4.8, 0.1), (100, 0.5, 5.1, 0.1)]


def test_known_numbers_of_classes_per_client():
    for classes, alpha, known, digit in KNOWN:
        dataset = balanced(classes, 50000)
        values = [
            mean_classes(split(dataset, num_clients=100, alpha=alpha, seed=seed), dataset)
            for seed in range(10)
        ]
        # A known value is one split's, rounded: it differs from our mean by the spread of one split
        # and the error of the mean.
        spread = np.std(values, ddof=1) * np.sqrt(1 + 1 / len(values))
        tolerance = 2.5 * spread + digit / 2
        assert abs(np.mean(values) - known) < tolerance
        # and alpha per class instead of in total would be far away
        wrong = mean_classes(split(dataset, num_clients=100, alpha=alpha * classes), dataset)
        assert abs(wrong - known) > 5 * tolerance


def hsu_one_image_at_a_time(labels, num_clients, alpha, rng) -> np.ndarray:
    """Images of each class [clients, classes], drawn as the docstring says."""
    classes = sorted(set(labels))
    frequency = {c: labels.count(c) for c in classes}
    rest = list(labels)
    table = np.zeros((num_clients, len(classes)))
    for client in range(num_clients):
        there = [c for c in classes if c in rest]
        prior = 1 / len(there)
        mix = dict(zip(there, rng.dirichlet([alpha * prior] * len(there)), strict=True))
        for _ in range(len(labels) // num_clients):
            weights = np.array([mix[c] / frequency[c] for c in rest])
            image = rng.choice(len(rest), p=weights / weights.sum())
            table[client, classes.index(rest.pop(image))] += 1
    return table


@pytest.mark.parametrize("alpha", [0.8, 20])
def test_same_distribution_as_a_slow_transcription(alpha):
    labels = [0] * 60 + [1] * 40 + [2] * 15 + [3] * 5
    dataset, seeds = Labeled(labels), 150
    rng = np.random.default_rng(1)
    fast = [counts(split(dataset, num_clients=8, alpha=alpha, seed=s), dataset) for s in range(400)]
    slow = [hsu_one_image_at_a_time(labels, 8, alpha, rng) for _ in range(seeds)]

    def statistics(tables):
        tables = np.array(tables, float)
        first, last = (tables > 0).sum(axis=2)[:, 0], (tables > 0).sum(axis=2)[:, -1]
        largest = tables.max(axis=2)
        return np.stack(
            [
                (tables > 0).sum(axis=2).mean(axis=1),
                *(first, last, largest[:, 0], largest[:, -1]),
                *(tables[:, 0, c] for c in range(4)),
                *(tables[:, -1, c] for c in range(4)),
            ]
        )

    one, two = statistics(fast), statistics(slow)
    error = np.sqrt(one.var(axis=1) / one.shape[1] + two.var(axis=1) / two.shape[1])
    assert (np.abs(one.mean(axis=1) - two.mean(axis=1)) < 4 * error + 1e-9).all()


def test_first_draw_by_hand():
    # alpha large: the mix is the prior. Of images a, b, b, b client 0 draws a first with
    # probability 1/2, or second with 1/2 x (1/2) / (1/2 + 2/6) = 3/10.
    dataset, trials = Labeled([0, 1, 1, 1]), 2000
    held = [0 in split(dataset, num_clients=2, alpha=1e9, seed=s)["0"] for s in range(trials)]
    assert abs(np.mean(held) - 0.8) < 4 * np.sqrt(0.8 * 0.2 / trials)


def test_mixes_vary_as_the_dirichlet_distribution_says():
    # far from exhaustion: the first of many clients, images nearly with replacement
    dataset, alpha, size, classes = balanced(4, 4000), 2.0, 40, 4
    shares = [
        np.bincount(dataset.labels[own["0"]], minlength=4)[0] / size
        for own in (split(dataset, num_clients=100, alpha=alpha, seed=s) for s in range(100))
    ]
    mean = 1 / classes
    variance = mean * (1 - mean) / (alpha + 1) * (1 + alpha / size)  # Dirichlet-multinomial
    squares = (np.array(shares) - mean) ** 2
    assert abs(squares.mean() - variance) < 3.5 * squares.std() / np.sqrt(len(shares))


def test_images_of_a_class_are_drawn_at_random():
    # the order of the images must not matter, however far apart the weights of the classes are
    dataset = Labeled(np.zeros(4000, np.int64))
    deviation = np.sqrt((4000**2 - 1) / 12 / 1000 * (1 - 1000 / 4000))
    for alpha in (5e-324, 0.05, 100):
        for own in split(dataset, num_clients=4, alpha=alpha).values():
            assert abs(own.mean() - 1999.5) < 4 * deviation


def test_exhausted_classes_are_replaced_by_what_is_left():
    # every client wants one class, and there are more clients than the classes can serve
    dataset = Labeled([0] * 9 + [1] * 2 + [2] * 1)
    clients = split(dataset, num_clients=3, alpha=1e-12)
    check_split(clients, dataset, 3)
    assert (counts(clients, dataset) > 0).sum(axis=1).max() > 1


def test_alpha_zero_is_one_class_per_client():
    dataset = balanced(10, 1000)
    clients = split(dataset, num_clients=20, alpha=0)
    check_split(clients, dataset, 20)
    table = counts(clients, dataset)
    assert ((table > 0).sum(axis=1) == 1).all()
    assert ((table > 0).sum(axis=0) == 2).all()
    assert (table.sum(axis=1) == 50).all()
    assert not same(clients, split(dataset, num_clients=20, alpha=0, seed=1))


def test_alpha_zero_assigns_clients_by_size():
    dataset = Labeled([5] * 60 + [2] * 30 + [9] * 1)
    clients = split(dataset, num_clients=10, alpha=0)
    check_split(clients, dataset, 10, equal=False)
    table = counts(clients, dataset)
    assert ((table > 0).sum(axis=1) == 1).all()
    assert (table > 0).sum(axis=0)[[5, 2, 9]].tolist() == [6, 3, 1]
    assert sorted(table[:, 5][table[:, 5] > 0]) == [10] * 6


def test_alpha_zero_needs_a_client_for_every_class():
    with pytest.raises(ConfigError, match=r"partition\.num_clients: 5 clients.*10"):
        split(balanced(10, 100), num_clients=5, alpha=0)
    split(balanced(10, 100), num_clients=5, alpha=1e-6)  # the limit, on the other hand, exists


# ---- sizes by class


def test_class_split_keeps_the_least_size_and_every_sample():
    dataset = balanced(10, 5000)
    clients = split(dataset, "DirichletClassPartition", num_clients=16, alpha=0.2)
    check_split(clients, dataset, 16, equal=False)
    sizes = [len(i) for i in clients.values()]
    assert min(sizes) >= 10
    assert max(sizes) > 2 * min(sizes)


def test_class_split_draws_again():
    dataset = balanced(10, 2000)
    options = dict(num_clients=10, alpha=0.3, seed=3)
    loose = split(dataset, "DirichletClassPartition", min_samples=1, **options)
    smallest = min(len(i) for i in loose.values())
    kept = split(dataset, "DirichletClassPartition", min_samples=smallest, **options)
    assert same(kept, loose)  # good enough at the first draw
    again = split(dataset, "DirichletClassPartition", min_samples=smallest + 1, **options)
    assert not same(again, loose)
    assert min(len(i) for i in again.values()) > smallest


def test_shares_of_a_class_vary_as_the_dirichlet_distribution_says():
    dataset, alpha, number = balanced(10, 10000), 1.0, 4
    tables = [
        counts(
            split(dataset, "DirichletClassPartition", num_clients=number, alpha=alpha, seed=s),
            dataset,
        )
        for s in range(60)
    ]
    shares = np.array(tables) / 1000  # [seeds, clients, classes]
    mean = 1 / number
    squares = (shares[:, 0] - mean) ** 2
    variance = mean * (1 - mean) / (alpha * number + 1)
    assert abs(squares.mean() - variance) < 3.5 * squares.std() / np.sqrt(squares.size)
    # and the images of a class are assigned at random, not in their order
    first = split(dataset, "DirichletClassPartition", num_clients=number, alpha=1e6)["0"]
    places = np.flatnonzero(dataset.labels == 0).searchsorted(first[dataset.labels[first] == 0])
    assert abs(places.mean() - 500) < 4 * 1000 / np.sqrt(12 * len(places))


def test_class_splits_without_a_solution():
    dataset = balanced(10, 1000)
    with pytest.raises(ConfigError, match=r"partition\.min_samples: 20 clients of 51.*1000"):
        split(dataset, "DirichletClassPartition", num_clients=20, alpha=1, min_samples=51)
    # ten classes, each whole with one client, cannot serve twenty
    with pytest.raises(ConfigError, match=r"partition\.alpha: .*20 clients"):
        split(dataset, "DirichletClassPartition", num_clients=20, alpha=1e-4)


# ---- homogeneous


def test_homogeneous_needs_no_labels_and_assigns_at_random():
    dataset = range(1003)
    clients = split(dataset, "HomogeneousPartition", num_clients=10)
    check_split(clients, dataset, 10)
    # the mean of 100 of 0..1002 without replacement
    deviation = np.sqrt((1003**2 - 1) / 12 / 100 * (1 - 100 / 1003))
    assert all(abs(i.mean() - 501) < 4 * deviation for i in clients.values())
    with pytest.raises(ConfigError, match=r"partition\.num_clients"):
        split(range(1), "HomogeneousPartition", num_clients=2)


# ---- all of them

KINDS = [
    dict(kind="DirichletPartition", alpha=0.3),
    dict(kind="DirichletPartition", alpha=0),
    dict(kind="DirichletClassPartition", alpha=2, min_samples=1),
    dict(kind="HomogeneousPartition"),
]


def test_pure_function_of_labels_options_and_seed():
    dataset = balanced(4, 400)
    for options in KINDS:
        np.random.seed(0)  # noqa: NPY002 - must not matter, and must not move
        state = np.random.get_state()[1].copy()  # noqa: NPY002
        first = split(dataset, num_clients=8, seed=3, **options)
        assert np.array_equal(state, np.random.get_state()[1])  # noqa: NPY002
        partition = PARTITIONS.build(
            dict(num_clients=8, seed=3, type=options["kind"])
            | {k: v for k, v in options.items() if k != "kind"}
        )
        np.random.seed(1)  # noqa: NPY002
        assert same(first, partition(dataset))
        assert same(first, partition(dataset))  # called again
        assert not same(first, split(dataset, num_clients=8, seed=4, **options))
        default = split(dataset, num_clients=8, **options)
        assert same(default, split(dataset, num_clients=8, seed=0, **options))


# Where each kind is drawn from seed 0: runs name their clients by seed, so these never change.
KEPT = """
e0db1a644472f8bd
4f27cfccb880d9b3
8273efc2fafe2707
9f2bf1d588d8d895
"""
OLDER = "AVX2 FMA3 AVX512F AVX512_SKX AVX512_CLX AVX512_ICL X86_V3 X86_V4"


def digests() -> str:
    dataset = balanced(10, 5000)
    clients = [split(dataset, num_clients=50, seed=0, **options) for options in KINDS]
    digest = [hashlib.sha256(b"".join(i.tobytes() for i in own.values())) for own in clients]
    return "\n".join(["", *(one.hexdigest()[:16] for one in digest), ""])


def test_one_seed_is_one_split_on_every_processor():
    assert digests() == KEPT
    program = "from tests.partition.test_dirichlet import digests; print(end=digests())"
    older = os.environ | {"NPY_DISABLE_CPU_FEATURES": OLDER}
    command = [sys.executable, "-W", "ignore", "-c", program]
    assert subprocess.run(command, env=older, capture_output=True, text=True).stdout == KEPT


@pytest.mark.parametrize("alpha", [0, 5e-324, 1e-3, 0.3, 2, 1e9])
def test_random_labels_are_split_completely(alpha):
    rng = np.random.default_rng(7)
    for trial in range(60):
        samples, classes = rng.integers(1, 60), rng.integers(1, 9)
        weights = rng.dirichlet(np.ones(classes))  # unbalanced, and some classes do not occur
        labels = rng.choice(classes, size=samples, p=weights) * rng.integers(1, 4)
        kinds = [np.int64, np.int32, np.uint8]
        dataset = Labeled(labels.astype(kinds[trial % 3]) if trial % 4 else labels.tolist())
        occurring = len(set(labels.tolist()))
        number = int(rng.integers(occurring if alpha == 0 else 1, samples + 1))
        clients = split(dataset, num_clients=number, alpha=alpha, seed=trial)
        check_split(clients, dataset, number, equal=alpha > 0)
        if alpha == 0:
            assert ((counts(clients, dataset) > 0).sum(axis=1) == 1).all()
        if alpha >= 2:
            number = min(number, 3)
            options = dict(num_clients=number, alpha=alpha, seed=trial, min_samples=1)
            if samples >= 20:
                clients = split(dataset, "DirichletClassPartition", **options)
                check_split(clients, dataset, number, equal=False)
        check_split(split(dataset, "HomogeneousPartition", num_clients=number), dataset, number)


BOTH = ("DirichletPartition", "DirichletClassPartition")
WRONG = {
    "alpha": (-0.1, float("nan"), float("inf"), "0.5", None, True),
    "num_clients": (0, -3, 2.0, True, 21),
    "seed": (None, 0.5, "a", -1, True),
}


def test_wrong_options():
    dataset = balanced(2, 20)
    cases = [(kind, field, value) for kind in BOTH for field in WRONG for value in WRONG[field]]
    cases += [("HomogeneousPartition", f, v) for f in ("num_clients", "seed") for v in WRONG[f]]
    cases += [("DirichletClassPartition", "min_samples", v) for v in (0, 2.5, True)]
    cases += [("DirichletClassPartition", "alpha", 0)]
    for kind, field, value in cases:
        options = {"num_clients": 2, "alpha": 1, field: value}
        if kind == "HomogeneousPartition":
            options.pop("alpha")
        with pytest.raises(ConfigError, match=rf"partition\.{field}: .*{value!r}"):
            split(dataset, kind, **options)


def test_data_sets_without_proper_labels():
    for kind in BOTH:
        for labels in (None, [[0, 1]], [], [0.5, 1.0], [0, -1]):
            with pytest.raises(ConfigError, match=r"partition\.type: .*Labeled"):
                split(Labeled(labels), kind, num_clients=1, alpha=1)
