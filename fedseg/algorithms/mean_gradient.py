"""The mean gradient of a client's local steps, from its update: ``(w - w_k)/(K_k eta)``.

This is exact for plain SGD with one learning rate (weight decay and an algorithm's correction are
part of it). With momentum a client moves further: with 0.9, up to ten times as far. An algorithm
that feeds the quotient back as a gradient then amplifies it from round to round, unless it divides
by the effective number of steps.
"""

import warnings
from collections.abc import Mapping
from typing import Any

from torch.optim import SGD

from fedseg.core.client import Client, LocalOptimizer
from fedseg.errors import ConfigError, TrainingError


def check_optimizer(local: LocalOptimizer, algorithm: str, count_momentum: bool) -> None:
    """Raise ConfigError unless a client moves by a sum of gradients times one learning rate.

    Warns of momentum that is not counted.
    """
    optimizer = local.optimizer
    if not isinstance(optimizer, SGD):
        raise ConfigError(
            f"optim_wrapper.optimizer.type: {algorithm} computes a client's mean gradient from "
            f"its steps, which {type(optimizer).__name__} does not allow: use SGD"
        )
    rates = {(group["lr"], group["momentum"]) for group in optimizer.param_groups}
    if len(rates) > 1:
        raise ConfigError(
            f"optim_wrapper.paramwise_cfg: {algorithm} divides by the learning rate: use one "
            f"rate and one momentum for all parameters"
        )
    ((lr, momentum),) = rates
    if not lr > 0:
        raise ConfigError(f"optim_wrapper.optimizer.lr: {algorithm} divides by it, it is {lr!r}")
    if momentum and not count_momentum:
        warnings.warn(
            f"algorithm: {algorithm} divides by K_k eta, the length of plain SGD's steps; "
            f"with momentum {momentum} its correction can grow from round to round: "
            f"set count_momentum=True",
            stacklevel=2,
        )


def unit_steps(group: Mapping[str, Any], steps: int) -> float:
    """The length of ``steps`` steps of SGD along a constant gradient, in steps of plain SGD.

    Args:
        group: momentum, dampening and nesterov, a parameter group of ``torch.optim.SGD``.
        steps: their number, from zero momentum.
    """
    momentum = group["momentum"]
    buffer = 0.0
    total = 0.0
    for step in range(steps):
        is_dampened = step > 0 and momentum > 0
        gradient = 1 - group["dampening"] if is_dampened else 1
        buffer = momentum * buffer + gradient
        if group["nesterov"]:
            total += 1 + momentum * buffer
        else:
            total += buffer
    return total


def k_eta(client: Client, count_momentum: bool) -> float:
    """``K_k eta``, by which ``w - w_k`` is divided; counted: with the effective number of steps.

    Raises:
        TrainingError: the learning rate of this round is 0.
    """
    if not client.lr > 0:
        raise TrainingError(
            f"round {client.round}: the local learning rate is {client.lr!r}, and the algorithm "
            "divides by it. End the schedule (param_scheduler, averaging) above 0"
        )
    group = client.local.optimizer.param_groups[0]
    steps = unit_steps(group, client.step) if count_momentum else client.step
    return client.lr * steps
