"""A run at rest whose model never trained: what an evaluation reads of a run, without its data."""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.registry import init_default_scope

from fedseg.config.check import complete_config
from fedseg.config.compose import compose, setting_file
from fedseg.core.flat import FlatModel
from fedseg.files import write_text
from fedseg.runner.build import build_model, build_vectors
from fedseg.runner.checkpoint import save_checkpoint
from fedseg.runs.config import config_json

CHECKPOINT = "checkpoints/round_000001.pth"


def write_run(
    folder: Path,
    setting: str,
    methods: Sequence[str] = (),
    resize: dict[str, Any] | None = None,
    change: Callable[[FlatModel], None] = lambda flat: None,
    classes: Sequence[str] | None = None,
) -> FlatModel:
    """Write config and checkpoint of a setting's model with random weights.

    Args:
        resize: the only step of the test sets' pipelines.
        change: changes the model before it is written.
        classes: names that the checkpoint has; None: none.
    """
    config = compose(setting_file(setting), list(methods))
    if resize is not None:
        for test in (*config.val_dataloader.values(), *config.test_dataloader.values()):
            test.update(num_workers=0)
            test.dataset["pipeline"] = [resize]
    config.train_cfg["amp"] = False
    cfg = complete_config(Config({**config.to_dict(), "work_dir": str(folder), "device": "cpu"}))
    init_default_scope("fedseg")  # mmseg's init_model leaves its own
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        flat = build_vectors(build_model(cfg), cfg)
    change(flat)
    write_text(folder / "config.json", config_json(cfg.to_dict()))
    payload = {"state_dict": flat.state_dict(flat.w, flat.buffers), "round": 1}
    if classes is not None:
        payload["meta"] = {"dataset_meta": {"classes": list(classes)}}
    save_checkpoint(folder / CHECKPOINT, payload)
    return flat
