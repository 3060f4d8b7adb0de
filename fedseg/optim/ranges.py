"""What optimizers and schedules may be where neither PyTorch nor MMEngine checks it."""

import copy
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from fedseg.checks import check_float, check_int
from fedseg.errors import ConfigError

Check = Callable[[str, Any], None]

_AT_LEAST_0: Check = partial(check_float, least=0)
_ABOVE_0: Check = partial(check_float, above=0)
_BELOW_1: Check = partial(check_float, least=0, below=1)
_SHARE: Check = partial(check_float, least=0, most=1)


def _eps(field: str, value: Any) -> None:
    if value is not None:  # the first of Adafactor's two, which then is the precision's
        _AT_LEAST_0(field, value)


# by the name of the argument, which means the same wherever it occurs
OPTIMIZER: Mapping[str, Check] = {
    **dict.fromkeys(("lr", "weight_decay", "lr_decay", "lambd", "t0"), _AT_LEAST_0),
    "eps": _eps,
    **dict.fromkeys(("initial_accumulator_value", "momentum_decay"), _AT_LEAST_0),
    **dict.fromkeys(("momentum", "alpha", "rho", "betas"), _BELOW_1),
    "dampening": _SHARE,
}
SCHEDULE: Mapping[str, Check] = {
    **dict.fromkeys(("div_factor", "final_div_factor", "power"), _ABOVE_0),
    **dict.fromkeys(("gamma", "eta_min", "eta_max"), _AT_LEAST_0),
    **dict.fromkeys(("factor", "start_factor", "end_factor"), _SHARE),
    **dict.fromkeys(("eta_min_ratio", "pct_start"), _SHARE),
    **dict.fromkeys(("step_size", "T_max", "total_steps", "end", "periods"), check_int),
    **dict.fromkeys(("begin", "milestones"), partial(check_int, least=0)),
}


# PyTorch's that a local or a server step cannot run
UNUSABLE = {
    "LBFGS": "takes several losses per step, and a step here has one",
    "SparseAdam": "takes sparse gradients, and a model's vector has dense ones",
}


def check_optimizer(options: Mapping[str, Any], field: str) -> None:
    """Raise ConfigError unless the config of a torch optimizer is one that can train here."""
    check_numbers(OPTIMIZER, options, field)
    kind = options.get("type")
    kind = getattr(kind, "__name__", kind)
    if isinstance(kind, str) and kind in UNUSABLE:
        raise ConfigError(f"{field}.type: {kind} {UNUSABLE[kind]}; take another, such as SGD")
    if options.get("maximize"):
        raise ConfigError(f"{field}.maximize: federated training minimizes")


def check_memory(optimizer: torch.optim.Optimizer, field: str) -> None:
    """Raise ConfigError for an optimizer that remembers something in its options.

    Its state is cleared between clients, and kept between the server's steps; an option that a
    step changes would pass from a client to whichever comes next, and be lost on the server.

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


def check_numbers(ranges: Mapping[str, Check], options: Mapping[str, Any], field: str) -> None:
    """Raise ConfigError unless the numbers of a config, those of its lists too, are in range.

    Args:
        ranges: ``OPTIMIZER`` or ``SCHEDULE``. options: the config. field: where it stands.
    """
    for name in ranges.keys() & options.keys():
        value = options[name]
        if isinstance(value, list | tuple):
            if not value:
                raise ConfigError(f"{field}.{name}: is empty: give it a number")
            for number, own in enumerate(value):
                ranges[name](f"{field}.{name}[{number}]", own)
        elif value is not None:
            ranges[name](f"{field}.{name}", value)
