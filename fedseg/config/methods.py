"""Experiments from parts: a setting and a list of methods.

A *setting* (``configs/settings``) is a config with its name in ``setting`` and, in ``lookup``, the
folders of ``configs/methods`` where its methods are looked for: after one of its own name, before
``configs/methods`` itself. ``without`` lists the slots that make no sense in it, ``protocols`` the
methods of the slot ``protocol`` that come by themselves: ``{"paper": ["swa", ...]}``.

A *method* is a config that is merged over the setting. Besides what it sets it can say:

- ``slot``: what it decides, one of ``SLOTS`` or several. Two methods cannot decide the same.
- ``task``: the only one that it is for, ``"segmentation"`` or ``"classification"``.
- ``needs``: what it needs of the setting and the other methods, such as ``"batchnorm"``; a name of
  :data:`fedseg.config.needs.NEEDS` or several.
- ``append``: what it adds to a list, as ``{"personal": ["@head"]}``; what several methods add
  follows the order of their slots.

A file named by several methods (``fedsam+resnet18.py``) is merged after them where all of them are
chosen, before the next method of the user's own: values that these methods have together.

Settings and methods are found by their names, whatever their case. A config anywhere inherits one
with ``_base_ = "fedseg::settings/idda_rainy.py"``.

A config that inherits a setting names its methods as ``methods = ["fedasam", "swa"]``; what it sets
itself is merged last. Without ``_base_`` the list is a record of what the config was made of: that
is the copy in a work dir.
"""

import functools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from mmengine.config import Config

from fedseg.config.layers import CONFIGS, Layer, Merged, get, keep_layers, merge, read_file
from fedseg.config.needs import NEEDS, TASKS, Need, component_types, has_pixel_metric
from fedseg.config.schema import check_values
from fedseg.errors import ConfigError, Mistakes
from fedseg.names import by_case, did_you_mean

# what a method can decide, in the order of an experiment's name
SLOTS = ("batchnorm", "personal", "algorithm", "local_optimizer", "regularizer")
SAYS_FEDAVG = frozenset(SLOTS)  # the name says fedavg where no method decides any of these
SLOTS += (
    *("average", "compression", "privacy", "robust", "attack", "augmentation", "style"),
    *("network", "adapter", "loss", "protocol", "split", "defects"),
)
SHARED = ("augmentation",)  # slots of any number of methods
FEDAVG = "fedavg"
SYNONYMS = {"sam": "fedsam", "asam": "fedasam"}  # what FedAvg with SAM is called
SHORT = {name: synonym for synonym, name in SYNONYMS.items()}
NAMES = Sequence[str] | str | None
# what settings and methods say, which is no part of an experiment
KEYS: Mapping[str, Any] = {
    "slot": NAMES,
    "task": str | None,
    "needs": NAMES,
    "append": Mapping[str, list] | None,
    "lookup": NAMES,
    "without": NAMES,
    "protocols": Mapping[str, NAMES] | None,
}


@dataclass(frozen=True)
class Method:
    """A method's file as read; its layer has what is merged."""

    name: str
    path: Path
    slots: tuple[str, ...]
    needs: tuple[Need, ...]
    append: Mapping[str, list[Any]]
    layer: Layer

    @property
    def rank(self) -> tuple[int, str]:
        """Its place in an experiment's name: by slot, those without one last as they are given."""
        return (SLOTS.index(self.slots[0]), self.name) if self.slots else (len(SLOTS), "")


