"""Keys that a config must have, defaults of the others, and combinations that make no sense."""

import copy
import math
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Interval
from mmengine.config import Config
from mmengine.utils import import_modules_from_strings
from pydantic import PositiveInt

from fedseg.checks import shown, walk
from fedseg.config.accepted import refuse_key
from fedseg.config.arguments import check_arguments, check_value, check_values
from fedseg.config.components import LOADERS, find
from fedseg.config.layers import CONFIGS, check_imports, find_layer, get, layers_of
from fedseg.errors import ConfigError
from fedseg.metric_names import FINE_TUNED, PERSONAL, WINDOW, Metric
from fedseg.names import NAME_RULE, did_you_mean, is_name

# keys of dicts that something reads
SECTIONS = (
    "algorithm",
    "attack",
    "averaging",
    "client_sampler",
    "compression",
    "custom_imports",
    "default_hooks",
    "env_cfg",
    "executor",
    "local_loss",
    "model",
    "optim_wrapper",
    "privacy",
    "randomness",
    "robust",
    "test_cfg",
    "test_dataloader",
    "train_cfg",
    "train_dataloader",
    "val_cfg",
    "val_dataloader",
    "visualizer",
)
# the other keys at the top, and their types
VALUES: Mapping[str, Any] = {
    "channels_last": bool,
    "custom_hooks": Sequence[Mapping] | None,
    "data_root": str | None,
    "device": str | None,
    "dtype": Literal["float32", "float64"] | None,
    "experiment_name": str | None,
    "load_from": str | Mapping | None,
    "log_level": Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", 10, 20, 30, 40, 50],
    "methods": Sequence[str] | str | None,
    "overwrite": bool,
    "param_scheduler": Mapping | Sequence[Mapping] | None,
    "personal": Sequence[str] | str | None,
    "resume": bool,
    "setting": str | None,
    "test_evaluator": Mapping | Sequence[Mapping] | None,
    "val_evaluator": Mapping | Sequence[Mapping] | None,
    "work_dir": str | None,
}
KEYS = (*SECTIONS, *VALUES)
LONGEST_NAME = 230  # bytes of an experiment's; a file's has 255, with what is appended
# the keys of sections that are no components, MMEngine's, and their types
CLOSED_SECTIONS: Mapping[str, Mapping[str, Any]] = {
    "env_cfg": {
        "cudnn_benchmark": bool,
        "mp_cfg": Mapping,
        "resource_limit": int,
    },
    "randomness": {
        "seed": Annotated[int, Interval(ge=0, lt=2**32)] | None,
        "deterministic": bool,
    },
    "visualizer": {"vis_backends": Sequence[Mapping]},
}
DEFAULTS: Mapping[str, Any] = {
    "work_dir": "work_dirs/run",
    "algorithm": {"type": "FedAvg"},
    "executor": {"type": "InProcessExecutor"},
    "randomness": {},
    "dtype": "float32",
}
VIEWS = ("views", "spread", "fine_tune_steps", "fine_tune_lr")  # of val_cfg, and so of test_cfg
PREPARATION = ("pipeline", "test_mode", "style")  # of data sets: how samples are prepared
# options of models that say from which weights they start
INITIAL_WEIGHTS = ("init_cfg", "pretrained", "pretrained_cfg", "checkpoint_path")
# those that do so if they name a file or an address: a loss may have weights, too
WEIGHT_FILES = ("checkpoint", "weights")
REPORTED_ROUNDS = ("max_rounds", "val_last_rounds")  # of train_cfg: which rounds are reported
REQUIRED_KEYS = ("model", "train_dataloader", "train_cfg", "optim_wrapper", "client_sampler")


