"""Experiments from parts: a setting and a list of methods.

A *setting* (``configs/settings``) is a complete config: data, clients, network, and the protocol,
such as rounds, batches and precision.

A *method* (``configs/methods``) is a config that is merged over the setting. Besides what it sets
it can say:

- ``slot``: what it decides, one of ``SLOTS`` or several. Two methods cannot decide the same.
- ``task``: the only one that it is for, ``"segmentation"`` or ``"classification"``.
- ``needs``: what it needs of the setting and the other methods, such as ``"batchnorm"``; a name of
  :data:`fedseg.config.needs.NEEDS` or several.
- ``append``: what it adds to a list, as ``{"personal": ["@head"]}``; what several methods add
  follows the order of their slots.
- ``values``: what it sets in some settings, over what it sets anywhere; see :class:`Row`. A method
  that sets nothing anywhere applies to the settings of this table only.

Methods are merged in the order of their slots, the network first, whose rates others change; those
without a slot last, as they are given.

An *experiment* is a file anywhere that names its setting and methods, as
``setting = "idda_rainy"`` and ``methods = ["fedasam", "swa"]``, and has its changes. The order is:
setting, methods, the file's own keys, options of the command line.
"""

import copy
import functools
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from operator import attrgetter
from pathlib import Path
from typing import Any

from mmengine.config import Config

from fedseg.config.arguments import check_values
from fedseg.config.layers import (
    CONFIGS,
    Layer,
    add_layer,
    get,
    inherited_files,
    keep_layers,
    layers_of,
    nested,
    read_file,
)
from fedseg.config.needs import NEEDS, TASKS, Need, component_types
from fedseg.errors import ConfigError
from fedseg.names import did_you_mean

# what a method can decide, in the order of an experiment's name (merging has another one,
# Method.merge_rank)
SLOTS = (
    "batchnorm",
    "personal",
    "algorithm",
    "local_optimizer",
    "regularizer",
    "average",
    "compression",
    "privacy",
    "robust",
    "attack",
    "augmentation",
    "style",
    "network",
    "adapter",
    "loss",
    "split",
    "defects",
)
SHARED = ("augmentation",)  # slots of any number of methods
BETWEEN_CLIENTS = ("batchnorm", "algorithm", "style")  # slots without effect on a single client
NAMES = Sequence[str] | str | None
# what settings and methods say of themselves, with types: no part of the composed config
METHOD_KEYS: Mapping[str, Any] = {
    "slot": NAMES,
    "task": str | None,
    "needs": NAMES,
    "append": Mapping[str, Sequence] | None,
    "values": Mapping[str, Mapping[str, Any] | None] | None,
}
COMPOSITION_KEYS = ("setting", "methods", *METHOD_KEYS)  # only a file can set them


@dataclass(frozen=True)
class Row:
    """A row of a method's table ``values``.

    Its key is the name of a setting, of a file that settings inherit, or a glob of such names:
    ``"cifar100_a*"``; ``"cifar10 + feddyn"`` holds only together with that method.
    """

    key: str
    setting: str  # a name or a glob
    others: frozenset[str]  # methods that must be chosen, too
    # an ``append`` in it takes the place of the method's; None: the method does not apply there
    values: Mapping[str, Any] | None


