"""Experiments from parts: a setting and a list of methods.

A *setting* (``configs/settings``) is a config with its name in ``setting`` and, in ``lookup``, the
folders of ``configs/methods`` where its methods are looked for: after one of its own name, before
``configs/methods`` itself. ``without`` lists the slots that have no meaning in it.

A *method* is a config that is merged over the setting. Besides what it sets it can say:

- ``slot``: what it decides, one of ``SLOTS`` or several. Two methods cannot decide the same.
- ``refuses``: what it has no meaning with, as ``{"model.type": ["CNN", ...]}``.
- ``append``: what it adds to a list, as ``{"train_dataloader.transforms": [...]}``.

A file named by several methods (``fedsam+resnet18.py``) is merged after them where all of them are
chosen, before the next method of the user's own: values that these methods have together.

Settings and methods are found by their names, whatever their case. A config anywhere inherits one
with ``_base_ = "fedseg::settings/idda_rainy.py"``.

A config that inherits a setting names its methods as ``methods = ["fedasam", "swa"]``; what it sets
itself is merged last. Without ``_base_`` the list is a record of what the config was made of: that
is the copy in a work dir.
"""

import ast
import copy
import functools
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.utils import import_modules_from_strings

import fedseg
from fedseg.checks import check_type
from fedseg.errors import ConfigError, Mistakes
from fedseg.names import by_case, did_you_mean

CONFIGS = (Path(fedseg.__file__).parent / "configs").resolve()
OURS = "fedseg::"  # before a path in CONFIGS, as a _base_ of a config that may lie anywhere
# what a method can decide, in the order of an experiment's name
SLOTS = ("batchnorm", "algorithm", "local_optimizer", "regularizer")
SAYS_FEDAVG = frozenset(SLOTS)  # the name says fedavg where no method decides any of these
SLOTS += ("average", "augmentation", "style", "network", "protocol", "split", "defects")
SHARED = ("augmentation",)  # slots of any number of methods
FEDAVG = "fedavg"
SYNONYMS = {"sam": "fedsam", "asam": "fedasam"}  # what FedAvg with SAM is called
NAMES = Sequence[str] | str | None
KEY_TYPES = {
    **dict.fromkeys(("slot", "lookup", "without", "methods"), NAMES),
    **{"setting": str | None, "refuses": Mapping | None, "protocols": Mapping[str, NAMES] | None},
    "append": Mapping[str, Sequence] | None,
}
KEYS = ("slot", "refuses", "append", "lookup", "without", "protocols")  # not part of the experiment


@dataclass(frozen=True)
class Part:
    """A method's file as read; ``values`` are what is merged, the others see the module."""

    path: Path
    slots: tuple[str, ...]
    refuses: dict[str, Any]
    append: dict[str, list[Any]]
    values: dict[str, Any]

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def rank(self) -> tuple[int, str]:
        """Its place in an experiment's name: by slot, those without one last as they are given."""
        return (SLOTS.index(self.slots[0]), self.name) if self.slots else (len(SLOTS), "")


