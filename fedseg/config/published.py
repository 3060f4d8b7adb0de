"""Hyperparameters as papers print and search them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from fedseg.checks import is_number

TUNED = ("optim_wrapper.", "algorithm.", "local_loss.")  # keys of what is tuned


@cache
def hyperparameters() -> Sequence[Mapping[str, Any]]:
    """The records of published hyperparameters."""
    file = resources.files("fedseg.config") / "hyperparameters.json"
    return json.loads(file.read_text(encoding="utf-8"))["records"]


def far_from_published(values: Mapping[str, Any]) -> Iterator[str]:
    """A message for each tuned number, by its config key, far outside what papers print and search.

    Far is a hundred times below the lowest or above the highest for the key, in any setting.
    """
    ranges: dict[str, list[float]] = {}
    for record in hyperparameters():
        grid = record.get("grid", {})
        for key, found in (*record.get("values", {}).items(), *grid.items()):
            numbers = found if isinstance(found, list) else [found]
            ranges.setdefault(key, []).extend(n for n in numbers if is_number(n) and n > 0)
    for key, value in values.items():
        known = ranges.get(key) if key.startswith(TUNED) and is_number(value) else None
        if known and value > 0 and not min(known) / 100 <= value <= max(known) * 100:
            yield f"{key}: {value:g} is far outside the published {min(known):g} to {max(known):g}"


def source_of_values(setting: str, methods: Sequence[str]) -> str:
    """Where the values of a setting with methods come from: published, grid or ours."""
    wanted = [] if list(methods) == ["fedavg"] else list(methods)
    fitting = [r for r in hyperparameters() if setting in r["settings"] and r["methods"] == wanted]
    if any("grid" in record for record in fitting):
        return "grid"
    return "published" if fitting and not any("ours" in record for record in fitting) else "ours"
