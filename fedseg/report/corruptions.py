"""Accuracy under corruptions as a table."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from fedseg.errors import DataError
from fedseg.names import CORRUPTIONS

MEAN = "mean"


def corruption_label(name: str) -> str:
    """Write the name of a corruption for the reader."""
    return name.replace("_", " ").replace("jpeg", "JPEG")


def corruption_table(domains: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame | None:
    """Tabulate accuracy in percent by corruption (rows) and severity (columns).

    The last row and the last column, ``"mean"``, are means; a mean of which a value is missing is
    NaN, for one over fewer would not compare.

    Args:
        domains: metrics by domain of a run or a test.

    Returns:
        The table, None without a corrupted test set.

    Raises:
        DataError: a corruption has another number of accuracies than there are severities.
    """
    entries = [e for e in domains.values() if isinstance(e.get("corruptions") or None, Mapping)]
    if not entries:
        return None
    rows = entries[0]["corruptions"]
    severities = entries[0].get("severities")
    if not isinstance(severities, list):
        lengths = [len(values) for values in rows.values() if isinstance(values, list)]
        severities = list(range(1, 1 + max(lengths, default=0)))
    for name, values in rows.items():
        if not isinstance(values, list) or len(values) != len(severities):
            raise DataError(
                f"corruptions.{name}: must have an accuracy for each of {len(severities)} "
                "severities; evaluate again with fedseg test"
            )
    known = [name for name in CORRUPTIONS if name in rows]
    names = [*known, *(name for name in rows if name not in known)]
    accuracies = [rows[name] for name in names]
    table = pd.DataFrame(accuracies, names, severities).apply(pd.to_numeric, errors="coerce")
    table[MEAN] = table.mean(axis=1, skipna=False)
    table.loc[MEAN] = table.mean(skipna=False)
    return table
