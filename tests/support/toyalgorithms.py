"""Runs of one algorithm beside another on the toy segmentation, to be compared bit for bit."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import toyseg
from mmengine.config import Config

from fedseg.core.flat import FlatModel
from fedseg.hooks import FederatedHook
from fedseg.optim.local import build_local_optimizer
from fedseg.registry import HOOKS

PARTICIPANTS = (["a", "b"], ["a", "f"], ["c", "b"])  # d and e never
TRAINED = {"a", "b", "c", "f"}
FEDAVG = {"type": "FedAvg"}

SGD = toyseg.PLAIN["optim_wrapper"]
SAM = {**SGD, "type": "SAMOptimWrapper", "rho": 0.05}
# uniform means and means weighted by N_k are then the same
EQUAL_SIZES = {
    "train_dataloader": {"dataset": {"users": dict.fromkeys(toyseg.USERS, 4)}},
}


@HOOKS.register_module()
class BreakHook(FederatedHook):
    """Breaks a round off when its first client has finished; once per marker file."""

    def __init__(self, round_: int, marker: str) -> None:
        self.break_round, self.marker = round_, Path(marker)

    def after_client(self, runner: Any, client: Any, update: Any) -> None:
        if runner.round == self.break_round and not self.marker.exists():
            self.marker.touch()
            raise RuntimeError(f"broken off in round {runner.round}")


def run(folder: Path, algorithm: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """Train the network with BatchNorm for three rounds; returns the config.

    Plain SGD, clients of unequal sizes, two local epochs, no evaluation; ``changes`` over it.
    """
    base = {
        **toyseg.PLAIN,
        "algorithm": {"_delete_": True, **algorithm},
        "val_dataloader": None,
        "val_evaluator": None,
        "client_sampler": {
            "_delete_": True,
            "type": "FixedSampler",
            "participants": list(PARTICIPANTS),
        },
        "train_cfg": {"max_rounds": len(PARTICIPANTS), "local_epochs": 2},
    }
    config = toyseg.merge(toyseg.settings(folder, **base), changes)
    toyseg.train(config)
    return config


def model_differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Where the models of two runs differ in any bit, the averaged ones too."""
    a, b = toyseg.checkpoint(one), toyseg.checkpoint(other)
    keys = ("state_dict", "averaged_state_dict")
    return toyseg.differences({k: a.get(k) for k in keys}, {k: b.get(k) for k in keys})


def bytes_of(config: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Bytes down and up of every round."""
    return [(line["bytes_down"], line["bytes_up"]) for line in toyseg.history(config)]


def wrapper(config: Mapping[str, Any]) -> Any:
    """A local optimizer over a vector of eight numbers, and its flat model."""
    flat = FlatModel(torch.nn.Linear(3, 2))
    return build_local_optimizer(Config(dict(config)), flat), flat
