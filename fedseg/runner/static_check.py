"""Mistakes in what a config calls its components and their arguments, told in a second.

Importing torch and the data sets' libraries takes seconds. Names can be looked up in the sources
instead, of the suite and of the packages that its registries inherit from. What is registered by a
module of the user's own is imported by then, and what cannot be told from sources is left to
:func:`fedseg.registry.check_component`, which knows the types of arguments as well.
"""

import functools
import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import fedseg.registry
from fedseg.checks import check_int
from fedseg.config.schema import read_signature, unknown_argument
from fedseg.errors import ConfigError, DataError, Mistakes
from fedseg.names import by_case, made_by
from fedseg.registry import (
    DATASETS,
    LateRegistry,
    unknown_type,
)
from fedseg.runner.config import DEFAULT_HOOKS, LOADERS, LOCAL_KEYS, find
from fedseg.sources import ClassSource, classes, read_classes

HOOK, SCHEDULE = ("priority",), ("convert_to_iter_based",)
_, VAL, TEST = LOADERS
# field ("*": of each entry) -> variable of its registry, keys besides arguments, type by default
PLACES: dict[str, tuple[str, tuple[str, ...], str | None]] = {
    "algorithm": ("ALGORITHMS", (), None),
    "algorithm.server_optim": ("SERVER_OPTIMIZERS", (), None),
    "averaging": ("HOOKS", HOOK, None),
    "batchnorm": ("HOOKS", HOOK, None),
    "client_sampler": ("SAMPLERS", (), None),
    "custom_hooks.*": ("HOOKS", HOOK, None),
    **{
        f"default_hooks.{name}": ("HOOKS", HOOK, own["type"]) for name, own in DEFAULT_HOOKS.items()
    },
    "executor": ("EXECUTORS", (), None),
    "local_loss": ("LOCAL_LOSSES", (), None),
    "model": ("MODELS", (), None),
    "model.loss": ("MODELS", (), None),
    "model.network": ("MODELS", ("num_classes",), None),
    "optim_wrapper": ("OPTIM_WRAPPERS", ("constructor", "paramwise_cfg"), "OptimWrapper"),
    "optim_wrapper.optimizer": ("OPTIMIZERS", (), None),
    "param_scheduler": ("PARAM_SCHEDULERS", SCHEDULE, None),
    "param_scheduler.*": ("PARAM_SCHEDULERS", SCHEDULE, None),
    "train_cfg": ("LOOPS", LOCAL_KEYS, "FederatedTrainLoop"),
    "train_dataloader": ("CLIENT_DATA", (), "StreamingData"),
    "train_dataloader.partition": ("PARTITIONS", (), None),
    **dict.fromkeys((VAL, TEST), ("EVALUATION_SETS", ("optional",), "StreamingData")),
    **dict.fromkeys(("val_evaluator", "test_evaluator"), ("METRICS", (), None)),
    **dict.fromkeys(("val_evaluator.*", "test_evaluator.*"), ("METRICS", (), None)),
}
for _loader in LOADERS:
    PLACES[f"{_loader}.dataset"] = "DATASETS", (), None
    PLACES[f"{_loader}.dataset.pipeline.*"] = "TRANSFORMS", (), None
    PLACES[f"{_loader}.dataset.style"] = "TRANSFORMS", (), None
    PLACES[f"{_loader}.transforms.*"] = "BATCH_TRANSFORMS", (), None
# where the other names of a registry come from
FOREIGN = {
    "DATASETS": ("mmseg/datasets", "mmengine/dataset"),
    "HOOKS": ("mmengine/hooks", "mmseg/engine"),
    "LOOPS": ("mmengine/runner",),
    "METRICS": ("mmengine/evaluator", "mmseg/evaluation"),
    "MODELS": ("mmseg/models", "mmengine/model", "mmcv/cnn", "torch/nn/modules"),
    "OPTIM_WRAPPERS": ("mmengine/optim/optimizer",),
    "OPTIMIZERS": ("torch/optim", "mmengine/optim/optimizer"),
    "PARAM_SCHEDULERS": ("mmengine/optim/scheduler",),
    "TRANSFORMS": ("albumentations", "mmseg/datasets", "mmcv/transforms"),
}
OWN = (
    *("core", "engine", "algorithms", "optim", "hooks", "loaders", "evaluation", "partition"),
    *("datasets", "models", "runner.sampler"),
)
GIVEN = {"runner", "dataloader", "params"}  # arguments that no config has
# positive integers, and what else may stand there
WHOLE = {
    "train_cfg.local_epochs": None,
    "train_cfg.local_steps": None,
    "train_cfg.val_interval": None,
    "train_cfg.val_last_interval": None,
    "train_dataloader.batch_size": "full",
}
NO_BASES = frozenset({"ABC", "object"})


