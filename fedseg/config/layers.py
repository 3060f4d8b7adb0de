"""Config files as read, and the layers of which a config is made.

A layer has the values that a setting, a method, an experiment or an option of a command line sets.
Layers are merged in this order; ``fedseg show`` and messages name the one that sets a value.
"""

import ast
import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.utils import import_modules_from_strings

import fedseg
from fedseg.checks import shown
from fedseg.config.accepted import propose_place
from fedseg.errors import ConfigError, UnknownArgument
from fedseg.names import did_you_mean

CONFIGS = (Path(fedseg.__file__).parent / "configs").resolve()
BASE = "_base_"
MISSING = object()
MERGE_ERRORS = (TypeError, KeyError, IndexError)  # of MMEngine, for values that do not fit


@dataclass(frozen=True)
class Layer:
    """The values that a file or an option sets."""

    file: str  # or the option, such as "--seed"
    values: Mapping[str, Any]


# ---------------------------------------------------------------- files


def read_file(path: str | Path) -> dict[str, Any]:
    """Read a config file with what it inherits, and import its ``custom_imports``.

    Raises:
        ConfigError: a file of it is none of Python, does not exist or fails.
    """
    inherited_files(Path(path))  # refuses files that must not be executed, before any of them is
    with _config_errors(str(path)):
        config = Config.fromfile(path, lazy_import=False, import_custom_modules=False)
        values = config.to_dict()
    for key, value in list(values.items()):
        if isinstance(value, type):  # a class that the file imports
            del values[key]
    imports = values.get("custom_imports")
    check_imports(imports, str(path))
    if imports:
        arguments = {key: value for key, value in imports.items() if key != "_delete_"}
        fix = f": put it into {Path(path).resolve().parent} or install it"
        with _config_errors(f"{path}: custom_imports", "failed", fix):
            import_modules_from_strings(**arguments)
    return values


def inherited_files(path: Path, inherited_by: Sequence[Path] = ()) -> list[Path]:
    """The file and those that it inherits by ``_base_``, the nearest first; none is executed.

    Args:
        inherited_by: the files that inherit it, the nearest last.
    """
    if path.resolve() in inherited_by:
        raise ConfigError(f"{path}: {BASE}: inherits itself, through {inherited_by[-1]}")
    if path.suffix != ".py":  # reading YAML can run anything
        raise ConfigError(f"{path}: is not a config: configs and their bases are Python files")
    with _config_errors(str(path)):
        bases = _read_bases(path)
    files = [path]
    for name in reversed(bases):
        base = path.parent / name
        if not base.is_file():
            hint = did_you_mean(base.stem, (other.stem for other in base.parent.glob("*.py")))
            raise ConfigError(f"{path}: {BASE}: {base}: does not exist{hint}")
        files += inherited_files(base, [*inherited_by, path.resolve()])
    return files


def _read_bases(path: Path) -> list[str]:
    """The paths in the ``_base_`` of a file, which is not executed."""
    bases: Any = []
    for node in ast.parse(path.read_text(encoding="utf-8"), str(path)).body:
        if isinstance(node, ast.ClassDef):
            raise ConfigError(
                f"{path}: defines the class {node.name}, so it is neither a config nor a method: "
                "these set config keys, among them the class's name in a type and "
                f'custom_imports = dict(imports=["{path.stem}"]) (docs/own_algorithm.md)'
            )
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == BASE:
            bases = ast.literal_eval(node.value)
    if isinstance(bases, str):
        bases = [bases]
    for name in bases:
        if not isinstance(name, str) or not name:
            raise ConfigError(f"{path}: {BASE}: must be a path or a list of paths, not {bases!r}")
        if "::" in name:
            raise ConfigError(
                f"{path}: {BASE}: must be a path from the file's folder, not {name!r}: inherit a "
                f'setting of fedseg with setting = "{Path(name.rpartition("::")[2]).stem}"'
            )
    return list(bases)


def check_imports(imports: Any, file: str = "") -> None:
    """Raise ConfigError unless ``custom_imports`` is a dict with a list of module names, or None.

    Args:
        file: that sets it, for the message.
    """
    if imports is None:
        return
    field = f"{file}: custom_imports" if file else "custom_imports"
    if not isinstance(imports, Mapping):
        raise ConfigError(f"{field}: must be a dict, not {shown(imports)}")
    names = imports.get("imports")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        form = "a list of module names, such as ['clipped']"
        raise ConfigError(f"{field}.imports: must be {form}, not {shown(names)}")


@contextmanager
def _config_errors(
    file: str, problem: str = "cannot be read as a config", fix: str = ""
) -> Iterator[None]:
    """Turn every error within it, in a user's file, into a ConfigError.

    Args:
        file: for the message.
        problem: what goes wrong.
        fix: of an import that fails.
    """
    try:
        yield
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:
        fix = fix if isinstance(error, ImportError) else ""
        if fix and isinstance(error.__context__, ImportError):  # MMEngine's hides what is missing
            error = error.__context__
        kind = type(error).__name__
        raise ConfigError(f"{file}: {problem}: {kind}: {error}{fix}") from error


