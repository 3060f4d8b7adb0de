"""The model of many workers."""

import pytest
from benchmarks.scaling import Costs, limits, simulate

FREE = Costs(step=0.1, client=0.0, add=0.0, fixed=0.0, dispatch=0.0, network=1e30)


def test_one_worker_takes_the_sum_of_all_costs():
    costs = Costs(step=0.1, client=0.02, add=0.01, fixed=0.5, dispatch=0.001)
    round_ = simulate([3, 5], 1, costs)
    assert round_.seconds == pytest.approx(0.5 + 0.8 + 2 * 0.021 + 0.01)
    assert round_.efficiency == pytest.approx(0.8 / round_.seconds)


def test_equal_clients_are_shared_out_evenly():
    assert simulate([4] * 12, 4, FREE).efficiency == pytest.approx(1)
    assert simulate([4] * 12, 5, FREE).seconds == pytest.approx(3 * 0.4)


def test_large_rounds_travel_in_blocks():
    assert simulate([1] * 128, 128, FREE).seconds == pytest.approx(0.2)  # blocks of two
    assert simulate([1] * 64, 64, FREE).seconds == pytest.approx(0.1)


def test_the_server_adds_one_block_after_the_other():
    slow = Costs(step=0.1, client=0.0, add=1.0, fixed=0.0, dispatch=0.0, machine=64)
    round_ = simulate([1] * 64, 64, slow)
    assert round_.seconds == pytest.approx(64.1, rel=0.01) and round_.server_bound
    tree = Costs(step=0.1, client=0.0, add=1.0, fixed=0.0, dispatch=0.0, machine=64, fan_in=8)
    assert simulate([1] * 64, 64, tree).seconds < 20


def test_what_moves_the_limit():
    found = limits(FREE, 10, 1000)
    assert found["64 blocks"].startswith("64 workers; then the number of blocks")
    assert int(found["one block a participant"].split()[0]) > 256
