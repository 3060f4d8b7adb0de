"""Accuracy under corruptions as a table and as a picture."""

from collections.abc import Collection, Mapping
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from fedseg.checks import is_number
from fedseg.errors import DataError
from fedseg.names import CORRUPTIONS
from fedseg.report.drawing import draw_percentages


def corruption_table(
    domains: Mapping[str, Mapping[str, Any]],
) -> dict[str, dict[int | str, float | None]] | None:
    """Accuracy in percent by corruption and severity, from the metrics by domain of a run or test.

    The last row and the last column, ``"mean"``, are means; a mean of which a value is missing is
    None, for one over fewer would not compare. Without a corrupted set there is no table. DataError
    if a corruption has another number of accuracies than there are severities.
    """
    entries = (e for e in domains.values() if isinstance(e.get("corruptions") or None, Mapping))
    entry = next(entries, None)
    if entry is None:
        return None
    rows = entry["corruptions"]
    lengths = [len(values) for values in rows.values() if isinstance(values, list)]
    severities = entry.get("severities") or range(1, 1 + max(lengths, default=0))
    severities = list(severities) if isinstance(severities, list | range) else []
    table: dict[str, dict[int | str, float | None]] = {}
    for name in dict.fromkeys([*(n for n in CORRUPTIONS if n in rows), *rows]):
        if not isinstance(rows[name], list) or len(rows[name]) != len(severities):
            raise DataError(
                f"corruptions.{name}: must have an accuracy for each of {len(severities)} "
                "severities; evaluate again with fedseg test"
            )
        known = (value if is_number(value) else None for value in rows[name])
        row = dict(zip(severities, known, strict=True))
        table[name] = {**row, "mean": _mean(row.values())}
    columns = (*severities, "mean")
    return {**table, "mean": {c: _mean([row[c] for row in table.values()]) for c in columns}}


def _mean(values: Collection[Any]) -> float | None:
    return None if None in values else fmean(values)


def draw_corruptions(
    table: Mapping[str, Mapping[int | str, float | None]], title: str = ""
) -> Figure:
    """Heat map of a :func:`corruption_table` under a title."""
    rows = {_words(name): list(row.values()) for name, row in table.items()}
    columns = [c if c == "mean" else f"severity {c}" for c in table["mean"]]
    return draw_percentages(rows, columns, f"{title}\naccuracy (%)".strip())


def _words(name: str) -> str:
    return name.replace("_", " ").replace("jpeg", "JPEG")
