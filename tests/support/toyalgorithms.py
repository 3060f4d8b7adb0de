"""Runs of one algorithm beside another on the toy segmentation, to be compared bit for bit."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import toyseg
from mmengine.config import Config

from fedseg.core.flat import FlatModel
from fedseg.optim.local import build_local_optimizer
from fedseg.runner.interrupt import InterruptGuard

PARTICIPANTS = ("ab", "af", "cb")  # d and e never
TRAINED = {"a", "b", "c", "f"}
FEDAVG = {"type": "FedAvg"}

SGD = toyseg.PLAIN["optim_wrapper"]
SAM = {**SGD, "type": "SAMOptimWrapper", "rho": 0.05}
# uniform means and means weighted by N_k are then the same
EQUAL_SIZES = {"train_dataloader": {"dataset": {"users": dict.fromkeys(toyseg.USERS, 4)}}}


def run(folder: Path, algorithm: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """Train the network with BatchNorm for three rounds; returns the config.

    Plain SGD, clients of unequal sizes, two local epochs, no evaluation; ``changes`` over it.
    """
    base = {
        **toyseg.PLAIN,
        "algorithm": {"_delete_": True, **algorithm},
        "val_dataloader": None,
        "val_evaluator": None,
        "client_sampler": toyseg.fixed(*PARTICIPANTS),
        "train_cfg": {"max_rounds": len(PARTICIPANTS), "local_epochs": 2},
    }
    config = toyseg.merge(toyseg.settings(folder, **base), changes)
    toyseg.train(config)
    return config


class StoppedError(BaseException):
    """Stands for SIGKILL: nothing in the engine catches it."""


def raise_at(number: int, error: type[BaseException] = StoppedError) -> Callable[..., None]:
    """A function that raises at its n-th call."""
    calls = []

    def tick(*_: Any, **__: Any) -> None:
        calls.append(None)
        if len(calls) == number:
            raise error("stopped")

    return tick


def train_stopped(config: Mapping[str, Any], *steps: int) -> list[int]:
    """Train, stopped before its n-th local step and each time that it is resumed; then to the end.

    Returns the rounds that were completed at each stop.
    """
    completed = []
    for number, step in enumerate(steps):
        with pytest.MonkeyPatch.context() as patch, pytest.raises(StoppedError):
            patch.setattr(InterruptGuard, "check", raise_at(step))
            toyseg.train(config, resume=number > 0)
        completed.append(len(toyseg.history(config)))
    toyseg.train(config, resume=True)
    return completed


def model_differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Where the models of two runs differ in any bit, the averaged ones too."""
    a, b = toyseg.checkpoint(one), toyseg.checkpoint(other)
    keys = ("state_dict", "averaged_state_dict")
    return toyseg.differences({k: a.get(k) for k in keys}, {k: b.get(k) for k in keys})


def bytes_of(config: Mapping[str, Any]) -> list[tuple[int, int]]:
    return [(line["bytes_down"], line["bytes_up"]) for line in toyseg.history(config)]


def wrapper(config: Mapping[str, Any]) -> Any:
    """A local optimizer over a vector of eight numbers, and its flat model."""
    flat = FlatModel(torch.nn.Linear(3, 2))
    return build_local_optimizer(Config(dict(config)), flat, max_rounds=1), flat
