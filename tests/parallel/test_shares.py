"""Which worker trains which clients."""

import pytest

from fedseg.core.messages import Exchange
from fedseg.parallel.executor import RayExecutor
from fedseg.parallel.worker import WorkerJobs, assign, cut


def test_blocks_hold_everyone_in_order():
    assert cut([3, 5, 8, 9, 11], 2) == [(3, 5), (8, 9), (11,)]
    assert cut([], 0) == []  # as of an evaluation all of whose images were dropped


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_the_longest_go_first_and_nobody_is_forgotten(workers):
    costs = [4, 9, 1, 7, 7, 2, 3, 5]
    shares = assign(costs, workers)
    assert sorted(p for share in shares for p in share) == list(range(8))
    assert all(share == sorted(share) for share in shares)
    loads = [sum(costs[p] for p in share) for share in shares]
    assert max(loads) <= (4 / 3) * max(-(-sum(costs) // workers), max(costs))  # Graham's bound


def jobs(**begin):
    participants = {1: [0, 1, 2, 3], 2: [1, 2], 3: [0, 3]}
    share = {1: [(0,), (2,)], 2: [(2,)], 3: [(0,)]}
    return WorkerJobs(
        participants=participants.get,
        first=1,
        last=3,
        exchanges=[Exchange(), Exchange(full_gradient=True)],
        share=share.get,
        **begin,
    )


def test_a_worker_knows_its_jobs_of_all_rounds():
    known = [(job.round, job.exchange, job.client, job.full) for job in jobs()]
    assert known[:2] == [(1, 0, 0, False), (1, 0, 2, False)]
    assert known[2:4] == [(1, 1, 0, True), (1, 1, 0, False)]
    assert known[4:6] == [(1, 1, 2, True), (1, 1, 2, False)]
    assert [job[0] for job in known] == [1] * 6 + [2] * 3 + [3] * 3


def test_a_new_worker_begins_with_the_block_of_the_lost_one():
    assert list(jobs(begin=(1, 0, (2,))).blocks())[:3] == [(1, 0, (2,)), (1, 1, (0,)), (1, 1, (2,))]
    assert list(jobs(begin=(3, 1, (0,))).blocks()) == [(3, 1, (0,))]


@pytest.mark.parametrize(
    ("per_worker", "available", "gpus"),
    [(None, 4, 1.0), (None, 1, 0.5), (None, 0, 0.0), (0.25, 4, 0.25), (0, 4, 0)],
)
def test_workers_share_the_gpus(per_worker, available, gpus):
    executor = RayExecutor(num_workers=2, gpus_per_worker=per_worker)
    assert executor.gpus(available) == gpus
