"""Local training never waits for the device, and never mixes another device in.

Everything runs on PyTorch's ``meta`` device, where a tensor has a shape and no values: ``.item()``,
``.numpy()``, a truth value and an operation with a tensor of the CPU raise. What passes here has
no hidden wait in a local step on a GPU.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
import toyseg
from algorithm_table import ENTRIES, LOSSES, OPTIMIZERS
from mmengine.config import Config
from torch import Tensor

from fedseg.core.client import Client
from fedseg.core.client_data import JobStream
from fedseg.core.flat import FlatModel
from fedseg.core.local_loss import LocalLoss
from fedseg.core.messages import ClientResult, Task, Update
from fedseg.core.server import Server
from fedseg.datasets import ImageArrays
from fedseg.engine.trainer import ClientTrainer
from fedseg.errors import ConfigError
from fedseg.local_losses.fedseg import absent_classes
from fedseg.local_losses.pixel_contrast import (
    choose_anchors,
    contrast,
    pseudo_labels,
    small_labels,
)
from fedseg.registry import DATASETS
from fedseg.runner.build import assemble_trainer, build_local_state, build_model, move_model
from fedseg.runner.config import complete_config

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
            "default_scope": "fedseg",
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
    flat = FlatModel(move_model(build_model(config), config))
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
            sums = algorithm.new_sums()
            own = {"state": state, "loss": 0.0}
            sums.add(ClientResult(task, update, flat.buffers, flat.counters, **own))
            algorithm.step(server, sums)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_local_optimizers_and_augmentation(optimizer):
    train(build_trainer(CNN, optim_wrapper=OPTIMIZERS[optimizer]))


@pytest.mark.parametrize("name", NETWORKS)
def test_segmentation(name):
    """ASAM, which is SAM's two passes and a mask over the network's layers."""
    parts = streets(NETWORKS[name])
    train(build_trainer(parts, optim_wrapper=OPTIMIZERS["ASAM"]), rounds=1)


def test_weights_of_classes():
    parts = streets({**NETWORKS["BiSeNetV2"], "num_classes": 3})  # as the scenes have
    train(build_trainer(parts, local_loss={"type": "ClassWeights"}), rounds=1)


def test_self_training():
    parts = streets({**NETWORKS["BiSeNetV2"], "num_classes": 3})
    local_loss = {"type": "SelfTraining"}
    train(build_trainer(parts, local_loss=local_loss, optim_wrapper=OPTIMIZERS["SAM"]), rounds=1)


def test_the_contrast_of_pixels():
    """FedSeg's steps; between them its prototypes, of which there are any number, may wait."""
    labels = torch.zeros(2, 8, 8, dtype=torch.int64, device="meta")
    embeddings = torch.zeros(128, 5, device="meta")
    prototypes = torch.zeros(7, 5, device="meta")
    classes = torch.zeros(7, dtype=torch.int64, device="meta")
    small = small_labels(labels, torch.Size([4, 4]), CLASSES)
    guessed = pseudo_labels(torch.zeros(2, CLASSES, 8, 8, device="meta"), small, 0.5)
    pixels, anchor_classes = choose_anchors(guessed.flatten(), 20, CLASSES)
    loss = contrast(embeddings[pixels], anchor_classes, prototypes, classes, 0.07)
    assert loss.shape == () and absent_classes(labels, CLASSES).shape == (CLASSES,)


# FedDGGA's weights are numbers: it waits between a client's steps and the next client's; FlexLoRA
# needs adapters, which are built with the vectors
@pytest.mark.parametrize(
    "name", [n for n in ENTRIES if n not in ("FedDGGA", "FlexLoRA", "FedExLoRA")]
)
def test_algorithms(name):
    entry = ENTRIES[name]
    optimizer = next(o for o in ("SAM", "SGD") if o not in entry.refused)
    algorithm = {"type": name, **entry.options}
    optim_wrapper = entry.local(optimizer)
    train(build_trainer(CNN, algorithm=algorithm, optim_wrapper=optim_wrapper, **entry.more))


@pytest.mark.parametrize("name", LOSSES)
def test_local_losses(name):
    parts = images({"type": "ToyResNet"}, AUGMENTED[:3])
    train(build_trainer(parts, local_loss={"type": name, **LOSSES[name]}))


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
