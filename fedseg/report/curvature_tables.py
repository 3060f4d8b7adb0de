"""Measured curvature as a table."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from fedseg.cli import widen_console
from fedseg.report.tables import TextTable

NONE = "—"
# row -> quantity, the field in it, and the field of its standard error
ROWS = {
    "loss": ("loss", "loss", ""),
    "gradient": ("loss", "gradient_norm", ""),
    "lambda_1": ("top", "lambda_max", ""),
    "lambda_1 / lambda_5": ("top", "lambda_max_over_lambda5", ""),
    "trace": ("trace", "trace", "standard_error"),
    "Frobenius": ("trace", "frobenius_norm", "standard_error"),
    "SAM": ("sharpness", "sam", ""),
    "ASAM": ("sharpness", "asam", ""),
    "clients' lambda_1: median (quartiles)": ("clients", "quartiles", ""),
    "H_N": ("fedalign", "hessian_norm_diff", "standard_error"),
    "H_D": ("fedalign", "hessian_direction_cos", "standard_error"),
}


def curvature_table(found: Sequence[tuple[Path, Mapping[str, Any]]]) -> TextTable:
    """A column for each checkpoint; ``found``: its path and the content of ``curvature.json``."""
    results = [result for _, result in found]
    rows = [
        ("data", *(f"{r['data']}, {r['num_samples']:,} samples" for r in results)),
        *(
            (name, *(_text(r["quantities"], *where) for r in results))
            for name, where in ROWS.items()
        ),
    ]
    head = ("", *(f"{path} ({result['checkpoint']})" for path, result in found))
    kept = tuple(row for row in rows if set(row[1:]) != {NONE})
    return TextTable("curvature", head, kept)


def _text(quantities: Mapping[str, Any], quantity: str, field: str, error: str) -> str:
    value = quantities.get(quantity, {}).get(field)
    if value is None:
        return NONE
    if field == "quartiles":
        return f"{value[2]:.4g} ({value[1]:.4g} to {value[3]:.4g})"
    if isinstance(value, Mapping):
        return f"{value['value']:.4g} ± {value[error]:.2g}"
    return f"{value:.4g}"


def print_curvature(
    found: Sequence[tuple[Path, Mapping[str, Any]]], console: Console | None = None
) -> None:
    """Print the table; where standard output is no terminal, wide enough for each row."""
    console = console or Console()
    widen_console(console)
    console.print(curvature_table(found).to_rich())
