"""Algorithms, local optimizers, averages, networks, local losses: every pair of them.

Three rounds that end with finite, changed weights and a full ledger, or a refusal that says why.
"""

import itertools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import toyseg
from algorithm_table import ENTRIES, LOSSES, LR, OPTIMIZERS, PIXEL_LOSSES, Entry
from image_files import image_set
from minibatch import CLASSES, SIDE
from pairwise import pairwise

from fedseg.core.local_state import shared_slots
from fedseg.datasets.arrays import write_images
from fedseg.errors import ConfigError
from fedseg.hooks import FederatedHook
from fedseg.registry import ALGORITHMS, LOCAL_LOSSES

ROUNDS = 3
AVERAGES = {
    "none": None,
    "SWA": {"type": "SWA", "start": 0.5, "cycle": 1},
    "WIMA": {"type": "WIMA", "window": 2},
}


def own(registry: Any) -> set[str]:
    """Names of what the package itself registers."""
    registry.import_from_location()
    return {n for n, c in registry.module_dict.items() if c.__module__.startswith("fedseg.")}


def test_nothing_is_forgotten():
    assert set(ENTRIES) == own(ALGORITHMS) - {"FedExLoRA"}  # averages LoRA alone: test_lora
    assert {*LOSSES, *PIXEL_LOSSES} == own(LOCAL_LOSSES)


# ---------------------------------------------------------------- data


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prepared folders of a few images: ``32`` in CIFAR's size, ``8`` of fewer classes."""
    root = tmp_path_factory.mktemp("images")
    for side, classes, each in ((SIDE, CLASSES, 4), (32, 10, 2)):
        names = [f"class {i}" for i in range(classes)]
        made = image_set(classes, each, 1, (side, side, 3)).values()
        write_images(root / str(side), f"Images{side}", names, *made, synthetic=True)
    return root


def classifier(images: Path, side: int, **model: Any) -> dict[str, Any]:
    """A classifier on three clients with 7, 5 and 4 resident images, batches of 4."""
    shares = {"a": list(range(7)), "b": list(range(7, 12)), "c": list(range(12, 16))}
    dataset = {"type": "StoredImages", "data_root": str(images / str(side)), "split": "train"}
    return {
        "model": model,
        "train_dataloader": {
            "type": "ResidentData",
            "batch_size": 4,
            "dataset": dataset,
            "partition": {"type": "FixedPartition", "clients": shares},
            "transforms": [{"type": "Normalize", "mean": (0.5,) * 3, "std": (0.25,) * 3}],
        },
    }


def cnn(images: Path) -> dict[str, Any]:
    return classifier(images, 32, type="CNN", num_classes=10)


def toy_resnet(images: Path) -> dict[str, Any]:
    """A network of stages that takes images of any size."""
    return classifier(images, SIDE, type="ToyResNet", groups=2)


def bisenetv2() -> dict[str, Any]:
    """A narrow BiSeNetV2 without auxiliary heads on three clients, a batch each."""
    backbone = {"detail_channels": (8, 16, 16), "semantic_channels": (4, 8, 12, 16)}
    head = {"type": "FCNHead", "in_index": 0, "in_channels": 16, "channels": 16, "num_convs": 1}
    return {
        "model": {
            "type": "Segmentor",
            "num_classes": 3,
            "network": {
                "type": "EncoderDecoder",
                "backbone": {"type": "BiSeNetV2", "bga_channels": 16, **backbone},
                "decode_head": {**head, "norm_cfg": {"type": "BN"}, "align_corners": False},
            },
            "loss": {"type": "OHEMCrossEntropy", "ratio": 0.25},
            "data_preprocessor": {"type": "ImagePreprocessor"},
        },
        "train_dataloader": {
            "batch_size": 3,
            "num_workers": 0,
            "dataset": {"type": "ToyScenes", "users": {"a": 2, "b": 2, "c": 3}, "scale": 4},
            "partition": {"type": "NaturalPartition"},
        },
    }


# ---------------------------------------------------------------- runs


class First(FederatedHook):
    def before_train(self, runner: Any) -> None:
        self.w = runner.server.w.clone()


