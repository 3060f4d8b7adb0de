"""Curvature that ``fedseg curvature`` or the ``CurvatureHook`` left in a run's folder.

The command writes a file for each quantity, ``curvature/<checkpoint>/<quantity>.json``. The folder
may come from anyone: a file of another form than the one below is named, and counts as not
measured.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from fedseg.config.arguments import STRICT, read_model
from fedseg.errors import DataError
from fedseg.files import digest, own_path, read_json
from fedseg.runs.history import Number
from fedseg.runs.schema import Results

CURVATURE = "curvature"  # key of the hook's values among the extras; the command's folder
MEASURED = "measured curvature"  # key of the command's values among the extras, once they are read
LONGEST_NAME = 200  # bytes of a folder's name
READABLE = 40  # characters of one that is too long
OF_MODEL = ("lambda_max",)
OF_PARTICIPANTS = ("client_drift", "update_cosine")
LOGGED = TypeAdapter(dict[str, list[Number | None]], config=STRICT)  # by the hook


class FilePart(BaseModel):
    """A part of a file."""

    model_config = STRICT


class Estimate(FilePart):
    """A mean over random vectors."""

    value: Number | None
    standard_error: Number | None


class Loss(FilePart):
    """``loss``: of the model over D."""

    loss: Number | None
    metrics: dict[str, Number | None]
    gradient_norm: Number | None
    norm_w: Number


class Eigenvalues(FilePart):
    """``top`` and ``spectrum``: the largest eigenvalues, the largest first."""

    lambda_max: Number
    eigenvalues: list[Number]
    lambda_max_over_lambda5: Number | None
    residuals: list[Number]
    products: int


class Trace(FilePart):
    """``trace``, and the Frobenius norm."""

    trace: Estimate
    frobenius_norm: Estimate
    products: int


class Density(FilePart):
    """``density``: point masses at ``nodes`` [probes, steps], and the moments of order 1 and 2."""

    nodes: list[list[Number]]
    weights: list[list[Number]]
    moments: dict[str, Estimate]


class Sharpness(FilePart):
    """``sharpness``: the rise of the loss."""

    sam: Number | None
    asam: Number | None


class Clients(FilePart):
    """``clients``: client -> lambda_1 of the global model on its data; quartiles from 0 to 4."""

    lambda_max: dict[str, Number]
    quartiles: list[Number]


class FedAlign(FilePart):
    """``fedalign``: H_N and H_D."""

    hessian_norm_diff: Estimate
    hessian_direction_cos: Estimate
    products: int


class Participants(FilePart):
    """``participants``: client -> lambda_1 of its model on its own data, and on D."""

    lambda_max_local: dict[str, Number]
    lambda_max_global: dict[str, Number]


class Updated(FilePart):
    """``updated``: client -> lambda_1 of the model that it trains, on its own data."""

    lambda_max: dict[str, Number]


class Features(FilePart):
    """``features``: mean norms by class, and by client and class."""

    norm_by_class: dict[str, Number | None]
    of_clients: dict[str, dict[str, Number | None]]
    output_norm_by_class: dict[str, Number | None]
    outputs_of_clients: dict[str, dict[str, Number | None]]


VALUES: Mapping[str, type[FilePart]] = {
    "loss": Loss,
    "top": Eigenvalues,
    "spectrum": Eigenvalues,
    "trace": Trace,
    "density": Density,
    "sharpness": Sharpness,
    "clients": Clients,
    "fedalign": FedAlign,
    "participants": Participants,
    "updated": Updated,
    "features": Features,
}


class QuantityFile(FilePart):
    """``<quantity>.json``: of what it was measured, how, and the values; other keys are left out.

    Attributes:
        config_sha256: of the run's config.
        round: of the checkpoint.
        changed: overrides of the config.
        num_samples: of D.
        values: see :data:`VALUES`.
    """

    config_sha256: str | None
    round: int | None
    changed: list[str]
    num_samples: int
    values: dict[str, Any]


def short_name(name: str) -> str:
    """The name of a folder; one that a file system would refuse is cut, with a digest of it."""
    if len(os.fsencode(name)) <= LONGEST_NAME:
        return name
    return f"{name[:READABLE]}-{digest(name)[:8]}"


def read_quantity(path: Path, quantity: str) -> QuantityFile:
    """A quantity's file, with its values checked; DataError if it has another form."""
    content = read_model(QuantityFile, read_json(path, "delete it"), path)
    values = read_model(VALUES[quantity], content.values, f"{path}: values")
    return content.model_copy(update={"values": values.model_dump()})


def with_curvature(results: Results, folder: Path, messages: list[str]) -> Results:
    """The results with the quantities that were measured of the last round in their extras.

    Without ``top``, the ``CurvatureHook``'s value of the last round is there, unless an average was
    evaluated, of which it says nothing. A file that is damaged or of another config is named in
    ``messages``.
    """
    series = {} if results.averaging else over_rounds(results, [results.completed_rounds])
    values = series.get("lambda_max", [None])
    quantities: dict[str, Any] = {} if values[0] is None else {"top": {"lambda_max": values[0]}}
    for quantity in VALUES:
        name = f"{CURVATURE}/round_{results.completed_rounds:06d}/{quantity}.json"
        path = folder / name
        if not path.exists():
            continue
        try:
            content = read_quantity(own_path(folder, name), quantity)
            if content.config_sha256 != results.config_sha256:
                raise DataError(f"{path}: config_sha256: belongs to another run's config")
            if content.changed:
                raise DataError(f"{path}: changed: is of a changed config")
        except DataError as error:
            messages.append(str(error))
        else:
            quantities[quantity] = content.values
    return results.model_copy(update={"extras": {**results.extras, MEASURED: quantities}})


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
    value = results.extras.get(MEASURED, {}).get(quantity, {}).get(key)
    if not isinstance(value, Mapping):
        return value
    if "standard_error" in value:
        return value["value"]
    return fmean(value.values()) if value else None
