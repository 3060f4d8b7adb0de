"""Keys that a config must have, defaults of the others, and combinations that make no sense."""

import copy
import inspect
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Interval
from mmengine.config import Config
from mmengine.registry import DefaultScope, Registry
from mmengine.utils import import_modules_from_strings
from pydantic import PositiveInt

from fedseg.checks import shown, walk
from fedseg.config.accepted import SCHEDULES, refuse_key, refuse_type
from fedseg.config.components import LOADERS, check_components, find
from fedseg.config.layers import CONFIGS, check_imports, find_layer, get, layers_of
from fedseg.config.schema import check_values
from fedseg.errors import ConfigError, Mistakes
from fedseg.metric_names import FINE_TUNED, PERSONAL, Metric
from fedseg.names import NAME_RULE, did_you_mean, is_name
from fedseg.registry import (
    ALGORITHMS,
    HOOKS,
    LOCAL_LOSSES,
    LOOPS,
    MODELS,
    OPTIM_WRAPPERS,
    PARAM_SCHEDULERS,
    SAMPLERS,
    build,
    check_arguments,
)
from fedseg.runs.config import WINDOW, check_plain

Component = Mapping | None
# every key that something reads, and its type
KEYS: Mapping[str, Any] = {
    **dict.fromkeys(
        (
            *("algorithm", "attack", "averaging", "compression", "custom_imports", "executor"),
            *("local_loss", "privacy", "randomness", "robust"),
            *("test_cfg", "val_cfg", "visualizer"),
        ),
        Component,
    ),
    **dict.fromkeys(
        ("client_sampler", "env_cfg", "model", "optim_wrapper", "train_cfg", "train_dataloader"),
        Mapping,
    ),
    **dict.fromkeys(("default_scope", "device", "experiment_name", "setting"), str | None),
    **dict.fromkeys(("data_root", "work_dir"), str | Path | None),
    "load_from": str | Path | Mapping | None,
    **dict.fromkeys(
        ("default_hooks", "test_dataloader", "val_dataloader"), Mapping[str, Component] | None
    ),
    **dict.fromkeys(
        ("param_scheduler", "test_evaluator", "val_evaluator"), Mapping | Sequence[Mapping] | None
    ),
    **dict.fromkeys(("methods", "personal"), Sequence[str] | str | None),
    **dict.fromkeys(("channels_last", "overwrite", "resume"), bool),
    "custom_hooks": Sequence[Mapping] | None,
    "dtype": Literal["float32", "float64"] | None,
    "log_level": Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", 10, 20, 30, 40, 50],
}
LONGEST_NAME = 230  # bytes of an experiment's; a file's has 255, with what is appended
# keys within sections that are no components
SECTIONS: Mapping[str, Mapping[str, Any]] = {
    "env_cfg": {  # MMEngine's, as randomness
        "cudnn_benchmark": bool,
        "mp_cfg": Mapping,
        "resource_limit": int,
    },
    "randomness": {
        "seed": Annotated[int, Interval(ge=0, lt=2**32)] | None,
        "deterministic": bool,
    },
    "train_cfg": {"max_rounds": PositiveInt},
    "visualizer": {"vis_backends": Sequence[Mapping]},
}
CLOSED = ("env_cfg", "randomness", "visualizer")  # they have no other keys
DEFAULTS: Mapping[str, Any] = {
    "default_scope": "fedseg",
    "work_dir": "work_dirs/run",
    "algorithm": {"type": "FedAvg"},
    "executor": {"type": "InProcessExecutor"},
    "randomness": {},
    "dtype": "float32",
}
VIEWS = ("views", "spread", "fine_tune_steps", "fine_tune_lr")  # of val_cfg, and so of test_cfg
PREPARATION = ("pipeline", "test_mode", "style")  # of data sets: how samples are prepared
# options of models that say from which weights they start
INITIAL = ("init_cfg", "pretrained", "pretrained_cfg", "checkpoint_path")
# those that do so if they name a file or an address: a loss may have weights, too
FILES = ("checkpoint", "weights")
REPORTED = ("max_rounds", "val_last_rounds")  # of train_cfg: which rounds are reported
REQUIRED_KEYS = ("model", "train_dataloader", "train_cfg", "optim_wrapper", "client_sampler")


