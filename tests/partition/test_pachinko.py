"""Pachinko allocation: a slow transcription, and the split of CIFAR-100 that the papers use."""

import numpy as np
import pytest
from partitions import Labeled, check_split, counts
from partitions import split as split_by


@pytest.fixture(scope="module")
def cifar100():
    """500 images per class, 5 classes a superclass, neither in any order."""
    rng = np.random.default_rng(0)
    return Labeled(
        rng.permutation(np.repeat(np.arange(100), 500)),
        rng.permutation(np.repeat(np.arange(20), 5)),
    )


def split(dataset, **options):
    return split_by(dataset, "PachinkoPartition", **options)


def coarse_counts(table: np.ndarray, coarse_labels) -> np.ndarray:
    """Images of each coarse label [clients, coarse], from those of each class."""
    coarse = np.asarray(coarse_labels)
    return np.stack([table[..., coarse == c].sum(axis=-1) for c in np.unique(coarse)], axis=-1)


def test_cifar100_as_published(cifar100):
    clients = split(cifar100)
    check_split(clients, cifar100, 500)
    assert all(len(i) == 100 for i in clients.values())
    table = counts(clients, cifar100)
    assert (table.sum(axis=0) == 500).all()
    coarse = coarse_counts(table, cifar100.coarse_labels)
    # Expected number of coarse labels among 100 draws with replacement from Dir(0.1, ..., 0.1):
    # 20 (1 - E[(1 - p)^100]), p ~ Beta(0.1, 1.9); coarse labels run out late.
    draws = np.arange(100)
    none = np.prod((1.9 + draws) / (2.0 + draws))
    assert (coarse > 0).sum(axis=1)[:250].mean() == pytest.approx(20 * (1 - none), abs=0.4)
    assert (coarse > 0).sum(axis=1).mean() < 8
    # within a coarse label the fine ones are nearly even, in contrast to Dir(0.1)
    fine = table[:, cifar100.coarse_labels == cifar100.coarse_labels[0]]
    many = fine[fine.sum(axis=1) >= 40]
    assert ((many > 0).sum(axis=1) >= 4).mean() > 0.9


def reddi_one_image_at_a_time(labels, coarse_labels, num_clients, alpha, beta, rng):
    """Images of each class [clients, classes]: the algorithm of the paper, image by image."""
    tree = {}  # coarse label -> fine label -> images
    for image, fine in enumerate(labels):
        tree.setdefault(coarse_labels[fine], {}).setdefault(fine, []).append(image)
    table = np.zeros((num_clients, len(coarse_labels)))
    for client in range(num_clients):
        root = dict(zip(tree, rng.dirichlet([alpha] * len(tree)), strict=True))
        mixes = {
            coarse: dict(zip(tree[coarse], rng.dirichlet([beta] * len(tree[coarse])), strict=True))
            for coarse in tree
        }
        for _ in range(len(labels) // num_clients):
            coarse = choose(root, rng)
            fine = choose(mixes[coarse], rng)
            images = tree[coarse][fine]
            images.pop(rng.integers(len(images)))
            table[client, fine] += 1
            if not images:
                del tree[coarse][fine], mixes[coarse][fine]
                renormalize(mixes[coarse])
            if not tree[coarse]:
                del tree[coarse], root[coarse]
                renormalize(root)
    return table


def choose(mix, rng):
    return list(mix)[rng.choice(len(mix), p=list(mix.values()))]


def renormalize(mix):
    total = sum(mix.values())
    for node in mix:
        mix[node] /= total


def test_same_distribution_as_a_slow_transcription():
    labels = [0] * 30 + [1] * 6 + [2] * 14 + [3] * 20 + [4] * 2 + [5] * 24
    coarse_labels = [0, 0, 1, 1, 2, 2]
    dataset = Labeled(labels, np.array(coarse_labels))
    rng = np.random.default_rng(2)
    options = dict(num_clients=8, alpha=0.4, beta=2.0)
    fast = [counts(split(dataset, seed=s, **options), dataset) for s in range(600)]
    slow = [reddi_one_image_at_a_time(labels, coarse_labels, 8, 0.4, 2.0, rng) for _ in range(300)]

    def statistics(tables):
        tables = np.array(tables, float)
        fine = (tables > 0).sum(axis=2)
        coarse = (coarse_counts(tables, coarse_labels) > 0).sum(axis=2)
        ends = [t for number in (fine, coarse) for t in (number[:, 0], number[:, -1])]
        classes = [tables[:, k, c] for k in (0, 4, 7) for c in range(6)]
        return np.stack([fine.mean(axis=1), coarse.mean(axis=1), *ends, *classes])

    one, two = statistics(fast), statistics(slow)
    error = np.sqrt(one.var(axis=1) / one.shape[1] + two.var(axis=1) / two.shape[1])
    assert (np.abs(one.mean(axis=1) - two.mean(axis=1)) < 4 * error + 1e-9).all()