@dataclass(frozen=True)
class Method:
    """A method's file as read; its layer has what is merged in every setting."""

    name: str
    path: Path
    slots: tuple[str, ...]
    needs: tuple[Need, ...]
    append: Mapping[str, list[Any]]
    rows: tuple[Row, ...]
    layer: Layer

    @property
    def is_general(self) -> bool:
        """True if it sets something in every setting."""
        return bool(self.layer.values or self.append or not self.rows)

    def matching_rows(self, setting_names: Sequence[str], methods: Iterable[str]) -> list[Row]:
        """The rows that hold, in the order in which they are merged: fewer other methods first.

        Args:
            setting_names: the setting's, and those of the files that it inherits, nearest first.
            methods: names of the methods that are merged over it.
        """
        by_others: dict[frozenset[str], list[Row]] = {}
        for row in self.rows:
            if row.others.issubset(methods):
                by_others.setdefault(row.others, []).append(row)
        rows = []
        for others in sorted(by_others, key=len):
            row = self._nearest(setting_names, by_others[others])
            if row is not None:
                rows.append(row)
        return rows

    def _nearest(self, setting_names: Sequence[str], rows: Sequence[Row]) -> Row | None:
        """The row of the nearest file that has one; a row of its name itself wins over a glob."""
        for name in setting_names:
            exact = [row for row in rows if row.setting == name]
            if exact:
                return exact[0]
            globs = [row for row in rows if fnmatchcase(name, row.setting)]
            if len(globs) > 1:
                raise ConfigError(
                    f"{self.path}: values: {globs[0].setting} and {globs[1].setting} both match "
                    f"{name}; give it a row of its own"
                )
            if globs:
                return globs[0]
        return None

    @property
    def name_rank(self) -> tuple[int, str]:
        """Its place in an experiment's name: (slot, name); without slots last, as they are given.

        A name has the network near its end; :attr:`merge_rank` has it first, for other methods
        change the rates that it sets.
        """
        if not self.slots:
            return len(SLOTS), ""
        return SLOTS.index(self.slots[0]), self.name

    @property
    def merge_rank(self) -> tuple[int, int, str]:
        """Its place when methods are merged: networks first, then by :attr:`name_rank`."""
        stage = 0 if "network" in self.slots else 1
        return stage, *self.name_rank


