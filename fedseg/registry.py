"""Every registry of fedseg: one a role, each a child of MMSegmentation's or MMEngine's.

With ``default_scope = 'fedseg'`` a name in a config is looked up here first, then in mmseg, then in
mmengine, so none of them needs a prefix. Roles that only federated training has (algorithms, client
samplers, partitions, executors) are roots of their own.

A registry imports the package that fills it the first time a name is asked for (``locations``).
"""

import difflib
import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Any

from mmengine import registry as _mmengine
from mmengine.registry import Registry
from mmseg import registry as _mmseg

from fedseg.errors import ConfigError


def _child(role: str, parent: Registry, *locations: str) -> Registry:
    return Registry(role, parent=parent, scope="fedseg", locations=list(locations))


RUNNERS = _child("runner", _mmseg.RUNNERS, "fedseg.engine.runner")
RUNNER_CONSTRUCTORS = _child("runner constructor", _mmseg.RUNNER_CONSTRUCTORS)
LOOPS = _child("loop", _mmseg.LOOPS, "fedseg.engine.loops")
HOOKS = _child("hook", _mmseg.HOOKS, "fedseg.hooks")
STRATEGIES = _child("strategy", _mmengine.STRATEGIES)

DATASETS = _child("dataset", _mmseg.DATASETS, "fedseg.datasets")
DATA_SAMPLERS = _child("data sampler", _mmseg.DATA_SAMPLERS)
TRANSFORMS = _child("transform", _mmseg.TRANSFORMS, "fedseg.datasets")

MODELS = _child("model", _mmseg.MODELS, "fedseg.models")
MODEL_WRAPPERS = _child("model wrapper", _mmseg.MODEL_WRAPPERS)
WEIGHT_INITIALIZERS = _child("weight initializer", _mmseg.WEIGHT_INITIALIZERS)

OPTIMIZERS = _child("optimizer", _mmseg.OPTIMIZERS)
OPTIM_WRAPPERS = _child("optim wrapper", _mmseg.OPTIM_WRAPPERS, "fedseg.optim")
OPTIM_WRAPPER_CONSTRUCTORS = _child("optim wrapper constructor", _mmseg.OPTIM_WRAPPER_CONSTRUCTORS)
PARAM_SCHEDULERS = _child("parameter scheduler", _mmseg.PARAM_SCHEDULERS)

TASK_UTILS = _child("task util", _mmseg.TASK_UTILS)
METRICS = _child("metric", _mmseg.METRICS, "fedseg.metrics")
EVALUATOR = _child("evaluator", _mmseg.EVALUATOR)
VISUALIZERS = _child("visualizer", _mmseg.VISUALIZERS)
VISBACKENDS = _child("vis_backend", _mmseg.VISBACKENDS, "fedseg.hooks.trackers_backends")
LOG_PROCESSORS = _child("log processor", _mmseg.LOG_PROCESSORS)
INFERENCERS = _child("inferencer", _mmseg.INFERENCERS)
FUNCTIONS = _child("function", _mmengine.FUNCTIONS)

ALGORITHMS = Registry("algorithm", scope="fedseg", locations=["fedseg.algorithms"])
SAMPLERS = Registry("client sampler", scope="fedseg", locations=["fedseg.engine.samplers"])
PARTITIONS = Registry("partition", scope="fedseg", locations=["fedseg.partition"])
LOCAL_LOSSES = Registry("local loss", scope="fedseg", locations=["fedseg.algorithms"])
BATCH_TRANSFORMS = Registry("batch transform", scope="fedseg", locations=["fedseg.datasets"])
CLIENT_DATA = Registry(
    "loader", scope="fedseg", locations=["fedseg.engine.resident", "fedseg.engine.streaming"]
)
EVALUATION_SETS = Registry("loader", scope="fedseg", locations=["fedseg.engine.evaluation_sets"])
EXECUTORS = Registry("executor", scope="fedseg", locations=["fedseg.engine.executor"])
SERVER_OPTIMIZERS = Registry("server optimizer", scope="fedseg", locations=["fedseg.optim.server"])


def build(registry: Registry, config: Any, field: str, **defaults: Any) -> Any:
    """Build a component from a config; a mistake in it is a ConfigError that names the field.

    Args:
        registry: where ``config["type"]`` is looked up.
        config: a dict with a ``type``, or an object that is built already (returned as it is).
        field: where the config stands, for the message, for example ``"algorithm"``.
        defaults: arguments for keys that the config leaves out.
    """
    if not isinstance(config, Mapping):
        if config is None or isinstance(config, str | int | float | bool | list | tuple):
            raise ConfigError(f"{field}: must be a dict with a type, not {config!r}")
        return config
    if "type" not in config:
        raise ConfigError(
            f"{field}.type: is missing; known: {', '.join(_names(registry)) or 'none'}"
        )
    kind = config["type"]
    if isinstance(kind, str) and registry.get(kind) is None:
        raise ConfigError(
            f"{field}.type: unknown {registry.name} {kind!r}{did_you_mean(kind, _names(registry))};"
            " a class of your own must be imported with custom_imports"
        )
    try:
        return registry.build(dict(config), default_args=defaults or None)
    except (TypeError, ValueError) as error:
        match = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if match is not None:
            name, known = match[1], _arguments(registry, kind)
            hint = did_you_mean(name, known) or f"; known: {', '.join(sorted(known))}"
            raise ConfigError(f"{field}.{name}: unknown argument of {kind}{hint}") from error
        missing = re.search(r"missing \d+ required .*argument", str(error))
        if missing is None and not _is_known_code(registry, kind):
            raise  # a fault in the user's own class: the traceback tells where
        raise ConfigError(f"{field}: {kind}: {error}") from error


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint with the closest known names, or nothing."""
    close = difflib.get_close_matches(name, list(known), n=3)
    return f" (did you mean {' or '.join(map(repr, close))}?)" if close else ""


def _is_known_code(registry: Registry, kind: Any) -> bool:
    """Whether a wrong value, not a fault of the class, must be why it cannot be built."""
    cls = registry.get(kind) if isinstance(kind, str) else kind
    return cls.__module__.partition(".")[0] in ("fedseg", "torch", "mmengine")


def _names(registry: Registry) -> list[str]:
    registry.import_from_location()
    return sorted(registry.module_dict)


def _arguments(registry: Registry, kind: Any) -> set[str]:
    cls = registry.get(kind) if isinstance(kind, str) else kind
    classes = cls.__mro__ if inspect.isclass(cls) else [cls]
    names: set[str] = set()
    for part in classes:
        if part is not object:
            names |= set(inspect.signature(part).parameters)
    return names - {"args", "kwargs", "self"}
