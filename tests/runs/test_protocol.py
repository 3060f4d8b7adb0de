"""The protocol of a run, as its config has it."""

import json

import pytest
from mmengine.config import Config

from fedseg.runs.protocol import protocol_of, style_of

BASE = {
    "model": {
        "type": "Net",
        "data_preprocessor": {"type": "ImagePreprocessor", "mean": (0.5,), "std": (0.2,)},
    },
    "train_dataloader": {
        "batch_size": 4,
        "drop_last": True,
        "dataset": {
            "type": "IDDADataset",
            "mirror": True,
            "pipeline": [
                {"type": "Resize", "height": 10, "width": 20},
                {"type": "RandomAreaCrop", "size": (5, 8), "area": (0.5, 2)},
                {"type": "Cutout", "size": 3},
            ],
            "style": {"type": "LABStyle", "exclude": "condition"},
        },
    },
    "val_dataloader": {"seen": {"batch_size": 8}, "unseen": {"drop_last": True}},
    "client_sampler": {"type": "UniformSampler", "clients_per_round": 5},
    "train_cfg": {"max_rounds": 7, "local_epochs": 2, "amp": True},
    "batchnorm": {"type": "SiloBN", "layers": "bn"},
}
FIELDS = {
    "network": "Net",
    "input_size": [5, 8],
    "training_transforms": [
        {"type": "Resize", "height": 10, "width": 20},
        {"type": "RandomAreaCrop", "area": [0.5, 2]},
        {"type": "Cutout"},
    ],
    "mirror_images": True,
    "normalization": {"mean": [0.5], "std": [0.2]},
    "style_bank": {"exclude": "condition"},
    "batch_size": 4,
    "drop_last": True,
    "shuffle": True,
    "rounds": 7,
    "local_epochs": 2,
    "precision": "mixed",
    "client_draws": "UniformSampler",
    "ignore_index": None,
    "batchnorm_layers": "bn",
    "test_order": "shuffled",
    "test_batch_size": {"seen": 8, "unseen": 1},
    "test_drop_last": {"seen": False, "unseen": True},
}


def protocol(**changes):
    config = Config(json.loads(json.dumps(BASE)))
    config.merge_from_dict(changes)
    return protocol_of(config)


def test_every_field_is_what_the_config_says():
    assert protocol() == FIELDS


@pytest.mark.parametrize(
    ("option", "value", "field", "expected"),
    [
        ("model.network", {"type": "Wrapped"}, "network", "Wrapped"),
        ("train_dataloader.dataset.style", None, "style_bank", None),
        ("train_dataloader.shuffle", "epoch", "shuffle", "epoch"),
        ("train_cfg.local_epochs", None, "local_epochs", 1),
        ("train_cfg.local_steps", 9, "local_epochs", None),
        ("train_cfg.amp", False, "precision", "float32"),
        ("train_dataloader.batch_size", "full", "batch_size", "full"),
        ("model.data_preprocessor.mean", [0.1], "normalization", {"mean": [0.1], "std": [0.2]}),
        ("val_evaluator", {"type": "IoUMetric", "ignore_index": 0}, "ignore_index", [0]),
    ],
)
def test_a_change_of_the_config_changes_one_field(option, value, field, expected):
    assert protocol(**{option: value}) == FIELDS | {field: expected}


def test_the_usual_label_without_a_class_is_not_named():
    metrics = [{"type": "Accuracy"}, {"type": "IoUMetric", "ignore_index": 255}]
    assert protocol(val_evaluator=metrics) == protocol(val_evaluator=None) == FIELDS
    metrics[1]["ignore_index"] = 18
    assert protocol(val_evaluator=metrics) == FIELDS | {"ignore_index": [255, 18]}


def test_double_precision_is_named():
    assert protocol(dtype="float64", **{"train_cfg.amp": False})["precision"] == "float64"


def test_batches_of_test_images_matter_with_a_batchnorm_policy_only():
    found = protocol(batchnorm=None)
    changed = {name for name in FIELDS if found[name] != FIELDS[name]}
    assert changed == {"batchnorm_layers", "test_order", "test_batch_size", "test_drop_last"}
    assert {found[name] for name in changed} == {None}


def test_ready_objects_are_plain_values_too():
    found = protocol(**{"train_dataloader.dataset": [1, 2], "model.data_preprocessor": None})
    assert found["training_transforms"] == [] and found["input_size"] is None
    assert found["normalization"] == {"mean": None, "std": None}
    assert protocol(**{"train_dataloader.dataset.style": range(3)})["style_bank"] == {}
    assert style_of({"style": range(3)}) == {"type": "range(0, 3)"}
