"""Measured curvature as tables."""

import math
from collections.abc import Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

from rich.console import Console

from fedseg.cli import widen_console
from fedseg.runs.history import LARGEST_NUMBER
from fedseg.runs.tables import TextTable

NONE = "—"
ROWS = {
    "loss": ("loss", "loss"),
    "gradient": ("loss", "gradient_norm"),
    "lambda_1": ("top", "lambda_max"),
    "lambda_1 / lambda_5": ("top", "lambda_max_over_lambda5"),
    "trace": ("trace", "trace"),
    "Frobenius": ("trace", "frobenius_norm"),
    "SAM": ("sharpness", "sam"),
    "ASAM": ("sharpness", "asam"),
    "clients' lambda_1: median (quartiles)": ("clients", "quartiles"),
    "participants' lambda_1, own data: mean": ("participants", "lambda_max_local"),
    "participants' lambda_1, all data: mean": ("participants", "lambda_max_global"),
    "H_N": ("fedalign", "hessian_norm_diff"),
    "H_D": ("fedalign", "hessian_direction_cos"),
    "features' norm: mean over classes": ("features", "norm_by_class"),
}


def print_curvature(results: Mapping[str, Mapping[str, Any]]) -> None:
    """Print a column for each checkpoint, and norms of features by class and client.

    Args:
        results: name of a checkpoint -> content of its ``curvature.json``.
    """
    console, quantities = Console(), [result["quantities"] for result in results.values()]
    widen_console(console)
    head = ("", *(f"{name} ({result['checkpoint']})" for name, result in results.items()))
    rows = {"data": [result["data"] for result in results.values()]}
    rows["samples"] = [_count_samples(q) for q in quantities]
    for row, (quantity, key) in ROWS.items():
        rows[row] = [_format(q.get(quantity, {}).get(key)) for q in quantities]
    norms = {}
    for kind, part in (("class", "norm_by_class"), ("client", "of_clients")):
        columns = [q.get("features", {}).get(part) for q in quantities]
        columns = [column if isinstance(column, Mapping) else {} for column in columns]
        for key in dict.fromkeys(chain(*columns)):
            norms[f"{kind} {key}"] = [_format(column.get(key)) for column in columns]
    for title, table in (("curvature", rows), ("norm of the last features, means", norms)):
        kept = tuple((name, *cells) for name, cells in table.items() if set(cells) != {NONE})
        if kept:
            console.print(TextTable(title, head, kept).to_rich())


def _count_samples(quantities: Mapping[str, Any]) -> str:
    counts = [q.get("num_samples") for q in quantities.values()]
    sound = {n for n in counts if isinstance(n, int) and 0 <= n < LARGEST_NUMBER}
    return ", ".join(map(str, sorted(sound))) or NONE


def _format(value: Any) -> str:
    """A number, an estimate, quartiles, or the mean of several; a damaged file's is none."""
    with suppress(TypeError, ValueError, KeyError, IndexError, ArithmeticError):
        if isinstance(value, list):
            return f"{value[2]:.4g} ({value[1]:.4g} to {value[3]:.4g})"
        if isinstance(value, Mapping) and "value" in value:
            error = value["standard_error"]
            return f"{value['value']:.4g}" + (f" ± {error:.2g}" if error is not None else "")
        if isinstance(value, Mapping):
            value = math.fsum(value.values()) / len(value)  # an OverflowError, not infinity
        return f"{value:.4g}"
    return NONE
