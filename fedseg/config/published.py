"""Hyperparameters as papers print and search them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

from fedseg.config.layers import get

FILE = resources.files("fedseg.config") / "hyperparameters.json"
RECORDS: Sequence[Mapping[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["records"]
TUNED = ("optim_wrapper.", "algorithm.", "local_loss.")  # keys of what is tuned


def far_from_published(config: Mapping[str, Any]) -> Iterator[str]:
    """A message for each tuned number of a config, far outside what papers print and search.

    Far is a hundred times below the lowest or above the highest for the key, in any setting.
    """
    ranges: dict[str, list[float]] = {}
    for record in RECORDS:
        grid = record.get("grid", {})
        for key, values in (*record.get("values", {}).items(), *grid.items()):
            for n in values if isinstance(values, list) else [values]:
                if key.startswith(TUNED) and type(n) in (int, float) and n > 0:
                    ranges.setdefault(key, []).append(n)
    for key, known in ranges.items():
        value = get(config, key)
        tuned = type(value) in (int, float) and value > 0
        if tuned and not min(known) / 100 <= value <= max(known) * 100:
            yield f"{key}: {value:g} is far outside the published {min(known):g} to {max(known):g}"


def source_of_values(setting: str, methods: Sequence[str]) -> str:
    """The source of the values of a setting with methods: published, grid or ours."""
    wanted = [] if list(methods) == ["fedavg"] else list(methods)
    fitting = [r for r in RECORDS if setting in r["settings"] and r["methods"] == wanted]
    if any("grid" in record for record in fitting):
        return "grid"
    return "published" if fitting and not any("ours" in record for record in fitting) else "ours"
