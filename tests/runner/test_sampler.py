"""Who takes part: pure functions, uniform in the statistics, errors that name the fault."""

from itertools import combinations

import numpy as np
import pytest

from fedseg.errors import ConfigError, DataError
from fedseg.runner.sampler import FixedSampler, RoundSeededSampler, UniformSampler

CLIENTS = [f"c{i}" for i in range(10)]
# upper 0.1 % points of chi-square with 9 and with 44 degrees of freedom
CHI2_9, CHI2_44 = 27.88, 78.75


def uniform(count, seed=0, clients=CLIENTS):
    sampler = UniformSampler(count)
    sampler.bind(clients, seed)
    return sampler


def chi_square(counts: np.ndarray, expected: float) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


def test_pure_function_of_seed_and_round():
    forwards = [uniform(3).participants(r) for r in range(1, 30)]
    sampler = uniform(3)
    backwards = [sampler.participants(r) for r in reversed(range(1, 30))][::-1]
    assert forwards == backwards
    assert forwards != [uniform(3, seed=1).participants(r) for r in range(1, 30)]


def test_without_replacement_ascending_plain_integers():
    for round_ in range(1, 200):
        chosen = uniform(4).participants(round_)
        assert len(set(chosen)) == 4 and chosen == sorted(chosen)
        assert all(type(c) is int and 0 <= c < 10 for c in chosen)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_client_is_equally_likely(seed):
    rounds = 4000
    counts = np.zeros(10)
    sampler = uniform(3, seed)
    for round_ in range(1, rounds + 1):
        counts[sampler.participants(round_)] += 1
    # within a round draws exclude each other: the statistic shrinks by (K - 1) / (K - n)
    assert chi_square(counts, rounds * 0.3) * 9 / 7 < CHI2_9


def test_every_pair_is_equally_likely():
    rounds = 9000
    position = {pair: i for i, pair in enumerate(combinations(range(10), 2))}
    counts = np.zeros(len(position))
    sampler = uniform(2)
    for round_ in range(1, rounds + 1):
        counts[position[tuple(sampler.participants(round_))]] += 1
    assert chi_square(counts, rounds / 45) < CHI2_44


def test_neighboring_rounds_are_independent():
    sampler = uniform(5)
    overlaps = [
        len(set(sampler.participants(r)) & set(sampler.participants(r + 1)))
        for r in range(1, 4000, 2)
    ]
    assert abs(np.mean(overlaps) - 2.5) < 5 * 0.833 / np.sqrt(len(overlaps))


def test_all_clients():
    assert uniform("all").participants(7) == list(range(10))
    assert uniform(10).participants(7) == list(range(10))


def fixed(**kwargs):
    sampler = FixedSampler(**kwargs)
    sampler.bind(CLIENTS, 0)
    return sampler


ROUNDS = [["c3", "c1"], ["c0"]]


def test_fixed_list():
    sampler = fixed(participants=ROUNDS)
    assert [sampler.participants(r) for r in (1, 2)] == [[1, 3], [0]]
    with pytest.raises(ConfigError, match=r"given for 2 rounds.*round 3.*repeat"):
        sampler.participants(3)
    repeating = fixed(participants=ROUNDS, repeat=True)
    assert [repeating.participants(r) for r in (3, 4, 5)] == [[1, 3], [0], [1, 3]]


def test_integer_ids_are_compared_as_text():
    sampler = FixedSampler(participants=[[1, 0]])
    sampler.bind(["0", "1"], 0)
    assert sampler.participants(1) == [0, 1]


@pytest.mark.parametrize(
    ("participants", "message"),
    [
        ([["c0", "c0"]], "round 1 names a client twice"),
        ([["c0"], ["who"]], "round 2 names unknown client 'who'"),
        ([[0, 1]], "unknown client '0'"),
    ],
)
def test_wrong_lists(participants, message):
    with pytest.raises(ConfigError, match=message):
        fixed(participants=participants)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("plan.json", "{not json"),
        ("plan.json", '{"rounds": 3}'),
        ("plan.json", "\xff"),
        ("history.jsonl", '{"round": 1}\n'),
        ("history.jsonl", "[1]\n"),
        ("history.jsonl", '{"round": 1, "participants": [{"client": "c0"}]}\n{"rou'),
    ],
)
def test_files_that_are_no_plan(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(DataError, match=name):
        fixed(file=str(path))


def test_missing_file(tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.json does not exist"):
        FixedSampler(file=str(tmp_path / "nowhere.json"))


def test_feddrives_draws():
    """Rounds count from 0 there; NumPy's legacy generator gives these clients in any version."""
    clients = [f"c{i}" for i in range(69)]
    for seed in (0, 1):
        sampler = RoundSeededSampler(5)
        sampler.bind(clients, seed)
        for round_ in (1, 2, 17, 1600):
            np.random.seed(round_ - 1)  # noqa: NPY002
            expected = np.random.choice(clients, 5, replace=False)  # noqa: NPY002
            assert [clients[c] for c in sampler.participants(round_)] == sorted(
                expected, key=clients.index
            )