class Composition:
    """A setting and its methods.

    Args:
        path: a setting, or a config that inherits one.
        methods: names or files, besides those that the config names itself.

    Raises:
        ConfigError: a file cannot be read, or a method is unknown or contradicts another one.
    """

    def __init__(self, path: Path, methods: Sequence[str] = ()) -> None:
        self.path = path
        self.read = functools.cache(read_config)
        config = self.read(path)
        for key, hint in KEY_TYPES.items():
            check_type(f"{path}: {key}", config.get(key), hint)
        self.setting = config.get("setting")
        self.title = self.setting or path.stem
        self.without = _as_list(config.get("without"))
        self.protocols = config.get("protocols") or {}
        self.places = (self.title, *_as_list(config.get("lookup")), "")
        folders = dict.fromkeys((*path.resolve().parents[:2], CONFIGS))
        self.roots = [folder / "methods" for folder in folders]
        named = _as_list(config.get("methods"))
        self.record = named if not bases(path) else []
        if self.record and (methods or not self.setting or "lookup" in config):
            raise ConfigError(f"{path}: methods: need a _base_ to be merged over: name a setting")
        self.own = [] if self.record else self._parts(named)
        self.parts = [] if self.record else self._parts([*named, *methods])

    # ---------------------------------------------------------------- the methods' files

    def _parts(self, methods: Iterable[str]) -> list[Part]:
        """The methods in the given order, each once."""
        mistakes, found = Mistakes(), {}
        for method in methods:
            with mistakes:
                path = self.find(method)
                found[path] = self.part(path)
        mistakes.tell()
        parts = list(found.values())
        protocol = self._protocol(parts)
        if protocol and not any("protocol" in part.slots for part in parts):
            parts.append(self.part(self.find(protocol)))
        parts.sort(key=lambda part: "protocol" not in part.slots)
        deciding: dict[str, Part] = {}
        for part, slot in [(one, slot) for one in parts for slot in one.slots]:
            decided, other = slot.replace("_", " "), deciding.setdefault(slot, part)
            with mistakes:
                if slot in self.without:
                    raise ConfigError(
                        f"methods: {part.name} has no meaning in {self.title}: no {decided} there"
                    )
                if other is not part and slot not in SHARED:
                    raise ConfigError(
                        f"methods: {other.name} and {part.name} contradict each other: both decide "
                        f"the {decided}; choose one"
                    )
        mistakes.tell()
        return parts

    def _protocol(self, parts: Iterable[Part]) -> str | None:
        """Whose protocol the published row of these methods follows."""
        chosen = {part.name for part in parts}
        rows = self.protocols.items()
        return next((name for name, own in rows if own is None or chosen & set(own)), None)

    def part(self, path: Path) -> Part:
        """What a method's file says."""
        values = self.read(path).to_dict()
        for key in KEYS:
            check_type(f"{path}: {key}", values.get(key), KEY_TYPES[key])
        slots, refuses, append, *_ = (values.pop(key, None) for key in KEYS)
        for slot in _as_list(slots):
            if slot not in SLOTS:
                raise ConfigError(f"{path}: slot: unknown {slot!r}; known: {', '.join(SLOTS)}")
        return Part(path, tuple(_as_list(slots)), refuses or {}, append or {}, values)

    def find(self, method: str) -> Path:
        """The file of a method in this setting."""
        if method.endswith(".py"):
            for path in (Path(method), self.path.parent / method):
                if path.is_file():
                    make_importable(path.resolve().parent)
                    return path.resolve()
            raise ConfigError(f"methods: {method}: no such file")
        name = by_case(SYNONYMS.get(method.lower(), method), self.known)
        if name is None:
            hint, known = did_you_mean(method, self.known), ", ".join(self.known)
            raise ConfigError(f"methods: {self.title}: unknown {method!r}{hint}; known: {known}")
        return self.known[name]

    @functools.cached_property
    def files(self) -> dict[str, Path]:
        """The files for this setting by name: of methods, and of several together."""
        found: dict[str, Path] = {}
        for place in self.places:
            for root in self.roots:
                for path in (root / place).glob("*.py"):
                    found.setdefault(path.stem, path)
        return dict(sorted(found.items()))

    @property
    def known(self) -> dict[str, Path]:
        """The files of single methods."""
        return {name: path for name, path in self.files.items() if "+" not in name}

    # ---------------------------------------------------------------- the name

    @property
    def methods(self) -> list[str]:
        """The methods' names in their one order; a config of a user's own need not be FedAvg."""
        names = self.record or self._names(self.parts)
        return names if self.is_canonical else [name for name in names if name != FEDAVG]

    @property
    def is_canonical(self) -> bool:
        """Whether the file is a setting, or an experiment named by its setting and methods."""
        canonical = "_".join([self.title, *(self.record or self._names(self.own))])
        own = self.path.stem == self.setting and "methods" not in self.read(self.path)
        return bool(self.setting) and (own or self.path.stem == canonical)

    @property
    def name(self) -> str:
        """The experiment's name; a file of a user's own keeps its name."""
        if self.is_canonical:
            return "_".join([self.title, *self.methods])
        more = [part.name for part in self._ranked(self.parts) if part not in self.own]
        return "_".join([self.path.stem, *more])

    def _names(self, parts: Iterable[Part]) -> list[str]:
        parts = [part for part in self._ranked(parts) if part.name != FEDAVG]
        names = [part.name for part in parts]
        slots = {slot for part in parts for slot in part.slots}
        if "algorithm" in slots or "algorithm" in self.without:  # SAM is no FedSAM there
            shorter = {name: synonym for synonym, name in SYNONYMS.items()}
            return [shorter.get(name, name) for name in names]
        return names if slots & SAYS_FEDAVG else [FEDAVG, *names]

    def _ranked(self, parts: Iterable[Part]) -> list[Part]:
        """In the order of a name, without the protocol that the others have anyway."""
        parts = list(parts)
        ranked = sorted(parts, key=lambda part: part.rank)
        return [part for part in ranked if part.name != self._protocol(parts)]

    # ---------------------------------------------------------------- the config

    def compose(self) -> Config:
        """The setting's config with everything merged."""
        config = self._merged(self.path)
        self._check(config)
        for key in KEYS:
            config.pop(key, None)
        if self.setting or self.parts:
            config["setting"], config["methods"] = self.title, self.methods
        return Config(_without_marks(config.to_dict()), filename=str(self.path))

    def _merged(self, path: Path) -> Config:
        """The methods merged over the setting, below what configs that name methods set."""
        config, below_it = self.read(path), bases(path)
        if "methods" not in config or not below_it:
            return self._over(config)
        above = [base for base in below_it if "methods" in self.read(base)]
        below: dict[str, Any] = {}
        for base in below_it:
            below |= (self._merged(base) if base in above else self.read(base)).to_dict()
        return _on_base(path, below if above else self._over(Config(below)).to_dict())

    def layers(self) -> list[Part]:
        """What is merged over the setting, in this order: methods, and what several share."""
        found, chosen = [], set()
        together = sorted((n for n in self.files if "+" in n), key=lambda name: name.count("+"))
        for number, part in enumerate(self.parts):
            found.append(part)
            chosen.add(part.name)
            follows = self.parts[number + 1 : number + 2]
            if follows and follows[0].path.is_relative_to(CONFIGS):
                continue  # in the suite's own methods the order makes no difference
            shared = [name for name in together if chosen.issuperset(name.split("+"))]
            together = [name for name in together if name not in shared]
            found += [self.part(self.files[name]) for name in shared]
        return found

    def _over(self, config: Config) -> Config:
        config = copy.deepcopy(config)
        for part in self.layers():
            imports = get(config, "custom_imports.imports") or []
            try:
                config.merge_from_dict(copy.deepcopy(part.values))
            except (TypeError, KeyError) as error:
                raise ConfigError(f"{part.path}: {error}") from error
            if imports and "custom_imports" in part.values:
                config.custom_imports["imports"] = [*imports, *config.custom_imports["imports"]]
        for part in sorted(self.parts, key=lambda part: part.rank):
            for key, values in part.append.items():
                old = get(config, key) if "." in key else config.get(key, [])
                if not isinstance(old, list):
                    raise ConfigError(
                        f"methods: {part.name} has no meaning in {self.title}: there is no {key}"
                    )
                config.merge_from_dict({key: [*old, *values]})
        return config

    def _check(self, config: Config) -> None:
        for part in self.parts:
            for key, refused in part.refuses.items():
                value = get(config, key)
                if value in _as_list(refused):
                    set_it = [p.name for p in self.parts if get(p.values, key) == value]
                    other = (set_it or [self.title])[-1]
                    raise ConfigError(
                        f"methods: {part.name} has no meaning with {other}: {key} is {value!r}"
                    )


