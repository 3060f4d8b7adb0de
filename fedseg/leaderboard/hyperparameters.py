"""Which settings and methods have published hyper-parameters; values are in ``reference``."""

import functools
import json
from collections.abc import Sequence
from importlib import resources
from typing import Any


@functools.cache
def published() -> tuple[dict[str, Any], ...]:
    """The records of published hyper-parameters."""
    file = resources.files("fedseg.leaderboard.reference") / "hyperparameters.json"
    return tuple(json.loads(file.read_text(encoding="utf-8"))["records"])


def source(setting: str, methods: Sequence[str]) -> str:
    """Where the values of a setting with methods come from: published, grid or ours."""
    wanted = [] if list(methods) == ["fedavg"] else list(methods)
    fitting = [r for r in published() if setting in r["settings"] and r["methods"] == wanted]
    if any("grid" in record for record in fitting):
        return "grid"
    return "published" if fitting else "ours"
