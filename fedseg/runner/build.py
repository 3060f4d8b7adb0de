"""Build what trains clients from a config alone, without runner, logger, server or work dir.

A worker process calls :func:`build_trainer`; the runner calls the steps of it and keeps what they
give. The same config gives the same model, data and optimizer, to the last bit.
"""

# before what imports MMEngine's optimizers itself
import fedseg.mmengine_optim  # noqa: F401, isort: skip

import copy
import hashlib
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

import torch
from mmengine.config import Config
from mmengine.model import revert_sync_batchnorm
from mmengine.optim.scheduler.param_scheduler import (
    ConstantParamScheduler,
    ExponentialParamScheduler,
    LinearParamScheduler,
    MultiStepParamScheduler,
    PolyParamScheduler,
    StepParamScheduler,
)
from mmengine.registry import init_default_scope
from mmengine.runner import Priority, get_priority, set_random_seed
from torch import nn
from torch.nn.parameter import is_lazy

from fedseg.algorithms.flexlora import FedExLoRA
from fedseg.batchnorm import batchnorm_layers
from fedseg.checks import shown
from fedseg.config.accepted import SCHEDULES, replacement_of
from fedseg.config.arguments import check_arguments, check_value, check_values
from fedseg.config.check import (
    complete_config,
    drop_weights,
    import_modules,
    starts_pretrained,
    trains_clients,
)
from fedseg.config.components import DEFAULT_HOOKS, LOCAL_TRAINING, MODEL_KEYS
from fedseg.core.algorithm import AggregationRule, Algorithm
from fedseg.core.client_data import ClientData
from fedseg.core.flat import FlatModel
from fedseg.core.hook import FederatedHook
from fedseg.core.local_loss import LocalLoss
from fedseg.core.local_state import LocalState
from fedseg.core.messages import Payload
from fedseg.core.seeds import seed_for
from fedseg.datasets.arrays import is_rendered
from fedseg.engine.trainer import ClientTrainer
from fedseg.errors import ConfigError, DataError, lacks_memory
from fedseg.evaluation.loops import FederatedValLoop
from fedseg.evaluation.sets import EvaluationSet
from fedseg.hooks.averaging import ModelAverage
from fedseg.memory import find_weights_fault
from fedseg.models.lora import LoRA, with_adapters
from fedseg.names import did_you_mean
from fedseg.optim import OptimWrapper, build_local_optimizer
from fedseg.parts import part_names
from fedseg.registry import (
    AGGREGATES,
    ALGORITHMS,
    ATTACKS,
    CLIENT_DATA,
    COMPRESSIONS,
    HOOKS,
    LOCAL_LOSSES,
    LOOPS,
    MODELS,
    PARAM_SCHEDULERS,
    PRIVACIES,
    build,
    find_class,
)
from fedseg.runner.checkpoint import load_checkpoint
from fedseg.runner.kernels import choose_kernels, device_of
from fedseg.updates.postprocessor import Postprocessor
from fedseg.updates.robust import check_treatable

# schedules that reach their last value one round before their end: without an ``end`` of its own
# that is the round after the run, and the last round still has a learning rate
ENDING = (ConstantParamScheduler, LinearParamScheduler, PolyParamScheduler)
# schedules without a last value: how long the run is means nothing to them
ENDLESS = (ExponentialParamScheduler, MultiStepParamScheduler, StepParamScheduler)

# what happens to an update on its way, in the order in which it acts
POSTPROCESSORS = {
    "attack": ATTACKS,
    "compression": COMPRESSIONS,
    "privacy": PRIVACIES,
}
UNLABELED = "every pixel of every sample is ignored: do its label maps have the ids of its classes?"


