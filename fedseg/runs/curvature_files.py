"""What ``tools/curvature.py`` or the ``CurvatureHook`` left in a run's folder.

It may come from anyone: what has another form than expected is left out.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedseg.runs.metric_names import is_number
from fedseg.runs.schema import Results

FILE_NAME = "curvature.json"
CURVATURE = "curvature"  # key of the results' extras


def with_curvature(results: Results, folder: Path) -> Results:
    """The results with the quantities of the last round's ``curvature.json`` in their extras."""
    name = f"round_{results.completed_rounds:06d}"
    try:
        found = json.loads((folder / "curvature" / name / FILE_NAME).read_text(encoding="utf-8"))
        quantities = found["quantities"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        quantities = _of_hook(results.extras.get(CURVATURE))
    if not isinstance(quantities, Mapping):
        return replace(results, extras={**results.extras, CURVATURE: {}})
    return replace(results, extras={**results.extras, CURVATURE: quantities})


def _of_hook(found: Any) -> dict[str, Any]:
    """The last of the values that a CurvatureHook has added over the rounds."""
    values = found.get("lambda_max") if isinstance(found, Mapping) else None
    if not isinstance(values, list) or not values or not is_number(values[-1]):
        return {}
    return {"top": {"lambda_max": values[-1]}}


def measured_value(quantities: Any, name: str) -> float | None:
    """``<quantity>/<value>`` as a number: of estimates the value, of several clients the mean."""
    quantity, _, field = name.partition("/")
    value = quantities.get(quantity) if isinstance(quantities, Mapping) else None
    value = value.get(field) if isinstance(value, Mapping) else None
    if isinstance(value, Mapping):
        value = [value["value"]] if "value" in value else list(value.values())
        value = float(np.mean(value)) if value and all(map(is_number, value)) else None
    return float(value) if is_number(value) else None