def compose(path: Path, methods: Sequence[str] = ()) -> Config:
    """A config with its methods merged and its name; errors are those of :class:`Composition`."""
    composition = Composition(path, methods)
    config = composition.compose()
    config.setdefault("experiment_name", composition.name)
    return config


def setting_file(setting: str | Path) -> Path:
    """The file of a config: a path of one, or the name of an experiment or setting of the suite.

    Raises:
        ConfigError: there is neither such a file nor such a name.
    """
    if Path(setting).is_file():
        return Path(setting)
    known = known_configs()
    name = by_case(str(setting), known)
    if name is None:
        hint = did_you_mean(Path(setting).stem, known)
        raise ConfigError(f"{setting}: no such config or name{hint}; fedseg list shows names")
    return known[name]


def known_configs() -> dict[str, Path]:
    """The suite's experiments and settings by name."""
    found = (path for place in ("settings", ".") for path in (CONFIGS / place).glob("*.py"))
    return {path.stem: path for path in sorted(found)}


def make_importable(folder: Path) -> None:
    """Let ``custom_imports`` find modules in a folder."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def read_config(path: Path) -> Config:
    """``Config.fromfile``; whatever goes wrong in a user's file is a ConfigError."""
    try:
        _check_python(path)
        # imported here: MMEngine leaves them out where a config has imports of its own
        config = Config.fromfile(path, import_custom_modules=False)
        if config.get("custom_imports"):
            check_type(f"{path}: custom_imports", config.custom_imports, Mapping)
            try:
                import_modules_from_strings(**config.custom_imports)
            except TypeError as error:
                raise ConfigError(f"{path}: custom_imports: {error}") from error
        return config
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:  # a config is a program of the user's
        if isinstance(error, ImportError) and error.__cause__ is not None:
            error = error.__cause__  # MMEngine puts the whole search path around it
        if isinstance(error, FileNotFoundError) and str(error.filename).endswith(".py"):
            base = Path(error.filename)
            hint = did_you_mean(base.name, (other.name for other in base.parent.glob("*.py")))
            raise ConfigError(f"{path}: _base_: {base}: does not exist{hint}") from error
        kind = type(error).__name__
        raise ConfigError(f"{path}: cannot be read as a config: {kind}: {error}") from error


