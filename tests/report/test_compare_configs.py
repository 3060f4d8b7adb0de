"""Configs compared key by key."""

from fedseg.report.compare import MISSING, differing, flat


def test_flat_keys():
    config = {
        "model": {"type": "CNN", "sizes": [1, 2], "empty": {}},
        "custom_hooks": [{"type": "A"}, {"type": "B", "more": {"x": 1}}],
        "work_dir": "somewhere",
        "test_dataloader": {"batch_size": 3},
        "randomness": {"seed": 3, "deterministic": True},
    }
    assert flat(config) == {
        "model.type": "CNN",
        "model.sizes": [1, 2],
        "model.empty": {},
        "custom_hooks.0.type": "A",
        "custom_hooks.1.type": "B",
        "custom_hooks.1.more.x": 1,
        "randomness.deterministic": True,
    }


def test_only_what_differs_is_left():
    rows = differing([{"a": 1, "b": [1], "c": None}, {"a": 1.0, "b": [2], "d": "x"}])
    assert rows == {"b": ([1], [2]), "c": (None, MISSING), "d": (MISSING, "x")}
    assert differing([{"a": 1}, {"a": 1}, {"a": 2}]) == {"a": (1, 1, 2)}