def build_trainer(config: Config | Mapping[str, Any], run: Any = None) -> ClientTrainer:
    """Build model, data, local optimizer, algorithm and local loss of a config: a trainer.

    Custom hooks act on the clients as in a run.

    Args:
        run: what the hooks see as ``runner``, and keeps them as ``hooks``; None: the trainer.
    """
    cfg = complete_config(config if isinstance(config, Config) else Config(dict(config)))
    if cfg.get("custom_imports"):
        import_modules(cfg.custom_imports)
    init_default_scope("fedseg")
    set_random_seed(cfg.randomness.seed)
    choose_kernels(device_of(cfg), cfg.randomness.get("deterministic", True))
    flat = build_vectors(move_model(build_model(cfg), cfg), cfg)
    load_start(flat, cfg.get("load_from"))
    local_state = build_local_state(cfg, flat)
    hooks = [hook for field, hook in build_hooks(cfg) if field.startswith("custom_hooks")]
    bind_hooks(hooks, flat)

    def call_hook(stage: str, **arguments: Any) -> None:
        for hook in hooks:
            if hasattr(hook, stage):
                getattr(hook, stage)(run or trainer, **arguments)

    trainer = assemble_trainer(cfg, flat, local_state=local_state, call_hook=call_hook, hooks=hooks)
    (run or trainer).hooks = hooks
    return trainer


def build_hooks(cfg: Config) -> list[tuple[str, Any]]:
    """Build every hook of a config: (field, hook) of each, in the order in which they act."""
    configs = _default_hooks(cfg)
    configs["averaging"] = cfg.get("averaging")
    for number, config in enumerate(cfg.get("custom_hooks") or []):
        configs[f"custom_hooks[{number}]"] = config
    hooks = []
    for field, config in configs.items():
        if config is not None:
            hooks.append((field, _build_hook(config, field)))
    return sorted(hooks, key=lambda entry: get_priority(entry[1].priority))


def _default_hooks(cfg: Config) -> dict[str, Mapping[str, Any] | None]:
    """The configs of the hooks that a run has by itself, by field; None: turned off."""
    changes = cfg.get("default_hooks") or {}
    for name in changes:
        if name not in DEFAULT_HOOKS:
            raise ConfigError(
                f"default_hooks.{name}: unknown{did_you_mean(name, DEFAULT_HOOKS)}; known: "
                f"{', '.join(DEFAULT_HOOKS)}. Hooks of your own go into custom_hooks"
            )
    configs: dict[str, Mapping[str, Any] | None] = {}
    for name, default in DEFAULT_HOOKS.items():
        change = changes.get(name, {})
        if change is not None and not isinstance(change, Mapping):
            raise ConfigError(
                f"default_hooks.{name}: must be a dict of its options or None, not {change!r}"
            )
        configs[f"default_hooks.{name}"] = None if change is None else {**default, **change}
    return configs


def _build_hook(config: Mapping[str, Any], field: str) -> Any:
    """Build a hook, and give it the priority that its config names."""
    options = {key: value for key, value in config.items() if key != "priority"}
    is_average = field == "averaging"
    base = ModelAverage if is_average else FederatedHook
    hook = build(HOOKS, options, field, base=base, keys=("priority",))
    if isinstance(hook, ModelAverage) and not is_average:
        raise ConfigError(f"{field}: {type(hook).__name__} goes into averaging")
    if config.get("priority") is not None:
        hook.priority = config["priority"]
    try:
        get_priority(hook.priority)
    except (KeyError, TypeError, ValueError) as error:
        known = ", ".join(Priority.__members__)
        raise ConfigError(f"{field}.priority: must be 0 to 100 or one of {known}") from error
    return hook


def build_local_state(cfg: Config, flat: FlatModel) -> LocalState | None:
    """What stays with each client: ``personal``, and own models of an algorithm; None: nothing."""
    personal = cfg.get("personal") or ()
    own_model = getattr(find_class(ALGORITHMS, cfg.algorithm, "algorithm"), "own_model", None)
    if not personal and own_model is None:
        return None
    return LocalState(flat, personal, own_model)


def bind_hooks(hooks: list[Any], flat: FlatModel) -> None:
    """Show the model's vectors to the hooks that want to see them."""
    for hook in hooks:
        if hasattr(hook, "bind"):
            hook.bind(flat)


def build_postprocessors(cfg: Config) -> list[Postprocessor]:
    """What a config does to updates on their way, in the order in which it acts."""
    return [
        build(registry, cfg[key], key, base=Postprocessor)
        for key, registry in POSTPROCESSORS.items()
        if cfg.get(key) is not None
    ]


