"""``history.jsonl``: one line of JSON a round."""

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedseg.errors import ConfigError
from fedseg.files import write_text


def plain(value: Any) -> Any:
    """The value as JSON takes it: a non-finite float is None, an array a list."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, torch.Tensor | np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is not None and not isinstance(value, str | int | float):
        raise ConfigError(
            f"a hook or metric left a {type(value).__name__} in the history: give numbers, text, "
            "lists or dicts"
        )
    return value


class History:
    """The lines of a run's rounds.

    A line is the file system's as soon as its round ends, so that a kill does not lose it. What a
    checkpoint builds on is on the disk before the checkpoint is: see :meth:`sync`.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, record: dict[str, Any]) -> None:
        """Add the line of a round."""
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(plain(record), allow_nan=False) + "\n")

    def sync(self) -> None:
        """Wait until every line is on the disk; too slow, milliseconds, for every short round."""
        if self.path.is_file():
            with open(self.path, "ab") as file:
                os.fsync(file.fileno())

    def read(self) -> list[dict[str, Any]]:
        """All records; a last line that a kill cut off is left out."""
        if not self.path.is_file():
            return []
        records = []
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError:
                break
        return records

    def truncate(self, last_round: int) -> None:
        """Drop the lines after a round (and a cut-off one): they will be written again."""
        if not self.path.is_file():
            return
        kept = [r for r in self.read() if r["round"] <= last_round]
        write_text(self.path, "".join(json.dumps(r) + "\n" for r in kept))
