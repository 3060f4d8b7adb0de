"""The local optimizer: an MMEngine optim wrapper over the flat parameter vector."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from mmengine.optim import OptimWrapper as MMEngineOptimWrapper
from mmengine.optim import build_optim_wrapper
from torch import nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

from fedseg.checks import shown
from fedseg.config.arguments import (
    NonNegative,
    Positive,
    check_arguments,
    check_value,
    check_values,
)
from fedseg.core.client import Client
from fedseg.core.flat import FlatModel
from fedseg.errors import DEBUG, ConfigError
from fedseg.names import did_you_mean
from fedseg.registry import (
    OPTIM_WRAPPER_CONSTRUCTORS,
    OPTIM_WRAPPERS,
    OPTIMIZERS,
    build,
    check_component,
    find_class,
)

LOCAL_OPTIMIZERS = ("SGD", "Adam", "AdamW")
PARAMWISE = {
    "custom_keys": Mapping[str, Mapping],
    "bias_decay_mult": NonNegative,
    "norm_decay_mult": NonNegative,
}
MULTIPLIERS = {"lr_mult": NonNegative, "decay_mult": NonNegative}  # of custom_keys
THRESHOLDS = {"max_norm": Positive, "clip_value": Positive}  # of clip_grad
BUILT_BEFORE = ("optimizer", "constructor", "paramwise_cfg")  # keys read before the wrapper's


@OPTIM_WRAPPERS.register_module()
class OptimWrapper(MMEngineOptimWrapper):
    """Plain local training: the minibatch gradient, one optimizer step.

    Args:
        optimizer: a torch optimizer, or in a config its dict.
        clip_grad: ``dict(max_norm=...)`` or ``dict(type="value", clip_value=...)``; acts on the
            corrected gradient.
    """

    passes = 1  # forward-backward passes per step

    def __init__(
        self,
        *args: Any,
        accumulative_counts: Literal[1] = 1,  # every local step takes one batch
        clip_grad: Mapping | None = None,
        **kwargs: Any,
    ) -> None:
        _check_clipping(clip_grad)
        super().__init__(*args, clip_grad=clip_grad, **kwargs)
        self._ordinary_rates: list[float] | None = None
        self.rates = [group["lr"] for group in self.optimizer.param_groups]  # the config's

    def setup(self, flat: FlatModel, max_rounds: int) -> None:
        """Called once before training, with the model and the rounds of the run.

        Raises:
            ConfigError: a schedule that does not fit the rounds.
        """

    def start_round(self, round_: int) -> None:
        """Called before the clients of 1-based round ``round_``; sets what depends on the round."""

    def change_rates(self, rates: Sequence[float]) -> None:
        """Give the groups other learning rates, until :meth:`restore_rates`."""
        self._ordinary_rates = [group["lr"] for group in self.optimizer.param_groups]
        self._set_rates(rates)

    def restore_rates(self) -> None:
        """Restore the ordinary learning rates, if they were changed."""
        if self._ordinary_rates is not None:
            self._set_rates(self._ordinary_rates)
            self._ordinary_rates = None

    def _set_rates(self, rates: Sequence[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate

    def state_dict(self) -> dict[str, Any]:
        """The options of the groups, with their ordinary rates; moments live within a client."""
        groups = self.optimizer.param_groups
        rates = self._ordinary_rates or [group["lr"] for group in groups]
        saved = []
        for group, rate in zip(groups, rates, strict=True):
            options = {key: value for key, value in group.items() if key != "params"}
            saved.append({**options, "lr": rate})
        return {"param_groups": saved}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for group, saved in zip(self.optimizer.param_groups, state["param_groups"], strict=True):
            group.update(saved)

    def reset_state(self) -> None:
        """Reset before a client: momentum does not pass from one to the next."""
        optimizer = self.optimizer
        is_dampened = any(group.get("dampening") for group in optimizer.param_groups)
        if is_dampened or not isinstance(optimizer, torch.optim.SGD):
            optimizer.state.clear()
            return
        for state in optimizer.state.values():  # zeros are SGD's fresh buffer, without a new one
            if state.get("momentum_buffer") is not None:
                state["momentum_buffer"].zero_()

    def gradient(self, client: Client, replay: bool = False) -> None:
        """Compute this step's gradient in ``client.grad``; leaves ``client.w`` unchanged.

        Args:
            client: at the weights where the gradient is wanted.
            replay: True if the caller has already taken a gradient of this batch, at other
                weights; see :meth:`fedseg.core.client.Client.backward`.
        """
        client.backward(replay)

    def _clip_grad(self) -> None:
        # MMEngine's own logs the norm, which would synchronize the device at every step
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        self.clip_func(parameters, **self.clip_grad_kwargs)


def _check_clipping(config: Mapping | None) -> None:
    """Raise ConfigError unless MMEngine and PyTorch can clip gradients by ``clip_grad``."""
    if config is None:
        return
    field = "optim_wrapper.clip_grad"
    clips = {"norm": clip_grad_norm_, "value": clip_grad_value_}
    check_value(field, config, Mapping)
    options = dict(config)
    kind = options.pop("type", "norm")
    check_value(f"{field}.type", kind, Literal["norm", "value"])
    check_arguments(clips[kind], options, field, injected=("parameters",))
    check_values(options, THRESHOLDS, field)


def build_local_optimizer(config: Mapping, flat: FlatModel, max_rounds: int) -> OptimWrapper:
    """Build ``optim_wrapper`` over the flat vector, for a run of so many rounds.

    The optimizer sees one parameter, the whole vector, so that a step is a few kernels. With
    ``paramwise_cfg`` it sees the model's own parameters (views of the vector). Parameters that a
    loss does not reach have a zero gradient here, not none: weight decay acts on them.
    """
    config = {"type": "OptimWrapper", **copy.deepcopy(dict(config))}
    if not isinstance(config.get("optimizer"), Mapping):
        raise ConfigError(
            "optim_wrapper.optimizer: must be a dict such as dict(type='SGD', lr=0.1)"
        )
    check_torch_optimizer("optim_wrapper.optimizer", config["optimizer"], LOCAL_OPTIMIZERS)
    arguments = {key: value for key, value in config.items() if key not in BUILT_BEFORE}
    check_component(
        OPTIM_WRAPPERS, arguments, "optim_wrapper", base=OptimWrapper, optional=BUILT_BEFORE
    )
    if "constructor" in config or "paramwise_cfg" in config:
        wrapper = _build_by_parameter(config, flat)
    else:
        wrapper = _build_over_vector(config, flat)
    wrapper.setup(flat, max_rounds)
    return wrapper


def _build_over_vector(config: dict[str, Any], flat: FlatModel) -> OptimWrapper:
    """Build the wrapper of an optimizer whose only parameter is the flat vector."""
    parameter = nn.Parameter(flat.w)
    parameter.grad = flat.grad
    optimizer = build(
        OPTIMIZERS,
        {"fused": True, **config["optimizer"]},
        "optim_wrapper.optimizer",
        {"params": [parameter]},
    )
    return build(OPTIM_WRAPPERS, {**config, "optimizer": optimizer}, "optim_wrapper")


def _build_by_parameter(config: dict[str, Any], flat: FlatModel) -> OptimWrapper:
    """Build the wrapper of an optimizer with a group for each of the model's parameters."""
    _check_paramwise(config, flat)
    options = {**config, "type": find_class(OPTIM_WRAPPERS, config, "optim_wrapper")}
    if "constructor" in config:
        constructor = config["constructor"]
        check_value("optim_wrapper.constructor", constructor, Literal["WeightsOnlyDecay"])
        options["constructor"] = OPTIM_WRAPPER_CONSTRUCTORS.get(constructor)
    try:
        return build_optim_wrapper(flat.model, options)
    except (ValueError, RuntimeError) as error:  # options of torch's that exclude each other
        raise ConfigError(f"optim_wrapper.optimizer: {error} ({DEBUG}=1 shows where)") from error


