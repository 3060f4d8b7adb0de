"""Local training never waits for the device, and never mixes another device in.

Everything runs on PyTorch's ``meta`` device, where a tensor has a shape and no values: ``.item()``,
``.numpy()``, a truth value and an operation with a tensor of the CPU raise. What passes here has
no hidden wait in a local step on a GPU.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import toyseg
from algorithm_table import ENTRIES, LOSSES, OPTIMIZERS, PIXEL_LOSSES
from mmengine.config import Config
from torch import Tensor, nn

from fedseg.algorithms import feddg_ga
from fedseg.config.check import complete_config
from fedseg.core.client import Client
from fedseg.core.client_data import JobStream
from fedseg.core.flat import FlatModel
from fedseg.core.local_loss import LocalLoss
from fedseg.core.messages import ClientResult, Task, Update
from fedseg.core.server import Server
from fedseg.datasets import ImageArrays
from fedseg.engine.trainer import ClientTrainer
from fedseg.errors import ConfigError
from fedseg.local_losses import fedseg as fedseg_loss
from fedseg.models import Classifier, ResNet
from fedseg.models.lora import LoRA
from fedseg.registry import DATASETS, MODELS
from fedseg.runner.build import assemble_trainer, build_local_state, build_model, move_model

IMAGES, CLASSES = 4, 10
AUGMENTED = [
    {"type": "RandomCrop", "padding": 4},
    {"type": "RandomFlip", "prob": 0.5},
    {"type": "Normalize", "mean": (0.5,) * 3, "std": (0.25,) * 3},
    {"type": "Cutout", "size": 8},
    {"type": "Mixup", "alpha": 0.5},
]


@DATASETS.register_module()
class NoiseImages(ImageArrays):
    """Images of CIFAR's size."""

    def __init__(self) -> None:
        images = np.random.default_rng(0).integers(0, 256, (IMAGES, 32, 32, 3), np.uint8)
        super().__init__(images, np.arange(IMAGES), [str(i) for i in range(CLASSES)])


def images(model: Mapping[str, Any], transforms: list[Any] = AUGMENTED) -> dict[str, Any]:
    data = {"type": "ResidentData", "dataset": {"type": "NoiseImages"}, "transforms": transforms}
    return {"model": model, "train_dataloader": data}


def streets(model: Mapping[str, Any]) -> dict[str, Any]:
    dataset = {"type": "ToyScenes", "users": {"a": IMAGES}, "scale": 8}  # 64x96
    return {"model": model, "train_dataloader": {"dataset": dataset}}


def network(name: str, **model: Any) -> dict[str, Any]:
    config = Config.fromfile(toyseg.ROOT / "configs" / "methods" / f"{name}.py").model.to_dict()
    config["network"].pop("_delete_", None)
    config["loss"].pop("_delete_", None)
    return {**config, **model}


CNN = images({"type": "CNN", "num_classes": CLASSES})
OHEM = {"type": "OHEMCrossEntropy", "ratio": 0.25}
NETWORKS = {
    "BiSeNetV2": {"type": "BiSeNetV2Segmentor", "num_classes": CLASSES, "loss": OHEM},
    "FedDrive": {"type": "FedDriveBiSeNetV2Segmentor", "num_classes": CLASSES, "loss": OHEM},
    "U-Net": {
        "type": "UNetSegmentor",
        "num_classes": CLASSES,
        "loss": {"type": "DiceCrossEntropy"},
    },
    "SegFormer": network("segformer", num_classes=CLASSES),
}


@pytest.fixture(autouse=True)
def no_autocast(monkeypatch):
    """Autocast does not know the meta device; here it is only ever turned off."""
    monkeypatch.setattr(torch, "autocast", lambda *_, enabled: nullcontext())


class Trained(Exception):
    """A client has done its local steps: what comes after them may wait for the device."""

    def __init__(self, client: Client, update: Update) -> None:
        super().__init__()
        self.client, self.update = client, update


def call_hook(stage: str, **arguments: Any) -> None:
    if stage == "after_client":
        raise Trained(**arguments)


