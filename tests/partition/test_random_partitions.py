"""What holds for every random partition: all samples, one split for a seed, clear refusals."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from partitions import Labeled, balanced, check_split, counts, same, split

from fedseg.errors import ConfigError

KINDS = [
    dict(kind="DirichletPartition", alpha=0.3),
    dict(kind="DirichletPartition", alpha=0),
    dict(kind="DirichletClassPartition", alpha=2, min_samples=1),
    dict(kind="HomogeneousPartition"),
    dict(kind="PachinkoPartition"),
]


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_pure_function_of_labels_options_and_seed(options):
    dataset = balanced(4, 400)
    np.random.seed(0)  # noqa: NPY002 - must not matter, and must not move
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first = split(dataset, num_clients=8, seed=3, **options)
    assert np.array_equal(state, np.random.get_state()[1])  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    assert same(first, split(dataset, num_clients=8, seed=3, **options))
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
    clients = [split(dataset, num_clients=50, seed=0, **options) for options in KINDS[:4]]
    digest = [hashlib.sha256(b"".join(i.tobytes() for i in own.values())) for own in clients]
    return "\n".join(["", *(one.hexdigest()[:16] for one in digest), ""])


def test_one_seed_is_one_split_on_every_processor():
    assert digests() == KEPT
    program = "from test_random_partitions import digests; print(end=digests())"
    here = os.path.dirname(os.path.abspath(__file__))
    path = os.pathsep.join([here, os.path.join(here, "..", "support")])
    older = os.environ | {"NPY_DISABLE_CPU_FEATURES": OLDER, "PYTHONPATH": path}
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
        # ids of coarse labels may have gaps
        coarse = rng.integers(0, 4, size=labels.max() + 1) * 7
        dataset = Labeled(labels.astype(kinds[trial % 3]) if trial % 4 else labels.tolist(), coarse)
        occurring = len(set(labels.tolist()))
        number = int(rng.integers(occurring if alpha == 0 else 1, samples + 1))
        clients = split(dataset, "DirichletPartition", num_clients=number, alpha=alpha, seed=trial)
        check_split(clients, dataset, number, equal=alpha > 0)
        if alpha == 0:
            assert ((counts(clients, dataset) > 0).sum(axis=1) == 1).all()
        else:
            beta = float(rng.choice([1e-300, 1e-3, 0.1, 1, 1e9]))
            options = dict(num_clients=number, alpha=alpha, beta=beta, seed=trial)
            check_split(split(dataset, "PachinkoPartition", **options), dataset, number)
        if alpha >= 2 and samples >= 20:
            number = min(number, 3)
            options = dict(num_clients=number, alpha=alpha, seed=trial, min_samples=1)
            clients = split(dataset, "DirichletClassPartition", **options)
            check_split(clients, dataset, number, equal=False)
        check_split(split(dataset, "HomogeneousPartition", num_clients=number), dataset, number)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *(("DirichletPartition", {"alpha": alpha}) for alpha in (5e-324, 0.05, 100)),
        ("DirichletClassPartition", {"alpha": 1e6}),
        *(("HomogeneousPartition", {}), ("PachinkoPartition", {})),
    ],
)
def test_samples_are_drawn_at_random(kind, options):
    """The order of the images must not matter, however far apart the classes' weights are."""
    size = 4000
    dataset = Labeled(np.zeros(size, np.int64), [0])
    for own in split(dataset, kind, num_clients=4, **options).values():
        # the mean of so many indices without replacement
        deviation = np.sqrt((size**2 - 1) / 12 / len(own) * (1 - len(own) / size))
        assert abs(own.mean() - (size - 1) / 2) < 4 * deviation


@pytest.mark.parametrize(
    "kind", ["DirichletPartition", "DirichletClassPartition", "PachinkoPartition"]
)
def test_data_sets_without_proper_labels(kind):
    for labels in (None, [[0, 1]], [], [0.5, 1.0], [0, -1]):
        with pytest.raises(ConfigError, match=r"partition\.type: .*Labeled"):
            split(Labeled(labels, [0, 0]), kind, num_clients=1, alpha=1)


def test_wrong_coarse_labels():
    for coarse_labels in (None, [0, 0], [0.0, 0.5, 1.0], [[0], [0], [1]]):
        with pytest.raises(ConfigError, match=r"partition\.type: .*Labeled\.coarse_labels"):
            split(Labeled([0, 1, 2], coarse_labels), "PachinkoPartition", num_clients=2)


def test_homogeneous_needs_no_labels():
    check_split(split(range(1003), "HomogeneousPartition", num_clients=10), range(1003), 10)
    with pytest.raises(ConfigError, match=r"partition\.num_clients"):
        split(range(1), "HomogeneousPartition", num_clients=2)