def _check_paramwise(config: Mapping[str, Any], flat: FlatModel) -> None:
    """Raise ConfigError unless ``paramwise_cfg`` holds custom keys and factors of the decay."""
    field = "optim_wrapper.paramwise_cfg"
    if "paramwise_cfg" not in config:
        raise ConfigError(
            f"{field}: is missing, which constructor='WeightsOnlyDecay' needs; without custom_keys "
            "set norm_decay_mult=0 and bias_decay_mult=0 instead of the constructor"
        )
    options = config["paramwise_cfg"]
    check_value(field, options, Mapping)
    _check_known(field, options, PARAMWISE)
    decay_factors = {"bias_decay_mult", "norm_decay_mult"}.intersection(options)
    for name, changes in options.get("custom_keys", {}).items():
        if not any(name in slot.name for slot in flat.slots):
            raise ConfigError(f"{field}.custom_keys: {name!r} is in no parameter's name")
        _check_known(f"{field}.custom_keys.{name}", changes, MULTIPLIERS)
        decay_factors |= {"decay_mult"}.intersection(changes)
    if decay_factors and "weight_decay" not in config["optimizer"]:
        raise ConfigError(
            "optim_wrapper.optimizer.weight_decay: is missing, and paramwise_cfg has factors of it"
        )


def _check_known(field: str, options: Mapping[str, Any], hints: Mapping[str, Any]) -> None:
    """Raise ConfigError for a key that is not in ``hints``, or a value that is not of its type."""
    for key in options:
        if key not in hints:
            hint = did_you_mean(key, hints) or f"; known: {', '.join(hints)}"
            raise ConfigError(f"{field}.{key}: unknown{hint}")
    check_values(options, hints, field)


def check_warmup(start: float | None, rounds: int) -> None:
    """Raise ValueError unless ``rho0`` and ``rho_rounds`` of a component are a schedule."""
    if (start is None) != (rounds == 0):
        raise ValueError("rho_rounds goes with rho0, the first round's radius: set both or neither")


def check_warmup_end(field: str, rounds: int, max_rounds: int) -> None:
    """Raise ConfigError if a rho schedule of the component at ``field`` outlasts the run."""
    if rounds > max_rounds:
        raise ConfigError(
            f"{field}.rho_rounds: {rounds} rounds are more than the run's train_cfg.max_rounds "
            f"({max_rounds}): the radius would not reach its value"
        )


def check_torch_optimizer(field: str, options: Mapping[str, Any], kinds: Sequence[str]) -> None:
    """Raise ConfigError unless the config of a torch optimizer is one of ``kinds``, and minimizes.

    Args:
        field: where it stands. options: ``type`` and arguments. kinds: names of ``torch.optim``.
    """
    check_value(field, options, Mapping)
    if options.get("type") not in kinds:
        names = f"{', '.join(kinds[:-1])} or {kinds[-1]}"
        raise ConfigError(f"{field}.type: must be {names}, not {shown(options.get('type'))}")
    check_component(OPTIMIZERS, options, field, injected=("params",))
    if options.get("maximize"):
        raise ConfigError(f"{field}.maximize: must be False: federated training minimizes")
