"""The schema of options and files: signatures and models, checked by pydantic.

Types are strict: no text is read as a number, and True is none; a whole number is fine where a
float is wanted. Numbers are finite. Values are checked and never converted.
"""

import functools
import inspect
import math
import os
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Interval, Lt
from pydantic import (
    AfterValidator,
    AllowInfNan,
    BaseModel,
    ConfigDict,
    InstanceOf,
    PlainValidator,
    Strict,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict, is_protocol

from fedseg.checks import shown
from fedseg.errors import ConfigError, DataError
from fedseg.names import NAME_RULE, did_you_mean

SMALLEST, LARGEST = 1e-37, 1e37  # a float32's, and of its inverse
PLAIN = (str, bool, int, float, list, tuple, Mapping, types.NoneType)  # what a config can write
STRICT = ConfigDict(strict=True, allow_inf_nan=False)
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
    given: Iterable[str] = (),
    defaults: Iterable[str] = (),
    propose: Callable[[str], str] = lambda field: "",
) -> None:
    """Raise ConfigError with all mistakes in the arguments of a function or class.

    The types are those of its signature, and of the signatures to which it passes ``**kwargs``. A
    default is right whatever its type, and so is an object that no config can write.

    Args:
        function: what is to be called.
        options: its arguments by name.
        field: where they stand in the config.
        given: arguments that are not the config's to set.
        defaults: arguments that need not be set, and keys beside the arguments.
        propose: gives a hint for an unknown key whose name is like none of the arguments.
    """
    name, given = getattr(function, "__name__", str(function)), set(given)
    signature = read_signature(function)
    mistakes, values = [], {}
    for key, value in options.items():
        if key in given:
            mistakes.append(f"{field}.{key}: is set by the run itself; remove it")
        elif key not in signature.parameters and not signature.takes_any:
            known = sorted({*signature.parameters, *defaults} - given)
            hint = did_you_mean(key, known)
            if not hint:
                hint = f"{propose(f'{field}.{key}')}; known: {', '.join(known) or 'none'}"
            mistakes.append(f"{field}.{key}: unknown argument of {name}{hint}")
        elif not any(p.default is value for p in signature.parameters.get(key, ())):
            values[key] = value
    mistakes += signature.types.find_mistakes(values, field)
    missing = signature.required.difference(options, given, defaults)
    mistakes += [f"{field}: {name}: argument {key!r} is missing" for key in sorted(missing)]
    if mistakes:
        raise ConfigError("\n".join(mistakes))


def check_value(field: str, value: Any, hint: Any) -> None:
    """Raise ConfigError unless a value is of a type, written as in a signature."""
    check_values({"": value}, {"": hint}, field)


def check_values(values: Mapping[str, Any], hints: Mapping[str, Any], field: str = "") -> None:
    """Raise ConfigError with all values that are not of the type that ``hints`` has for them."""
    mistakes = _types_of(*hints.items()).find_mistakes(values, field)
    if mistakes:
        raise ConfigError("\n".join(mistakes))


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
        mistakes = _tell(error, "")
        more = f" (and {len(mistakes) - 3} more)" if len(mistakes) > 3 else ""
        first = "; ".join(mistakes[:3])
        raise DataError(f"{path}: {first}{more}{fix and f'; {fix}'}") from error


class Types:
    """Types of values by name, as one schema; what is not in it is not checked."""

    def __init__(self, hints: Mapping[str, Any]) -> None:
        self.hints = {name: _accept(hint) for name, hint in hints.items()}

    @functools.cached_property
    def _adapter(self) -> TypeAdapter:
        fields = TypedDict("Fields", self.hints, total=False)
        fields.__pydantic_config__ = STRICT
        return TypeAdapter(fields)

    def find_mistakes(self, values: Mapping[str, Any], field: str) -> list[str]:
        """A sentence for each value that does not fit; ``field`` is where they stand."""
        values = {k: v for k, v in values.items() if k in self.hints and isinstance(v, PLAIN)}
        try:
            if values:
                self._adapter.validate_python(values)
        except ValidationError as error:
            return _tell(error, field)
        return []


@functools.cache
def _types_of(*hints: tuple[str, Any]) -> Types:
    return Types(dict(hints))


class Signature:
    """The arguments of a function, or of a class and of those to which it passes ``**kwargs``.

    Attributes:
        parameters: of each name, the parameters of all classes in the chain that have it.
        required: names without a default.
        takes_any: whether arguments of any name are taken.
        types: those of the first class in the chain that has the parameter.
    """

    def __init__(self, function: Any) -> None:
        self.parameters: dict[str, list[inspect.Parameter]] = {}
        self.takes_any = True
        parameters = (_read_parameters(function) or {}).values()
        self.required = {p.name for p in parameters if p.default is p.empty and p.kind not in STARS}
        hints: dict[str, Any] = {}
        for part in function.__mro__ if inspect.isclass(function) else [function]:
            called = part
            if inspect.isclass(part):
                called = vars(part).get("__init__") or vars(part).get("__new__")
            parameters = _read_parameters(part)
            if called is None:
                continue
            if parameters is None:
                break
            part_hints = _read_hints(called)
            loose = part.__module__.partition(".")[0] in LOOSE
            for name, parameter in parameters.items():
                if parameter.kind not in STARS:
                    hint = part_hints.get(name, Any)
                    if loose and hint not in (bool, int, float, str):
                        hint = Any
                    default = parameter.default
                    if hint is float and isinstance(default, float) and not math.isfinite(default):
                        hint = Annotated[float, AllowInfNan()]
                    self.parameters.setdefault(name, []).append(parameter)
                    if name in part_hints:  # else a base class says it
                        hints.setdefault(name, hint)
            if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
                self.takes_any = False
                break
        self.types = Types(hints)


