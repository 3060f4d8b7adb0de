"""What ``tools/curvature.py`` or the ``CurvatureHook`` left in a run's folder.

It may come from anyone: what has another form than expected counts as not measured.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedseg.checks import is_number
from fedseg.errors import DataError
from fedseg.files import own_path, read_json
from fedseg.runs.history import LARGEST_NUMBER
from fedseg.runs.schema import Results

FILE_NAME = "curvature.json"  # also the key of its quantities among the extras, once it is read
CURVATURE = "curvature"  # key of the hook's values among the extras; the tool's folder
OF_MODEL = ("lambda_max", "gradient_norm")
OF_PARTICIPANTS = ("client_lambda_max", "client_drift", "update_cosine")


def with_curvature(results: Results, folder: Path, messages: list[str]) -> Results:
    """The results with the quantities of the last round's ``curvature.json`` in their extras.

    Without one, the ``CurvatureHook``'s value of the last round is there, unless an average was
    evaluated, of which it says nothing. A file that is damaged or of another config is named in
    ``messages``.
    """
    series = {} if results.averaging else over_rounds(results, [results.completed_rounds])
    quantities = {"top": {"lambda_max": series.get("lambda_max", [None])[0]}}
    name = f"{CURVATURE}/round_{results.completed_rounds:06d}/{FILE_NAME}"
    try:
        found = read_json(own_path(folder, name)) if (folder / name).exists() else {}
        if found:
            if not isinstance(found, dict) or not isinstance(found.get("quantities"), dict):
                raise DataError(f"{folder / name}: quantities: must be an object")
            if found.get("config_sha256") != results.config_sha256:
                raise DataError(f"{folder / name}: config_sha256: is of another run's config")
            if found.get("changed"):
                raise DataError(f"{folder / name}: changed: is of a changed config")
            quantities |= found["quantities"]
    except DataError as error:
        messages.append(str(error))
    return results.model_copy(update={"extras": {**results.extras, FILE_NAME: quantities}})


def over_rounds(results: Results, rounds: Sequence[int]) -> dict[str, list[float | None]]:
    """What the ``CurvatureHook`` has logged, by name; None where it did not."""
    found = results.extras.get(CURVATURE)
    measured = found.get("rounds") if isinstance(found, Mapping) else None
    series = {}
    for name in (*OF_MODEL, *OF_PARTICIPANTS) if isinstance(measured, list) else ():
        values = found.get(name)
        pairs = zip(measured, values if isinstance(values, list) else (), strict=False)
        by_round = {r: v for r, v in pairs if _is_finite(r) and _is_finite(v)}
        if not by_round.keys().isdisjoint(rounds):
            series[name] = [by_round.get(round_) for round_ in rounds]
    return series


def measured_value(results: Results, name: str) -> float | None:
    """``<quantity>/<value>`` as a number: of estimates the value, of several clients the mean."""
    value = results.extras.get(FILE_NAME)
    for key in name.split("/"):
        value = value.get(key) if isinstance(value, Mapping) else None
    if isinstance(value, Mapping):
        values = [value["value"]] if "value" in value else list(value.values())
        return sum(values) / len(values) if values and all(map(_is_finite, values)) else None
    return float(value) if _is_finite(value) else None


def eigenvalues(results: Results, most: int) -> list[float]:
    """So many of the largest Hessian eigenvalues, the largest first; none if not measured."""
    for name in ("spectrum", "top"):
        found = results.extras.get(FILE_NAME, {}).get(name)
        values = found.get("eigenvalues") if isinstance(found, Mapping) else None
        if isinstance(values, list) and all(map(_is_finite, values)):
            return values[:most]
    return []


def _is_finite(value: Any) -> bool:
    return is_number(value) and abs(value) < LARGEST_NUMBER
