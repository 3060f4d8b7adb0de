"""Options and files are checked by one schema: a sentence names the field, the bound and the value.

The types that a schema accepts; that every component has one is tested in ``test_components``.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import torch
from annotated_types import Gt, Interval
from pydantic import BaseModel, PositiveInt

from fedseg.config.arguments import (
    STRICT,
    Decay,
    Float32,
    NonNegative,
    check_arguments,
    check_value,
    read_model,
)
from fedseg.errors import ConfigError, DataError

FITS = [
    (int, 3), (float, 3), (float, 0.5), (bool, False), (str, ""), (None, None),
    (Any, object), (str | None, None), (int | None, 2), (Literal["a", 1], 1), (dict, {"a": 1}),
    (Sequence[float], [0.5, 1]), (tuple[int, int], [1, 2]), (list[int], [1]), (list, (1,)),
    ("Unknown", 1),
    (Mapping[str, Mapping | None], {"a": {}, "b": None}), (Callable, print), (Callable | dict, {}),
    (Path, Path("a")), (tuple[float, ...], [1, 2, 3]), (dict, object()), (NonNegative | None, None),
    (PositiveInt | Literal["all"], "all"), (Float32, 0), (Float32, -1e37), (float, 1e300),
]  # fmt: skip
MISFITS = [
    (int, True, "valid integer"), (int, 1.0, "valid integer"), (int, "1", "valid integer"),
    (int, 2**63, "less than 9223372036854775808"), (PositiveInt, 10**30, "less than"),
    (int, -(2**63) - 1, "greater than or equal to -9223372036854775808"),
    (float, True, "valid number"), (float, "1", "valid number"),
    (float, math.nan, "finite"), (float, -math.inf, "finite"), (float, 10**400, "valid number"),
    (bool, 1, "valid boolean"), (bool, "False", "valid boolean"),
    (str, 1, "a valid string"), (str, None, "string"),
    (None, 0, "None"), (Literal["a", 1], 2, "'a' or 1"), (Literal["a"], "b", "'a'"),
    (Mapping, [], "dictionary"), (Sequence[int], "1", "Sequence"), (Sequence[int] | None, 3, "Seq"),
    (tuple[int, int], [1, 2, 3], "at most 2 items"), (Path, 3, "Path"), (dict, "a", "dictionary"),
    (int | str, [1], "valid integer or a valid string"), (Callable, "print", "callable"),
    (torch.nn.Module, {}, "Module"), (NonNegative | None, -1, "greater than or equal to 0"),
    (Decay, 1, "less than 1"), (Annotated[float, Gt(0)], 0, "greater than 0, not 0"),
    (Annotated[float, Interval(ge=0, le=1)], 1.5, "less than or equal to 1"),
    (PositiveInt | Literal["all"], 0, "greater than 0 or 'all'"),
    (Float32, 1e-40, "single precision"), (Float32, -1e39, "single precision"),
]  # fmt: skip


@pytest.mark.parametrize(("hint", "value"), FITS)
def test_values_that_fit(hint, value):
    check_value("a.b", value, hint)


@pytest.mark.parametrize(("hint", "value", "wanted"), MISFITS)
def test_values_that_do_not_fit(hint, value, wanted):
    with pytest.raises(ConfigError, match=rf"^a\.b: .*{wanted}"):
        check_value("a.b", value, hint)


def test_a_number_that_python_cannot_write():
    with pytest.raises(ConfigError, match=r"^a: .*digits"):
        check_value("a", 10**5000, float)


@pytest.mark.parametrize(
    ("hint", "value", "field"),
    [
        (Sequence[float], [0.1, "x"], r"a\[1\]"),
        (tuple[str, int] | None, ["x", 1.5], r"a\[1\]"),
        (Mapping[str, Mapping | None] | None, {"x": {}, "y": 3}, r"a\.y"),
        (Mapping[str, Sequence[int]], {"x": [1, True]}, r"a\.x\[1\]"),
        (str | Sequence[int], [1, "x"], r"a\[1\]"),
    ],
)
def test_the_item_that_does_not_fit_is_named(hint, value, field):
    with pytest.raises(ConfigError, match=f"^{field}: must be "):
        check_value("a", value, hint)


class Base:
    def __init__(self, rho: NonNegative, kind: Literal["a", "b"] = "a", bound: float = math.inf):
        pass


class Component(Base):
    def __init__(self, lr: Annotated[Float32, Gt(0)], odd: int = "none", **kwargs: Any) -> None:
        super().__init__(**kwargs)


@pytest.mark.parametrize(
    "options",
    [
        {"lr": 1, "rho": 0},
        {"lr": 0.1, "rho": 0, "odd": "none"},  # a default is right whatever its type
        {"lr": 0.1, "kind": "b", "bound": math.inf},
        {"lr": torch.tensor(0.1)},  # built already
    ],
)
def test_arguments_that_fit(options):
    check_arguments(Component, options, "algorithm")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"seed": 0}, "algorithm.seed: is set by the run itself; remove it"),
        ({"knd": 1}, "algorithm.knd: unknown argument of Component (did you mean 'kind'?)"),
        ({"odd": 1.5}, "algorithm.odd: must be a valid integer, not 1.5"),
        ({"rho": -1}, "algorithm.rho: must be greater than or equal to 0, not -1"),
        ({"kind": "c"}, "algorithm.kind: must be 'a' or 'b', not 'c'"),
        ({}, "algorithm: Component: argument 'lr' is missing"),
        ({"rho": -1, "knd": 1}, "algorithm.rho: must be greater than or equal to 0, not -1"),
    ],
)
def test_the_first_mistake_of_a_component_is_told(options, sentence):
    with pytest.raises(ConfigError) as error:
        check_arguments(Component, options, "algorithm", injected=("seed",))
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (torch.optim.SGD, {"lr": "0.1"}, r"o\.lr: must be a valid number or an instance of Tensor"),
        (torch.optim.Adam, {"betas": (0.9, "x")}, r"o\.betas\[1\]: must be"),
        (torch.optim.SGD, {"nestrov": True}, r"o\.nestrov: unknown argument of SGD .*'nesterov'"),
    ],
)
def test_arguments_of_other_libraries(function, options, message):
    with pytest.raises(ConfigError, match=message):
        check_arguments(function, options, "o", ("params",))


class Split(BaseModel):
    model_config = STRICT
    version: int
    clients: Mapping[str, Sequence[int]]


def test_content_of_a_file():
    assert read_model(Split, {"version": 1, "clients": {"a": [0]}}, "s.json").version == 1
    fix = "run fedseg prepare again"
    with pytest.raises(DataError) as error:
        read_model(Split, {"version": 1, "clients": {"a": [0, "1"]}}, "s.json", fix)
    assert str(error.value) == f"s.json: clients.a[1]: must be a valid integer, not '1'; {fix}"
    with pytest.raises(DataError, match=r"^s\.json: version: is missing$"):
        read_model(Split, {"clients": {}}, "s.json")
    with pytest.raises(DataError, match=r"^s\.json: must be .* not \[\]"):
        read_model(Split, [], "s.json")