STARS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
LOOSE = ("mmcv", "mmengine", "mmseg")  # take lists where their signatures say dict, and the like
UNIONS = (Union, types.UnionType)
read_signature = functools.cache(Signature)


def _read_parameters(function: Any) -> Mapping[str, inspect.Parameter] | None:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # written in C
        return None


def _read_hints(function: Any) -> Mapping[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except Exception:  # a name that is imported for type checkers only
        return {}


def _accept(hint: Any) -> Any:
    """A hint as pydantic is to check it: lists for sequences, dicts for mappings, texts for paths.

    Of a class that is not Python's own, whether a value is an instance.
    """
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if kind is Annotated:
        return Annotated[(_accept(inner[0]), *hint.__metadata__)]
    if kind in UNIONS:
        members = [_accept(one) for one in inner if one is not types.NoneType]
        if Any in members:
            return Any
        one = members[0] if len(members) == 1 else Annotated[Any, _accept_union(members)]
        return one | None if types.NoneType in inner else one
    if kind is Literal:
        return Annotated[Any, _accept_literal(inner)]
    if kind is int:
        return Annotated[int, Ge(-(2**63)), Lt(2**63)]
    if kind in (None, bool, float, str, types.NoneType):
        return kind
    if kind in (Any, object, type) or not inspect.isclass(kind) or is_protocol(kind):
        return Any
    if issubclass(kind, os.PathLike):
        return Annotated[Path, Strict(False)]
    if issubclass(kind, tuple) and inner and inner[-1] is not ...:
        return Annotated[tuple[tuple(map(_accept, inner))], Strict(False)]
    if kind in (Sequence, Collection, Iterable, list, tuple, set):
        return Annotated[list[_accept(inner[0]) if inner else Any], Strict(False)]
    if issubclass(kind, Mapping):
        key, value = map(_accept, inner or (Any, Any))
        return Annotated[dict[key, value], Strict(False)]
    return InstanceOf[kind]


def _accept_literal(choices: tuple[Any, ...]) -> PlainValidator:
    def check(value: Any) -> Any:
        if not any(type(value) is type(one) and value == one for one in choices):
            listed = " or ".join(map(repr, choices))
            raise PydanticCustomError("literal", "Input should be {listed}", {"listed": listed})
        return value

    return PlainValidator(check)


def _accept_union(members: Sequence[Any]) -> PlainValidator:
    """A union that reports items of the list or dict it is given, else all its members."""

    @functools.cache
    def adapters() -> list[TypeAdapter]:
        return [TypeAdapter(member, config=STRICT) for member in members]

    def check(value: Any) -> Any:
        messages: dict[str, None] = {}
        for adapter in adapters():
            try:
                return adapter.validate_python(value)
            except ValidationError as error:
                if any(one["loc"] for one in error.errors()):
                    raise
                messages.update((_expected(one), None) for one in error.errors())
        listed = " or ".join(messages)
        raise PydanticCustomError("union", "Input should be {listed}", {"listed": listed})

    return PlainValidator(check)


WORDS = {  # of pydantic's mistakes
    "bool_type": "True or False",
    "dict_type": "a dict",
    "finite_number": "a finite number",
    "float_type": "a finite number",
    "int_type": "a whole number",
    "list_type": "a list",
    "model_type": "a dict",
    "path_type": "a path",
    "string_too_long": "shorter",
    "string_pattern_mismatch": f"printable text, as a name {NAME_RULE}",
    "string_type": "a string",
    "tuple_type": "a list",
}


def _tell(error: ValidationError, field: str) -> list[str]:
    """A sentence for each mistake, with its field, the value and what it may be."""
    sentences = []
    for one in error.errors(include_url=False):
        place = field
        for part in one["loc"]:
            if part not in ("", "[key]"):
                place += f"[{part}]" if isinstance(part, int) else f".{part}"
        sentences.append(f"{place.lstrip('.') or 'content'}: {_describe(one)}")
    return sentences


def _describe(mistake: Mapping[str, Any]) -> str:
    kind, message = mistake["type"], mistake["msg"]
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return "is unknown"
    if kind == "value_error":
        return str(mistake["ctx"]["error"])
    if kind in ("too_short", "too_long"):
        wanted = message.partition("should have ")[2].partition(" after")[0]
        return f"must have {wanted}, not {mistake['ctx']['actual_length']}"
    return f"must be {_expected(mistake)}, not {shown(mistake['input'])}"


def _expected(mistake: Mapping[str, Any]) -> str:
    return WORDS.get(mistake["type"]) or mistake["msg"].removeprefix("Input should be ")