def complete_config(config: Config, recorded: Collection[str] = ()) -> Config:
    """A copy of the config with defaults filled in.

    Args:
        recorded: keys of a run's record, which may have some that nothing reads.
    """
    config = copy.deepcopy(config)
    if isinstance(config.get("log_level"), str):
        config.log_level = config.log_level.upper()
    _check_keys(config, recorded)
    _check_names(config)
    if config.get("data_root") is not None:  # replaces that of every data set
        for loader in LOADERS:
            for _, dataset in find(dict(config.items()), f"{loader}.dataset"):
                if dataset.get("type") == "MMSegDataset":
                    dataset = dataset.get("source")  # the check of arguments tells a lack of it
                if isinstance(dataset, dict):
                    dataset["data_root"] = str(config.data_root)
    _set_defaults(config, DEFAULTS)
    _set_defaults(config.randomness, {"seed": 0})
    train = config.train_cfg
    train.setdefault("type", "FederatedTrainLoop")
    if train.get("local_steps") is not None and train.get("local_epochs") is not None:
        raise ConfigError(
            "train_cfg: local_epochs and local_steps contradict each other; set one of them to None"
        )
    _shorten_window(config)
    if config.dtype == "float64" and train.get("amp"):
        raise ConfigError("train_cfg.amp: bfloat16 contradicts dtype='float64'; choose one")
    _complete_evaluation(config, "val", "FederatedValLoop")
    _add_clients(config)
    of_val = {f"test_{name}": config.get(f"val_{name}") for name in ("dataloader", "evaluator")}
    _set_defaults(config, of_val)
    _complete_evaluation(config, "test", "FederatedTestLoop")
    _check_fine_tuning(config)
    if config.test_cfg is not None:
        views = {key: value for key, value in (config.val_cfg or {}).items() if key in VIEWS}
        _set_defaults(config.test_cfg, views)
    return config


def _check_fine_tuning(config: Config) -> None:
    """Raise ConfigError for options of the fine-tuned view where it is not evaluated."""
    views: Sequence[str] = ()
    for section in ("val_cfg", "test_cfg"):
        options = config.get(section) or {}
        views = (
            options.get("views", views) or ()
        )  # the test's are those of val unless it has its own
        for key in ("fine_tune_steps", "fine_tune_lr"):
            if options.get(key) is not None and FINE_TUNED not in views:
                raise ConfigError(
                    f"{section}.{key}: has no effect without the view {FINE_TUNED!r}: add it to "
                    f"{section}.views"
                )


