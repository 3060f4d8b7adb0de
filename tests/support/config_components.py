"""The settings' names; whether what a config names exists and takes these arguments."""

import inspect
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from mmengine.config import Config

from fedseg.config.components import LOCAL_TRAINING
from fedseg.datasets.transforms import build_transform
from fedseg.registry import (
    ALGORITHMS,
    BATCH_TRANSFORMS,
    CLIENT_DATA,
    DATASETS,
    EVALUATION_SETS,
    EXECUTORS,
    HOOKS,
    LOCAL_LOSSES,
    LOOPS,
    METRICS,
    MODELS,
    OPTIM_WRAPPERS,
    OPTIMIZERS,
    PARAM_SCHEDULERS,
    PARTITIONS,
    SAMPLERS,
    TRANSFORMS,
    build,
)

ROOT = Path(__file__).parents[2]
SETTINGS = sorted(path.stem for path in (ROOT / "configs" / "settings").glob("*.py"))
REGISTRIES = [
    (r"model", MODELS),
    (r"optim_wrapper\.optimizer", OPTIMIZERS),
    (r"optim_wrapper", OPTIM_WRAPPERS),
    (r"param_scheduler", PARAM_SCHEDULERS),
    (r"algorithm", ALGORITHMS),
    (r"client_sampler", SAMPLERS),
    (r"executor", EXECUTORS),
    (r"train_cfg|val_cfg|test_cfg", LOOPS),
    (r"default_hooks\.\w+|custom_hooks|averaging|batchnorm", HOOKS),
    (r"(val|test)_evaluator", METRICS),
    (r"train_dataloader", CLIENT_DATA),
    (r"(val|test)_dataloader", EVALUATION_SETS),
    (r".*_dataloader\.transforms", BATCH_TRANSFORMS),
    (r"local_loss", LOCAL_LOSSES),
    (r".*_dataloader\.dataset", DATASETS),
    (r".*_dataloader\.dataset\.style", TRANSFORMS),
    (r"train_dataloader\.partition", PARTITIONS),
]
# Their constructors ask for no more than what the config says.
BUILT = (ALGORITHMS, SAMPLERS, EXECUTORS, HOOKS, METRICS, TRANSFORMS, PARTITIONS, MODELS)
BUILT += (BATCH_TRANSFORMS,)


def types(config: Any, path: str = "") -> Iterator[tuple[str, dict]]:
    """Every dict with a ``type``, with its place in the config."""
    if isinstance(config, dict):
        if "type" in config:
            yield path, config
        for key, value in config.items():
            yield from types(value, f"{path}.{key}" if path else key)
    elif isinstance(config, list | tuple):
        for value in config:
            yield from types(value, path)


@cache
def check_component(path: str, component_json: str) -> None:
    """Look a component up, and build it or compare its arguments; once for all configs."""
    component = json.loads(component_json)
    if path.endswith(".pipeline"):
        build_transform(component, path)  # some are albumentations' own
        return
    (registry,) = [found for pattern, found in REGISTRIES if re.fullmatch(pattern, path)]
    cls = registry.get(component["type"])
    assert cls is not None, f"{component['type']} is not registered as a {registry.name}"
    if registry in BUILT:
        assert isinstance(build(registry, component, path), cls)
        return
    accepted = set(LOCAL_TRAINING) if path == "train_cfg" else set()
    if registry is EVALUATION_SETS:
        accepted.add("optional")
    for part in cls.__mro__:
        accepted |= set(inspect.signature(part.__init__).parameters)
    assert component.keys() - {"type"} <= accepted


def check_components(config: Config) -> None:
    """Check everything that a config names."""
    checked = 0
    for path, component in types(config.to_dict()):
        if path.startswith(("model.", "algorithm.server_optim")):
            continue  # built with what holds it
        place = re.sub(r"^(val|test)_dataloader\.\w+", r"\1_dataloader", path)
        check_component(place, json.dumps(component, sort_keys=True))
        checked += 1
    assert checked > 10