_mmengine_path = Config._get_cfg_path


def _base_path(name: str, file: str) -> tuple[str, str | None]:
    """Where a base of a config is; MMEngine itself has a fixed list of packages before ``::``."""
    if name.startswith(OURS):
        return str(CONFIGS / name.removeprefix(OURS)), None
    return _mmengine_path(name, file)


Config._get_cfg_path = staticmethod(_base_path)


def _check_python(path: Path) -> None:
    """Raise ConfigError for a config, or a base of it, in YAML: reading that can run anything."""
    if path.suffix != ".py":
        raise ConfigError(f"{path}: is no config: configs and their bases are Python files")
    for base in bases(path):
        _check_python(base)


def bases(path: Path) -> list[Path]:
    """The files that a config inherits."""
    names = Config._get_base_files(str(path))
    return [Path(Config._get_cfg_path(name, str(path.absolute()))[0]) for name in names]


_below: dict[str, dict[str, Any]] = {}  # what a file in the place of a _base_ holds, by its path


def _on_base(path: Path, base: dict[str, Any]) -> Config:
    """Read a config with these values in the place of its ``_base_``."""
    with tempfile.TemporaryDirectory() as folder:
        below, own = Path(folder, "base.py"), Path(folder, path.name)
        _below[str(below)] = base  # not as text: inf or a path has none that could be read again
        values = f"__import__('sys').modules[{__name__!r}]._below[{str(below)!r}]"
        below.write_text(f"globals().update({values})\n", encoding="utf-8")
        Config._substitute_predefined_vars(str(path), str(own))
        tree = ast.parse(own.read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "_base_":
                node.value = ast.Constant(str(below))
        own.write_text(ast.unparse(tree), encoding="utf-8")
        try:
            return read_config(own)
        except ConfigError as error:
            raise ConfigError(str(error).replace(str(own), str(path))) from error
        finally:
            _below.pop(str(below))


def _without_marks(value: Any) -> Any:
    """Without the ``_delete_`` that MMEngine leaves where there was nothing to delete."""
    if isinstance(value, dict):
        return {k: _without_marks(v) for k, v in value.items() if k != "_delete_"}
    return value


def get(config: Any, key: str, default: Any = None) -> Any:
    """The value of a key with dots, or the default."""
    for name in key.split("."):
        config = config.get(name, default) if hasattr(config, "get") else default
    return config


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]
