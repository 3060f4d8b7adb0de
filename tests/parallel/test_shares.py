"""Which worker trains which clients."""

from collections import Counter

import pytest
import torch

from fedseg.core.messages import Exchange
from fedseg.parallel.worker import WorkerJobs, assign, cut, cut_calls, speed_up


def test_blocks_hold_everyone_in_order():
    assert cut([3, 5, 8, 9, 11], 2) == [(3, 5), (8, 9), (11,)]
    assert cut([], 0) == []  # as of an evaluation all of whose images were dropped


def test_small_updates_are_sent_together():
    def sizes(clients, size, megabytes):
        calls = cut_calls(range(clients), size, torch.empty(megabytes << 18), workers=2)
        assert [client for call in calls for client in call] == list(range(clients))
        assert all(len(call) % size == 0 for call in calls[:-1])
        return Counter(map(len, calls))

    assert sizes(100, 1, 1) == {7: 12, 8: 2}  # as many calls for each worker
    assert sizes(1000, 8, 1) == {64: 13, 56: 3}
    assert sizes(100, 1, 4) == {2: 50}  # of 8 MB
    assert sizes(100, 1, 60) == {1: 100}
    assert sizes(10, 1, 1) == {1: 10}
    assert sizes(0, 1, 1) == {}


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_the_longest_go_first_and_nobody_is_forgotten(workers):
    costs = [4, 9, 1, 7, 7, 2, 3, 5]
    shares = assign(costs, workers)
    assert sorted(p for share in shares for p in share) == list(range(8))
    assert all(share == sorted(share) for share in shares)
    loads = [sum(costs[p] for p in share) for share in shares]
    assert max(loads) <= (4 / 3) * max(-(-sum(costs) // workers), max(costs))  # Graham's bound
    assert speed_up(costs, workers) == sum(costs) / max(loads)


def test_a_round_without_steps_is_no_faster():
    assert speed_up([0, 0], 2) == 1


def jobs(**begin):
    rounds = {1: [0, 1, 2, 3], 2: [1, 2], 3: [0, 3]}
    own = {1: [(0,), (2,)], 2: [(2,)], 3: [(0,)]}
    exchanges = [Exchange(), Exchange(full_gradient=True)]
    return WorkerJobs(rounds.get, 1, 3, exchanges, own.get, **begin)


def test_a_worker_knows_its_jobs_of_all_rounds():
    found = [(j.round, j.exchange, j.client, j.full) for j in jobs()]
    assert found[:6] == [
        *((1, 0, 0, False), (1, 0, 2, False)),
        *((1, 1, 0, True), (1, 1, 0, False), (1, 1, 2, True), (1, 1, 2, False)),
    ]
    assert [job[0] for job in found] == [1] * 6 + [2] * 3 + [3] * 3


def test_after_a_block_that_was_taken_over_the_own_ones_follow():
    stolen = (1, 0, (3,))
    done = frozenset([(0,), (3,)])
    assert list(jobs(begin=stolen, done=done).blocks())[:4] == [
        *(stolen, (1, 0, (2,)), (1, 1, (0,)), (1, 1, (2,))),
    ]
    last = (3, 1, (3,))
    assert list(jobs(begin=last, done=frozenset([(0,), (3,)])).blocks()) == [last]
