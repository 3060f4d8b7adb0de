"""A config as a list of layers, (file, values) in the order in which they are merged.

A config file is read as MMEngine reads it, bases and variables included, and what it sets itself is
a layer over those of its bases. Options of a command line are the last layers. Where a value comes
from, and which file an error is about, is read off this list.
"""

import ast
import copy
import functools
import os
import re
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from mmengine.config import Config, ConfigDict
from mmengine.config.utils import RemoveAssignFromAST
from mmengine.utils import import_modules_from_strings

import fedseg
from fedseg.checks import shown
from fedseg.errors import ConfigError
from fedseg.names import did_you_mean

CONFIGS = (Path(fedseg.__file__).parent / "configs").resolve()
OURS = "fedseg::"  # before a path in CONFIGS, as a _base_ of a config that may lie anywhere
BASE = "_base_"
LAZY = "cannot be read as a lazy config (imports, no _base_: it may not call what it imports)"
IMPORTS = "custom_imports.imports"  # of all layers together
MISSING = object()


class Layer(NamedTuple):
    """The values that a file or an option sets."""

    file: str  # or the option
    values: Mapping[str, Any]
    inherited: tuple["Layer", ...] = ()  # of which the values were merged already, if of any

    @classmethod
    def of(cls, file: str, options: Mapping[str, Any]) -> "Layer":
        """A layer of values by dotted key."""
        values: dict[str, Any] = {}
        for key, value in options.items():
            *above, last = key.split(".")
            inner = values
            for name in above:
                inner = inner.setdefault(name, {})
            inner[last] = value
        return cls(file, values)


class Merged(NamedTuple):
    """Layers and the config that they make."""

    values: ConfigDict
    layers: tuple[Layer, ...] = ()

    def add(self, layer: Layer, lists: bool = False) -> "Merged":
        """With a layer on top; the modules that lower layers import are imported, too.

        Args:
            lists: numbers as keys replace entries of a list.
        """
        layer = _with_tests(layer, self.values)
        values = _copy(layer.values)
        _keep_imports(values.get("custom_imports"), get(self.values, IMPORTS))
        try:
            values = Config._merge_a_into_b(values, self.values, lists)
        except (TypeError, KeyError, IndexError) as error:
            raise ConfigError(f"{layer.file}: {error}") from error
        return Merged(values, (*self.layers, layer))


def _keep_imports(imports: Any, earlier: Sequence[str] | None) -> None:
    """Put the modules of lower layers before those of a ``custom_imports``, in place."""
    if not isinstance(imports, Mapping) or imports.get("_delete_"):
        return
    names = imports.get("imports")
    if isinstance(names, list) and earlier:
        imports["imports"] = [*earlier, *(name for name in names if name not in earlier)]


def merge(layers: Iterable[Layer]) -> Merged:
    """Layers on top of each other, the first one below."""
    merged = Merged(ConfigDict())
    for layer in layers:
        merged = merged.add(layer)
    return merged


def _with_tests(layer: Layer, config: Mapping[str, Any]) -> Layer:
    """The layer with its changes of ``val_dataloader`` and ``val_evaluator`` for the test, too.

    Training and ``fedseg test`` have one description of test sets, until a layer sets that of the
    test itself or turns the evaluation of training off.

    Args:
        config: what the layer is merged over.
    """
    values = dict(layer.values)
    for part in ("dataloader", "evaluator"):
        val, test = f"val_{part}", f"test_{part}"
        is_shared = config.get(test) is not None and config.get(val) == config.get(test)
        if is_shared and test not in values and values.get(val) is not None:
            values[test] = _copy(values[val])
    return layer._replace(values=values)


def _copy(value: Any) -> Any:
    """A deep copy that shares nothing: merging a dict takes its ``_delete_`` out of it."""
    if isinstance(value, Mapping):
        return {key: _copy(inner) for key, inner in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_copy, value))
    return copy.deepcopy(value)


def read_file(path: str | Path) -> Merged:
    """Read a config file, which is executed once, and import its ``custom_imports``."""
    merged = _read(str(path))
    imports = merged.values.get("custom_imports")
    if imports:
        fix = f": put it into {Path(path).resolve().parent} or install it"
        with _telling(f"{path}: custom_imports", "failed", fix):
            import_modules_from_strings(**copy.deepcopy(imports))
    return merged


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


def _read(file: str, above: tuple[str, ...] = ()) -> Merged:
    if not file.endswith(".py"):  # reading YAML can run anything
        raise ConfigError(f"{file}: is not a config: configs and their bases are Python files")
    if file in above:
        raise ConfigError(f"{file}: {BASE}: it inherits itself, through {above[-1]}")
    with _telling(file):
        _refuse_classes(file)
        if Config._is_lazy_import(file):
            with _telling(file, LAZY):
                values = Config.fromfile(file, import_custom_modules=False).to_dict()
            check_imports(values.get("custom_imports"), file)
            return Merged(ConfigDict(values), (Layer(file, values),))
        bases, code = _compile(_substituted(file), file)
    merged = Merged(ConfigDict())
    for base, scope in bases:
        if not os.path.isfile(base):
            path = Path(base)
            hint = did_you_mean(path.stem, (other.stem for other in path.parent.glob("*.py")))
            if (CONFIGS / path.parent.name / path.name).is_file():
                hint = f': use "{OURS}{path.parent.name}/{path.name}"'
            raise ConfigError(f"{file}: {BASE}: {base}: does not exist{hint}")
        values, layers = _read(base, (*above, file))
        twice = sorted(merged.values.keys() & values.keys())
        if twice:
            raise ConfigError(f"{file}: {BASE}: {', '.join(twice)}: is in several bases")
        merged.values.update(Config._dict_to_config_dict(values, scope))
        merged = Merged(merged.values, (*merged.layers, *layers))
    with _telling(file):
        values = _evaluate(code, merged.values)
    check_imports(values.get("custom_imports"), file)
    return merged.add(Layer(file, values))


