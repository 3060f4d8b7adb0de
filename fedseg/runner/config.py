"""What a config must say, what it may leave out, and which combinations have no meaning."""

import copy
from collections.abc import Mapping
from typing import Any

from mmengine.config import Config

from fedseg.checks import check_bool, check_int
from fedseg.errors import ConfigError
from fedseg.registry import did_you_mean

KNOWN_KEYS = frozenset(
    {
        "algorithm",
        "averaging",
        "batchnorm",
        "channels_last",
        "client_sampler",
        "custom_hooks",
        "custom_imports",
        "data_preprocessor",
        "data_root",
        "default_hooks",
        "default_scope",
        "device",
        "dtype",
        "env_cfg",
        "executor",
        "experiment_name",
        "launcher",
        "load_from",
        "local_loss",
        "log_level",
        "log_processor",
        "methods",
        "model",
        "optim_wrapper",
        "param_scheduler",
        "randomness",
        "resume",
        "setting",
        "state_store",
        "test_cfg",
        "test_dataloader",
        "test_evaluator",
        "train_cfg",
        "train_dataloader",
        "val_cfg",
        "val_dataloader",
        "val_evaluator",
        "visualizer",
        "work_dir",
    }
)
REQUIRED_KEYS = ("model", "train_dataloader", "train_cfg", "optim_wrapper", "client_sampler")
DTYPES = ("float32", "float64")
RANDOMNESS = ("seed", "deterministic", "diff_rank_seed")  # what MMEngine knows


def complete_config(config: Config) -> Config:
    """A copy of the config with defaults filled in.

    Top-level names that nothing reads are allowed as helper variables (``crop_size = (512, 928)``),
    unless they look like a misspelt key or describe a component that nobody would build.

    Raises:
        ConfigError: a missing or misspelt key, or a contradiction that needs no model to see.
    """
    config = copy.deepcopy(config)
    where = config.filename or "the config"
    for key in config:
        if key in KNOWN_KEYS:
            continue
        hint = did_you_mean(key, KNOWN_KEYS)
        if hint or (isinstance(config[key], Mapping) and "type" in config[key]):
            raise ConfigError(f"{where}: unknown key {key!r}{hint}; nothing would read it")
    for key in REQUIRED_KEYS:
        if config.get(key) is None:
            raise ConfigError(f"{where}: {key} is missing")

    schedulers = config.get("param_scheduler")
    if not isinstance(schedulers, Mapping | list | tuple | None):
        raise ConfigError(f"param_scheduler: must be a list of dicts, not {schedulers!r}")
    _apply_data_root(config)
    for number, hook in enumerate(_as_list("custom_hooks", config.get("custom_hooks"))):
        if isinstance(hook, str):
            raise ConfigError(f"custom_hooks[{number}]: must be a dict with a type, not {hook!r}")
    train = config.train_cfg
    if train.get("local_steps") is not None and train.get("local_epochs") is not None:
        raise ConfigError(
            "train_cfg: local_epochs and local_steps contradict each other; set one of them to None"
        )
    check_bool("resume", config.get("resume", False))
    _default(config, "default_scope", "fedseg")
    _default(config, "work_dir", "work_dirs/run")
    _default(config, "algorithm", {"type": "FedAvg"})
    _default(config, "executor", {"type": "InProcessExecutor"})
    _default(config, "randomness", {"seed": 0})
    if config.randomness.get("seed") is None:
        config.randomness["seed"] = 0
    for key in config.randomness:
        if key not in RANDOMNESS:
            hint = did_you_mean(key, RANDOMNESS) or f"; known: {', '.join(RANDOMNESS)}"
            raise ConfigError(f"randomness.{key}: unknown{hint}")
    seed = config.randomness["seed"]
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**32:
        raise ConfigError(f"randomness.seed: must be an integer from 0 to 2^32 - 1, not {seed!r}")
    check_int("train_cfg.max_rounds", config.train_cfg.get("max_rounds"))
    _default(config, "dtype", "float32")
    if config.dtype not in DTYPES:
        raise ConfigError(f"dtype: must be one of {', '.join(DTYPES)}, not {config.dtype!r}")
    config.train_cfg.setdefault("type", "FederatedTrainLoop")
    amp = config.train_cfg.get("amp", False)
    check_bool("train_cfg.amp", amp)
    if config.dtype == "float64" and amp:
        raise ConfigError("train_cfg.amp: bfloat16 contradicts dtype='float64'; choose one")
    _evaluation_defaults(config, "val", "FederatedValLoop")
    if config.get("test_dataloader") is None:
        config["test_dataloader"] = copy.deepcopy(config.get("val_dataloader"))
    if config.get("test_evaluator") is None:
        config["test_evaluator"] = copy.deepcopy(config.get("val_evaluator"))
    _evaluation_defaults(config, "test", "FederatedTestLoop")
    return config


def _as_list(key: str, value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{key}: must be a list, not {type(value).__name__}")
    return list(value)


def _apply_data_root(config: Config) -> None:
    """A top-level ``data_root`` replaces that of every data set."""
    root = config.get("data_root")
    if root is None:
        return
    loaders = [config.get("train_dataloader")]
    for kind in ("val", "test"):
        loaders += list((config.get(f"{kind}_dataloader") or {}).values())
    for loader in loaders:
        if isinstance(loader, Mapping) and isinstance(loader.get("dataset"), Mapping):
            loader["dataset"]["data_root"] = str(root)


def _default(config: Config, key: str, value: Any) -> None:
    if config.get(key) is None:
        config[key] = value


def _evaluation_defaults(config: Config, kind: str, loop: str) -> None:
    loader, evaluator = f"{kind}_dataloader", f"{kind}_evaluator"
    if config.get(loader) is None:
        for key in (loader, evaluator, f"{kind}_cfg"):
            config[key] = None
        return
    if config.get(evaluator) is None:
        raise ConfigError(f"{evaluator}: is missing, but {loader} is given")
    _default(config, f"{kind}_cfg", {})
    config[f"{kind}_cfg"].setdefault("type", loop)
