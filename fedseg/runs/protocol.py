"""The protocol of a run: what decides a result besides the method, as plain values.

Two results can be compared where their protocols agree. ``results.json`` records it, the
leaderboard compares it with that of published numbers, and verification derives it again.
"""

import json
from collections.abc import Mapping
from typing import Any

from mmengine.config import Config

SIZES = ("size", "crop_size")  # options of transforms that say how large their result is
# How ``standard`` evaluation with a BatchNorm policy orders images: see EvaluationSet.
TEST_ORDER = "shuffled"
IGNORED = 255  # label of pixels that metrics do not count, unless a config says another one


def protocol_of(config: Config) -> dict[str, Any]:
    """The protocol that a complete config describes.

    ``input_size``: (height, width) of training images, None: their own. ``precision``: ``mixed``,
    ``float32`` or ``float64``. ``style_bank``: None without style transfer. The ``test_`` fields
    and ``batchnorm_layers`` are None without a BatchNorm policy, where a prediction does not
    depend on its batch. ``ignore_index``: of each metric, None: the usual one.
    """
    loader, model, train = config.train_dataloader, config.model, config.train_cfg
    dataset = _options(loader.get("dataset"))
    steps = described(loader.get("transforms") or dataset.get("pipeline") or [])
    steps = [step if isinstance(step, dict) else {"type": step} for step in steps]
    style = style_of(dataset)
    images = _options(model.get("data_preprocessor"))
    metrics = config.get("val_evaluator") or []
    metrics = [metrics] if isinstance(metrics, Mapping) else metrics
    ignored = [_options(metric).get("ignore_index", IGNORED) for metric in metrics]
    protocol = {
        "network": _options(model.get("network")).get("type") or model["type"],
        "input_size": _input_size(steps),
        "training_transforms": [
            {key: value for key, value in step.items() if key not in SIZES} for step in steps
        ],
        "mirror_images": dataset.get("mirror", False),
        "normalization": {name: images.get(name) for name in ("mean", "std")},
        "style_bank": style and {key: value for key, value in style.items() if key != "type"},
        "batch_size": loader.get("batch_size"),
        "drop_last": loader.get("drop_last", False),
        "shuffle": loader.get("shuffle", True),
        "rounds": train.max_rounds,
        "local_epochs": None if train.get("local_steps") else train.get("local_epochs") or 1,
        "precision": "mixed" if train.get("amp") else config.get("dtype", "float32"),
        "client_draws": _options(config.client_sampler).get("type"),
        "ignore_index": ignored if any(label != IGNORED for label in ignored) else None,
        **dict.fromkeys(("batchnorm_layers", "test_order", "test_batch_size", "test_drop_last")),
    }
    policy = config.get("batchnorm")
    if policy is not None:
        tests = config.get("val_dataloader") or {}
        protocol |= {
            "batchnorm_layers": _options(policy).get("layers"),
            "test_order": TEST_ORDER,
            "test_batch_size": {name: test.get("batch_size", 1) for name, test in tests.items()},
            "test_drop_last": {name: test.get("drop_last", False) for name, test in tests.items()},
        }
    return described(protocol)


def style_of(dataset: Mapping[str, Any]) -> dict[str, Any] | None:
    """The style transfer of a data set's config; of a ready object the repr, as its type."""
    style = described(dataset.get("style"))
    return style if style is None or isinstance(style, dict) else {"type": str(style)}


def described(config: Any) -> Any:
    """A part of a config as plain values, with the repr of what is none."""
    return json.loads(json.dumps(config, default=repr))


def _options(config: Any) -> Mapping[str, Any]:
    """A component's config; empty for a ready object."""
    return config if isinstance(config, Mapping) else {}


def _input_size(steps: list[dict[str, Any]]) -> list[int] | None:
    sizes = [step[key] for step in steps for key in SIZES if isinstance(step.get(key), list)]
    return sizes[-1] if sizes else None