def _refuse_classes(file: str) -> None:
    """Raise ConfigError for a module that defines a class, before it is executed as a config."""
    path = Path(file)
    for node in ast.parse(path.read_text(encoding="utf-8"), file).body:
        if isinstance(node, ast.ClassDef):
            raise ConfigError(
                f"{file}: defines the class {node.name}, so it is neither a config nor a method: "
                "these set config keys, among them the class's name in a type and "
                f'custom_imports = dict(imports=["{path.stem}"]) (docs/own_algorithm.md)'
            )


@contextmanager
def _telling(
    file: str, problem: str = "cannot be read as a config", fix: str = ""
) -> Iterator[None]:
    """Whatever goes wrong in a user's file is a ConfigError; ``fix``: of an import."""
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


def _substituted(file: str) -> str:
    """The text of a file with MMEngine's variables replaced: of the file, environment and base."""
    path = Path(os.path.abspath(file))
    text = path.read_text(encoding="utf-8")
    for name, value in (
        ("fileDirname", path.parent.as_posix()),
        ("fileBasename", path.name),
        ("fileBasenameNoExtension", path.stem),
        ("fileExtname", path.suffix),
    ):
        text = re.sub(rf"\{{\{{\s*{name}\s*\}}\}}", lambda _, value=value: value, text)
    text = re.sub(r"\{\{['\"]?\s*\$(\w+)\s*:\s*(\S*?)\s*['\"]?\}\}", _environment, text)
    keys = rf"\{{\{{\s*{BASE}\.([\w.]+)\s*\}}\}}"
    return re.sub(keys, lambda match: BASE + "".join(f"[{k!r}]" for k in match[1].split(".")), text)


def _environment(match: re.Match) -> str:
    value = os.environ.get(match[1], match[2])
    if not value:
        raise KeyError(f"the environment has no {match[1]}, and there is no default")
    return value


@functools.lru_cache
def _compile(text: str, file: str) -> tuple[list[tuple[str, str | None]], types.CodeType]:
    """(path, scope) of the files that a config inherits, and the code of the rest."""
    tree = ast.parse(text, file)
    bases = _bases(tree, file)
    return bases, compile(RemoveAssignFromAST(BASE).visit(tree), file, "exec")


def _bases(tree: ast.Module, file: str) -> list[tuple[str, str | None]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == BASE:
            names = eval(compile(ast.Expression(node.value), file, "eval"))
            break
    else:
        return []
    bases = []
    names = names if isinstance(names, list | tuple) else [names]
    if not all(isinstance(name, str) and name for name in names):
        raise ConfigError(f"{file}: {BASE}: must be a path or a list of paths, not {shown(names)}")
    for name in names:
        if name.startswith(OURS):
            bases.append((str(CONFIGS / name.removeprefix(OURS)), None))
        else:
            path, scope = Config._get_cfg_path(name, file)
            bases.append((os.path.normpath(path), scope))
    return bases


def _evaluate(code: types.CodeType, base: ConfigDict) -> dict[str, Any]:
    """The values that a config sets itself, over its bases."""
    names: dict[str, Any] = {BASE: base}
    exec(code, names)
    ignored = types.FunctionType | types.ModuleType | type  # what a file imports or defines
    values = {
        key: value
        for key, value in names.items()
        if key != BASE and not key.startswith("__") and not isinstance(value, ignored)
    }
    Config._parse_scope(values)
    return values


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
    """The last layer that sets a key or something below it; of a method's, the file it is from."""
    for layer in reversed(layers):
        if get(layer.values, key, MISSING) is not MISSING:
            return find_layer(layer.inherited, key) or layer
    return None


def layers_of(config: Config) -> tuple[Layer, ...]:
    """The layers of a config that was composed; none if it was made otherwise."""
    return vars(config).get("layers", ())


def keep_layers(config: Config, layers: Sequence[Layer]) -> None:
    """Note the layers of a config, which copies have, too; they are no key of it."""
    vars(config)["layers"] = tuple(layers)


def set_values(config: Config, option: str, options: Mapping[str, Any]) -> None:
    """Merge values by dotted key into a config, as an option of a command line gives them."""
    for key, value in options.items():
        layer = _with_tests(Layer.of(option, {key: value}), config)
        values = _copy(layer.values)
        _keep_imports(values.get("custom_imports"), get(config, IMPORTS))
        try:
            config.merge_from_dict(values)
        except (TypeError, KeyError, IndexError) as error:
            raise ConfigError(f"{option}: {key}: {error}") from error
        keep_layers(config, [*layers_of(config), layer])


@contextmanager
def naming(config: Config) -> Iterator[None]:
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
        lines = []
        for line in str(error).split("\n"):
            key = re.sub(r"\[(\d+)\]", r".\1", line.partition(": ")[0])
            layer = find_layer(layers, key)
            file = config.filename if layer is None else layer.file
            lines.append(line if line.startswith(known) else f"{file}: {line}")
        raise type(error)("\n".join(lines)) from error
