"""Experiments from parts: a setting and a list of methods.

A *setting* (``configs/settings``) is a config with a ``setting``, its name, and a ``lookup``, the
folders of ``configs/methods`` where its methods are looked for after one of its own name and before
``configs/methods`` itself. ``without`` lists the slots that have no meaning in it.

A *method* is a config file that is merged over the setting. Besides what it sets it can say:

- ``slot``: what it decides, one of ``SLOTS`` or several. Two methods cannot decide the same.
- ``refuses``: what it has no meaning with, as ``{"model.type": ["CNN", ...]}``.
- ``append``: what it adds to a list, as ``{"train_dataloader.transforms": [...]}``.

A file named by several methods (``fedsam+resnet18.py``) holds the values of these together. It is
merged after them, where all of them are chosen.

A config that inherits a setting names its methods as ``methods = ["fedasam", "swa"]``; what it sets
itself is merged last. Without ``_base_`` the list only says what the config was made of: that is the
copy in a work dir.
"""

import ast
import copy
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmengine.config import Config

import fedseg
from fedseg.errors import ConfigError

CONFIGS = Path(fedseg.__file__).resolve().parents[1] / "configs"
# what a method can decide, in the order of an experiment's name
SLOTS = (
    "batchnorm",
    "algorithm",
    "local_optimizer",
    "regularizer",
    "average",
    "augmentation",
    "style",
    "network",
)
SHARED = ("augmentation",)  # slots that several methods may have
# without any of these the name of an experiment says fedavg
NAMING = ("batchnorm", "algorithm", "local_optimizer", "regularizer")
SYNONYMS = {"sam": "fedsam", "asam": "fedasam"}  # beside another algorithm they are called so
KEYS = ("slot", "refuses", "append", "lookup", "without")  # not part of the experiment


@dataclass(frozen=True)
class Part:
    """A method's file as read.

    Attributes:
        name: the file's, without ``.py``. slots: what it decides. refuses, append: see the module.
        values: what is merged.
    """

    path: Path
    slots: tuple[str, ...]
    refuses: dict[str, list[Any]]
    append: dict[str, list[Any]]
    values: dict[str, Any]

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def rank(self) -> tuple[int, str]:
        """Its place in the name of an experiment; without a slot after all others."""
        return (SLOTS.index(self.slots[0]), self.name) if self.slots else (len(SLOTS), "")


def read_part(path: Path) -> Part:
    """Read a method's file.

    Raises:
        ConfigError: it cannot be read, or its slot is unknown.
    """
    values = read_config(path).to_dict()
    own = {key: values.pop(key, None) for key in KEYS}
    slots = _as_list(own["slot"])
    for slot in slots:
        if slot not in SLOTS:
            raise ConfigError(f"{path}: slot: unknown {slot!r}; choose from {', '.join(SLOTS)}")
    refuses = {key: _as_list(value) for key, value in (own["refuses"] or {}).items()}
    return Part(path, tuple(slots), refuses, own["append"] or {}, values)


def read_config(path: Path) -> Config:
    """``Config.fromfile``; whatever goes wrong in a user's file is a ConfigError."""
    try:
        return Config.fromfile(path)
    except Exception as error:  # a config is a program of the user's
        if isinstance(error, ImportError) and error.__cause__ is not None:
            error = error.__cause__  # MMEngine puts the whole search path around it
        kind = type(error).__name__
        raise ConfigError(f"{path}: cannot be read as a config: {kind}: {error}") from error