class Composition:
    """A setting with its methods and the changes of an experiment.

    Args:
        path: a setting, or an experiment that names one.
        methods: names or files, besides those that the experiment names itself.

    Attributes:
        path: as given.
        layers: of the setting and of the experiment; the methods come between them.
        setting_name: the name of the setting.
        name: the experiment's: the file's name, and the methods that the file does not name.
        methods: those of the file and the others, in the order of their slots.
        method_names: their names.
    """

    def __init__(self, path: Path, methods: Sequence[str] = ()) -> None:
        self.path = path
        self._by_file: dict[Path, Method] = {}
        self.layers = read_layers(path)
        setting = self.layers[0]
        self.setting_name = Path(setting.file).stem
        names_in_file = []
        for layer in self.layers[1:]:
            names_in_file = _as_list(layer.values.get("methods", names_in_file))
        if setting.values.get("methods"):
            raise ConfigError(
                f"{setting.file}: methods: need a setting to be merged over: write setting = NAME"
            )
        methods_in_file = self._read_methods(names_in_file)
        self.methods = self._read_methods([*names_in_file, *methods])
        self.method_names = [method.name for method in self.methods]
        added_names = [method.name for method in self.methods if method not in methods_in_file]
        self.name = "_".join([path.stem, *added_names])

    # ---------------------------------------------------------------- the methods' files

    @functools.cached_property
    def method_files(self) -> dict[str, Path]:
        """The methods' files by name: the suite's, and those in ``methods`` beside the config."""
        files = {**method_files(CONFIGS), **method_files(self.path.resolve().parent)}
        return dict(sorted(files.items()))

    @functools.cached_property
    def setting_names(self) -> list[str]:
        """The setting's name, and those of the files that it inherits, the nearest first."""
        return [file.stem for file in inherited_files(Path(self.layers[0].file))]

    def find(self, method: str) -> Path:
        """The file of a method in this setting."""
        if method.endswith(".py"):
            for path in (Path(method), self.path.parent / method):
                if path.is_file():
                    make_importable(path.resolve().parent)
                    return path.resolve()
            raise ConfigError(f"methods: {method}: no such file")
        if method in self.method_files:
            return self.method_files[method]
        beside = self.path.resolve().parent / f"{method}.py"
        if beside.is_file() and not beside.is_relative_to(CONFIGS):
            make_importable(beside.parent)
            return beside
        hint = did_you_mean(method, self.method_files)
        listed = self.setting_name if self.path.resolve().is_relative_to(CONFIGS) else self.path
        raise ConfigError(
            f"methods: {self.setting_name}: unknown {method!r}{hint}; run fedseg list {listed}"
        )

    def _read_methods(self, names: Iterable[str]) -> list[Method]:
        """The methods in the order of their slots, each once; those without one as given."""
        read = {path: self._method(path) for path in map(self.find, names)}
        methods = sorted(read.values(), key=attrgetter("name_rank"))
        deciding: dict[str, Method] = {}
        for method in methods:
            for slot in method.slots:
                other = deciding.setdefault(slot, method)
                if other is not method and slot not in SHARED:
                    raise ConfigError(
                        f"methods: {other.name} and {method.name} contradict each other: both "
                        f"decide the {slot.replace('_', ' ')}; choose one"
                    )
        return methods

    def _method(self, path: Path) -> Method:
        """The method of a file, which is executed once."""
        if path not in self._by_file:
            self._by_file[path] = read_method(path)
        return self._by_file[path]

    # ---------------------------------------------------------------- the config

    def compose(self) -> Config:
        """The setting's config with everything merged, and its layers."""
        setting = self.layers[0]
        merged = Config(copy.deepcopy(dict(setting.values)), filename=str(self.path))
        keep_layers(merged, [setting])
        self._add_methods(merged)
        for layer in self.layers[1:]:
            add_layer(merged, layer)
        for method in self.methods:
            self._check_clients(method, merged)
            for need in method.needs:
                self._check_need(method, need, merged)
        values = merged.to_dict()
        for key in COMPOSITION_KEYS:
            values.pop(key, None)
        is_shipped = Path(setting.file).resolve().is_relative_to(CONFIGS)
        if is_shipped or len(self.layers) > 1 or self.methods:  # else a user's complete config
            values["setting"] = self.setting_name
            values["methods"] = self.method_names
        config = Config(_without_marks(values), filename=str(self.path))
        keep_layers(config, layers_of(merged))
        return config

    def _check_clients(self, method: Method, config: Config) -> None:
        """Raise ConfigError for a method of what happens between clients if there is only one."""
        has_one_client = get(config, "train_dataloader.partition.type") == "SinglePartition"
        if has_one_client and not set(BETWEEN_CLIENTS).isdisjoint(method.slots):
            raise ConfigError(
                f"methods: {method.name} does not apply to {self.setting_name}: it has one client"
            )

    def _check_need(self, method: Method, need: Need, config: Mapping[str, Any]) -> None:
        """Raise ConfigError if a config does not have what a method needs."""
        refused = need.refused_type(config)
        if refused is None:
            return
        problem = f"does not apply to {self.setting_name}"
        for other in self.methods:
            if refused in component_types(other.layer.values, need.key):
                problem = f"cannot be combined with {other.name}"
        raise ConfigError(
            f"methods: {method.name} {problem}: {need.key} is {refused!r} ({need.lack})"
        )

    def _add_methods(self, config: Config) -> None:
        """Merge the methods into the setting's config, in place."""
        rows = {method.path: self._rows_to_merge(method) for method in self.methods}
        for method in sorted(self.methods, key=attrgetter("merge_rank")):
            add_layer(config, method.layer)
            for row in rows[method.path]:
                values = {key: value for key, value in row.values.items() if key != "append"}
                add_layer(config, Layer(str(method.path), values))
        for method in self.methods:
            append = method.append
            for row in rows[method.path]:
                append = row.values.get("append", append)
            for key, entries in append.items():
                self._append(config, method, key, entries)

    def _append(self, config: Config, method: Method, key: str, entries: Sequence[Any]) -> None:
        """Add what a method appends to the list at a key, in place."""
        old = get(config, key)
        if old is None and "." not in key:
            old = []
        if old is None:
            raise ConfigError(
                f"methods: {method.name} does not apply to {self.setting_name}: there is no {key}"
            )
        if not isinstance(old, list):
            raise ConfigError(f"{key}: must be a list, to which {method.name} adds, not {old!r}")
        add_layer(config, Layer(str(method.path), nested(key, [*old, *entries])))

    def _rows_to_merge(self, method: Method) -> list[Row]:
        """The rows of a method that hold; raise ConfigError if it does not apply to the setting."""
        rows = method.matching_rows(self.setting_names, self.method_names)
        unconditional = [row for row in rows if not row.others]
        applies = method.is_general or bool(unconditional)
        if not applies or any(row.values is None for row in rows):
            raise ConfigError(f"methods: {method.name} does not apply to {self.setting_name}")
        return rows