def build_trainer(parts: Mapping[str, Any], **changes: Any) -> ClientTrainer:
    """A trainer of a config on the meta device; its one client has several batches."""
    config = toyseg.merge(
        {
            "device": "meta",
            "client_sampler": {"type": "UniformSampler", "clients_per_round": 1},
            "algorithm": {"type": "FedAvg"},
            "optim_wrapper": OPTIMIZERS["SGD"],
            "train_dataloader": {"batch_size": 2, "partition": {"type": "SinglePartition"}},
            "train_cfg": {"max_rounds": 3, "hook_interval": 1},
        },
        toyseg.merge(parts, changes),
    )
    config["optim_wrapper"]["optimizer"]["fused"] = False  # there are no such kernels
    config = complete_config(Config(config))
    model = move_model(build_model(config), config)
    if config.model.get("lora") is not None:
        LoRA.from_config(config.model.lora).add_to(model)
    flat = FlatModel(model)
    local_state = build_local_state(config, flat)
    return assemble_trainer(config, flat, local_state=local_state, call_hook=call_hook)


def train(trainer: ClientTrainer, rounds: int = 2) -> None:
    """Rounds of one client, as the loop has them."""
    algorithm, flat = trainer.algorithm, trainer.flat
    server, state = Server(flat, 3, algorithm.server_vectors), {}
    server.keep(trainer.payloads.values())
    trainer.data.start(JobStream(lambda _: [0], 1, rounds, algorithm.exchanges))
    for server.round in range(1, rounds + 1):
        trainer.local.start_round(server.round)
        for server.exchange, exchange in enumerate(algorithm.exchanges):
            message = algorithm.broadcast(server)
            steps = trainer.data.num_steps(0)
            task = Task(server.round, server.exchange, 0, "all", IMAGES, steps, state)
            with pytest.raises(Trained) as trained:
                trainer.train(task, message)
            client, update = trained.value.client, trained.value.update
            assert client.step == steps * exchange.train
            state = client.state
            vectors = client.loss_sum, *state.values(), *update.vectors.values()
            assert {vector.device.type for vector in vectors} == {"meta"}
            aggregate = algorithm.new_aggregate()
            own = {"state": state, "loss": 0.0}
            aggregate.add(ClientResult(task, update, flat.buffers, flat.counters, **own))
            algorithm.step(server, aggregate)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_local_optimizers_and_augmentation(optimizer):
    train(build_trainer(CNN, optim_wrapper=OPTIMIZERS[optimizer]))


@pytest.mark.parametrize("name", NETWORKS)
def test_segmentation(name):
    """ASAM, which is SAM's two passes and a mask over the network's layers."""
    parts = streets(NETWORKS[name])
    train(build_trainer(parts, optim_wrapper=OPTIMIZERS["ASAM"]), rounds=1)


# ---------------------------------------------------------------- the matrix


@MODELS.register_module()
class TinyClassifier(Classifier):
    """A convolution with BatchNorm, and two stages of a convolution."""

    layer_names = ResNet.layer_names
    layers = ResNet.layers
    features = ResNet.features

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(CLASSES, **kwargs)
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        self.stages = nn.Sequential(*(nn.Conv2d(4, 4, 3, padding=1) for _ in range(2)))
        self.add_head(4)


@MODELS.register_module()
class TinyPixelNetwork(nn.Module):
    """A convolution with BatchNorm, and the classifier of every pixel."""

    feature_channels = 4

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 1)
        self.norm = nn.BatchNorm2d(4)
        self.classifier = nn.Conv2d(4, num_classes, 1)

    def forward(self, inputs: Tensor) -> dict[str, Tensor]:
        features = self.norm(self.convolution(inputs))
        return {"out": self.classifier(features), "features": features}


@DATASETS.register_module()
class ErasedScenes(toyseg.ToyScenes):
    """Scenes whose client knows one of the three classes."""

    classes = ("x", "y", "z")
    known = {image: [0] for image in range(IMAGES)}


TINY_CLASSIFIER = images({"type": "TinyClassifier"}, AUGMENTED[2:3])
TINY_SEGMENTOR = streets(
    {"type": "Segmentor", "network": {"type": "TinyPixelNetwork"}, "num_classes": 3}
)
TINY_SEGMENTOR["train_dataloader"]["dataset"]["type"] = "ErasedScenes"
ONE_BATCH = {"train_dataloader": {"batch_size": IMAGES}}
LOCAL_LOSSES = [None, *LOSSES, *PIXEL_LOSSES]
PERSONAL = [None, "@batchnorm.statistics", "@batchnorm", "@head", "@body"]
KEEPS_PARAMETERS = PERSONAL[2:]


