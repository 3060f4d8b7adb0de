"""Runs of local losses for pixels on three clients of a class each."""

from pathlib import Path

import torch
import toyseg
from mmengine.config import Config

ERASED, IGNORED = 254, 255


def changed(small_config: Path, work_dir: Path, **changes) -> dict:
    """Three clients of a class each: sky, building, road; two of them in a round."""
    config = Config.fromfile(small_config).to_dict()
    base = {
        "work_dir": str(work_dir / "run"),
        "log_level": "ERROR",
        "visualizer": {"vis_backends": []},
        "default_hooks": {"progress": None, "pictures": None, "checkpoint": {"interval": 1}},
        "train_dataloader": {"partition": {"_delete_": True, "type": "ClassHeterogeneous"}},
        "model": {"loss": {"_delete_": True, "type": "CrossEntropy"}, "projection": [6, 4]},
        "train_cfg": {"max_rounds": 2},
        "val_dataloader": None,
        "val_evaluator": None,
    }
    return toyseg.merge(toyseg.merge(config, base), changes)


def transcribed_contrast(a, la, p, lp, t):
    total = []
    for x, y in zip(a, la, strict=True):
        score = [x @ q / t for q in p]
        own = [s for s, c in zip(score, lp, strict=True) if c == y]
        others = sum((torch.exp(s) for s, c in zip(score, lp, strict=True) if c != y), start=0.0)
        if own:
            terms = [-torch.log(torch.exp(s) / (torch.exp(s) + others)) for s in own]
            total.append(sum(terms) / len(terms))
    return sum(total) / max(1, len(total))