def read_layers(path: Path, inherited_by: Sequence[Path] = ()) -> list[Layer]:
    """The layers of a config's file: those of the setting that it names, then its own.

    Args:
        inherited_by: the files that name it as their setting.
    """
    if path.resolve() in inherited_by:
        raise ConfigError(f"{path}: setting: names itself, through {inherited_by[-1]}")
    values = read_file(path)
    _check_types(path, values, {**METHOD_KEYS, "setting": str | None, "methods": NAMES})
    layer = Layer(str(path), values)
    if values.get("setting") is None:
        return [layer]
    setting = _find_setting(path, values["setting"])
    return [*read_layers(setting, [*inherited_by, path.resolve()]), layer]


def _find_setting(path: Path, setting: str) -> Path:
    """The file of the setting that an experiment names."""
    known = known_configs()
    for part in (CONFIGS / "_base_").glob("*.py"):
        known[f"_base_/{part.stem}"] = part
    if setting in known:
        return known[setting]
    beside = path.parent / setting
    if beside.suffix == ".py" and beside.is_file():
        return beside
    hint = did_you_mean(setting, known)
    raise ConfigError(
        f"{path}: setting: must be the name of a setting (fedseg list), or the path of a config "
        f"from the file's folder, not {setting!r}{hint}"
    )


def method_files(folder: Path) -> dict[str, Path]:
    """The files of the folder ``methods`` beside a config, by the methods' names."""
    return {path.stem: path for path in (folder / "methods").glob("*.py")}


def read_method(path: Path) -> Method:
    """Read a method's file."""
    values = dict(read_file(path))
    _check_types(path, values, METHOD_KEYS)
    slots = _as_list(values.pop("slot", None))
    task = values.pop("task", None)
    needs = _as_list(values.pop("needs", None))
    append = values.pop("append", None) or {}
    rows = tuple(_row(key, row) for key, row in (values.pop("values", None) or {}).items())
    for slot in slots:
        _check_name(path, "slot", slot, SLOTS)
    known_needs = []
    if task is not None:
        _check_name(path, "task", task, TASKS)
        known_needs.append(TASKS[task])
    for need in needs:
        _check_name(path, "needs", need, NEEDS)
        known_needs.append(NEEDS[need])
    return Method(
        name=path.stem,
        path=path,
        slots=tuple(slots),
        needs=tuple(known_needs),
        append=append,
        rows=rows,
        layer=Layer(str(path), values),
    )


def _row(key: str, values: Mapping[str, Any] | None) -> Row:
    setting, *others = (name.strip() for name in key.split("+"))
    return Row(key=key, setting=setting, others=frozenset(others), values=values)


def _check_name(path: Path, key: str, name: str, known: Iterable[str]) -> None:
    """Raise ConfigError for a name that is not in the vocabulary of a key."""
    if name not in known:
        raise ConfigError(f"{path}: {key}: unknown {name!r}; known: {', '.join(known)}")


def compose(path: Path, methods: Sequence[str] = ()) -> Config:
    """A config with its methods merged and its name; errors are those of :class:`Composition`."""
    composition = Composition(path, methods)
    config = composition.compose()
    config.setdefault("experiment_name", composition.name)
    return config


def setting_file(setting: str | Path) -> Path:
    """The file of a config: a path of one, or the name of an experiment or setting of the suite."""
    if Path(setting).is_file():
        return Path(setting)
    known = known_configs()
    if str(setting) not in known:
        hint = did_you_mean(Path(setting).stem, known)
        raise ConfigError(f"{setting}: no config of this name{hint}; run fedseg list")
    return known[str(setting)]


def known_configs() -> dict[str, Path]:
    """The suite's experiments and settings by name."""
    paths = (path for place in ("settings", ".") for path in (CONFIGS / place).glob("*.py"))
    return {path.stem: path for path in sorted(paths)}


def make_importable(folder: Path) -> None:
    """Let ``custom_imports`` find modules in a folder."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _check_types(path: Path, values: Mapping[str, Any], hints: Mapping[str, Any]) -> None:
    """Raise ConfigError unless the keys of ``hints`` have values of their types in a file."""
    try:
        check_values({key: values.get(key) for key in hints}, hints)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _without_marks(value: Any) -> Any:
    """Without the ``_delete_`` that MMEngine leaves where there was nothing to delete."""
    if isinstance(value, dict):
        return {k: _without_marks(v) for k, v in value.items() if k != "_delete_"}
    return value


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]
