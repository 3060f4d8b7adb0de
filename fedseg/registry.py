"""Every registry of fedseg: one a role, each a child of MMSegmentation's or MMEngine's.

With ``default_scope = 'fedseg'`` a name in a config is looked up here first, then in mmseg, then in
mmengine, so none of them needs a prefix. Roles that only federated training has (algorithms, client
samplers, partitions, executors) are roots of their own.

A registry knows from the sources which module of its ``locations`` registers a name, and imports
that one when it is asked for it.
"""

import inspect
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from mmengine import registry as _mmengine
from mmengine.registry import Registry
from mmseg import registry as _mmseg

from fedseg.checks import shown
from fedseg.config.schema import PLAIN, check_arguments
from fedseg.errors import DEBUG, ConfigError
from fedseg.names import did_you_mean
from fedseg.sources import ClassSource, registered


class LateRegistry(Registry):
    """A registry that imports only what is asked for: all of it would take seconds."""

    def sources(self) -> dict[str, ClassSource]:
        """What the suite itself registers, imported or not: name -> class."""
        variables = (name for name, own in globals().items() if own is self)
        return registered(next(variables, ""), self._locations)

    def import_from_location(self) -> None:
        """Import every module that registers something here."""
        if not self._imported:
            for source in self.sources().values():
                import_module(source.module)
            super().import_from_location()

    def get(self, key: str) -> Any:
        """The class of a name, or None; see :meth:`mmengine.registry.Registry.get`."""
        source = None if key in self.module_dict else self.sources().get(key)
        if source is not None:
            import_module(source.module)
        registry: Registry | None = self
        while registry is not None:
            if key in registry.module_dict:
                return registry.module_dict[key]
            registry = registry.parent
        return super().get(key)


def _child(role: str, parent: Registry, *locations: str) -> Registry:
    return LateRegistry(role, parent=parent, scope="fedseg", locations=list(locations))


def _root(role: str, *locations: str) -> Registry:
    return LateRegistry(role, scope="fedseg", locations=list(locations))


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

ALGORITHMS = _root("algorithm", "fedseg.algorithms")
SAMPLERS = _root("client sampler", "fedseg.runner.sampler")
PARTITIONS = _root("partition", "fedseg.partition")
LOCAL_LOSSES = _root("local loss", "fedseg.algorithms")
BATCH_TRANSFORMS = _root("batch transform", "fedseg.datasets")
CLIENT_DATA = _root("loader", "fedseg.loaders.resident", "fedseg.loaders.streaming")
EVALUATION_SETS = _root("loader", "fedseg.evaluation.sets")
EXECUTORS = _root("executor", "fedseg.engine.executor", "fedseg.parallel.executor")
SERVER_OPTIMIZERS = _root("server optimizer", "fedseg.optim.server")


# what a constructor raises when it is given something wrong
MISTAKES = (
    *(TypeError, ValueError, LookupError, AttributeError),
    *(ArithmeticError, AssertionError, NotImplementedError),
)
SHOWN_NAMES = 30


def build(
    registry: Registry,
    config: Any,
    field: str,
    given: Mapping[str, Any] | None = None,
    base: type = object,
    **defaults: Any,
) -> Any:
    """Build a component from a config; a mistake in it is a ConfigError that names the field.

    Args:
        registry: where ``config["type"]`` is looked up.
        config: a dict with a ``type``, or an object that is built already (returned as it is).
        field: where the config stands, for the message, for example ``"algorithm"``.
        given: arguments that are not the config's to set.
        base: the class that it must be of.
        defaults: arguments for keys that the config leaves out.
    """
    given, made = given or {}, config
    check_component(registry, config, field, given, base, defaults)
    if isinstance(config, PLAIN):
        try:
            made = registry.build({**config, **given}, default_args=defaults or None)
        except MISTAKES as error:
            told = error if isinstance(error, TypeError | ValueError) else repr(error)
            raise ConfigError(
                f"{field}: {config['type']}: {told} ({DEBUG}=1 shows where)"
            ) from error
    if not isinstance(made, base):
        raise ConfigError(f"{field}.type: {type(made).__name__} is not a {base.__name__}")
    return made


def check_component(
    registry: Registry,
    config: Any,
    field: str,
    given: Iterable[str] = (),
    base: type = object,
    defaults: Iterable[str] = (),
) -> None:
    """Raise ConfigError unless a component's config has a known type and arguments that fit it.

    Arguments: those of :func:`build`. Nothing is built.
    """
    if not isinstance(config, PLAIN):
        return
    if not isinstance(config, Mapping):
        raise ConfigError(f"{field}: must be a dict with a type, not {shown(config)}")
    kind = config.get("type")
    cls = _find(registry, kind) if isinstance(kind, str) else kind
    if cls is None and (kind is not None or "type" not in config):
        registry.import_from_location()
        source = registry
        while not source.module_dict and source.parent is not None:
            source = source.parent  # the suite has none of its own
        found = source.module_dict.items()
        raise unknown_type(
            registry, kind, field, [n for n, own in found if base is object or _is_a(own, base)]
        )
    if not callable(cls):
        raise ConfigError(f"{field}.type: must be a name, not {shown(kind)}")
    if inspect.isclass(cls) and not _is_a(cls, base):
        raise ConfigError(f"{field}.type: {cls.__name__} is not a {base.__name__}")
    options = {name: value for name, value in config.items() if name != "type"}
    check_arguments(cls, options, field, given, defaults)


def unknown_type(
    registry: Registry, kind: str | None, field: str, names: Iterable[str]
) -> ConfigError:
    """The error of a type that is none of the names, or of one that is missing (None)."""
    names = sorted(names)
    known = ", ".join(names) or "none"
    if kind is None:
        return ConfigError(f"{field}.type: is missing; known: {known}")
    listed = f"; known: {known}" if len(names) <= SHOWN_NAMES else ""
    return ConfigError(
        f"{field}.type: unknown {registry.name} {kind!r}{did_you_mean(kind, names)}{listed}; "
        "a class of your own must be imported with custom_imports"
    )


def _find(registry: Registry, name: str) -> Any:
    try:
        return registry.get(name)
    except Exception:  # a name with dots is looked for as a module's, which fails in any way
        return None


def _is_a(kind: Any, base: type) -> bool:
    return inspect.isclass(kind) and issubclass(kind, base)
