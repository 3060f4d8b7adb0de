"""Every registry of fedseg: one a role, each a child of MMSegmentation's or MMEngine's.

With ``default_scope = 'fedseg'`` a name in a config is looked up here first, then in mmseg, then in
mmengine, so none of them needs a prefix. Roles that only federated training has (algorithms, client
samplers, partitions, executors) are roots of their own.

A registry imports the package that fills it the first time a name is asked for (``locations``).
"""

import difflib
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from mmengine import registry as _mmengine
from mmengine.registry import Registry
from mmseg import registry as _mmseg

from fedseg.checks import check_bool
from fedseg.errors import DEBUG, ConfigError


def _child(role: str, parent: Registry, *locations: str) -> Registry:
    return Registry(role, parent=parent, scope="fedseg", locations=list(locations))


RUNNERS = _child("runner", _mmseg.RUNNERS, "fedseg.runner.runner")
RUNNER_CONSTRUCTORS = _child("runner constructor", _mmseg.RUNNER_CONSTRUCTORS)
LOOPS = _child("loop", _mmseg.LOOPS, "fedseg.engine.loop", "fedseg.evaluation.loop")
HOOKS = _child(
    "hook",
    _mmseg.HOOKS,
    "fedseg.hooks",
    "fedseg.runner.checkpoint_hook",
    "fedseg.evaluation.client_accuracy",
    "fedseg.curvature.hook",
    "fedseg.report.pictures_hook",
)
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
METRICS = _child("metric", _mmseg.METRICS, "fedseg.evaluation")
EVALUATOR = _child("evaluator", _mmseg.EVALUATOR)
VISUALIZERS = _child("visualizer", _mmseg.VISUALIZERS)
VISBACKENDS = _child("vis_backend", _mmseg.VISBACKENDS, "fedseg.hooks.trackers_backends")
LOG_PROCESSORS = _child("log processor", _mmseg.LOG_PROCESSORS)
INFERENCERS = _child("inferencer", _mmseg.INFERENCERS)
FUNCTIONS = _child("function", _mmengine.FUNCTIONS)

ALGORITHMS = Registry("algorithm", scope="fedseg", locations=["fedseg.algorithms"])
SAMPLERS = Registry(
    "client sampler", scope="fedseg", locations=["fedseg.engine.sampler", "fedseg.runner.replay"]
)
PARTITIONS = Registry("partition", scope="fedseg", locations=["fedseg.partition"])
LOCAL_LOSSES = Registry("local loss", scope="fedseg", locations=["fedseg.algorithms"])
BATCH_TRANSFORMS = Registry("batch transform", scope="fedseg", locations=["fedseg.datasets"])
CLIENT_DATA = Registry(
    "loader", scope="fedseg", locations=["fedseg.loaders.resident", "fedseg.loaders.streaming"]
)
EVALUATION_SETS = Registry("loader", scope="fedseg", locations=["fedseg.evaluation.sets"])
EXECUTORS = Registry("executor", scope="fedseg", locations=["fedseg.engine.executor"])
SERVER_OPTIMIZERS = Registry("server optimizer", scope="fedseg", locations=["fedseg.optim.server"])


VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def build(
    registry: Registry,
    config: Any,
    field: str,
    given: Mapping[str, Any] | None = None,
    **defaults: Any,
) -> Any:
    """Build a component from a config; a mistake in it is a ConfigError that names the field.

    Args:
        registry: where ``config["type"]`` is looked up.
        config: a dict with a ``type``, or an object that is built already (returned as it is).
        field: where the config stands, for the message, for example ``"algorithm"``.
        given: arguments that are not the config's to set.
        defaults: arguments for keys that the config leaves out.
    """
    given = given or {}
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
    cls = registry.get(kind) if isinstance(kind, str) else kind
    if not callable(cls):
        raise ConfigError(f"{field}.type: must be a name, not {kind!r}")
    own = [key for key in config if key != "type"]
    parameters, takes_any = _parameters(cls)
    for name in own:
        if name in given:
            raise ConfigError(f"{field}.{name}: is set by the run itself; remove it")
        if name not in parameters and not takes_any:
            known = sorted(set(parameters) - set(given))
            hint = did_you_mean(name, known) or f"; known: {', '.join(known) or 'none'}"
            raise ConfigError(f"{field}.{name}: unknown argument of {kind}{hint}")
    _check_flags(config, parameters, field)
    try:
        return registry.build({**config, **given}, default_args=defaults or None)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{field}: {kind}: {error} ({DEBUG}=1 shows where)") from error


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint with the closest known names, or nothing."""
    close = difflib.get_close_matches(name, list(known), n=3)
    return f" (did you mean {' or '.join(map(repr, close))}?)" if close else ""


def _names(registry: Registry) -> list[str]:
    registry.import_from_location()
    return sorted(registry.module_dict)


def _parameters(kind: Any) -> tuple[dict[str, list[inspect.Parameter]], bool]:
    """The arguments of a function, or of a class and of those to which it passes on **kwargs.

    Returns:
        Name -> that argument of each class in the chain that has it; and whether the last one
        takes arguments of any name.
    """
    found: dict[str, list[inspect.Parameter]] = {}
    for part in kind.__mro__ if inspect.isclass(kind) else [kind]:
        if inspect.isclass(part) and not {"__init__", "__new__"} & vars(part).keys():
            continue
        try:
            parameters = inspect.signature(part).parameters
        except (TypeError, ValueError):  # written in C
            return found, True
        for name, parameter in parameters.items():
            if parameter.kind not in VARIABLE:
                found.setdefault(name, []).append(parameter)
        if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
            return found, False
    return found, True


def _check_flags(
    config: Mapping[str, Any], parameters: Mapping[str, list[inspect.Parameter]], field: str
) -> None:
    """Check the arguments that a class declares as ``bool``; its own default is always right."""
    for name, value in config.items():
        same = parameters.get(name, [])
        flag = any(p.annotation in (bool, "bool") for p in same)
        if flag and all(p.default is not value for p in same):
            check_bool(f"{field}.{name}", value)