# ---------------------------------------------------------------- merging


def add_layer(config: Config, layer: Layer) -> None:
    """Merge a layer into a config, in place.

    Modules that lower layers import are imported, too. Training and ``fedseg test`` have one
    description of test sets, until a layer sets that of the test itself.
    """
    try:
        _merge(config, layer)
    except MERGE_ERRORS as error:
        raise ConfigError(f"{layer.file}: {error}") from error


def set_values(config: Config, option: str, values: Mapping[str, Any]) -> None:
    """Merge what an option of a command line sets into a config.

    Args:
        config: changed in place.
        option: such as ``--seed``; the name of the layer.
        values: by dotted key.
    """
    for key, value in values.items():
        try:
            _merge(config, Layer(option, nested(key, value)))
        except MERGE_ERRORS as error:
            raise ConfigError(f"{option}: {key}: {error}") from error


def _merge(config: Config, layer: Layer) -> None:
    """Merge a layer into a config, in place; one of ``MERGE_ERRORS`` if a value does not fit."""
    # 1. What the layer sets of training's test sets, it sets of the test
    values = _copy(layer.values)
    _copy_changes_to_tests(values, config)
    # 2. Its record: a copy, for the next steps add modules and take every _delete_ out
    layers = [*layers_of(config), Layer(layer.file, _copy(values))]
    # 3. The modules of lower layers stay
    _keep_imports(values.get("custom_imports"), get(config, "custom_imports.imports"))
    # 4. The merge, and only after it the record, for it may fail
    config.merge_from_dict(values)
    keep_layers(config, layers)


def nested(key: str, value: Any) -> dict[str, Any]:
    """The dict of a value by dotted key: ``{"a": {"b": value}}`` of ``"a.b"``."""
    for name in reversed(key.split(".")):
        value = {name: value}
    return value


def _copy_changes_to_tests(values: dict[str, Any], config: Config) -> None:
    """Copy a layer's changes of ``val_dataloader`` and ``val_evaluator`` to the test, in place.

    Not where the test has others than training, or the evaluation of training is turned off.

    Args:
        values: of the layer.
        config: what the layer is merged into.
    """
    for part in ("dataloader", "evaluator"):
        val, test = f"val_{part}", f"test_{part}"
        is_shared = config.get(test) is not None and config.get(val) == config.get(test)
        if is_shared and test not in values and values.get(val) is not None:
            values[test] = _copy(values[val])


def _keep_imports(imports: Any, earlier: Sequence[str] | None) -> None:
    """Put the modules of lower layers before those of a ``custom_imports``, in place."""
    if not isinstance(imports, Mapping) or imports.get("_delete_"):
        return
    names = imports.get("imports")
    if isinstance(names, list) and earlier:
        imports["imports"] = [*earlier, *(name for name in names if name not in earlier)]


def _copy(value: Any) -> Any:
    """A deep copy that shares nothing: merging a dict takes its ``_delete_`` out of it."""
    if isinstance(value, Mapping):
        return {key: _copy(inner) for key, inner in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_copy, value))
    return copy.deepcopy(value)


# ---------------------------------------------------------------- values and where they come from


def get(config: Any, key: str, default: Any = None) -> Any:
    """The value of a key with dots, or the default."""
    for name in key.split("."):
        if isinstance(config, Mapping | Config):
            config = config.get(name, default)
        elif isinstance(config, list | tuple) and name.isdecimal() and int(name) < len(config):
            config = config[int(name)]
        else:
            return default
    return config


def find_layer(layers: Sequence[Layer], key: str) -> Layer | None:
    """The last layer that sets a key or something below it."""
    for layer in reversed(layers):
        if get(layer.values, key, MISSING) is not MISSING:
            return layer
    return None


def layers_of(config: Config) -> tuple[Layer, ...]:
    """The layers of a config that was composed; none if it was made otherwise."""
    return vars(config).get("layers", ())


def keep_layers(config: Config, layers: Sequence[Layer]) -> None:
    """Note the layers of a config, which copies have, too; they are no key of it."""
    vars(config)["layers"] = tuple(layers)


@contextmanager
def errors_name_their_source(config: Config) -> Iterator[None]:
    """Within it, a ConfigError's message begins with what has set the value that it is about.

    That is a file or an option; of a value that none sets, the config's own file.
    """
    try:
        yield
    except ConfigError as error:
        if config.filename is None:
            raise
        layers = layers_of(config)
        known = (str(config.filename), "--", *(layer.file for layer in layers))
        message = str(error)
        if isinstance(error, UnknownArgument) and error.field:
            message += propose_place(error.field, config)
        if not message.startswith(known):
            key = re.sub(r"\[(\d+)\]", r".\1", message.partition(": ")[0])
            layer = find_layer(layers, key)
            message = f"{config.filename if layer is None else layer.file}: {message}"
        raise type(error)(message) from error
