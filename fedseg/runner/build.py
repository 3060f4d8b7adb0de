"""What trains clients, from a config alone: no runner, logger, server or work dir is needed.

The runner builds its own trainer this way, and so can any other process: the same config gives the
same model, data and optimizer, to the last bit.
"""

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.hooks import Hook
from mmengine.model import revert_sync_batchnorm
from mmengine.optim.scheduler.param_scheduler import (
    ConstantParamScheduler,
    LinearParamScheduler,
    PolyParamScheduler,
)
from mmengine.registry import init_default_scope
from mmengine.runner import set_random_seed
from mmengine.utils import import_modules_from_strings
from torch import nn

from fedseg.batchnorm import batchnorm_layers
from fedseg.checks import check_bool, check_int
from fedseg.core.algorithm import Algorithm
from fedseg.core.client_data import ClientData
from fedseg.core.flat import FlatModel
from fedseg.core.local_loss import LocalLoss
from fedseg.core.seeds import seed_for
from fedseg.engine.trainer import ClientTrainer
from fedseg.errors import ConfigError, DataError
from fedseg.hooks.averaging import ModelAverage
from fedseg.hooks.batchnorm import BatchNormPolicy
from fedseg.optim import OptimWrapper, build_local_optimizer
from fedseg.registry import (
    ALGORITHMS,
    CLIENT_DATA,
    HOOKS,
    LOCAL_LOSSES,
    MODELS,
    PARAM_SCHEDULERS,
    build,
    did_you_mean,
)
from fedseg.runner.checkpoint import load_checkpoint
from fedseg.runner.config import complete_config
from fedseg.runner.cuda_graph import choose_step

DEFAULT_HOOKS = {
    "checkpoint": {"type": "FederatedCheckpointHook"},
    "progress": {"type": "ProgressHook"},
    "trackers": {"type": "TrackersHook"},
    "client_accuracy": {"type": "ClientAccuracyHook"},
    "pictures": {"type": "PicturesHook"},
}
# schedules that reach their last value one round before their end: without an ``end`` of its own
# that is the round after the run, and the last round still has a learning rate
ENDING = (ConstantParamScheduler, LinearParamScheduler, PolyParamScheduler)
# keys of train_cfg that describe the local training; the others are the loop's
LOCAL_KEYS = ("amp", "cuda_graph", "hook_interval", "local_epochs", "local_steps")


def build_trainer(config: Config | Mapping[str, Any], run: Any = None) -> ClientTrainer:
    """What trains clients, from a config: model, data, local optimizer, algorithm and local loss.

    The BatchNorm policy and custom hooks act on the clients as in a run.

    Args:
        config: of the run, composed.
        run: what the hooks see as ``runner``, and keeps them as ``hooks``; None: the trainer.

    Raises:
        ConfigError: the config names something unknown, or asks for what has no meaning.
    """
    cfg = complete_config(config if isinstance(config, Config) else Config(dict(config)))
    if cfg.get("custom_imports"):
        import_modules_from_strings(**cfg.custom_imports)
    init_default_scope(cfg.default_scope)
    set_random_seed(**cfg.randomness)
    flat = build_vectors(move_model(build_model(cfg), cfg), cfg)
    hooks = [
        hook
        for field, _, hook in build_hooks(cfg)
        if field == "batchnorm" or field.startswith("custom_hooks")
    ]
    bind_hooks(hooks, flat)

    def call_hook(stage: str, **arguments: Any) -> None:
        for hook in hooks:
            if hasattr(hook, stage):
                getattr(hook, stage)(run or trainer, **arguments)

    trainer = assemble_trainer(cfg, flat, call_hook=call_hook)
    (run or trainer).hooks = hooks
    return trainer


