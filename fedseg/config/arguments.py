"""Number types of the suite's own parameters, and the check of arguments and files by pydantic.

Types are strict: no text is read as a number, and True is none; a whole number is fine where a
float is wanted, and a list where a tuple is. Numbers are finite. Values are checked and never
converted.
"""

import functools
import inspect
import operator
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from annotated_types import Ge, Gt, Interval
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    PydanticUserError,
    Strict,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import PydanticCustomError, SchemaError

from fedseg.checks import shown
from fedseg.errors import ConfigError, DataError, UnknownArgument
from fedseg.names import did_you_mean

SMALLEST, LARGEST = 1e-37, 1e37  # a float32's, and of its inverse
PLAIN = (str, bool, int, float, list, tuple, Mapping, types.NoneType)  # what a config can write
STRICT = ConfigDict(strict=True, allow_inf_nan=False)
STARS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
LOOSE = ("mmcv", "mmengine", "mmseg")  # take lists where their signatures say dict, and the like
MUST = "Input should be "  # begins most messages of pydantic
Model = TypeVar("Model", bound=BaseModel)


def _check_float32(value: float) -> float:
    if value and not SMALLEST <= abs(value) <= LARGEST:
        raise PydanticCustomError(
            "float32", f"Input should be from {SMALLEST:g} to {LARGEST:g} to fit single precision"
        )
    return value


Float32 = Annotated[float, AfterValidator(_check_float32)]
"""A number that vectors of a model in single precision are computed with."""
NonNegative = Annotated[Float32, Ge(0)]
Positive = Annotated[Float32, Gt(0)]
Share = Annotated[Float32, Interval(ge=0, le=1)]
PositiveShare = Annotated[Float32, Interval(gt=0, le=1)]
Decay = Annotated[Float32, Interval(ge=0, lt=1)]


def check_arguments(
    function: Any,
    options: Mapping[str, Any],
    field: str,
    injected: Iterable[str] = (),
    optional: Iterable[str] = (),
) -> None:
    """Raise ConfigError for the first mistake in the arguments of a function or class.

    The types are those of its signature. A default is right whatever its type, and so is an object
    that no config can write.

    Args:
        function: what is to be called.
        options: its arguments by name.
        field: where they stand in the config.
        injected: arguments that the run sets, not the config.
        optional: names of arguments that need not be set, and of keys beside the arguments.
    """
    name = getattr(function, "__name__", str(function))
    injected = set(injected)
    signature = read_signature(function)
    for key, value in options.items():
        if key in injected:
            raise ConfigError(f"{field}.{key}: is set by the run itself; remove it")
        if key in signature.hints:
            is_default = key in signature.defaults and value is signature.defaults[key]
            if not is_default:
                check_value(f"{field}.{key}", value, signature.hints[key])
        elif not signature.takes_any:
            known = sorted({*signature.hints, *optional} - injected)
            hint = did_you_mean(key, known)
            message = f"{field}.{key}: unknown argument of {name}"
            if hint:
                raise ConfigError(f"{message}{hint}")
            listed = ", ".join(known) or "none"
            raise UnknownArgument(f"{message}; known: {listed}", f"{field}.{key}")
    for key in signature.required:
        if key not in options and key not in injected and key not in optional:
            raise ConfigError(f"{field}: {name}: argument {key!r} is missing")


def check_values(values: Mapping[str, Any], hints: Mapping[str, Any], field: str = "") -> None:
    """Raise ConfigError for the first value that is not of the type that ``hints`` has for it."""
    for key, value in values.items():
        if key in hints:
            check_value(f"{field}.{key}".lstrip("."), value, hints[key])


def check_value(field: str, value: Any, hint: Any) -> None:
    """Raise ConfigError unless a value is of a type, written as in a signature.

    An object that no config can write is right: it is the caller's own.
    """
    if not isinstance(value, PLAIN):
        return
    try:
        _adapter(hint).validate_python(value)
    except ValidationError as error:
        raise ConfigError(f"{field}{_describe(error, value)}") from error
    except (PydanticUserError, SchemaError):  # a type that pydantic cannot check
        return


