"""Few combinations that hold every pair of values: a greedy cover, drawn with a seed."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def pairwise(factors: Mapping[str, Sequence[Any]], seed: int = 0) -> list[dict[str, Any]]:
    """Rows ``{factor: value}`` such that every two values of different factors share a row."""
    rng = np.random.default_rng(seed)
    names = list(factors)
    open_pairs = {
        ((a, i), (b, j))
        for a, b in itertools.combinations(names, 2)
        for i in range(len(factors[a]))
        for j in range(len(factors[b]))
    }
    rows = []
    while open_pairs:
        row = dict(sorted(open_pairs)[int(rng.integers(len(open_pairs)))])
        for name in names:
            if name not in row:
                fixed = list(row.items())
                gains = [
                    sum(_pair(names, (name, i), other) in open_pairs for other in fixed)
                    for i in range(len(factors[name]))
                ]
                best = [i for i, gain in enumerate(gains) if gain == max(gains)]
                row[name] = best[int(rng.integers(len(best)))]
        items = [(name, row[name]) for name in names]
        open_pairs -= set(itertools.combinations(items, 2))
        rows.append({name: factors[name][i] for name, i in items})
    return rows


def _pair(names: list[str], one: tuple[str, int], other: tuple[str, int]) -> tuple:
    return tuple(sorted((one, other), key=lambda item: names.index(item[0])))
