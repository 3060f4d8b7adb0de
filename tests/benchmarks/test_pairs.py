"""Alternating runs and the table of their figures."""

import json

from benchmarks.pairs import compare, show


def test_runs_alternate_after_a_warm_up():
    order = []
    sides = {name: lambda name=name: order.append(name) for name in "abc"}
    seconds = compare(sides, repeats=2)
    assert order == list("abc") * 3
    assert {name: len(values) for name, values in seconds.items()} == {"a": 2, "b": 2, "c": 2}
    assert all(s >= 0 for values in seconds.values() for s in values)


def test_figures_as_table_and_json(tmp_path, capsys):
    figures = {"device": "cpu", "steps": 40, "ratio": 1.03456, "seconds": {"a": 0.5, "b": 2.0}}
    show("title", figures, tmp_path / "figures.json")
    printed = capsys.readouterr().out
    for text in ("title", "device", "cpu", "40", "1.035", "seconds: a", "0.5"):
        assert text in printed
    assert json.loads((tmp_path / "figures.json").read_text()) == figures
