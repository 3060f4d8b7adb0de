"""Dirichlet partitions: published values, a slow transcription, and what every split must hold."""

import numpy as np
import pytest
from partitions import Labeled, balanced, check_split, counts, same
from partitions import split as split_by

from fedseg.errors import ConfigError


def split(dataset, kind="DirichletPartition", **options):
    return split_by(dataset, kind, **options)


def mean_classes(clients, dataset) -> float:
    return float((counts(clients, dataset) > 0).sum(axis=1).mean())


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


def test_exhausted_classes_are_replaced_by_what_is_left():
    # every client wants one class, and there are more clients than the classes can serve
    dataset = Labeled([0] * 9 + [1] * 2 + [2] * 1)
    clients = split(dataset, num_clients=3, alpha=1e-12)
    check_split(clients, dataset, 3)
    assert (counts(clients, dataset) > 0).sum(axis=1).max() > 1


def test_a_class_that_runs_out_of_uniform_mixes_is_warned_about(recwarn):
    split(balanced(10, 1000), num_clients=20, alpha=1e6)
    split(Labeled([0] * 900 + [1] * 100), num_clients=10, alpha=0.5)  # skew is what it is for
    assert not recwarn
    with pytest.warns(UserWarning, match=r"partition\.alpha: the last \d+ of 10 .*Homogeneous"):
        split(Labeled([0] * 900 + [1] * 100), num_clients=10, alpha=1e6)


def test_alpha_zero_assigns_clients_by_size():
    table = counts(split(balanced(10, 1000), num_clients=20, alpha=0), balanced(10, 1000))
    assert ((table > 0).sum(axis=0) == 2).all() and (table.sum(axis=1) == 50).all()
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


@pytest.mark.parametrize(
    ("rule", "deviation", "largest", "classes"), [(False, 1270, 5901, 9.7), (True, 832, 4705, 8.6)]
)
def test_clients_that_have_their_share_get_no_more(rule, deviation, largest, classes):
    """FedAlign's 16 clients of CIFAR-10: means over 200 seeds of its released code."""
    dataset = balanced(10, 50000)
    options = dict(num_clients=16, alpha=0.5, balanced=rule)
    splits = [split(dataset, "DirichletClassPartition", seed=s, **options) for s in range(30)]
    tables = np.array([counts(clients, dataset) for clients in splits])
    sizes = tables.sum(axis=2)
    assert (sizes.sum(axis=1) == 50000).all()
    assert sizes.std(axis=1).mean() == pytest.approx(deviation, rel=0.1)
    assert sizes.max(axis=1).mean() == pytest.approx(largest, rel=0.1)
    assert (tables > 0).sum(axis=2).mean() == pytest.approx(classes, abs=0.2)


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


def test_class_splits_without_a_solution():
    dataset = balanced(10, 1000)
    with pytest.raises(ConfigError, match=r"partition\.min_samples: 20 clients of 51.*1000"):
        split(dataset, "DirichletClassPartition", num_clients=20, alpha=1, min_samples=51)
    # ten classes, each whole with one client, cannot serve twenty
    with pytest.raises(ConfigError, match=r"partition\.alpha: .*20 clients"):
        split(dataset, "DirichletClassPartition", num_clients=20, alpha=1e-4)


# ---- label maps


class Pixels:
    """Label maps as far as a partition sees them."""

    def __init__(self, counts) -> None:
        self.counts = np.asarray(counts)

    def __len__(self) -> int:
        return len(self.counts)

    def class_pixels(self) -> np.ndarray:
        return self.counts


@pytest.mark.parametrize("alpha", [0.1, 1, 20])
def test_images_of_one_class_each_are_divided_as_labels(alpha):
    dataset = balanced(4, 200)
    pixels = Pixels(37 * np.eye(6, dtype=int)[dataset.labels])  # two classes that nothing has
    options = dict(num_clients=7, alpha=alpha, seed=5)
    assert same(split(Pixels(pixels.counts), **options), split(dataset, **options))


def test_pixel_mixes_are_those_of_a_slow_transcription():
    counts = np.random.default_rng(0).integers(0, 50, (24, 3)) * [1, 1, 5]
    shares = counts / counts.sum(axis=1, keepdims=True)
    drawn, slow = np.zeros((2, 3)), np.zeros((2, 3))
    rng = np.random.default_rng(1)
    for seed in range(400):
        clients = split(Pixels(counts), num_clients=2, alpha=0.5, seed=seed)
        first = np.sort(shares[clients["0"]].mean(axis=0))
        drawn += [first, first**2]
        mix, rest = rng.dirichlet([0.5 / 3] * 3), list(range(24))
        held = []
        for _ in range(12):
            weights = np.array([shares[i] @ (mix / shares.sum(axis=0)) for i in rest]) + 1e-300
            held.append(rest.pop(rng.choice(len(rest), p=weights / weights.sum())))
        first = np.sort(shares[held].mean(axis=0))
        slow += [first, first**2]
    mean, error = slow[0] / 400, np.sqrt((slow[1] / 400 - (slow[0] / 400) ** 2) / 200)
    assert (abs(drawn[0] / 400 - mean) < 4 * error).all()


def test_label_maps_without_pixels_and_alpha_zero():
    blank = Pixels(np.eye(5, 3, dtype=int))  # the last two images are void
    clients = split(blank, num_clients=2, alpha=0.1)
    assert sorted(np.concatenate([*clients.values()])) == [0, 1, 2, 3, 4]
    assert len(split(Pixels(np.zeros((4, 3), int)), num_clients=2, alpha=1)) == 2
    with pytest.raises(ConfigError, match=r"partition\.alpha: must be above 0 for label maps"):
        split(blank, num_clients=2, alpha=0)


def test_sizes_by_dirichlet():
    dataset = balanced(4, 400)
    options = dict(kind="SizePartition", num_clients=8)
    clients = split(dataset, alpha=0.3, min_samples=5, **options)
    check_split(clients, dataset, 8, equal=False)
    sizes = [len(held) for held in clients.values()]
    assert min(sizes) >= 5 and max(sizes) > 100
    assert same(clients, split(dataset, alpha=0.3, min_samples=5, **options))
    assert {len(h) for h in split(dataset, alpha=1e8, **options).values()} == {50}
    assert [len(h) for h in split(dataset, alpha=1, min_samples=50, **options).values()] == [50] * 8
    with pytest.raises(ConfigError, match=r"partition\.num_clients: 8 clients of 51"):
        split(dataset, alpha=1, min_samples=51, **options)
