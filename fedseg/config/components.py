"""The components of a config: where each stands, which registry knows it, and what it may say.

Names of the suite's own classes are known without an import, by the tables of the registries. Types
and arguments are checked against the classes, whose import takes seconds.
"""

import os
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from pydantic import PositiveInt

import fedseg.registry
from fedseg.config.accepted import propose_place
from fedseg.config.schema import check_values
from fedseg.errors import DataError, Mistakes
from fedseg.names import PREPARED_BY, made_by
from fedseg.registry import check_component

DEFAULT_HOOKS = {
    "checkpoint": {"type": "FederatedCheckpointHook"},
    "progress": {"type": "ProgressHook"},
    "trackers": {"type": "TrackersHook"},
    "pictures": {"type": "PicturesHook"},
}
LOADERS = ("train_dataloader", "val_dataloader.*", "test_dataloader.*")
_, VAL, TEST = LOADERS
# keys of train_cfg that describe the local training; the others are the loop's
LOCAL_TRAINING: Mapping[str, Any] = {
    "amp": bool,
    "hook_interval": PositiveInt,
    "local_epochs": PositiveInt | None,
    "local_steps": PositiveInt | None,
}


class Place(NamedTuple):
    """A place of a config where a component stands.

    Attributes:
        registry: its variable in :mod:`fedseg.registry`.
        default: the type where the config names none.
        keys: those that are no arguments. given: arguments that the run sets.
    """

    registry: str
    default: str | None = None
    keys: tuple[str, ...] = ()
    given: tuple[str, ...] = ()


_RUN = ("local_epochs", "local_steps", "drop_single", "device", "dtype", "seed")
_HOOK = Place("HOOKS", keys=("priority",))
_SCHEDULE = Place("PARAM_SCHEDULERS", given=("optimizer",))
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
    "model": Place("MODELS", keys=("freeze", "lora")),
    "model.data_preprocessor": Place("MODELS"),
    "model.loss": Place("MODELS"),
    "model.network": Place("MODELS", keys=("num_classes",)),
    "optim_wrapper": Place(
        "OPTIM_WRAPPERS", "OptimWrapper", keys=("constructor", "optimizer", "paramwise_cfg")
    ),
    "optim_wrapper.optimizer": Place("OPTIMIZERS", given=("params",)),
    "param_scheduler": _SCHEDULE,
    "param_scheduler.*": _SCHEDULE,
    "privacy": Place("PRIVACIES"),
    "robust": Place("AGGREGATES"),
    "train_cfg": Place(
        "LOOPS", "FederatedTrainLoop", tuple(LOCAL_TRAINING), ("runner", "dataloader")
    ),
    "val_cfg": Place("LOOPS", "FederatedValLoop", given=_EVALUATION),
    "test_cfg": Place("LOOPS", "FederatedTestLoop", given=_EVALUATION),
    "train_dataloader": Place("CLIENT_DATA", "StreamingData", given=_RUN),
    "train_dataloader.partition": Place("PARTITIONS", keys=("holdout", "unlabelled")),
    **dict.fromkeys(
        (VAL, TEST),
        Place("EVALUATION_SETS", "StreamingData", given=("name", "field", "metrics", "like")),
    ),
    **dict.fromkeys(("val_evaluator", "test_evaluator"), Place("METRICS")),
    **dict.fromkeys(("val_evaluator.*", "test_evaluator.*"), Place("METRICS")),
    **{f"{loader}.dataset": Place("DATASETS") for loader in LOADERS},
    **{f"{loader}.dataset.style": Place("TRANSFORMS") for loader in LOADERS},
    **{f"{loader}.dataset.style.source": Place("DATASETS") for loader in LOADERS},
    **{f"{loader}.transforms.*": Place("BATCH_TRANSFORMS") for loader in LOADERS},
}


def find(config: Any, pattern: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(field, component) of what a config has at a place; ``"*"``: each entry of a list or dict."""
    places = [("", config)]
    for part in pattern.split("."):
        inner = []
        for field, value in places:
            if part == "*" and isinstance(value, list | tuple):
                inner += [(f"{field}[{number}]", item) for number, item in enumerate(value)]
            elif part == "*" and isinstance(value, Mapping) and "type" not in value:
                inner += [(f"{field}.{name}", item) for name, item in value.items()]
            elif isinstance(value, Mapping) and part in value:
                inner.append((f"{field}.{part}".lstrip("."), value[part]))
        places = inner
    yield from ((field, value) for field, value in places if isinstance(value, Mapping))


def check_roots(config: Mapping[str, Any], *loaders: str) -> None:
    """Raise DataError for a data set of the suite whose folder is not there.

    Args:
        config: a complete one.
        loaders: where the data sets are, as in :data:`PLACES`.
    """
    for place, loader in (one for pattern in loaders for one in find(config, pattern)):
        datasets = [*find(loader, "dataset"), *find(loader, "dataset.style.source")]
        for field, options in [] if loader.get("optional") else datasets:
            kind, source = options.get("type"), options.get("source")
            root = (source if isinstance(source, Mapping) else options).get("data_root")
            known = isinstance(kind, str) and kind in fedseg.registry.DATASETS.modules
            if known and isinstance(root, str) and not os.path.exists(root):
                command = PREPARED_BY.get(kind)
                fix = f"make it with {made_by(command, root)}" if command else "put it there"
                key = f"{place}.{field}." * field.endswith(".source")  # of a lender of styles
                raise DataError(f"{root}: does not exist: {fix}, or set {key}data_root")


def check_components(config: Mapping[str, Any]) -> None:
    """Raise ConfigError with every unknown type and wrong argument of a complete config."""
    mistakes = Mistakes()
    propose = partial(propose_place, config=config)
    config = dict(config)
    for part in ("dataloader", "evaluator"):  # each mistake once
        if config.get(f"test_{part}") == config.get(f"val_{part}"):
            config.pop(f"test_{part}", None)
    with mistakes:
        check_values(config["train_cfg"], LOCAL_TRAINING, "train_cfg")
    for pattern, place in PLACES.items():
        registry = getattr(fedseg.registry, place.registry)
        for field, component in find(config, pattern):
            options = {k: v for k, v in component.items() if k not in place.keys}
            if place.default:
                options.setdefault("type", place.default)
            elif "type" not in options and pattern.startswith("model."):
                continue  # of a user's model it may be something else
            needless = (*place.given, *place.keys)
            with mistakes:
                check_component(
                    registry, options, field, place.given, defaults=needless, propose=propose
                )
    mistakes.tell()