def build_aggregation_rule(
    cfg: Config, algorithm: Algorithm, postprocessors: Sequence[Postprocessor]
) -> AggregationRule:
    """How the updates of an exchange are summed: by means, or by the rule that a config names."""
    needed = [step.aggregation_rule for step in postprocessors if step.aggregation_rule is not None]
    if cfg.get("robust") is None:
        return needed[0] if needed else AggregationRule()
    if needed:
        raise ConfigError(
            "privacy: robust sums have no bound on what one client changes: set robust=None"
        )
    if algorithm.needs_every_update:
        raise ConfigError(
            f"robust: {type(algorithm).__name__} has its own aggregation: set robust=None"
        )
    check_treatable(algorithm)
    return build(AGGREGATES, cfg.robust, "robust", base=AggregationRule)


def build_schedulers(cfg: Config, local: OptimWrapper) -> list[Any]:
    """The schedules of the local learning rate, by round."""
    section = cfg.get("param_scheduler") or []
    configs = {"param_scheduler": section}
    if not isinstance(section, Mapping):
        configs = {f"param_scheduler[{number}]": config for number, config in enumerate(section)}
    schedulers = []
    for field, config in configs.items():
        if not config.get("by_epoch", True) or config.get("convert_to_iter_based"):
            raise ConfigError(
                f"{field}.by_epoch: must be True: the local learning rate is scheduled by "
                "round, not by step, or it would decay from client to client"
            )
        kind = find_class(PARAM_SCHEDULERS, config, field)
        name = kind.__name__
        if name not in SCHEDULES:
            known = ", ".join(SCHEDULES)
            raise ConfigError(
                f"{field}.type: must be one of {known}, not {name}{replacement_of(name)}"
            )
        end = cfg.train_cfg.max_rounds
        if issubclass(kind, ENDING):
            end += 1
        options = config if issubclass(kind, ENDLESS) else {"end": end, **config}
        schedulers.append(build(PARAM_SCHEDULERS, options, field, optimizer=local))
    return schedulers


def build_model(cfg: Config, from_checkpoint: bool = False) -> nn.Module:
    """Build the network in its dtype, on the CPU; its weights are drawn by :func:`build_vectors`.

    Pretrained weights of timm are read here, and fetched if they are not on this machine.

    Args:
        from_checkpoint: whether a checkpoint will give the weights: no others are read.
    """
    torch.manual_seed(seed_for(cfg.randomness.seed, "build"))
    options = {k: v for k, v in cfg.model.items() if k not in MODEL_KEYS}
    if from_checkpoint or cfg.get("load_from") is not None:
        options = copy.deepcopy(options)
        drop_weights(options)
    with _reading_weights():
        model = build(MODELS, options, "model", base=nn.Module, keys=MODEL_KEYS)
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if is_lazy(tensor):
            raise ConfigError(f"model: {name} is lazy: give layers their sizes, as nn.Linear has")
        if tensor.is_complex():
            raise ConfigError(f"model: {name} is complex: hold it as torch.view_as_real(...)")
    return model.to(getattr(torch, cfg.get("dtype", "float32")))


@contextmanager
def _reading_weights() -> Iterator[None]:
    """Raise ConfigError where a file of pretrained weights can be neither read nor fetched."""
    try:
        yield
    except OSError as error:
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"model: its pretrained weights can be neither read nor fetched ({reason}): give a "
            "local file as model.weights, and set pretrained to False and init_cfg to None"
        ) from error


def move_model(model: nn.Module, cfg: Config) -> nn.Module:
    """The model on the config's device, ``cpu`` or ``cuda``; by default CUDA, if there is any.

    PyTorch's ``meta`` is accepted too: tensors without values, for checks of what is built.
    """
    device = device_of(cfg)
    if device.partition(":")[0] not in ("cpu", "cuda", "meta"):
        raise ConfigError(f"device: must be cpu or cuda (cuda:0, ...), not {device}")
    try:
        return revert_sync_batchnorm(model.to(device))
    except (RuntimeError, AssertionError) as error:
        if lacks_memory(error):
            raise
        raise ConfigError(f"device: {device!r} cannot be used: {error}") from error


def build_vectors(model: nn.Module, cfg: Config) -> FlatModel:
    """Draw the initial weights, freeze parts, add adapters, and lay the model out as vectors.

    Raises:
        ConfigError: weights cannot be read, or are not finite; ``freeze`` or ``lora`` do not fit.
    """
    torch.manual_seed(seed_for(cfg.randomness.seed, "init"))
    _draw_weights(model)
    frozen = _frozen_parts(model, cfg)
    if cfg.model.get("lora") is not None:
        LoRA.from_config(cfg.model.lora).add_to(model, frozen)
    return FlatModel(model, cfg.get("channels_last", True), frozen)


