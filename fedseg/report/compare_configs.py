"""What differs between the configs of runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedseg.runs.results import NOT_IDENTITY

# The seed has a column of its own; no metric of a run depends on what tools/test.py does.
LEFT_OUT = (*NOT_IDENTITY, "randomness.seed", "test_cfg", "test_dataloader", "test_evaluator")
MISSING = "—"  # in place of a value, where a config has no such key


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Values by dotted key, as ``param_scheduler.0.type``, without those that do not change a run.

    A list is one value unless it holds dicts.
    """
    found: dict[str, Any] = {}
    for name, value in config.items():
        key = f"{prefix}{name}"
        if isinstance(value, list | tuple) and any(isinstance(inner, Mapping) for inner in value):
            value = dict(enumerate(value))
        if key in LEFT_OUT:
            continue
        if isinstance(value, Mapping) and value:
            found |= flat(value, f"{key}.")
        else:
            found[key] = list(value) if isinstance(value, tuple) else value
    return found


def differing(configs: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """The keys in which flat configs differ, sorted: a value of each, or :data:`MISSING`."""
    keys = sorted({key for config in configs for key in config})
    values = {key: tuple(config.get(key, MISSING) for config in configs) for key in keys}
    return {key: row for key, row in values.items() if any(v != row[0] for v in row[1:])}
