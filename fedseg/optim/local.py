"""The local optimizer: an MMEngine optim wrapper over the flat parameter vector."""

import copy
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from mmengine.optim import OptimWrapper as MMEngineOptimWrapper
from mmengine.optim import build_optim_wrapper
from torch import nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

from fedseg.config.schema import OPTIMIZER, check_arguments, check_value, check_values
from fedseg.core.client import Client
from fedseg.core.flat import FlatModel
from fedseg.errors import DEBUG, ConfigError
from fedseg.names import did_you_mean
from fedseg.registry import (
    MISTAKES,
    OPTIM_WRAPPER_CONSTRUCTORS,
    OPTIM_WRAPPERS,
    OPTIMIZERS,
    build,
    check_component,
    find_class,
)

# the options of MMEngine's DefaultOptimWrapperConstructor
PARAMWISE = (
    *("custom_keys", "bias_lr_mult", "bias_decay_mult", "norm_decay_mult", "flat_decay_mult"),
    *("dwconv_decay_mult", "dcn_offset_lr_mult", "bypass_duplicate"),
)
MULTIPLIERS = ("lr_mult", "decay_mult")  # of custom_keys, beside the optimizer's own options
CONSTRUCTORS = ("DefaultOptimWrapperConstructor", "WeightsOnlyDecay")  # which read them
MADE = ("optimizer", "constructor", "paramwise_cfg")  # keys that are built before the wrapper


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
        # Adagrad begins with a state
        self._fresh = {p: copy.deepcopy(state) for p, state in self.optimizer.state.items()}

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
        return {
            "param_groups": [
                {**{key: value for key, value in group.items() if key != "params"}, "lr": rate}
                for group, rate in zip(groups, rates, strict=True)
            ]
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for group, saved in zip(self.optimizer.param_groups, state["param_groups"], strict=True):
            group.update(saved)

    def reset_state(self) -> None:
        """Reset before a client: momentum does not pass from one to the next."""
        optimizer = self.optimizer
        plain_sgd = type(optimizer) is torch.optim.SGD and not any(
            group["dampening"] for group in optimizer.param_groups
        )
        if not plain_sgd:
            optimizer.state.clear()
            optimizer.state.update({p: copy.deepcopy(state) for p, state in self._fresh.items()})
            return
        for state in optimizer.state.values():  # zeros are SGD's fresh buffer, without a new one
            if state.get("momentum_buffer") is not None:
                state["momentum_buffer"].zero_()

    def gradient(self, client: Client, replay: bool = False) -> None:
        """Compute this step's gradient in ``client.grad``; leaves ``client.w`` unchanged.

        Args:
            client: at the weights where the gradient is wanted.
            replay: a further gradient over the same minibatch, at other weights; see
                :meth:`fedseg.core.client.Client.backward`.
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
    field, clips = "optim_wrapper.clip_grad", {"norm": clip_grad_norm_, "value": clip_grad_value_}
    check_value(field, config, Mapping)
    options = dict(config)
    kind = options.pop("type", "norm")
    check_value(f"{field}.type", kind, Literal["norm", "value"])
    check_arguments(clips[kind], options, field, ("parameters",))


def build_local_optimizer(config: Mapping, flat: FlatModel, max_rounds: int) -> OptimWrapper:
    """Build ``optim_wrapper`` over the flat vector, for a run of so many rounds.

    The optimizer sees one parameter, the whole vector, so that a step is a few kernels. With
    ``paramwise_cfg`` or a ``constructor`` it sees the model's own parameters (views of the
    vector). Parameters that a loss does not reach have a zero gradient here, not none: weight
    decay acts on them.
    """
    config = {"type": "OptimWrapper", **copy.deepcopy(dict(config))}
    if not isinstance(config.get("optimizer"), Mapping):
        raise ConfigError(
            "optim_wrapper.optimizer: must be a dict such as dict(type='SGD', lr=0.1)"
        )
    check_optimizer(config["optimizer"], "optim_wrapper.optimizer")
    checked = {k: v for k, v in config.items() if k not in MADE}
    check_component(OPTIM_WRAPPERS, checked, "optim_wrapper", (), OptimWrapper, MADE)
    if "constructor" in config or "paramwise_cfg" in config:
        _check_paramwise(config, flat)
        options = {**config, "type": find_class(OPTIM_WRAPPERS, config, "optim_wrapper")}
        if "constructor" in config:
            named = {"type": config["constructor"]}
            field = "optim_wrapper.constructor"
            options["constructor"] = find_class(OPTIM_WRAPPER_CONSTRUCTORS, named, field)
        try:
            wrapper = build_optim_wrapper(flat.model, options)
        except MISTAKES as error:
            raise ConfigError(
                f"optim_wrapper: paramwise_cfg or constructor: {error!r} ({DEBUG}=1 shows where)"
            ) from error
    else:
        parameter = nn.Parameter(flat.w)
        parameter.grad = flat.grad
        kind = find_class(OPTIMIZERS, config["optimizer"], "optim_wrapper.optimizer")
        options = {"fused": True} if "fused" in inspect.signature(kind).parameters else {}
        options |= config["optimizer"]
        config["optimizer"] = build(
            OPTIMIZERS, options, "optim_wrapper.optimizer", {"params": [parameter]}
        )
        wrapper = build(OPTIM_WRAPPERS, config, "optim_wrapper")
    for group in wrapper.optimizer.param_groups:  # which custom_keys may give options of their own
        check_values(group, OPTIMIZER, "optim_wrapper.paramwise_cfg")
    wrapper.setup(flat, max_rounds)
    check_memory(wrapper.optimizer, "optim_wrapper.optimizer")
    return wrapper


def _check_paramwise(config: Mapping, flat: FlatModel) -> None:
    """Raise ConfigError for a key of ``paramwise_cfg`` that MMEngine would not read."""
    field, options = "optim_wrapper.paramwise_cfg", config.get("paramwise_cfg")
    if options is None or config.get("constructor", CONSTRUCTORS[0]) not in CONSTRUCTORS:
        return
    check_value(field, options, Mapping)
    for key in options:
        if key not in PARAMWISE:
            raise ConfigError(f"{field}.{key}: unknown{did_you_mean(key, PARAMWISE)}")
    custom_keys = options.get("custom_keys", {})
    check_value(f"{field}.custom_keys", custom_keys, Mapping[str, Mapping])
    optimizer = find_class(OPTIMIZERS, config["optimizer"], "optim_wrapper.optimizer")
    known = (*MULTIPLIERS, *inspect.signature(optimizer).parameters)
    for name, changes in custom_keys.items():
        if not any(name in slot.name for slot in flat.slots):
            raise ConfigError(f"{field}.custom_keys: {name!r} is in no parameter's name")
        for key in changes:
            if key not in known:
                hint = did_you_mean(key, known)
                raise ConfigError(f"{field}.custom_keys.{name}.{key}: unknown{hint}")


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


# PyTorch's that a local or a server step cannot run
UNUSABLE = {
    "LBFGS": "takes several losses per step, and a step here has one",
    "SparseAdam": "takes sparse gradients, and a model's vector has dense ones",
}


def check_optimizer(options: Mapping[str, Any], field: str) -> None:
    """Raise ConfigError unless the config of a torch optimizer is one that can train here."""
    check_value(field, options, Mapping)
    kind = options.get("type")
    kind = getattr(kind, "__name__", kind)
    if isinstance(kind, str) and kind in UNUSABLE:
        raise ConfigError(f"{field}.type: {kind} {UNUSABLE[kind]}; take another, such as SGD")
    if options.get("maximize"):
        raise ConfigError(f"{field}.maximize: federated training minimizes")


def check_memory(optimizer: torch.optim.Optimizer, field: str) -> None:
    """Raise ConfigError for an optimizer whose steps change its options.

    Its state is cleared between clients, and kept between the server's steps; a changed option
    would pass from one client to the next, and be lost on the server.

    Args:
        optimizer: with gradients; stays as it is. field: where its config stands.
    """
    memo: dict[int, Any] = {}  # one for both copies, so that both have the same parameters
    try:
        trial = copy.deepcopy(optimizer, memo)  # which leaves out what PyTorch's own do not have
        rest = {k: v for k, v in vars(optimizer).items() if k not in vars(trial)}
        vars(trial).update(copy.deepcopy(rest, memo))
        before = _options(trial)
        trial.step()
    except Exception:  # one that only its own wrapper knows how to call
        return
    changed = [
        name
        for old, new in zip(before, _options(trial), strict=True)
        for name in new
        if name not in old or old[name] != new[name]
    ]
    if changed:
        raise ConfigError(
            f"{field}.type: {type(optimizer).__name__} changes its option {changed[0]} at every "
            "step: options are shared by all clients and rounds; use an optimizer that keeps this "
            "in its state, as PyTorch's do"
        )


def _options(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    groups = copy.deepcopy(optimizer.state_dict()["param_groups"])
    return [
        {k: v.tolist() if isinstance(v, torch.Tensor) else v for k, v in group.items()}
        for group in groups
    ]