def _draw_weights(model: nn.Module) -> None:
    """Give a model its initial weights, of a file where its config names one, and check them."""
    if hasattr(model, "init_weights"):
        with _reading_weights():
            model.init_weights()
    for name, tensor in model.state_dict().items():
        fault = find_weights_fault(tensor)
        if fault is not None:
            raise ConfigError(f"model: {name} {fault}: take another model.weights or init_cfg")


def _frozen_parts(model: nn.Module, cfg: Config) -> Collection[str]:
    """The names of the parameters that ``model.freeze`` keeps at their initial values."""
    freeze = cfg.model.get("freeze") or ()
    check_value("model.freeze", freeze, str | Sequence[str])
    return part_names(model, freeze, "model.freeze") if freeze else ()


@dataclass(frozen=True)
class Start:
    """Where a run takes its initial weights from, ``load_from``.

    Attributes:
        path: of a checkpoint.
        model: which one of it. None: the global one, with a warning if there is an averaged one.
    """

    path: str
    model: Literal["global", "averaged"] | None = None


def load_start(flat: FlatModel, load_from: str | Path | Mapping[str, Any] | None) -> None:
    """Load the initial weights that a config names.

    Args:
        load_from: the path of a checkpoint, or a dict of :class:`Start`; None: the weights stay.
    """
    if load_from is None:
        return
    if isinstance(load_from, str | Path):
        load_from = {"path": str(load_from)}
    check_arguments(Start, load_from, "load_from")
    start = Start(**load_from)
    payload = load_weights(flat, start.path)
    averaged = payload.get("averaged_state_dict")
    if start.model == "averaged":
        if averaged is None:
            raise ConfigError(
                f"load_from.model: {start.path} has no averaged model: write 'global'"
            )
        flat.load_state_dict(with_adapters(averaged, flat.model))
    elif start.model is None and averaged is not None:
        warnings.warn(
            f"load_from: {start.path} has an averaged model, which its run reports; this run "
            "starts from the global one: load_from=dict(path=..., model='averaged') or 'global' "
            "says which",
            stacklevel=2,
        )


