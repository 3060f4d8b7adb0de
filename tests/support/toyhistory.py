"""``history.jsonl`` files for tests, without training."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

METRIC = "unseen/mIoU"


def record(round_: int, value: float | None = None, **changes: Any) -> dict[str, Any]:
    """The line of a round; with a value of the metric, if it was evaluated."""
    line = {
        "round": round_,
        "participants": [{"client": "a"}],
        "loss": 1 / round_,
        "rejected": [],
        "bytes_down": 100,
        "bytes_up": 50,
        "seconds": {"train": 2.0, "aggregate": 0.5, "evaluate": 1.0},
        **changes,
    }
    return line if value is None else {**line, "metrics": {METRIC: value}}


def write_history(folder: Path, records: Iterable[dict[str, Any]]) -> Path:
    """Write it into a folder; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(line) + "\n" for line in records)
    (folder / "history.jsonl").write_text(lines, encoding="utf-8")
    return folder
