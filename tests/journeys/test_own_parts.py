"""The pages on parts of one's own, from `fedseg new` to a run."""

import given
from walk import walk


def test_own_algorithm(terminal):
    walk(terminal, "docs/own_algorithm.md", {})


def test_own_local_loss(terminal):
    given.shapes(terminal.folder)
    walk(terminal, "docs/own_local_loss.md", {})


def test_own_model(terminal, small_config):
    given.streets(small_config, terminal.folder / "data" / "demo_weather")
    walk(terminal, "docs/own_model.md", {})


def test_own_metric(terminal):
    given.shapes(terminal.folder)
    walk(terminal, "docs/own_metric.md", {})


def test_every_part_at_once(terminal):
    walk(terminal, "docs/extending.md", {})