def personal_parts(algorithm: str) -> list[str | None]:
    """The personal parts that an algorithm takes."""
    if algorithm in ("FedRep", "FedBABU"):
        return KEEPS_PARAMETERS
    if algorithm in ("FedSpeed", "FedSMOO", "MIME"):  # gradients at shifted weights
        return [part for part in PERSONAL if part not in KEEPS_PARAMETERS]
    if algorithm == "FlexLoRA":  # its adapters are the body
        return [part for part in PERSONAL if part != "@body"]
    return PERSONAL


def combinations() -> list[tuple[str, str, str | None, str | None]]:
    """Every algorithm with every local loss; local optimizers and personal parts in turn.

    So every two of an algorithm, a local optimizer, a local loss and a personal part occur.
    """
    rows = []
    for number, (algorithm, entry) in enumerate(ENTRIES.items()):
        parts = personal_parts(algorithm)
        optimizers = [name for name in OPTIMIZERS if name not in entry.refused]
        for turn, local_loss in enumerate(LOCAL_LOSSES, number):
            optimizer = optimizers[turn % len(optimizers)]
            rows.append((algorithm, optimizer, local_loss, parts[turn % len(parts)]))
    return rows


def test_every_two_are_combined():
    """Those that go together: an algorithm refuses some local optimizers and personal parts."""
    rows = combinations()
    for algorithm, entry in ENTRIES.items():
        own = [row for row in rows if row[0] == algorithm]
        assert {optimizer for _, optimizer, _, _ in own} == OPTIMIZERS.keys() - entry.refused
        assert {local_loss for _, _, local_loss, _ in own} == {*LOCAL_LOSSES}
        assert {part for *_, part in own} == {*personal_parts(algorithm)}
    with_losses = {(optimizer, local_loss) for _, optimizer, local_loss, _ in rows}
    assert with_losses == {*product(OPTIMIZERS, LOCAL_LOSSES)}
    with_parts = {(optimizer, part) for _, optimizer, _, part in rows}
    assert with_parts == {*product(OPTIMIZERS, PERSONAL)}
    assert {row[2:] for row in rows} == {*product(LOCAL_LOSSES, PERSONAL)}


def every_position(counts: Tensor, as_tuple: bool) -> tuple[Tensor, Tensor]:
    """Indices of all elements, in place of ``torch.nonzero``, whose shape depends on values."""
    positions = torch.zeros(counts.numel(), dtype=torch.int64, device=counts.device)
    return positions, positions


@pytest.fixture
def no_waits_beside_the_steps(monkeypatch):
    """Leave out the two waits of a client before and after its steps.

    FedSeg counts its prototypes, and the gap of FedDG-GA is a number.
    """
    count_prototypes = fedseg_loss.image_prototypes

    def keep_every_prototype(*arguments: Any) -> tuple[Tensor, Tensor]:
        with monkeypatch.context() as patch:
            patch.setattr(torch, "nonzero", every_position)
            return count_prototypes(*arguments)

    monkeypatch.setattr(fedseg_loss, "image_prototypes", keep_every_prototype)
    monkeypatch.setattr(feddg_ga, "float", lambda gap: 0.0, raising=False)


@pytest.mark.parametrize("algorithm, optimizer, local_loss, personal", combinations())
def test_combinations(algorithm, optimizer, local_loss, personal, no_waits_beside_the_steps):
    """Local steps, full-batch gradients and the passes of local losses and algorithms."""
    entry = ENTRIES[algorithm]
    config = TINY_SEGMENTOR if local_loss in PIXEL_LOSSES else TINY_CLASSIFIER
    config = toyseg.merge(toyseg.merge(config, ONE_BATCH), entry.more)
    if local_loss is not None:
        options = {**LOSSES, **PIXEL_LOSSES}[local_loss]
        config["local_loss"] = {"type": local_loss, **options}
    config["algorithm"] = {"type": algorithm, **entry.options}
    config["optim_wrapper"] = entry.local(optimizer)
    config["train_cfg"] = {"local_epochs": entry.local_epochs}
    config["personal"] = personal
    train(build_trainer(config))


@pytest.mark.parametrize("wait", [float, bool, Tensor.numpy, lambda loss: loss + torch.ones(2)])
def test_a_wait_is_noticed(wait):
    class Waiting(LocalLoss):
        def loss(self, client: Client) -> Tensor:
            loss = super().loss(client)
            wait(loss.detach())
            return loss

    with pytest.raises(ConfigError) as raised:
        train(build_trainer(CNN, local_loss=Waiting()))
    assert isinstance(raised.value.__cause__, RuntimeError | TypeError)
