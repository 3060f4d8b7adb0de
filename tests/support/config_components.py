"""The settings' names; whether what a config names exists and takes these arguments."""

import json
from functools import cache
from pathlib import Path

import torch
from mmengine.config import Config

from fedseg.config.components import find
from fedseg.datasets.transforms import build_transform
from fedseg.registry import MODELS, build
from fedseg.runner.config import check_config, complete_config

ROOT = Path(__file__).parents[2]
SETTINGS = sorted(path.stem for path in (ROOT / "configs" / "settings").glob("*.py"))


@cache
def build_once(place: str, component_json: str) -> None:
    component = json.loads(component_json)
    if place == "model":
        component = {k: v for k, v in component.items() if k not in ("freeze", "lora")}
        if "encoder" in component_json:  # these are large, and their weights are no files here
            with torch.device("meta"):
                build(MODELS, {**component, "weights": None}, place)
        else:
            build(MODELS, component, place)
    else:
        build_transform(component, place)  # some are albumentations' own


def check_components(config: Config) -> None:
    """Check everything that a config names; build its model and its images' transforms."""
    complete = complete_config(config)
    check_config(complete)
    for pattern in ("train_dataloader", "val_dataloader.*"):
        for place, step in find(complete.to_dict(), f"{pattern}.dataset.pipeline.*"):
            build_once(place.partition("[")[0], json.dumps(step, sort_keys=True))
    build_once("model", json.dumps(complete.to_dict()["model"], sort_keys=True))