def build_hooks(cfg: Config) -> Iterator[tuple[str, Mapping[str, Any], Any]]:
    """Every hook of a config, as (field, its config, the hook)."""
    default = cfg.get("default_hooks") or {}
    for name in default:
        if name not in DEFAULT_HOOKS:
            raise ConfigError(
                f"default_hooks.{name}: unknown{did_you_mean(name, DEFAULT_HOOKS)}; known: "
                f"{', '.join(DEFAULT_HOOKS)}. Hooks of your own go into custom_hooks"
            )
    fields = {f"default_hooks.{name}": (hook, Hook) for name, hook in DEFAULT_HOOKS.items()}
    fields |= {f"default_hooks.{name}": (hook, Hook) for name, hook in default.items()}
    fields["averaging"] = cfg.get("averaging"), ModelAverage
    fields["batchnorm"] = cfg.get("batchnorm"), BatchNormPolicy
    for number, hook in enumerate(cfg.get("custom_hooks") or []):
        fields[f"custom_hooks[{number}]"] = hook, Hook
    for field, (config, kind) in fields.items():
        if config is None:
            continue
        own = {k: v for k, v in config.items() if k != "priority"} if _is_dict(config) else config
        hook = build(HOOKS, own, field)
        if not isinstance(hook, kind):
            raise ConfigError(f"{field}.type: {type(hook).__name__} is not a {kind.__name__}")
        yield field, config if _is_dict(config) else {}, hook


def _is_dict(config: Any) -> bool:
    return isinstance(config, Mapping)


def bind_hooks(hooks: list[Any], flat: FlatModel) -> None:
    """Show the model's vectors to the hooks that want to see them."""
    for hook in hooks:
        if hasattr(hook, "bind"):
            hook.bind(flat)


def build_schedulers(cfg: Config, local: OptimWrapper) -> list[Any]:
    """The schedules of the local learning rate, by round."""
    given = cfg.get("param_scheduler") or []
    schedulers = []
    for number, config in enumerate([given] if isinstance(given, Mapping) else given):
        field = f"param_scheduler[{number}]"
        if not isinstance(config, Mapping):
            raise ConfigError(f"{field}: must be a dict with a type, not {config!r}")
        if not config.get("by_epoch", True) or config.get("convert_to_iter_based"):
            raise ConfigError(
                f"{field}.by_epoch: must be True: the local learning rate is scheduled by "
                "round, not by step, or it would decay from client to client"
            )
        kind = config.get("type")
        kind = PARAM_SCHEDULERS.get(kind) if isinstance(kind, str) else kind
        counts_end = inspect.isclass(kind) and issubclass(kind, ENDING)
        options = {"end": cfg.train_cfg.max_rounds + counts_end, **config}
        schedulers.append(build(PARAM_SCHEDULERS, options, field, optimizer=local))
    return schedulers


def build_model(cfg: Config) -> nn.Module:
    """The network in its dtype, on the CPU; its weights are drawn by :func:`build_vectors`."""
    torch.manual_seed(seed_for(cfg.randomness.seed, "build"))
    model = build(MODELS, cfg.model, "model")
    if not isinstance(model, nn.Module):
        raise ConfigError(f"model: {type(model).__name__} is not a torch.nn.Module")
    return model.to(getattr(torch, cfg.get("dtype", "float32")))


def move_model(model: nn.Module, cfg: Config) -> nn.Module:
    """The model on the config's device; by default on the accelerator, if there is one."""
    device = cfg.get("device") or get_device()
    if not isinstance(device, str | torch.device):
        raise ConfigError(f"device: must be a name such as 'cpu' or 'cuda:0', not {device!r}")
    try:
        return revert_sync_batchnorm(model.to(device))
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"device: {device!r} cannot be used: {error}") from error


def build_vectors(model: nn.Module, cfg: Config) -> FlatModel:
    """Draw the initial weights, lay the model out as vectors, load ``load_from``."""
    torch.manual_seed(seed_for(cfg.randomness.seed, "init"))
    if hasattr(model, "init_weights"):
        model.init_weights()
    flat = FlatModel(model, cfg.get("channels_last", True))
    if cfg.get("load_from") is not None:
        load_weights(flat, cfg.load_from)
    return flat


def load_weights(flat: FlatModel, path: Any) -> None:
    """Load the weights of a checkpoint into a model.

    Raises:
        ConfigError: ``load_from`` is no path.
        DataError: the checkpoint is missing, damaged, or of another model.
    """
    if not isinstance(path, str):
        raise ConfigError(f"load_from: must be a checkpoint's path, not {path!r}")
    state_dict = load_checkpoint(path)["state_dict"]
    expected = {name: tuple(tensor.shape) for name, tensor in flat.model.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in state_dict.items()}
    wrong = [
        f"{name} is {found[name]}, the model has {shape}"
        for name, shape in expected.items()
        if name in found and found[name] != shape
    ]
    wrong += [f"{name} is missing" for name in expected if name not in found]
    wrong += [f"{name} is not in the model" for name in found if name not in expected]
    if wrong:
        shown = "; ".join(wrong[:3]) + (f"; and {len(wrong) - 3} more" if len(wrong) > 3 else "")
        raise DataError(f"{path}: is a checkpoint of another model: {shown}; give its own config")
    flat.load_state_dict(state_dict)