class Composition:
    """A setting and its methods.

    Args:
        path: a setting, or a config that inherits one.
        methods: names or files, besides those that the config names itself.

    Attributes:
        name: the experiment's.
        methods: the names of its methods in their one order.
        is_canonical: the file is a setting, or an experiment named by its setting and methods.
    """

    def __init__(self, path: Path, methods: Sequence[str] = ()) -> None:
        self.path = path
        self.plain = read_file(path)
        self._by_file: dict[Path, Method] = {}
        config = self.plain.values
        hints = {**KEYS, "setting": str | None, "methods": NAMES}
        _check_keys(path, config, hints)
        self.setting = config.get("setting")
        self.title = self.setting or path.stem
        self.without = _as_list(config.get("without"))
        self.protocols = config.get("protocols") or {}
        named = _as_list(config.get("methods"))
        inherits = len(self.plain.layers) > 1
        self.record = [] if inherits else named
        if self.record and (methods or not self.setting or "lookup" in config):
            raise ConfigError(f"{path}: methods: need a _base_ to be merged over: name a setting")
        self.of_file = [] if self.record else self._read_methods(named)
        self.chosen = [] if self.record else self._read_methods([*named, *methods])
        self._set_names()

    # ---------------------------------------------------------------- the methods' files

    @functools.cached_property
    def files(self) -> dict[str, Path]:
        """The files for this setting by name: of methods, and of several together."""
        files: dict[str, Path] = {}
        roots = dict.fromkeys((self.path.resolve().parent, CONFIGS))
        places = [self.title, *_as_list(self.plain.values.get("lookup"))]
        if has_pixel_metric(self.plain.values):  # has networks of its own
            places.append("segmentation")
        for place in (*places, ""):
            for root in roots:
                for path in (root / "methods" / place).glob("*.py"):
                    files.setdefault(path.stem, path)
        return dict(sorted(files.items()))

    @property
    def known(self) -> dict[str, Path]:
        """The files of single methods."""
        return {name: path for name, path in self.files.items() if "+" not in name}

    def find(self, method: str) -> Path:
        """The file of a method in this setting."""
        if method.endswith(".py"):
            for path in (Path(method), self.path.parent / method):
                if path.is_file():
                    make_importable(path.resolve().parent)
                    return path.resolve()
            raise ConfigError(f"methods: {method}: no such file")
        name = by_case(SYNONYMS.get(method.lower(), method), self.known)
        beside = self.path.resolve().parent / f"{method}.py"
        if name is None and beside.is_file() and not beside.is_relative_to(CONFIGS):
            make_importable(beside.parent)
            return beside
        if name is None:
            hint = did_you_mean(method, self.known)
            listed = self.title if self.path.resolve().is_relative_to(CONFIGS) else self.path
            raise ConfigError(
                f"methods: {self.title}: unknown {method!r}{hint}; run fedseg list {listed}"
            )
        return self.known[name]

    def _read_methods(self, names: Iterable[str]) -> list[Method]:
        """The methods in the given order, each once, after the protocol that they follow."""
        mistakes, read = Mistakes(), {}
        for name in names:
            with mistakes:
                path = self.find(name)
                read[path] = self._method(path)
        mistakes.tell()
        methods = list(read.values())
        protocol = self._protocol(methods)
        if protocol and not any("protocol" in method.slots for method in methods):
            methods.append(self._method(self.find(protocol)))
        # a network has a loss of its own, which a loss by name replaces
        methods.sort(key=lambda one: ("protocol" not in one.slots, "loss" in one.slots))
        deciding: dict[str, Method] = {}
        for method, slot in [(one, slot) for one in methods for slot in one.slots]:
            decided, other = slot.replace("_", " "), deciding.setdefault(slot, method)
            if slot in self.without:
                mistakes.add(
                    f"methods: {method.name} does not apply to {self.title}: no {decided} there"
                )
            elif other is not method and slot not in SHARED:
                mistakes.add(
                    f"methods: {other.name} and {method.name} contradict each other: both decide "
                    f"the {decided}; choose one"
                )
        mistakes.tell()
        return methods

    def _method(self, path: Path) -> Method:
        """The method of a file, which is executed once."""
        if path not in self._by_file:
            self._by_file[path] = read_method(path)
        return self._by_file[path]

    def _protocol(self, methods: Iterable[Method]) -> str | None:
        """Whose protocol the published row of these methods follows."""
        chosen = {method.name for method in methods}
        rows = self.protocols.items()
        return next((name for name, of in rows if of is None or chosen & set(of)), None)

    # ---------------------------------------------------------------- the name

    def _set_names(self) -> None:
        """Name the experiment and its methods; a file of a user's own keeps its name."""
        names = [self.record or self._names(methods) for methods in (self.of_file, self.chosen)]
        of_file = "_".join([self.title, *names[0]])
        is_setting = self.path.stem == self.setting and "methods" not in self.plain.values
        self.is_canonical = bool(self.setting) and (is_setting or self.path.stem == of_file)
        if self.is_canonical:
            self.methods = names[1]
            self.name = "_".join([self.title, *names[1]])
        else:  # it need not be FedAvg
            self.methods = [name for name in names[1] if name != FEDAVG]
            more = [
                method.name for method in self._ranked(self.chosen) if method not in self.of_file
            ]
            self.name = "_".join([self.path.stem, *more])

    def _names(self, methods: Iterable[Method]) -> list[str]:
        methods = [method for method in self._ranked(methods) if method.name != FEDAVG]
        names = [method.name for method in methods]
        slots = {slot for method in methods for slot in method.slots}
        if "algorithm" in slots or "algorithm" in self.without:  # SAM is no FedSAM there
            return [SHORT.get(name, name) for name in names]
        is_named = slots & SAYS_FEDAVG or any(map(_has_algorithm, methods))
        return names if is_named else [FEDAVG, *names]

    def _ranked(self, methods: Iterable[Method]) -> list[Method]:
        """In the order of a name, without the protocol that the others have anyway."""
        methods = list(methods)
        ranked = sorted(methods, key=attrgetter("rank"))
        return [method for method in ranked if method.name != self._protocol(methods)]

    # ---------------------------------------------------------------- the config

    def compose(self) -> Config:
        """The setting's config with everything merged, and its layers."""
        merged, above = self.plain, self._layers_above_methods()
        if above:
            merged = merge(self.plain.layers[: -len(above)])
        merged = self._add_methods(merged)
        for layer in above:
            merged = merged.add(layer)
        for method in self.chosen:
            for need in method.needs:
                self._check_need(method, need, merged.values)
        values = {key: value for key, value in merged.values.to_dict().items() if key not in KEYS}
        if self.setting or self.chosen:
            values["setting"], values["methods"] = self.title, self.methods
        config = Config(_without_marks(values), filename=str(self.path))
        keep_layers(config, merged.layers)
        return config

    def _check_need(self, method: Method, need: Need, config: Mapping[str, Any]) -> None:
        """Raise ConfigError if a config does not have what a method needs."""
        refused = need.refused_type(config)
        if refused is None:
            return
        problem = f"does not apply to {self.title}"
        for other in self.chosen:
            if refused in component_types(other.layer.values, need.key):
                problem = f"cannot be combined with {other.name}"
        raise ConfigError(
            f"methods: {method.name} {problem}: {need.key} is {refused!r} ({need.lack})"
        )

    def _layers_above_methods(self) -> Sequence[Layer]:
        """The layers of the first file that inherits another and names methods, and those over it.

        What such a file sets itself wins over its methods.
        """
        layers = self.plain.layers
        for index in range(1, len(layers)):
            if "methods" in layers[index].values:
                return layers[index:]
        return ()

    def _add_methods(self, merged: Merged) -> Merged:
        for layer in self._method_layers():
            merged = merged.add(layer, lists=True)
        for method in sorted(self.chosen, key=attrgetter("rank")):
            for key, entries in method.append.items():
                old = get(merged.values, key)
                if old is None and "." not in key:
                    old = []
                if old is None:
                    raise ConfigError(
                        f"methods: {method.name} does not apply to {self.title}: there is no {key}"
                    )
                if not isinstance(old, list):
                    raise ConfigError(
                        f"{key}: must be a list, to which {method.name} adds, not {old!r}"
                    )
                merged = merged.add(Layer.of(str(method.path), {key: [*old, *entries]}))
        return merged

    def _method_layers(self) -> Iterator[Layer]:
        """Layers over the setting, in order: methods, and files that several of them share."""
        chosen = set()
        together = [n for _, n in sorted((n.count("+"), n) for n in self.files if "+" in n)]
        for number, method in enumerate(self.chosen):
            yield method.layer
            chosen.add(method.name)
            follows = self.chosen[number + 1 : number + 2]
            if follows and follows[0].path.is_relative_to(CONFIGS):
                continue  # in the suite's own methods the order makes no difference
            shared = [name for name in together if chosen.issuperset(name.split("+"))]
            together = [name for name in together if name not in shared]
            yield from (self._method(self.files[name]).layer for name in shared)


