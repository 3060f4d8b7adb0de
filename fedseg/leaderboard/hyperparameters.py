"""Which settings and methods have published hyper-parameters; values are in ``reference``."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from fedseg.leaderboard.reference import read_json


@cache
def published() -> tuple[dict[str, Any], ...]:
    """The records of published hyper-parameters."""
    return tuple(read_json("hyperparameters.json")["records"])


def source(setting: str, methods: Sequence[str]) -> str:
    """Where the values of a setting with methods come from: published, grid or ours."""
    wanted = [] if list(methods) == ["fedavg"] else list(methods)
    fitting = [r for r in published() if setting in r["settings"] and r["methods"] == wanted]
    if any("grid" in record for record in fitting):
        return "grid"
    return "published" if fitting else "ours"