def read_model(model: type[Model], value: Any, path: str | Path, fix: str = "") -> Model:
    """The content of a file as a pydantic model; DataError names the file, the field and the fix.

    Args:
        model: a model whose config is :data:`STRICT`; it says which further keys a file may have.
        value: what the file holds, plain Python values.
        path: the file, for messages.
        fix: what the user can do, for example ``"run fedseg prepare cifar again"``.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        mistake = _describe(error, value).removeprefix(".").removeprefix(": ")
        raise DataError(f"{path}: {mistake}{fix and f'; {fix}'}") from error


@dataclass(frozen=True)
class Signature:
    """The arguments of a function, or of a class and of the bases that get its ``**kwargs``."""

    hints: Mapping[str, Any]  # types by name; Any where there is none to check
    defaults: Mapping[str, Any]  # by name, of those that have one
    required: Sequence[str]  # by the function's own signature
    takes_any: bool  # whether arguments of any other name are taken


@functools.cache
def read_signature(function: Any) -> Signature:
    """The arguments that a function or class takes."""
    parts = [function]
    if inspect.isclass(function):
        parts = [part for part in function.__mro__[:-1] if "__init__" in vars(part)]
    hints: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    for part in parts:
        parameters = _read_parameters(part)
        if parameters is None:
            break
        for name, parameter in parameters.items():
            if parameter.kind in STARS:
                continue
            if name not in hints and parameter.default is not parameter.empty:
                defaults[name] = parameter.default
            if hints.get(name, Any) is Any:  # else a base class says it
                hints[name] = _read_hint(parameter, part)
        if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            return Signature(hints, defaults, _read_required(function), takes_any=False)
    return Signature(hints, defaults, _read_required(function), takes_any=bool(parts))


def _read_parameters(function: Any) -> Mapping[str, inspect.Parameter] | None:
    """The parameters of a function or class; None for one that is written in C."""
    try:
        return inspect.signature(function, eval_str=True).parameters
    except (TypeError, ValueError):
        return None
    except NameError:  # a type that is imported for type checkers only
        return inspect.signature(function).parameters


def _read_required(function: Any) -> Sequence[str]:
    parameters = (_read_parameters(function) or {}).values()
    return [p.name for p in parameters if p.default is p.empty and p.kind not in STARS]


def _read_hint(parameter: inspect.Parameter, function: Any) -> Any:
    hint = parameter.annotation
    if hint is parameter.empty or isinstance(hint, str):
        return Any
    if function.__module__.partition(".")[0] in LOOSE and hint not in (bool, int, float, str):
        return Any
    return hint


@functools.cache
def _adapter(hint: Any) -> TypeAdapter:
    strict = ConfigDict(arbitrary_types_allowed=True, **STRICT)
    return TypeAdapter(_as_in_configs(hint), config=strict)


def _as_in_configs(hint: Any) -> Any:
    """A type as configs write it: a list may be a tuple and the reverse, integers have 64 bits."""
    if hint is int:
        return Annotated[int, Interval(ge=-(2**63), lt=2**63)]
    kind = get_origin(hint) or hint
    inner = tuple(_as_in_configs(part) for part in get_args(hint))
    if kind is Annotated:
        return Annotated[(inner[0], *hint.__metadata__)]
    if kind in (Union, types.UnionType):
        return functools.reduce(operator.or_, inner)
    if kind in (list, tuple):
        return Annotated[kind[inner] if inner else kind, Strict(False)]
    if kind in (Sequence, Mapping) and inner:
        return kind[inner]
    return hint


def _describe(error: ValidationError, value: Any) -> str:
    """Place and sentence of the innermost mistake; of a union what each of its members wants."""
    mistakes = error.errors(include_url=False)
    mistake = max(mistakes, key=lambda mistake: len(mistake["loc"]))
    place, wrong = _find(mistake["loc"], value)
    if mistake["type"] == "missing":
        return f"{place}.{mistake['loc'][-1]}: is missing"
    if mistake["type"] == "extra_forbidden":
        return f"{place}: is unknown"
    wanted: dict[str, None] = {}
    for other in mistakes:
        if other["msg"].startswith(MUST) and _find(other["loc"], value)[0] == place:
            wanted[other["msg"].removeprefix(MUST)] = None
    if wanted:
        return f"{place}: must be {' or '.join(wanted)}, not {shown(wrong)}"
    return f"{place}: {mistake['msg'].removeprefix('Value error, ')}"


def _find(loc: Sequence[int | str], value: Any) -> tuple[str, Any]:
    """The place of a mistake of pydantic, without the members of unions, and what stands there."""
    place = ""
    for part in loc:
        if isinstance(value, list | tuple) and isinstance(part, int) and part < len(value):
            place += f"[{part}]"
            value = value[part]
        elif isinstance(value, Mapping) and part in value:
            place += f".{part}"
            value = value[part]
    return place, value
