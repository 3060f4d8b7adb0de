"""Rounds of clients that train nothing."""

from benchmarks.parallel import overhead


def test_rounds_of_clients_in_process(tmp_path):
    measured = overhead(tmp_path, 1000, [2], [], 2)
    assert measured["2 clients, in process"]["seconds of a round"] > 0
    assert measured["2 clients, in process"]["main process, MiB"] > 0
    assert measured["2 clients, passes over memory alone, seconds of a round"] > 0
