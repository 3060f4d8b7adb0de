"""Curvature that ``fedseg curvature`` or the ``CurvatureHook`` left in a run's folder.

It may come from anyone: a quantity of another form than expected counts as not measured.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Len
from pydantic import BaseModel, BeforeValidator, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from fedseg.config.schema import STRICT, read_model
from fedseg.errors import DataError
from fedseg.files import own_path, read_json
from fedseg.runs.history import Number
from fedseg.runs.schema import Results

FILE_NAME = "curvature.json"  # also the key of its quantities among the extras, once it is read
CURVATURE = "curvature"  # key of the hook's values among the extras; the tool's folder
OF_MODEL = ("lambda_max", "gradient_norm")
OF_PARTICIPANTS = ("client_lambda_max", "client_drift", "update_cosine")


class Estimate(TypedDict):
    value: Number
    standard_error: Number | None


ByName = dict[str, Number]
VALUES: Mapping[str, Any] = {  # of a quantity; wherever one occurs
    **dict.fromkeys(("loss", "gradient_norm", "norm_w", "sam", "asam"), Number | None),
    "metrics": dict[str, Number | None],
    **dict.fromkeys(("lambda_max_over_lambda5", "products"), Number),
    "eigenvalues": list[Number],
    **dict.fromkeys(("trace", "frobenius_norm"), Estimate),
    **dict.fromkeys(("hessian_norm_diff", "hessian_direction_cos"), Estimate),
    **dict.fromkeys(("nodes", "weights"), list[list[Number]]),
    "quartiles": Annotated[list[Number], Len(5, 5)],
    **dict.fromkeys(("lambda_max_local", "lambda_max_global", "norm_by_class"), ByName),
    "output_norm_by_class": ByName,
    **dict.fromkeys(("of_clients", "outputs_of_clients"), dict[str, ByName]),
    "lambda_max": Number | ByName,  # of the model on all data, or on each client's
    "num_samples": int,
}
Quantity = TypedDict("Quantity", VALUES, total=False)
Estimate.__pydantic_config__ = Quantity.__pydantic_config__ = STRICT
QUANTITY = TypeAdapter(Quantity)


def _keep_sound(quantities: Any) -> Any:
    """The quantities of the form that the tool writes."""
    if not isinstance(quantities, dict):
        return quantities  # refused by its type
    sound = {}
    for name, entry in quantities.items():
        try:
            QUANTITY.validate_python(entry)
        except ValidationError:
            continue
        sound[name] = entry
    return sound


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
    quantities: Annotated[dict[str, dict[str, Any]], BeforeValidator(_keep_sound)]


class _HookSeries(BaseModel):
    model_config = STRICT

    rounds: list[int]
    lambda_max: list[Number | None] = []
    gradient_norm: list[Number | None] = []
    client_lambda_max: list[Number | None] = []
    client_drift: list[Number | None] = []
    update_cosine: list[Number | None] = []


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
                raise DataError(f"{path}: config_sha256: is of another run's config")
            if content.changed:
                raise DataError(f"{path}: changed: is of a changed config")
            quantities |= content.quantities
    except DataError as error:
        messages.append(str(error))
    return results.model_copy(update={"extras": {**results.extras, FILE_NAME: quantities}})


def over_rounds(results: Results, rounds: Sequence[int]) -> dict[str, list[float | None]]:
    """The values that the ``CurvatureHook`` has logged, by name; None where it did not."""
    try:
        measured = _HookSeries.model_validate(results.extras.get(CURVATURE))
    except ValidationError:
        return {}
    series = {}
    for name in (*OF_MODEL, *OF_PARTICIPANTS):
        by_round = dict(zip(measured.rounds, getattr(measured, name), strict=False))
        if any(by_round.get(round_) is not None for round_ in rounds):
            series[name] = [by_round.get(round_) for round_ in rounds]
    return series


def measured_value(results: Results, name: str) -> float | None:
    """``<quantity>/<value>`` as a number: of estimates the value, of several clients the mean."""
    quantity, key = name.split("/")
    value = results.extras.get(FILE_NAME, {}).get(quantity, {}).get(key)
    if isinstance(value, Mapping):
        values = [value["value"]] if "standard_error" in value else list(value.values())
        return sum(values) / len(values) if values else None
    return value


def eigenvalues(results: Results, most: int) -> list[float]:
    """So many of the largest Hessian eigenvalues, the largest first; none if not measured."""
    quantities = results.extras.get(FILE_NAME, {})
    values = (quantities.get("spectrum") or quantities.get("top") or {}).get("eigenvalues", [])
    return values[:most]
