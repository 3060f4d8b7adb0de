"""The settings' names; whether what a config names exists and takes these arguments."""

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from mmengine.config import Config

import fedseg.registry
from fedseg.config.check import complete_config
from fedseg.config.components import DEFAULT_HOOKS, LOADERS, LOCAL_TRAINING, MODEL_KEYS, find
from fedseg.datasets.transforms import build_transform
from fedseg.registry import MODELS, build, check_component

ROOT = Path(__file__).parents[2]
SETTINGS = sorted(path.stem for path in (ROOT / "configs" / "settings").glob("*.py"))


class Place(NamedTuple):
    """A place of a config where a component stands.

    Attributes:
        registry: its variable in :mod:`fedseg.registry`.
        default: the type where the config names none.
        keys: those that are no arguments. injected: arguments that the run sets.
    """

    registry: str
    default: str | None = None
    keys: tuple[str, ...] = ()
    injected: tuple[str, ...] = ()


_RUN = ("local_epochs", "local_steps", "drop_single", "device", "dtype", "seed")
_HOOK = Place("HOOKS", keys=("priority",))
_SCHEDULE = Place("PARAM_SCHEDULERS", injected=("optimizer",))
_EVALUATION = ("runner", "dataloader", "evaluator")
PLACES: dict[str, Place] = {
    "algorithm": Place("ALGORITHMS"),
    "algorithm.server_optim": Place("SERVER_OPTIMIZERS"),
    "attack": Place("ATTACKS"),
    "averaging": _HOOK,
    "client_sampler": Place("SAMPLERS"),
    "compression": Place("COMPRESSIONS"),
    "custom_hooks.*": _HOOK,
    **{
        f"default_hooks.{name}": _HOOK._replace(default=hook["type"])
        for name, hook in DEFAULT_HOOKS.items()
    },
    "executor": Place("EXECUTORS"),
    "local_loss": Place("LOCAL_LOSSES"),
    "model": Place("MODELS", keys=MODEL_KEYS),
    "model.data_preprocessor": Place("MODELS"),
    "model.loss": Place("MODELS"),
    "model.network": Place("MODELS", keys=("num_classes",)),
    "optim_wrapper": Place(
        "OPTIM_WRAPPERS", "OptimWrapper", keys=("constructor", "optimizer", "paramwise_cfg")
    ),
    "optim_wrapper.optimizer": Place("OPTIMIZERS", injected=("params",)),
    "param_scheduler": _SCHEDULE,
    "param_scheduler.*": _SCHEDULE,
    "privacy": Place("PRIVACIES"),
    "robust": Place("AGGREGATES"),
    "train_cfg": Place(
        "LOOPS", "FederatedTrainLoop", tuple(LOCAL_TRAINING), ("runner", "dataloader")
    ),
    "val_cfg": Place("LOOPS", "FederatedValLoop", injected=_EVALUATION),
    "test_cfg": Place("LOOPS", "FederatedTestLoop", injected=_EVALUATION),
    "train_dataloader": Place("CLIENT_DATA", "StreamingData", injected=_RUN),
    "train_dataloader.partition": Place("PARTITIONS", keys=("holdout", "unlabelled")),
    **dict.fromkeys(
        LOADERS[1:],
        Place("EVALUATION_SETS", "StreamingData", injected=("name", "field", "metrics", "like")),
    ),
    **dict.fromkeys(("val_evaluator", "test_evaluator"), Place("METRICS")),
    **dict.fromkeys(("val_evaluator.*", "test_evaluator.*"), Place("METRICS")),
    **{f"{loader}.dataset": Place("DATASETS") for loader in LOADERS},
    **{f"{loader}.dataset.style": Place("TRANSFORMS") for loader in LOADERS},
    **{f"{loader}.dataset.style.source": Place("DATASETS") for loader in LOADERS},
    **{f"{loader}.transforms.*": Place("BATCH_TRANSFORMS") for loader in LOADERS},
}


@cache
def build_once(place: str, component_json: str) -> None:
    component = json.loads(component_json)
    if place == "model":
        component = {k: v for k, v in component.items() if k not in MODEL_KEYS}
        if "encoder" in component_json:  # these are large, and their weights are no files here
            with torch.device("meta"):
                build(MODELS, {**component, "weights": None}, place)
        else:
            build(MODELS, component, place)
    else:
        build_transform(component, place)  # some are albumentations' own


def check_components(config: Config) -> None:
    """Check everything that a config names; build its model and its images' transforms."""
    complete = complete_config(config).to_dict()
    for pattern, place in PLACES.items():
        registry = getattr(fedseg.registry, place.registry)
        for field, component in find(complete, pattern):
            options = {key: value for key, value in component.items() if key not in place.keys}
            if place.default:
                options.setdefault("type", place.default)
            elif "type" not in options and pattern.startswith("model."):
                continue
            needless = (*place.injected, *place.keys)
            check_component(registry, options, field, place.injected, optional=needless)
    for pattern in ("train_dataloader", "val_dataloader.*"):
        for place, step in find(complete, f"{pattern}.dataset.pipeline.*"):
            build_once(place.partition("[")[0], json.dumps(step, sort_keys=True))
    build_once("model", json.dumps(complete["model"], sort_keys=True))
