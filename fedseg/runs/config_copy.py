"""The copy of its config that a run leaves in its work dir, read without executing it.

A run's folder often comes from somebody else, and a config file is a program. The copy holds plain
values only, so it is parsed as such.
"""

import ast
from collections.abc import Mapping
from pathlib import Path
from pprint import pformat
from typing import Any

from fedseg.errors import DataError


def config_text(config: Mapping[str, Any]) -> str:
    """A config as assignments of plain values; MMEngine's own text takes a hundred times longer."""
    lines = [f"{k} = {pformat(v, width=100, sort_dicts=False)}\n" for k, v in config.items()]
    return "".join(lines)


def find_config_copy(folder: Path, name: str) -> Mapping[str, Any] | None:
    """The config in a run's work dir; None if there is no single one, or it is a program."""
    copies = sorted(folder.glob("*.py"))
    own = [path for path in copies if path.stem == name] or copies
    try:
        return read_config_copy(own[0]) if len(own) == 1 else None
    except DataError:
        return None


def read_config_copy(path: str | Path) -> dict[str, Any]:
    """The content of a config of plain values.

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
