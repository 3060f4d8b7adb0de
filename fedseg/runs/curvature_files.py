"""Curvature that ``fedseg curvature`` or the ``CurvatureHook`` left in a run's folder.

It may come from anyone: a value of another form than expected counts as not measured, and a file
with a number that is too large for sums is not read.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from fedseg.checks import is_number
from fedseg.config.arguments import STRICT, read_model
from fedseg.errors import DataError
from fedseg.files import own_path, read_json
from fedseg.runs.history import Number
from fedseg.runs.schema import Component, Results

FILE_NAME = "curvature.json"  # also the key of its quantities among the extras, once it is read
CURVATURE = "curvature"  # key of the hook's values among the extras; the tool's folder
OF_MODEL = ("lambda_max", "gradient_norm")
OF_PARTICIPANTS = ("client_lambda_max", "client_drift", "update_cosine")
LOGGED = TypeAdapter(dict[str, list[Number | None]], config=STRICT)  # by the hook


class CurvatureFile(BaseModel):
    """``curvature.json``: the checkpoint, its data, and quantity -> values."""

    model_config = STRICT

    config_sha256: str | None = None
    checkpoint_sha256: str | None = None
    trained_by: str | None = None
    changed: list[str] = []
    data: str | None = None
    data_sha256: str | None = None
    parameters: int | None = None
    dtype: str | None = None
    quantities: dict[str, Component]


def with_curvature(results: Results, folder: Path, messages: list[str]) -> Results:
    """The results with the quantities of the last round's ``curvature.json`` in their extras.

    Without one, the ``CurvatureHook``'s value of the last round is there, unless an average was
    evaluated, of which it says nothing. A file that is damaged or of another config is named in
    ``messages``.
    """
    series = {} if results.averaging else over_rounds(results, [results.completed_rounds])
    values = series.get("lambda_max", [None])
    quantities: dict[str, Any] = {} if values[0] is None else {"top": {"lambda_max": values[0]}}
    name = f"{CURVATURE}/round_{results.completed_rounds:06d}/{FILE_NAME}"
    path = folder / name
    try:
        if path.exists():
            content = read_model(CurvatureFile, read_json(own_path(folder, name)), path)
            if content.config_sha256 != results.config_sha256:
                raise DataError(f"{path}: config_sha256: belongs to another run's config")
            if content.changed:
                raise DataError(f"{path}: changed: is of a changed config")
            quantities |= content.quantities
    except DataError as error:
        messages.append(str(error))
    return results.model_copy(update={"extras": {**results.extras, FILE_NAME: quantities}})


def over_rounds(results: Results, rounds: Sequence[int]) -> dict[str, list[float | None]]:
    """The values that the ``CurvatureHook`` has logged, by name; None where it did not."""
    names = ("rounds", *OF_MODEL, *OF_PARTICIPANTS)
    try:
        logged = results.extras[CURVATURE]
        logged = LOGGED.validate_python({name: logged[name] for name in names if name in logged})
    except (KeyError, TypeError, ValidationError):
        return {}
    series = {}
    for name in (*OF_MODEL, *OF_PARTICIPANTS):
        by_round = dict(zip(logged.get("rounds", ()), logged.get(name, ()), strict=False))
        if any(by_round.get(round_) is not None for round_ in rounds):
            series[name] = [by_round.get(round_) for round_ in rounds]
    return series


def measured_value(results: Results, name: str) -> float | None:
    """``<quantity>/<value>`` as a number: of estimates the value, of several clients the mean."""
    quantity, key = name.split("/")
    value = results.extras.get(FILE_NAME, {}).get(quantity, {}).get(key)
    if isinstance(value, Mapping):
        values = [value.get("value")] if "standard_error" in value else list(value.values())
        return fmean(values) if values and all(map(is_number, values)) else None
    return value if is_number(value) else None


def eigenvalues(results: Results, most: int) -> list[float]:
    """So many of the largest Hessian eigenvalues, the largest first; none if not measured."""
    quantities = results.extras.get(FILE_NAME, {})
    values = (quantities.get("spectrum") or quantities.get("top") or {}).get("eigenvalues")
    if not isinstance(values, list) or not all(map(is_number, values)):
        return []
    return [float(value) for value in values[:most]]