def complete_config(config: Config, recorded: Collection[str] = ()) -> Config:
    """Return a copy of a config with defaults filled in; its keys and combinations are checked.

    Types and arguments of components are checked where they are built.

    Args:
        config: a composed one, or one made in Python.
        recorded: keys of a run's record, which may have some that nothing reads.

    Raises:
        ConfigError: a key is unknown, missing or of another type, or two contradict each other.
    """
    config = copy.deepcopy(config)
    if isinstance(config.get("log_level"), str):
        config.log_level = config.log_level.upper()
    _check_keys(config, recorded)
    _check_names(config)
    _set_data_root(config)
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
    _add_held_out(config)
    for part in ("dataloader", "evaluator"):  # the test is that of val, unless it has its own
        _set_defaults(config, {f"test_{part}": config.get(f"val_{part}")})
    _complete_evaluation(config, "test", "FederatedTestLoop")
    _check_fine_tuning(config)
    _check_sampler(config)
    if config.test_cfg is not None:
        views = {key: value for key, value in (config.val_cfg or {}).items() if key in VIEWS}
        _set_defaults(config.test_cfg, views)
    return config


# ---------------------------------------------------------------- keys


def _check_keys(config: Config, recorded: Collection[str]) -> None:
    """Raise ConfigError for an unknown key, one that is missing, or a value of another type."""
    check_unknown_keys(config, recorded)
    for key in REQUIRED_KEYS:
        if config.get(key) is None:
            raise ConfigError(f"{config.filename or 'the config'}: {key} is missing")
    values = dict(config.items())
    check_values(values, {**dict.fromkeys(SECTIONS, Mapping | None), **VALUES})
    for section, known in CLOSED_SECTIONS.items():
        options = values.get(section) or {}
        for key in options:
            if key not in known and section not in recorded:
                hint = did_you_mean(key, known) or f"; known: {', '.join(known)}"
                raise ConfigError(f"{section}.{key}: unknown{hint}")
        check_values(options, known, section)
    check_value("train_cfg.max_rounds", values["train_cfg"].get("max_rounds"), PositiveInt)
    _check_plain(values)


def check_unknown_keys(config: Config, recorded: Collection[str] = ()) -> None:
    """Raise ConfigError for the first key at the top that nothing reads.

    Arguments: those of :func:`complete_config`.
    """
    values = dict(config.items())
    for key in values:
        if key not in KEYS and key not in recorded:
            raise ConfigError(refuse_key(key, values, KEYS))


def _check_plain(config: Mapping[str, Any]) -> None:
    """Raise ConfigError for keys and numbers that ``config.json`` cannot hold."""
    for field, value in walk(config):
        if isinstance(value, Mapping):
            for key in value:
                if not isinstance(key, str):
                    raise ConfigError(f"{field}: keys must be text, not {shown(key, 40)}.")
        elif isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{field}: must be a finite number, not {value}.")


def _check_names(config: Config) -> None:
    """Raise ConfigError for a name that no run, file or domain can have."""
    if config.get("work_dir") is not None and not config.work_dir.strip():
        raise ConfigError("work_dir: is empty; name a folder")
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
            check_value(f"{field}.{name}", tests[name], Mapping | None)
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


# ---------------------------------------------------------------- defaults


def _set_data_root(config: Config) -> None:
    """Give every data set the config's ``data_root``, if it has one."""
    if config.get("data_root") is None:
        return
    for loader in LOADERS:
        for _, dataset in find(dict(config.items()), f"{loader}.dataset"):
            if dataset.get("type") == "MMSegDataset":
                dataset = dataset.get("source")  # the check of arguments tells a lack of it
            if isinstance(dataset, dict):
                dataset["data_root"] = str(config.data_root)


def _set_defaults(config: Any, defaults: Mapping[str, Any]) -> None:
    """Fill in copies of defaults where there is nothing, or None."""
    for key, value in defaults.items():
        if config.get(key) is None:
            config[key] = copy.deepcopy(value)


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
    chosen_by_user = any(_is_of_user(config, f"train_cfg.{key}") for key in REPORTED_ROUNDS)
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


def _complete_evaluation(config: Config, kind: str, loop: str) -> None:
    """Complete the sections of an evaluation, or turn all off where it has no test sets.

    Args:
        config: changed in place.
        kind: ``"val"`` or ``"test"``.
        loop: its loop by default.
    """
    loader, evaluator = f"{kind}_dataloader", f"{kind}_evaluator"
    if config.get(loader) is None:
        for key in (loader, evaluator, f"{kind}_cfg"):
            config[key] = None
        return
    if not config.get(evaluator):
        raise ConfigError(f"{evaluator}: is missing, but {loader} is given")
    _set_defaults(config, {f"{kind}_cfg": {}})
    config[f"{kind}_cfg"].setdefault("type", loop)