class Composition:
    """A setting and its methods.

    Args:
        path: a setting, or a config that inherits one.
        methods: names or files, besides those that the config names itself.

    Raises:
        ConfigError: a method is unknown or contradicts another one or the setting.
    """

    def __init__(self, path: Path, methods: Sequence[str] = ()) -> None:
        self.path = path
        read = read_config(path)
        self.setting = read.get("setting")
        self.without = _as_list(read.get("without"))
        self.places = (self.setting or path.stem, *_as_list(read.get("lookup")), "")
        self.roots = [parent / "methods" for parent in (*path.resolve().parents[:2], CONFIGS)]
        named = _as_list(read.get("methods"))
        self.is_record = bool(named) and not _bases(path)
        if self.is_record and (methods or not self.setting or "lookup" in read):
            raise ConfigError(f"{path}: methods: need a _base_ to be merged over: name a setting")
        self.recorded = named
        self.own = [] if self.is_record else self._parts(named)
        self.parts = [] if self.is_record else self._parts([*named, *methods])

    def _parts(self, methods: Sequence[str]) -> list[Part]:
        """The methods' files in the given order, each once."""
        parts = [read_part(path) for path in dict.fromkeys(map(self.find, methods))]
        for number, part in enumerate(parts):
            for slot in part.slots:
                if slot in self.without:
                    raise ConfigError(f"methods: {part.name} has no meaning in {self.places[0]}")
                for other in parts[:number]:
                    if slot in other.slots and slot not in SHARED:
                        raise ConfigError(
                            f"methods: {other.name} and {part.name} contradict each other, both "
                            f"decide on the {slot.replace('_', ' ')}: choose one"
                        )
        return parts

    def find(self, method: str) -> Path:
        """The file of a method in this setting."""
        if method.endswith(".py"):
            for path in (Path(method), self.path.parent / method):
                if path.is_file():
                    return path.resolve()
            raise ConfigError(f"methods: {method}: no such file")
        known = self.known()
        name = SYNONYMS.get(method, method)
        if name not in known:
            from fedseg.registry import did_you_mean  # imports torch

            hint = did_you_mean(method, known)
            raise ConfigError(f"methods: unknown {method!r}{hint}; known: {', '.join(known)}")
        return known[name]

    def known(self, together: bool = False) -> dict[str, Path]:
        """The files of all methods in this setting, or those of several methods together."""
        found: dict[str, Path] = {}
        for place in self.places:
            for root in self.roots:
                for path in sorted((root / place).glob("*.py")):
                    if ("+" in path.stem) == together:
                        found.setdefault(path.stem, path.resolve())
        return dict(sorted(found.items()))

    def together(self) -> list[Part]:
        """The files of several of the chosen methods, those of more methods last."""
        chosen = {part.name for part in self.parts}
        files = {frozenset(name.split("+")): path for name, path in self.known(True).items()}
        return [read_part(files[names]) for names in sorted(files, key=len) if names <= chosen]

    # ------------------------------------------------------------ the name

    @property
    def methods(self) -> list[str]:
        """The methods' names in their one order."""
        return list(self.recorded) if self.is_record else self._names(self.parts)

    @property
    def name(self) -> str:
        """The experiment's name: a file of the user's own keeps its name."""
        stem = self.path.stem
        if self.setting:
            is_setting = stem == self.setting and not self.own
            if is_setting or stem == "_".join([self.setting, *self._names(self.own)]):
                return "_".join([self.setting, *self.methods])
        more = [part for part in self.parts if part not in self.own]
        return "_".join([stem, *(part.name for part in sorted(more, key=_rank))])

    def _names(self, parts: Sequence[Part]) -> list[str]:
        parts = sorted((part for part in parts if part.name != "fedavg"), key=_rank)
        slots = {slot for part in parts for slot in part.slots}
        federated = "algorithm" not in self.without
        plain = federated and "algorithm" not in slots  # FedAvg with SAM is FedSAM
        short = {name: synonym for synonym, name in SYNONYMS.items()} if not plain else {}
        names = [short.get(part.name, part.name) for part in parts]
        return ["fedavg", *names] if federated and not slots & {*NAMING} else names

    # ------------------------------------------------------------ the config

    def compose(self) -> Config:
        """The setting's config with everything merged."""
        if self.is_record:
            return read_config(self.path)
        config = self._merged(self.path)
        self._check(config)
        for key in KEYS:
            config.pop(key, None)
        if self.parts or self.setting:
            config["setting"], config["methods"] = self.places[0], self.methods
        return Config(config.to_dict(), filename=str(self.path))

    def _merged(self, path: Path) -> Config:
        """The methods merged below what a config that names methods sets itself."""
        config, bases = read_config(path), _bases(path)
        if "methods" not in config or not bases:
            return self._over(config)
        below: dict[str, Any] = {}
        for base in bases:
            names_methods = "methods" in read_config(base)
            below |= (self._merged(base) if names_methods else read_config(base)).to_dict()
        if not any("methods" in read_config(base) for base in bases):
            below = self._over(Config(below)).to_dict()
        return _on_base(path, below)

    def _over(self, config: Config) -> Config:
        for part in (*self.parts, *self.together()):
            imports = (config.get("custom_imports") or {}).get("imports", [])
            try:
                config.merge_from_dict(copy.deepcopy(part.values))
            except (TypeError, KeyError) as error:
                raise ConfigError(f"{part.path}: {error}") from error
            if imports and "custom_imports" in part.values:
                config.custom_imports.imports = [*imports, *config.custom_imports.imports]
        for part in sorted(self.parts, key=_rank):
            for key, values in part.append.items():
                old = _get(config, key, [] if "." not in key else None)
                if not isinstance(old, list):
                    raise ConfigError(
                        f"methods: {part.name} has no meaning in {self.places[0]}, which has no {key}"
                    )
                config.merge_from_dict({key: [*old, *values]})
        return config

    def _check(self, config: Config) -> None:
        for part in self.parts:
            for key, values in part.refuses.items():
                value = _get(config, key)
                if value not in values:
                    continue
                setters = [p.name for p in self.parts if _get(Config(p.values), key) == value]
                other = (setters or [self.places[0]])[-1]
                raise ConfigError(
                    f"methods: {part.name} has no meaning with {other}: {key} is {value!r}"
                )