def match_case(config: Mapping[str, Any]) -> None:
    """Replace a type by the known one that differs from it in case only."""
    for pattern, (variable, *_) in PLACES.items():
        registry: LateRegistry = getattr(fedseg.registry, variable)
        for _, component in find(config, pattern):
            kind, known = component.get("type"), {*registry.sources(), *registry.module_dict}
            if isinstance(kind, str) and kind not in known:
                known.update(_index(FOREIGN.get(variable, ())))
                component["type"] = by_case(kind, known) or kind


def check_names(config: Mapping[str, Any]) -> None:
    """Raise ConfigError for types and arguments that nothing has; a config may lack others.

    Also for numbers that must be whole ones and are not.
    """
    mistakes = Mistakes()
    for field, also in WHOLE.items():
        section, _, key = field.partition(".")
        for _, component in find(config, section):
            if component.get(key) is not None:
                with mistakes:
                    check_int(field, component[key], also=also)
    for pattern, place in PLACES.items():
        for field, component in find(config, pattern):
            with mistakes:
                _check(field, component, *place)
    mistakes.tell()


def check_roots(config: Mapping[str, Any], *loaders: str) -> None:
    """Raise DataError for a data set of a complete config whose folder is not there.

    ``loaders`` are where the data sets are, as in :data:`PLACES`.
    """
    sources = DATASETS.sources()
    for _, loader in (one for pattern in loaders for one in find(config, pattern)):
        dataset = loader.get("dataset")
        given = dataset if isinstance(dataset, Mapping) else {}
        root, kind = given.get("data_root"), given.get("type")
        source = sources.get(kind) if isinstance(root, str) and isinstance(kind, str) else None
        if source is None or loader.get("optional") or os.path.exists(root):
            continue
        while not source.tool and source.bases[0] in _own():
            source = _own()[source.bases[0]]
        fix = f"make it with {made_by(source.tool, root)}" if source.tool else "put it there"
        raise DataError(f"{root}: does not exist: {fix}, or set data_root")


def _check(
    field: str,
    component: Mapping[str, Any],
    variable: str,
    besides: tuple[str, ...],
    default: str | None,
) -> None:
    registry: LateRegistry = getattr(fedseg.registry, variable)
    kind, sources = component.get("type", default), registry.sources()
    if not isinstance(kind, str) or "." in kind:
        return  # told later
    foreign = _index(FOREIGN.get(variable, ()))
    if kind in registry.module_dict and kind not in sources:  # the user's own, imported by now
        signature = read_signature(registry.module_dict[kind])
        known, takes_any = set(signature.parameters), signature.takes_any
    elif kind not in sources and kind not in foreign:
        if registry.parent is None or foreign:
            raise unknown_type(registry, kind, field, {*sources, *registry.module_dict})
        return
    else:
        source = sources.get(kind) or read_classes(foreign[kind], "")[kind]
        known, takes_any = _arguments(source, foreign)
    mistakes = Mistakes()
    for name in component:
        if not takes_any and name not in known and name not in ("type", "_scope_", *besides):
            with mistakes:
                options = {*known, *besides, "type"} - GIVEN
                raise ConfigError(unknown_argument(name, kind, field, options))
    mistakes.tell()


def _arguments(source: ClassSource, foreign: Mapping[str, Path]) -> tuple[set[str], bool]:
    """The arguments of a class and of those to which it passes them on; whether it takes any."""
    known: set[str] = set()
    met, waiting = [], [source]
    while waiting:
        source = waiting.pop(0)
        met.append(source)
        known.update(source.arguments or ())
        if source.arguments is not None and not source.passes_on:
            return known, False
        for base in source.bases:
            above = _own().get(base)
            if (above is None or above in met) and base in foreign:
                above = read_classes(foreign[base], "")[base]
            if above is None and base not in NO_BASES:
                return known, True
            if above is not None and above not in met:
                waiting.append(above)
    return known, source.passes_on


@functools.cache
def _own() -> dict[str, ClassSource]:
    return {name: source for part in OWN for name, source in classes(f"fedseg.{part}").items()}


@functools.cache
def _index(places: tuple[str, ...]) -> dict[str, Path]:
    """Where each class of installed packages is; they are not imported."""
    found: dict[str, Path] = {}
    for place in places:
        package, _, inner = place.partition("/")
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            for path in sorted(Path(folder, inner).rglob("*.py")):
                text = path.read_text(encoding="utf-8", errors="replace")
                for name in re.findall(r"^class (\w+)", text, re.MULTILINE):
                    found.setdefault(name, path)
    return found