def assemble_trainer(
    cfg: Config,
    flat: FlatModel,
    *,
    call_hook: Callable[..., None],
    check: Callable[[], None] = lambda: None,
    warn: Callable[[str], None] = warnings.warn,
) -> ClientTrainer:
    """The trainer around a model.

    Args:
        cfg: complete.
        flat: the model.
        call_hook: called as ``call_hook(stage, **arguments)``.
        check: called before every local step; raises to stop early.
        warn: called with a message for the user.
    """
    train = cfg.train_cfg
    graphs = train.get("cuda_graph", False)
    if not (isinstance(graphs, bool) or graphs == "auto"):
        raise ConfigError(f"train_cfg.cuda_graph: must be True, False or 'auto', not {graphs!r}")
    hook_interval = train.get("hook_interval", 50)
    check_int("train_cfg.hook_interval", hook_interval)
    check_bool("train_cfg.amp", train.get("amp", False))
    algorithm = build(ALGORITHMS, cfg.algorithm, "algorithm")
    if not isinstance(algorithm, Algorithm):
        raise ConfigError(f"algorithm.type: {cfg.algorithm['type']} is not an Algorithm")
    lacks = getattr(flat.model, "lacks", None)
    if lacks is not None and cfg.get("load_from") is None:
        warn(
            f"model.weights: published runs start from {lacks} weights, this one from random ones: "
            "give a file of them"
        )
    data = build_client_data(cfg, flat, warn)
    local = build_local_optimizer(cfg.optim_wrapper, flat)
    for field, part in (("algorithm", algorithm), ("optim_wrapper", local)):
        if getattr(part, "rho_rounds", 0) > train.max_rounds:
            raise ConfigError(
                f"{field}.rho_rounds: {part.rho_rounds} rounds are more than the run's "
                f"train_cfg.max_rounds ({train.max_rounds}): the radius would not reach its value"
            )
    algorithm.check(local, flat)
    algorithm.bind(flat)
    return ClientTrainer(
        flat,
        algorithm,
        local,
        data,
        seed=cfg.randomness.seed,
        local_loss=_build_local_loss(cfg, flat),
        amp=train.get("amp", False),
        call_hook=call_hook,
        check=check,
        hook_interval=hook_interval,
        make_step=lambda trainer: choose_step(trainer, graphs, warn),
    )


def build_client_data(
    cfg: Config, flat: FlatModel, warn: Callable[[str], None] = warnings.warn
) -> ClientData:
    """The clients' training data, ``train_dataloader``."""
    options = dict(cfg.train_dataloader)
    for key in ("dataset", "partition", "batch_size"):
        if key not in options:
            raise ConfigError(f"train_dataloader.{key}: is missing")
    epochs = cfg.train_cfg.get("local_epochs")
    of_the_run = {
        "local_epochs": 1 if epochs is None else epochs,
        "local_steps": cfg.train_cfg.get("local_steps"),
        "drop_single": bool(batchnorm_layers(flat.model)),
        "device": flat.w.device,
        "dtype": flat.w.dtype,
        "seed": cfg.randomness.seed,
    }
    options = {"type": "StreamingData", **options}
    data = build(CLIENT_DATA, options, "train_dataloader", of_the_run)
    dropped = data.dropped()
    if dropped:
        warn(
            f"{len(dropped)} clients (the first: {dropped[0]!r}) leave a last batch of one "
            "sample out of every local epoch, which BatchNorm cannot train on"
        )
    return data


def _build_local_loss(cfg: Config, flat: FlatModel) -> LocalLoss:
    config = cfg.get("local_loss")
    if config is None:
        return LocalLoss()
    loss = build(LOCAL_LOSSES, config, "local_loss")
    if not isinstance(loss, LocalLoss):
        raise ConfigError(f"local_loss.type: {config['type']} is not a LocalLoss")
    loss.check(flat)
    return loss
