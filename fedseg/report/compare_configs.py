"""What differs between the configs of runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedseg.runs.results import NOT_IDENTITY

# The seed has a column of its own; no metric of a run depends on what tools/test.py does.
LEFT_OUT = (*NOT_IDENTITY, "randomness.seed", "test_cfg", "test_dataloader", "test_evaluator")


class Missing:
    """The value of a key that a config does not have."""

    def __repr__(self) -> str:
        return "—"


MISSING = Missing()


def flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted key, ``{"model.type": "CNN", "param_scheduler.0.type": ...}``.

    A list is one value unless it holds dicts. What does not change a run is left out.
    """
    found: dict[str, Any] = {}
    _flatten("", config, found)
    return found


def _flatten(key: str, value: Any, found: dict[str, Any]) -> None:
    if key in LEFT_OUT:
        return
    if isinstance(value, list | tuple) and any(isinstance(inner, Mapping) for inner in value):
        value = dict(enumerate(value))
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            _flatten(f"{key}.{name}" if key else name, inner, found)
    elif key:
        found[key] = list(value) if isinstance(value, tuple) else value


def differing(configs: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """The keys in which flat configs differ, sorted: a value of each, or :data:`MISSING`."""
    keys = sorted({key for config in configs for key in config})
    values = {key: tuple(config.get(key, MISSING) for config in configs) for key in keys}
    return {key: row for key, row in values.items() if any(v != row[0] for v in row[1:])}