def _shorten_window(config: Config) -> None:
    """Cut the rounds whose mean is reported to a quarter of all, unless a shipped file chose them.

    A shipped setting states both the rounds and the window of its published numbers. Where a user
    changes either, the window may reach far back into training. A recorded config stays as it is.
    """
    train = config.train_cfg
    rounds, window = train.get("max_rounds"), train.get("val_last_rounds", WINDOW)
    if not isinstance(rounds, int) or not isinstance(window, int):  # told when it is built
        return
    quarter = max(1, rounds // 4)
    chosen_by_user = any(_is_of_user(config, f"train_cfg.{key}") for key in REPORTED)
    if chosen_by_user and window > quarter:
        train.val_last_rounds = quarter


def _is_of_user(config: Config, key: str) -> bool:
    """True if the value of a key is neither of a shipped file nor of a recorded config."""
    layers = layers_of(config)
    if not layers or get(config, key) is None:
        return False
    layer = find_layer(layers, key)
    if layer is None or get(layer.values, key) != get(config, key):  # set in Python
        return True
    is_record = layer is layers[0] and "experiment_name" in layer.values  # a copy in a work dir
    return not is_record and not Path(layer.file).resolve().is_relative_to(CONFIGS)


def drop_weights(model: Any) -> None:
    """Take the initial weights out of a model's config, in place, for a checkpoint has its own."""
    if isinstance(model, dict):
        for key in INITIAL:
            if key in model:
                model[key] = False if isinstance(model[key], bool) else None
        for key in FILES:
            if isinstance(model.get(key), str) or _is_weights_file(model.get(key)):
                model[key] = None
        if _class_name(model.get("type")) == "TIMMBackbone":
            model["pretrained"] = False  # its default would fetch them
    for inner in model.values() if isinstance(model, dict) else model:
        if isinstance(inner, dict | list | tuple):
            drop_weights(inner)


def starts_pretrained(model: Mapping[str, Any]) -> bool:
    """True if a model's config asks timm or MMEngine for pretrained weights."""
    for field, value in walk(model):
        key = field.rpartition(".")[2]
        if key == "pretrained" and value is True:
            return True
        if key == "type" and _class_name(value) in ("Pretrained", "PretrainedInit"):
            return True
    return False


def _is_weights_file(value: Any) -> bool:
    return isinstance(value, Mapping) and "path" in value


def _class_name(kind: Any) -> str:
    """The name of a component's class, without a scope such as ``mmseg.``."""
    return getattr(kind, "__name__", str(kind)).rpartition(".")[2]


def trains_clients(config: Mapping[str, Any], kind: str) -> bool:
    """True if an evaluation needs the training data: of each client's own model."""
    return bool({PERSONAL, FINE_TUNED} & set((config.get(f"{kind}_cfg") or {}).get("views") or ()))


def prepare_as(test: Mapping[str, Any], dataset: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of a test loader with another data set of its type, prepared as its own."""
    mixed = {k: v for k, v in dataset.items() if k not in PREPARATION}
    mixed |= {k: v for k, v in test["dataset"].items() if k in PREPARATION}
    return copy.deepcopy({**test, "dataset": mixed, "final_only": False})


def _add_clients(config: Config) -> None:
    """Evaluate the images that the partition holds out, prepared as test images of their type."""
    train, tests = config.train_dataloader, config.val_dataloader
    recipe, dataset = train.get("partition"), train.get("dataset")
    held = isinstance(recipe, Mapping) and recipe.get("holdout") is not None
    entries = [test for test in (tests or {}).values() if isinstance(test, Mapping)]
    if not held or tests is None or any(test.get("held_out") for test in entries):
        return
    kind = dataset.get("type") if isinstance(dataset, Mapping) else None
    like = [test for test in entries if (test.get("dataset") or {}).get("type") == kind]
    if not like or tests.get("clients") is not None:
        raise ConfigError(
            "train_dataloader.partition.holdout: the preprocessing of the clients' test images is "
            "not defined: add an entry to val_dataloader with held_out=True and the training "
            "data set"
        )
    same = config.get("test_dataloader") == tests
    tests["clients"] = {**prepare_as(like[0], dataset), "held_out": True, "optional": True}
    tests["clients"]["dataset"].pop("mirror", None)  # originals are held out
    if same:
        config.test_dataloader = copy.deepcopy(tests)


def check_unknown_keys(config: Config, recorded: Collection[str] = ()) -> None:
    """Raise ConfigError with every key at the top that nothing reads.

    Arguments: those of :func:`complete_config`.
    """
    mistakes, values = Mistakes(), dict(config.items())
    for key in values:
        if key not in KEYS and key not in recorded:
            mistakes.add(refuse_key(key, values, KEYS))
    mistakes.tell()


def _check_keys(config: Config, recorded: Collection[str]) -> None:
    """Raise ConfigError with everything that is wrong with the keys at the top."""
    mistakes, where = Mistakes(), config.filename or "the config"
    with mistakes:
        check_unknown_keys(config, recorded)
    for key in [key for key in REQUIRED_KEYS if config.get(key) is None]:
        mistakes.add(f"{where}: {key} is missing")
    for key in [key for key in KEYS if config.get(key) == ""]:
        mistakes.add(f"{key}: is empty: leave it out or give it a value")
    with mistakes:
        check_values({key: config[key] for key in KEYS if key in config}, KEYS)
    for section, known in SECTIONS.items():
        values = config.get(section)
        values = values if isinstance(values, Mapping) else {}
        is_closed = section in CLOSED and section not in recorded
        for key in sorted(values.keys() - known.keys()) if is_closed else ():
            hint = did_you_mean(key, known) or f"; known: {', '.join(known)}"
            mistakes.add(f"{section}.{key}: unknown{hint}")
        with mistakes:
            check_values({key: values[key] for key in known if key in values}, known, section)
    with mistakes:
        check_plain(dict(config.items()))
    mistakes.tell()


def import_modules(custom_imports: Mapping[str, Any]) -> None:
    """Import what options name, or in a process that has not read the config's file."""
    check_imports(custom_imports)
    check_arguments(import_modules_from_strings, custom_imports, "custom_imports")
    try:
        import_modules_from_strings(**custom_imports)
    except ImportError as error:
        raise ConfigError(f"custom_imports.imports: {error}") from error


def check_config(config: Config) -> None:
    """Check what is built of a complete config whatever its model and data are."""
    from mmengine.utils.dl_utils import set_multi_processing

    from fedseg.core.algorithm import Algorithm
    from fedseg.core.local_loss import LocalLoss
    from fedseg.hooks import ModelAverage

    mistakes = Mistakes()
    with mistakes:
        check_components(dict(config.items()))
    with mistakes:
        _check_kinds(config)
    with mistakes:
        processes = (config.get("env_cfg") or {}).get("mp_cfg") or {}
        check_arguments(set_multi_processing, processes, "env_cfg.mp_cfg", given=("distributed",))
    for field, registry, base in (
        ("algorithm", ALGORITHMS, Algorithm),
        ("averaging", HOOKS, ModelAverage),
        ("client_sampler", SAMPLERS, object),
        ("local_loss", LOCAL_LOSSES, LocalLoss),
    ):
        component = config.get(field)
        with mistakes, DefaultScope.overwrite_default_scope("fedseg"):  # whoever has set another
            if isinstance(component, Mapping):
                options = {k: v for k, v in component.items() if k != "priority"}
                build(registry, options, field, base=base)
    if config.get("custom_imports"):
        with mistakes:
            check_imports(config.custom_imports)
            check_arguments(import_modules_from_strings, config.custom_imports, "custom_imports")
    mistakes.tell()
    known, registry = set(MODELS.children), MODELS
    while registry is not None:
        known.add(registry.scope)
        registry = registry.parent
    if config.default_scope not in known:
        raise ConfigError(
            f"default_scope: unknown {config.default_scope!r}; known: {', '.join(sorted(known))}"
        )
    if config.client_sampler.get("type") == "PoissonSampler" and not config.get("privacy"):
        raise ConfigError(
            "client_sampler.type: PoissonSampler has rounds without a client, which only privacy "
            "supports: set privacy, or use UniformSampler"
        )
    if not str(config.work_dir).strip():
        raise ConfigError("work_dir: is empty; name a folder")
    if Path(config.work_dir).is_file():
        raise ConfigError(f"work_dir: {config.work_dir} is a file; name a folder")


def _check_kinds(config: Config) -> None:
    """Raise ConfigError for hooks, loops, schedules and optim wrappers of another kind of training.

    What has an unknown type is left to :func:`check_components`.
    """
    from fedseg.core.hook import FederatedHook
    from fedseg.engine.loop import FederatedTrainLoop
    from fedseg.evaluation.domains import FederatedValLoop
    from fedseg.optim import OptimWrapper

    hook = "a hook of fedseg or a subclass of fedseg.hooks.FederatedHook"
    kinds = (
        ("custom_hooks.*", HOOKS, FederatedHook, hook),
        ("default_hooks.*", HOOKS, FederatedHook, hook),
        ("train_cfg", LOOPS, FederatedTrainLoop, "FederatedTrainLoop"),
        ("val_cfg", LOOPS, FederatedValLoop, "FederatedValLoop"),
        ("test_cfg", LOOPS, FederatedValLoop, "FederatedTestLoop"),
        ("optim_wrapper", OPTIM_WRAPPERS, OptimWrapper, "a subclass of fedseg.optim.OptimWrapper"),
    )
    mistakes, values = Mistakes(), dict(config.items())
    for pattern, registry, base, wanted in kinds:
        for field, component in find(values, pattern):
            cls = _class_of(component, registry)
            if cls is not None and not issubclass(cls, base):
                mistakes.add(refuse_type(field, cls.__name__, wanted))
    schedules = [PARAM_SCHEDULERS.get(name) for name in SCHEDULES]
    for pattern in ("param_scheduler", "param_scheduler.*"):
        for field, component in find(values, pattern):
            cls = _class_of(component, PARAM_SCHEDULERS)
            if cls is not None and cls not in schedules:
                wanted = f"one of {', '.join(SCHEDULES)}"
                mistakes.add(refuse_type(field, cls.__name__, wanted))
    mistakes.tell()


def _class_of(component: Mapping[str, Any], registry: Registry) -> type | None:
    """The class that a component's type means; None if it has no type, or an unknown one."""
    kind = component.get("type")
    if isinstance(kind, str):
        kind = registry.get(kind)
    return kind if inspect.isclass(kind) else None


def _check_names(config: Config) -> None:
    """Raise ConfigError for a name that no run, file or domain can have."""
    name = config.get("experiment_name") or "run"
    if not is_name(name):
        raise ConfigError(f"experiment_name: must have {NAME_RULE}, not {shown(name, 80)}")
    if not name.strip(".") or len(os.fsencode(name)) > LONGEST_NAME:
        raise ConfigError(f"experiment_name: is not a valid file name: {shown(name, 80)}")
    for field in ("val_dataloader", "test_dataloader"):
        tests = config.get(field) or {}
        for name in tests:
            if not is_name(name):
                raise ConfigError(f"{field}: a domain must have {NAME_RULE}, not {name!r}")
            if tests[name] is not None and tests[name].get("dataset") is None:
                hint = did_you_mean(name, tests.keys() - {name})
                raise ConfigError(
                    f"{field}.{name}: the test set has no dataset{hint or ': set it'}"
                )
            base = Metric.of(name).set  # of which this is a further evaluation's name
            if base != name and None not in (tests[name], tests.get(base)):
                raise ConfigError(
                    f"{field}: {name!r} is also the name of a view of {base!r}, so that their "
                    "metrics would be mixed up: rename the test set"
                )


def _set_defaults(config: Any, defaults: Mapping[str, Any]) -> None:
    """Fill in copies of defaults where there is nothing, or None."""
    for key, value in defaults.items():
        if config.get(key) is None:
            config[key] = copy.deepcopy(value)


def _complete_evaluation(config: Config, kind: str, loop: str) -> None:
    loader, evaluator = f"{kind}_dataloader", f"{kind}_evaluator"
    if config.get(loader) is None:
        for key in (loader, evaluator, f"{kind}_cfg"):
            config[key] = None
        return
    if not config.get(evaluator):
        raise ConfigError(f"{evaluator}: is missing, but {loader} is given")
    _set_defaults(config, {f"{kind}_cfg": {}})
    config[f"{kind}_cfg"].setdefault("type", loop)