def read_method(path: Path) -> Method:
    """Read a method's file."""
    merged = read_file(path)
    values = merged.values.to_dict()
    _check_keys(path, values, KEYS)
    slots = _as_list(values.pop("slot", None))
    task = values.pop("task", None)
    needs = _as_list(values.pop("needs", None))
    append = values.pop("append", None) or {}
    for key in KEYS:
        values.pop(key, None)
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
        layer=Layer(str(path), values, merged.layers[:-1]),
    )


def _check_name(path: Path, key: str, name: str, known: Iterable[str]) -> None:
    """Raise ConfigError for a name that is not in the vocabulary of a key."""
    if name not in known:
        raise ConfigError(f"{path}: {key}: unknown {name!r}; known: {', '.join(known)}")


def _has_algorithm(method: Method) -> bool:
    """True if a method sets the algorithm, also where it says no slot."""
    return get(method.layer.values, "algorithm.type") is not None


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
    name = by_case(str(setting), known)
    if name is None:
        hint = did_you_mean(Path(setting).stem, known)
        raise ConfigError(f"{setting}: no config of this name{hint}; run fedseg list")
    return known[name]


def known_configs() -> dict[str, Path]:
    """The suite's experiments and settings by name."""
    paths = (path for place in ("settings", ".") for path in (CONFIGS / place).glob("*.py"))
    return {path.stem: path for path in sorted(paths)}


def make_importable(folder: Path) -> None:
    """Let ``custom_imports`` find modules in a folder."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _check_keys(path: Path, config: Mapping[str, Any], hints: Mapping[str, Any]) -> None:
    try:
        check_values({key: config.get(key) for key in hints}, hints)
    except ConfigError as error:
        lines = (f"{path}: {line}" for line in str(error).split("\n"))
        raise ConfigError("\n".join(lines)) from error


def _without_marks(value: Any) -> Any:
    """Without the ``_delete_`` that MMEngine leaves where there was nothing to delete."""
    if isinstance(value, dict):
        return {k: _without_marks(v) for k, v in value.items() if k != "_delete_"}
    return value


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]
