"""The protocol of a config: what of it must be equal for two results to be compared."""

import re
from collections.abc import Mapping
from typing import Any

from fedseg.config.keys import PROTOCOL, select
from fedseg.leaderboard.methods import AUGMENTATIONS, component_type

# The results say how many evaluations there were; initial weights may come from anywhere.
UNCOMPARED = ("train_cfg.val_last_interval", "model.weights.")
DEFAULTS: Mapping[str, Any] = {  # what a config may omit, besides empty lists
    "dtype": "float32",
    "load_from": None,
    "train_cfg.amp": False,
    "train_cfg.local_epochs": 1,
    "train_dataloader.dataset.mirror": False,
    "train_dataloader.drop_last": False,
    "train_dataloader.shuffle": True,
    "train_dataloader.partition.alpha": 0.1,
    "train_dataloader.partition.beta": 10.0,
    "train_dataloader.partition.min_samples": 10,
    "val_dataloader.*.drop_last": False,
    "val_evaluator.ignore_index": 255,
}
TRAIN_STEPS = "train_dataloader.transforms"
# of these, the class decides which other values belong to a protocol
DECIDING = ("batchnorm.type", "train_dataloader.dataset.style.type")


def protocol_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a complete, plain config by key, without defaults.

    A list of components is one value; of training transforms, augmentations belong to the method.
    """
    protocol: dict[str, Any] = {}
    lists: dict[str, dict[str, Any]] = {}
    for key, value in select(config, PROTOCOL).items():
        in_list = re.fullmatch(r"(.+?)\.(\d+)(?:\.(.+))?", key)
        if key.startswith(UNCOMPARED):
            continue
        if in_list is None:
            protocol[key] = value
            continue
        name, number, option = in_list.groups()
        components = lists.setdefault(name, {})
        if option is None:
            components[number] = value
        else:
            components.setdefault(number, {})[option] = value
    for name, components in lists.items():
        kept = list(components.values())
        if name == TRAIN_STEPS:
            kept = [step for step in kept if component_type(step) not in AUGMENTATIONS]
        protocol[name] = kept
    return {key: value for key, value in protocol.items() if not is_default(key, value)}


def is_default(key: str, value: Any) -> bool:
    """Whether a config may as well omit a value."""
    pattern = re.sub(r"(?<=^val_dataloader\.)[^.]+", "*", key)
    return value in ([], {}) or (pattern in DEFAULTS and DEFAULTS[pattern] == value)
