"""Alternating runs and the table of what was measured."""

from benchmarks.timing import alternate, as_table, median_ratio, medians


def test_runs_alternate_after_a_warm_up():
    order = []
    sides = {name: lambda name=name: order.append(name) for name in "abc"}
    seconds = alternate(sides, repeats=2)
    assert order == list("abc") * 3
    assert {name: len(values) for name, values in seconds.items()} == {"a": 2, "b": 2, "c": 2}
    assert all(s >= 0 for values in seconds.values() for s in values)


def test_ratios_are_those_of_pairs():
    seconds = {"a": [1.0, 20.0, 3.0], "b": [1.0, 10.0, 1.0]}
    assert median_ratio(seconds, "a", "b") == 2
    assert medians(seconds) == {"a": 3, "b": 1}


def test_table():
    measured = {"device": "cpu", "steps": 40, "ratio": 1.03456, "seconds": {"a": 0.5, "b": 2.0}}
    table = as_table("title", measured)
    assert table.rows == (
        ("device", "cpu"),
        ("steps", "40"),
        ("ratio", "1.035"),
        ("seconds: a", "0.5"),
        ("seconds: b", "2"),
    )