def settings(folder: Path, parts: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """A config: two of three clients per round, one epoch, no evaluation."""
    return {
        "work_dir": str(folder / "run"),
        **parts,
        "client_sampler": {
            "type": "FixedSampler",
            "participants": [["a", "b"], ["b", "c"], ["a", "c"]],
        },
        "train_cfg": {"type": "FederatedTrainLoop", "max_rounds": ROUNDS, "local_epochs": 1},
        "default_hooks": dict.fromkeys(["checkpoint", "progress", "pictures"]),
        "visualizer": {"vis_backends": []},
        "randomness": {"seed": 0},
        "log_level": "ERROR",
        **changes,
    }


def check_run(config: dict[str, Any], down: int, up: int) -> None:
    """Train; the weights are finite and another's, every round's line is full."""
    runner = toyseg.runner(config)
    first = First()
    runner.register_hook(first)
    runner.train()
    w, flat = runner.server.w, runner.flat
    assert torch.isfinite(w).all()
    shared = shared_slots(flat, runner.local_state)
    for slot in shared:
        assert not torch.equal(slot.view(w), slot.view(first.w)), f"{slot.name} has not moved"
    check_average(runner, config["averaging"])

    lines = toyseg.history(config)
    assert [line["round"] for line in lines] == [1, 2, 3]
    sizes = runner.client_sizes
    for line, sampled in zip(lines, config["client_sampler"]["participants"], strict=True):
        assert [p["client"] for p in line["participants"]] == sampled
        for part in line["participants"]:
            assert part["samples"] == sizes[part["client"]] and part["steps"] >= 1
            assert 0 < part["loss"] < 100
        assert line["rejected"] == []
        losses = [p["loss"] for p in line["participants"]]
        assert min(losses) <= line["loss"] <= max(losses)
        assert line["norm_w"] > 0 and line["norm_delta"] > 0
        assert math.isfinite(line["norm_w"]) and math.isfinite(line["norm_delta"])
        assert line["lr"] == LR
        model = 4 * sum(slot.numel for slot in shared) * len(sampled)
        counters = 8 * flat.num_counters
        statistics = (4 * flat.num_buffers + counters) * len(sampled)
        # BatchNorm's statistics go with the model, once or in every exchange
        for sent, vectors in ((line["bytes_down"], down), (line["bytes_up"], up)):
            few = 100 * len(sampled)  # bytes of further numbers
            assert vectors * model + statistics <= sent <= vectors * (model + statistics) + few
    # a float32 norm of millions of entries on one thread
    assert lines[-1]["norm_w"] == pytest.approx(float(w.double().norm()), rel=2e-3)


def check_average(runner: Any, average: Any) -> None:
    """What is evaluated: the average of more than one model, or the last one."""
    evaluated, buffers = runner.evaluated_model()
    assert torch.isfinite(evaluated).all() and torch.isfinite(buffers).all()
    assert torch.equal(evaluated, runner.server.w) == (average is None)


def check(config: dict[str, Any], entry: Entry, optimizer: str) -> None:
    """A run, or the refusal that the table announces."""
    reason = entry.refused.get(optimizer)
    if reason is None:
        check_run(config, entry.down, entry.up)
        return
    with pytest.raises(ConfigError, match=reason) as refusal:
        toyseg.runner(config).build_federation()
    assert config["algorithm"]["type"] in str(refusal.value)


SEED = 0
PARTS = {"algorithm": list(ENTRIES), "optimizer": list(OPTIMIZERS), "average": list(AVERAGES)}
ROWS = pairwise({**PARTS, "network": ["cnn", "bisenetv2"]}, SEED)
ROWS += pairwise({**PARTS, "loss": list(LOSSES)}, SEED)


def test_the_rows_hold_every_pair():
    for names in itertools.combinations(PARTS, 2):
        for pair in itertools.product(*(PARTS[name] for name in names)):
            assert any(tuple(row[n] for n in names) == pair for row in ROWS), pair


@pytest.mark.parametrize("algorithm", ENTRIES)
def test_every_pair(algorithm, images, tmp_path):
    """A local loss sends nothing: the ledger is the algorithm's."""
    entry = ENTRIES[algorithm]
    for number, row in enumerate(row for row in ROWS if row["algorithm"] == algorithm):
        if "loss" in row:
            parts = toy_resnet(images)
            parts["local_loss"] = {"type": row["loss"], **LOSSES[row["loss"]]}
        else:
            parts = cnn(images) if row["network"] == "cnn" else bisenetv2()
        config = settings(
            tmp_path / str(number),
            toyseg.merge(parts, entry.more),
            algorithm={"type": algorithm, **entry.options},
            optim_wrapper=entry.local(row["optimizer"]),
            averaging=AVERAGES[row["average"]],
        )
        config["train_cfg"]["local_epochs"] = entry.local_epochs
        print(f"seed {SEED}: {row}")  # shown when it fails
        check(config, entry, row["optimizer"])


# ---------------------------------------------------------------- local losses

ON_THE_CNN = [{"type": "MOON", **LOSSES["MOON"]}, {"type": "GradAug", "n": 1, "resolutions": None}]


@pytest.mark.parametrize("loss", ON_THE_CNN)
def test_local_losses_on_the_cnn(loss, images, tmp_path):
    config = settings(
        tmp_path,
        cnn(images),
        algorithm={"type": "SCAFFOLD", "count_momentum": True},
        local_loss=loss,
        optim_wrapper=OPTIMIZERS["SAM"],
        averaging=None,
    )
    check_run(config, 2, 2)