def compose(path: Path, methods: Sequence[str] = ()) -> Config:
    """A setting's config with methods; ``experiment_name`` is the canonical name.

    Args:
        path: a setting, or a config that inherits one.
        methods: names or files, besides those that the config names itself.

    Raises:
        ConfigError: a file cannot be read, or a method is unknown or a contradiction.
    """
    composition = Composition(path, methods)
    config = composition.compose()
    config.setdefault("experiment_name", composition.name)
    return config


def experiment_name(setting: str | Path, methods: Sequence[str] = ()) -> str:
    """The one name of a setting with methods, in whatever order they are given.

    Args:
        setting: the name of a setting of ``configs/settings``, or the path of a config.
        methods: names or files.
    """
    return Composition(setting_file(setting), methods).name


def setting_file(setting: str | Path) -> Path:
    """The file of a setting.

    Raises:
        ConfigError: there is none of this name.
    """
    if isinstance(setting, Path) or setting.endswith(".py"):
        return Path(setting)
    known = setting_names()
    if setting not in known:
        from fedseg.registry import did_you_mean  # imports torch

        hint = did_you_mean(setting, known)
        raise ConfigError(f"setting: unknown {setting!r}{hint}; known: {', '.join(known)}")
    return CONFIGS / "settings" / f"{setting}.py"


def setting_names() -> list[str]:
    """The names of all settings of ``configs/settings``."""
    return sorted(path.stem for path in (CONFIGS / "settings").glob("*.py"))


def _bases(path: Path) -> list[Path]:
    names = Config._get_base_files(str(path))
    return [Path(Config._get_cfg_path(name, str(path.absolute()))[0]) for name in names]


def _on_base(path: Path, base: dict[str, Any]) -> Config:
    """Read a config with other values in the place of its ``_base_``."""
    with tempfile.TemporaryDirectory() as folder:
        below, own = Path(folder, "base.py"), Path(folder, f"{path.stem}.py")
        below.write_text("".join(f"{k} = {v!r}\n" for k, v in base.items()), encoding="utf-8")
        Config._substitute_predefined_vars(str(path), str(own))
        tree = ast.parse(own.read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "_base_":
                node.value = ast.Constant(str(below))
        own.write_text(ast.unparse(tree), encoding="utf-8")
        return read_config(own)


def _get(config: Any, key: str, default: Any = None) -> Any:
    for name in key.split("."):
        config = config.get(name, default) if hasattr(config, "get") else default
    return config


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _rank(part: Part) -> tuple[int, str]:
    return part.rank