def _add_held_out(config: Config) -> None:
    """Add the test set ``clients``: what the partition holds out, prepared as tests of its type."""
    train, tests = config.train_dataloader, config.val_dataloader
    recipe, dataset = train.get("partition"), train.get("dataset")
    holds_out = isinstance(recipe, Mapping) and recipe.get("holdout") is not None
    entries = [test for test in (tests or {}).values() if isinstance(test, Mapping)]
    if not holds_out or tests is None or any(test.get("held_out") for test in entries):
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


def prepare_as(test: Mapping[str, Any], dataset: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of a test loader with another data set of its type, prepared as its own."""
    mixed = {k: v for k, v in dataset.items() if k not in PREPARATION}
    mixed |= {k: v for k, v in test["dataset"].items() if k in PREPARATION}
    return copy.deepcopy({**test, "dataset": mixed, "final_only": False})


# ---------------------------------------------------------------- contradictions


def _check_fine_tuning(config: Config) -> None:
    """Raise ConfigError for options of the fine-tuned view where it is not evaluated."""
    views: Sequence[str] = ()
    for section in ("val_cfg", "test_cfg"):
        options = config.get(section) or {}
        # the test's are those of val unless it has its own
        views = options.get("views", views) or ()
        for key in ("fine_tune_steps", "fine_tune_lr"):
            if options.get(key) is not None and FINE_TUNED not in views:
                raise ConfigError(
                    f"{section}.{key}: has no effect without the view {FINE_TUNED!r}: add it to "
                    f"{section}.views"
                )


def _check_sampler(config: Config) -> None:
    """Raise ConfigError for a sampler that only privacy supports."""
    if config.client_sampler.get("type") == "PoissonSampler" and not config.get("privacy"):
        raise ConfigError(
            "client_sampler.type: PoissonSampler has rounds without a client, which only privacy "
            "supports: set privacy, or use UniformSampler"
        )


# ---------------------------------------------------------------- what others ask of a config


def trains_clients(config: Mapping[str, Any], kind: str) -> bool:
    """True if an evaluation needs the training data: of each client's own model."""
    return bool({PERSONAL, FINE_TUNED} & set((config.get(f"{kind}_cfg") or {}).get("views") or ()))


def starts_pretrained(model: Mapping[str, Any]) -> bool:
    """True if a model's config asks timm or MMEngine for pretrained weights."""
    for field, value in walk(model):
        key = field.rpartition(".")[2]
        if key == "pretrained" and value is True:
            return True
        if key == "type" and _class_name(value) in ("Pretrained", "PretrainedInit"):
            return True
    return False


def drop_weights(model: Any) -> None:
    """Take the initial weights out of a model's config, in place, for a checkpoint has its own."""
    if isinstance(model, dict):
        for key in INITIAL_WEIGHTS:
            if key in model:
                model[key] = False if isinstance(model[key], bool) else None
        for key in WEIGHT_FILES:
            if isinstance(model.get(key), str) or _is_weights_file(model.get(key)):
                model[key] = None
        if _class_name(model.get("type")) == "TIMMBackbone":
            model["pretrained"] = False  # its default would fetch them
    for inner in model.values() if isinstance(model, dict) else model:
        if isinstance(inner, dict | list | tuple):
            drop_weights(inner)


def _is_weights_file(value: Any) -> bool:
    return isinstance(value, Mapping) and "path" in value


def _class_name(kind: Any) -> str:
    """The name of a component's class, without a scope such as ``mmseg.``."""
    return getattr(kind, "__name__", str(kind)).rpartition(".")[2]


def import_modules(custom_imports: Mapping[str, Any]) -> None:
    """Import what options name, or in a process that has not read the config's file."""
    check_imports(custom_imports)
    check_arguments(import_modules_from_strings, custom_imports, "custom_imports")
    try:
        import_modules_from_strings(**custom_imports)
    except ImportError as error:
        raise ConfigError(f"custom_imports.imports: {error}") from error
