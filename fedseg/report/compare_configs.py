"""What differs between the configs of runs.

A run's folder often comes from somebody else, and a config file is a program. The copy that a run
leaves holds plain values only, so it is read as such and never executed.
"""

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedseg.errors import DataError
from fedseg.runs.results import NOT_IDENTITY

# Told elsewhere (the seed), or for tools/test.py only: no figure of a run depends on these.
TOLD_ELSEWHERE = ("randomness.seed",)
NOT_OF_THE_RUN = (*NOT_IDENTITY, "test_cfg", "test_dataloader", "test_evaluator")


class Missing:
    """The value of a key that a config does not have."""

    def __repr__(self) -> str:
        return "—"


MISSING = Missing()


def read_config_copy(path: str | Path) -> dict[str, Any]:
    """The content of the config that a run has left in its work dir.

    Raises:
        DataError: it cannot be read, or holds more than assignments of plain values.
    """
    path = Path(path)
    config: dict[str, Any] = {}
    try:
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(statement, ast.Assign):
                raise ValueError(f"line {statement.lineno} is no assignment")
            for target in statement.targets:
                if not isinstance(target, ast.Name):
                    raise ValueError(f"line {statement.lineno} assigns to no name")
                config[target.id] = _value(statement.value)
    except (OSError, SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise DataError(f"{path}: is not the config copy of a run: {error}") from error
    return config


def _value(node: ast.expr) -> Any:
    """A literal, or nested calls ``dict(key=literal)`` and ``dict({"any key": literal})``."""
    if isinstance(node, ast.Call):
        plain = isinstance(node.func, ast.Name) and node.func.id == "dict"
        if not plain or not all(isinstance(argument, ast.Dict) for argument in node.args):
            raise ValueError(f"line {node.lineno} calls more than dict(key=value)")
        if any(keyword.arg is None for keyword in node.keywords):
            raise ValueError(f"line {node.lineno} unpacks a dict")
        found = {k: v for argument in node.args for k, v in _value(argument).items()}
        return found | {str(keyword.arg): _value(keyword.value) for keyword in node.keywords}
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(element) for element in node.elts]
    if isinstance(node, ast.Dict):
        if None in node.keys:
            raise ValueError(f"line {node.lineno} unpacks a dict")
        pairs = zip(node.keys, node.values, strict=True)
        return {str(_value(key)): _value(value) for key, value in pairs if key is not None}
    return ast.literal_eval(node)


def flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted key, ``{"model.type": "CNN", "param_scheduler.0.type": ...}``.

    A list is one value unless it holds dicts. What does not change a run is left out.
    """
    found: dict[str, Any] = {}
    for key, value in config.items():
        if key not in NOT_OF_THE_RUN:
            _flatten(key, value, found)
    return {key: value for key, value in found.items() if key not in TOLD_ELSEWHERE}


def _flatten(key: str, value: Any, found: dict[str, Any]) -> None:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            _flatten(f"{key}.{name}", inner, found)
    elif isinstance(value, list | tuple) and any(isinstance(inner, Mapping) for inner in value):
        for number, inner in enumerate(value):
            _flatten(f"{key}.{number}", inner, found)
    else:
        found[key] = list(value) if isinstance(value, tuple) else value


def differing(configs: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """The keys in which flat configs differ, sorted: a value a config, or :data:`MISSING`."""
    keys = sorted({key for config in configs for key in config})
    values = {key: tuple(config.get(key, MISSING) for config in configs) for key in keys}
    return {key: row for key, row in values.items() if any(v != row[0] for v in row[1:])}