def weights_digest(flat: FlatModel) -> str:
    """Return the SHA-256 of a model's parameters and buffers, frozen ones included, by name."""
    digest = hashlib.sha256()
    for name, tensor in sorted(flat.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        values = tensor.cpu().contiguous().reshape(-1)
        digest.update(values.view(torch.uint8).numpy())
    return digest.hexdigest()


def load_weights(
    flat: FlatModel, path: Any, payload: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Load the global weights of a checkpoint into a model; returns all that the checkpoint holds.

    Args:
        flat: the model.
        path: of the checkpoint.
        payload: what was read of it before.

    Raises:
        DataError: it is damaged, or its global or averaged weights are of another model.
    """
    check_value("load_from", path, str)
    payload = load_checkpoint(path) if payload is None else payload
    try:
        for key in ("averaged_state_dict", "state_dict"):  # both must fit; the global ones stay
            if key in payload:
                flat.load_state_dict(with_adapters(payload[key], flat.model))
    except RuntimeError as error:
        _, *reasons = map(str.strip, str(error).split("\n"))
        more = f" and {len(reasons) - 3} more" if len(reasons) > 3 else ""
        raise DataError(
            f"{path}: is a checkpoint of another model, give its own config: "
            f"{' '.join(reasons[:3])}{more}"
        ) from error
    return payload


def assemble_trainer(
    cfg: Config,
    flat: FlatModel,
    *,
    local_state: LocalState | None = None,
    call_hook: Callable[..., None],
    hooks: Iterable[Any] = (),
    check: Callable[[], None] = lambda: None,
    warn: Callable[[str], None] = warnings.warn,
) -> ClientTrainer:
    """The trainer around a model.

    Args:
        local_state: what stays with each client; None: nothing.
        hooks: which may have payloads.
        call_hook: called as ``call_hook(stage, **arguments)``.
        check: called before every local step; raises to stop early.
        warn: called with a message for the user.
    """
    train = cfg.train_cfg
    check_values(train, LOCAL_TRAINING, "train_cfg")
    algorithm = build(ALGORITHMS, cfg.algorithm, "algorithm", base=Algorithm)
    local = build_local_optimizer(cfg.optim_wrapper, flat, train.max_rounds)
    local_loss = build_local_loss(cfg)
    postprocessors = build_postprocessors(cfg)
    _warn_of_random_weights(cfg, flat.model, warn)
    data = build_client_data(cfg, flat, warn)
    algorithm.data = data
    local_loss.data = data
    if not any(group["lr"] for group in local.optimizer.param_groups):
        warn("optim_wrapper.optimizer.lr: is 0: no client learns")
    if isinstance(algorithm, FedExLoRA) and cfg.get("averaging") is not None:
        raise ConfigError(
            "averaging: FedExLoRA changes frozen weights every round, which an average does not "
            "include: set averaging=None, or take FlexLoRA"
        )
    algorithm.local_state = local_state
    algorithm.setup(flat, local, train.max_rounds)
    local_loss.setup(flat)
    payloads = declare_payloads([algorithm, local_loss, *hooks], data, flat)
    for step in postprocessors:
        step.setup(flat, algorithm, data, cfg.randomness.seed)
    return ClientTrainer(
        flat,
        algorithm,
        local,
        data,
        seed=cfg.randomness.seed,
        local_loss=local_loss,
        local_state=local_state,
        payloads=payloads,
        postprocessors=postprocessors,
        aggregation_rule=build_aggregation_rule(cfg, algorithm, postprocessors),
        amp=train.get("amp", False),
        call_hook=call_hook,
        check=check,
        hook_interval=train.get("hook_interval", 50),
    )


def _warn_of_random_weights(cfg: Config, model: nn.Module, warn: Callable[[str], None]) -> None:
    """Warn of random weights that stay frozen, or where published runs start from others."""
    named = cfg.get("load_from") or cfg.model.get("weights")
    if named is not None or starts_pretrained(cfg.model):
        return
    lacks = getattr(model, "lacks", None)
    if cfg.model.get("lora") is not None:
        warn(
            "model.lora: the adapters belong to random weights, which stay frozen: give weights "
            "as model.weights or load_from"
        )
    elif lacks is not None:
        warn(
            f"model.weights: published runs start from {lacks} weights, this one from random ones: "
            "give a file of them"
        )


def build_local_loss(cfg: Config) -> LocalLoss:
    """The local loss of a config, by default the model's own; it has neither data nor a model."""
    if cfg.get("local_loss") is None:
        return LocalLoss()
    return build(LOCAL_LOSSES, cfg.local_loss, "local_loss", base=LocalLoss)


def declare_payloads(parts: Iterable[Any], data: ClientData, flat: FlatModel) -> dict[str, Payload]:
    """The payloads of an algorithm, a local loss and hooks, by name, with numbers as sizes."""
    parts = list(parts)
    owners = {"delta": "every algorithm", "buffers": "every run", "counters": "every run"}
    for part in parts:
        for name in getattr(part, "server_vectors", ()):
            owners[name] = type(part).__name__
    payloads = {}
    for part in parts:
        owner = type(part).__name__
        declared = getattr(part, "payloads", ())  # a hook registered by hand may be MMEngine's
        check_value(f"{owner}.payloads", declared, Sequence[Payload])
        for payload in declared:
            check_arguments(Payload, vars(payload), f"{owner}: Payload({payload.name!r})")
            _claim_name(payload.name, owner, owners)
            payloads[payload.name] = _with_numbers(payload, owner, data, flat)
    return payloads


def _claim_name(name: str, owner: str, owners: dict[str, str]) -> None:
    """Note who has a payload's name; raise ConfigError if something else has it already."""
    other = "server optimizers" if name.startswith("optim.") else owners.get(name)
    if other is not None:
        raise ConfigError(
            f"{owner}: its payload {name!r} is that of {other}, too: give it another name"
        )
    owners[name] = owner


def _with_numbers(payload: Payload, owner: str, data: ClientData, flat: FlatModel) -> Payload:
    """The payload with numbers in place of ``"classes"`` and ``"clients"`` in its shape."""
    if payload.shape is None:
        return payload
    classes = len(_classes(getattr(data, "dataset", None)))
    classes = classes or getattr(flat.model, "num_classes", None)
    if "classes" in payload.shape and not classes:
        raise ConfigError(f"{owner}: {payload.name!r} is by class, but the data set has no classes")
    sizes = {"classes": classes, "clients": len(data.clients)}
    return replace(payload, shape=tuple(sizes.get(size, size) for size in payload.shape))


def build_client_data(
    cfg: Config, flat: FlatModel, warn: Callable[[str], None] = warnings.warn
) -> ClientData:
    """The clients' training data, ``train_dataloader``."""
    options = {"type": "StreamingData", **cfg.train_dataloader}
    epochs = cfg.train_cfg.get("local_epochs")
    injected = {
        "local_epochs": 1 if epochs is None else epochs,
        "local_steps": cfg.train_cfg.get("local_steps"),
        "drop_single": bool(batchnorm_layers(flat.model)),
        "device": flat.w.device,
        "dtype": flat.w.dtype,
        "seed": cfg.randomness.seed,
    }
    data = build(CLIENT_DATA, options, "train_dataloader", injected=injected)
    if dropped := data.dropped():
        warn(
            f"{len(dropped)} clients (the first: {dropped[0]!r}) leave a last batch of one "
            "sample out of every local epoch, as the model has BatchNorm"
        )
    return data


def build_evaluation(cfg: Config, kind: str, run: Any) -> Any:
    """The loop that evaluates a run on the config's ``"val"`` or ``"test"`` sets."""
    if not hasattr(run, "trainer") and trains_clients(cfg, kind):  # a test
        run.trainer = assemble_trainer(
            cfg, run.flat, local_state=run.local_state, call_hook=run.call_hook
        )
        run.data = run.trainer.data
    parts = {name: cfg[f"{kind}_{name}"] for name in ("dataloader", "evaluator")}
    injected = {"runner": run, **parts}
    field = f"{kind}_cfg"
    return build(LOOPS, dict(cfg[field]), field, injected=injected, base=FederatedValLoop)


def check_classes(cfg: Config, dataset: Any, field: str = "train_dataloader.dataset") -> None:
    """Raise ConfigError for a model of other classes than its data set, or of a single class."""
    classes = _classes(dataset)
    part = cfg.model
    name = "model"
    for inner in ("network", "decode_head", None):  # from outside to inside
        number = part.get("num_classes")
        if classes and number not in (None, len(classes)):
            raise ConfigError(
                f"{name}.num_classes: is {number}, {field} has {len(classes)} classes: set "
                f"{name}.num_classes={len(classes)}"
            )
        if number == 1:
            raise ConfigError(
                f"{name}.num_classes: is 1, and every model predicts a single class correctly: "
                f"give {field} at least two"
            )
        part, name = part.get(inner), f"{name}.{inner}"
        if not isinstance(part, Mapping):
            return


def check_tests(dataset: Any, tests: Sequence[EvaluationSet]) -> None:
    """Raise DataError for a test set of other classes than the training data, or without labels.

    Training data without labels are only warned of: a local loss may be for them.
    """
    if not _is_labeled(dataset):
        warnings.warn(f"train_dataloader.dataset: {UNLABELED}", stacklevel=2)
    for test in tests:
        field = f"val_dataloader.{test.name}.dataset"
        _compare_classes(field, _classes(test.dataset), _classes(dataset))
        if not _is_labeled(test.dataset):
            raise DataError(f"{field}: {UNLABELED}")
    for part in (dataset, *(test.dataset for test in tests)):
        is_rendered(part)  # the results need it: a damaged dataset.json is told before training


def _is_labeled(dataset: Any) -> bool:
    """False for label maps without a pixel of a class; True for data sets without label maps."""
    return not hasattr(dataset, "has_labels") or dataset.has_labels()


def _compare_classes(field: str, tested: Sequence[str], trained: Sequence[str]) -> None:
    """Raise DataError for a test set that names other classes than the training data."""
    if not tested or not trained:
        return
    for number, (name, expected) in enumerate(zip_longest(tested, trained)):
        if name != expected:
            raise DataError(
                f"{field}: has other classes than train_dataloader.dataset: class {number} is "
                f"{shown(name)}, not {shown(expected)}: name data of the same classes, in the "
                "same order"
            )


def _classes(dataset: Any) -> list[str]:
    """The names of the classes; empty where a data set has none."""
    classes = (getattr(dataset, "metainfo", None) or {}).get("classes")
    return [] if classes is None else list(classes)
