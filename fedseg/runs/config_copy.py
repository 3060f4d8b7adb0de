"""The composed config that a run leaves in its work dir, read without executing anything.

A run's folder often comes from somebody else, and a config file is a program. ``config.json`` holds
plain values; a tuple is a list there, and a float that JSON lacks is ``{"__float__": "inf"}``. The
``.py`` file beside it is for people. Runs of older versions have it alone: it is parsed as
assignments of plain values.
"""

import ast
import json
import math
from collections.abc import Mapping
from pathlib import Path
from pprint import pformat
from typing import Any

from fedseg.checks import shown
from fedseg.errors import DataError
from fedseg.files import read_bytes, read_json, sha256
from fedseg.runs.from_json import LARGEST_NUMBER, REWRITE, own_path

CONFIG_FILE = "config.json"
FLOAT = "__float__"


def config_json(config: Mapping[str, Any]) -> str:
    """A config as the text of ``config.json``; what is no plain value is text, as in its digest."""
    return json.dumps(_without_nan(config), indent=1, default=str, allow_nan=False) + "\n"


def _without_nan(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {FLOAT: str(value)}
    return value


def _with_nan(value: dict[str, Any]) -> Any:
    if value.keys() != {FLOAT}:
        return value
    if value[FLOAT] not in ("nan", "inf", "-inf"):
        raise ValueError(f"{FLOAT}: must be 'nan', 'inf' or '-inf', not {shown(value[FLOAT], 40)}")
    return float(value[FLOAT])


def config_text(config: Mapping[str, Any]) -> str:
    """A config as assignments of plain values; MMEngine's own text takes some 80 times as long."""
    lines = [f"{k} = {pformat(v, width=100, sort_dicts=False)}\n" for k, v in config.items()]
    return "".join(lines)


def find_config_copy(folder: Path, name: str) -> Path:
    """Where a run's recorded config lies; ``name``: of the experiment, for older runs.

    Raises:
        DataError: there is none, or not a single one; or it is a link that leaves the folder.
    """
    if (folder / CONFIG_FILE).exists():
        return own_path(folder, CONFIG_FILE)
    copies = sorted(folder.glob("*.py"))
    own = [path for path in copies if path.stem == name] or copies
    if len(own) != 1:
        raise DataError(f"{folder / CONFIG_FILE}: is missing, and so is the config of an older run")
    return own_path(folder, own[0].name)


def recorded_config(folder: Path, name: str, checksum: str | None) -> dict[str, Any]:
    """A run's recorded config; ``checksum`` is that of ``config.json`` if the run has noted it.

    Raises:
        DataError: as of the two functions that it calls; or the file was changed.
    """
    path = find_config_copy(folder, name)
    if path.name == CONFIG_FILE and checksum not in (None, sha256(path)):
        raise DataError(f"{path}: was changed after the run wrote it")
    return read_config_copy(path)


def read_config_copy(path: str | Path) -> dict[str, Any]:
    """The content of a config of plain values.

    Raises:
        DataError: it cannot be read, or holds more than plain values, or assignments of them.
    """
    path = Path(path)
    if path.suffix == ".json":
        config = read_json(path, REWRITE, strict=False, object_hook=_with_nan)
        if not isinstance(config, dict):
            raise DataError(f"{path}: is not the config of a run")
        return config
    config: dict[str, Any] = {}
    try:
        for statement in ast.parse(read_bytes(path).decode("utf-8")).body:
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
    found = ast.literal_eval(node)
    if isinstance(found, int) and abs(found) > LARGEST_NUMBER:
        raise ValueError(f"line {node.lineno} has a number above {LARGEST_NUMBER:g}")
    return found
