"""What ``tools/curvature.py`` or the ``CurvatureHook`` left in a run's folder.

It may come from anyone: what has another form than expected counts as not measured.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedseg.errors import DataError
from fedseg.runs.from_json import LARGEST_NUMBER, load_json, own_path
from fedseg.runs.metric_names import is_number
from fedseg.runs.schema import Results

FILE_NAME = "curvature.json"
CURVATURE = "curvature"  # key of the results' extras


def with_curvature(results: Results, folder: Path) -> Results:
    """The results with the quantities of the last round's ``curvature.json`` in their extras.

    Without one, the last value of the ``CurvatureHook``'s is there.

    Raises:
        DataError: the file is damaged, or of another run.
    """
    found = results.extras.get(CURVATURE)
    values = found.get("lambda_max") if isinstance(found, Mapping) else None
    last = values[-1] if isinstance(values, list) and values else None
    quantities = {"top": {"lambda_max": last}}
    name = f"{CURVATURE}/round_{results.completed_rounds:06d}/{FILE_NAME}"
    if (folder / name).exists():
        found = load_json(own_path(folder, name))
        if not isinstance(found, dict) or not isinstance(found.get("quantities"), dict):
            raise DataError(f"{folder / name}: quantities: must be an object")
        if found.get("config_sha256") != results.config_sha256:
            raise DataError(f"{folder / name}: config_sha256: is of another run than results.json")
        quantities |= found["quantities"]
    return replace(results, extras={**results.extras, CURVATURE: quantities})


def measured_value(quantities: Any, name: str) -> float | None:
    """``<quantity>/<value>`` as a number: of estimates the value, of several clients the mean."""
    value = {"": quantities}
    for key in ("", *name.split("/")):
        value = value.get(key) if isinstance(value, Mapping) else None
    if isinstance(value, Mapping):
        values = [value["value"]] if "value" in value else list(value.values())
        return sum(values) / len(values) if values and all(map(_is_finite, values)) else None
    return float(value) if _is_finite(value) else None


def eigenvalues(quantities: Any, most: int) -> list[float]:
    """So many of the largest Hessian eigenvalues, the largest first; none if not measured."""
    for name in ("spectrum", "top"):
        found = quantities.get(name) if isinstance(quantities, Mapping) else None
        values = found.get("eigenvalues") if isinstance(found, Mapping) else None
        if isinstance(values, list) and all(map(_is_finite, values)):
            return values[:most]
    return []


def _is_finite(value: Any) -> bool:
    return is_number(value) and abs(value) < LARGEST_NUMBER
