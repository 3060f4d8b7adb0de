"""One client on one minibatch, without a run around it, and three small networks.

For losses and gradients of a local step: everything in float64, derivatives by central differences.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from fedseg.algorithms import FedAvg
from fedseg.core.client import Client
from fedseg.core.flat import FlatModel
from fedseg.core.local_loss import LocalLoss
from fedseg.core.messages import Message, Task
from fedseg.engine.trainer import ClientTrainer
from fedseg.models import Classifier, ResNet, group_norm
from fedseg.models.resnet import BasicBlock, Bottleneck
from fedseg.optim import build_local_optimizer
from fedseg.registry import MODELS

CLASSES, SIDE, BATCH = 4, 8, 5


@MODELS.register_module()
class ToyResNet(ResNet):
    """Three stages; groups: GroupNorm instead of BatchNorm; bottleneck: the kind of blocks.

    Widths in float32 are multiples of eight: on a CPU torch 2.11 writes past the end of a gradient
    in strided 1x1 convolutions of other numbers of channels.
    """

    def __init__(
        self,
        widths: tuple[int, ...] = (8, 8, 16),
        groups: int | None = None,
        bottleneck: bool = False,
        **kwargs: Any,
    ) -> None:
        block = Bottleneck if bottleneck else BasicBlock
        norm = nn.BatchNorm2d if groups is None else group_norm(groups)
        super().__init__(CLASSES, block, (1, 1, 2), widths, norm, **kwargs)


@MODELS.register_module()
class ToyProjected(Classifier):
    """A convolution, BatchNorm, dropout, a projection. dropout: its rate."""

    def __init__(self, dropout: float = 0.0, projection: Any = (5, 3), **kwargs: Any) -> None:
        super().__init__(CLASSES, projection=projection, **kwargs)
        self.conv = nn.Conv2d(3, 3, 3, stride=2)
        self.norm = nn.BatchNorm2d(3)
        self.dropout = nn.Dropout(dropout)
        self.add_head(3)

    def features(self, inputs: Tensor) -> Tensor:
        x = torch.tanh(self.norm(self.conv(inputs))).mean((2, 3))
        return self.projection(self.dropout(x))


@MODELS.register_module()
class PixelNetwork(nn.Module):
    """Two convolutions, for pixels."""

    def __init__(self, num_classes: int, feature_channels: int = 4) -> None:
        super().__init__()
        self.feature_channels = feature_channels
        self.convolution = nn.Conv2d(3, feature_channels, 1)
        self.classifier = nn.Conv2d(feature_channels, num_classes, 1)

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        features = self.convolution(images)
        return {"out": self.classifier(features), "features": features}


def scrambled(model: nn.Module, seed: int = 0) -> nn.Module:
    """In float64, random scales and shifts too, so that no layer is the identity."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in model.named_parameters():
        if tensor.dim() == 1:
            low, high = (0.5, 1.5) if name.endswith("weight") else (-0.5, 0.5)
        else:
            high = 2 * tensor[0].numel() ** -0.5
            low = -high
        nn.init.uniform_(tensor, low, high, generator=generator)
    return model.double()


def batch(images: int = BATCH, seed: int = 1, dtype: torch.dtype = torch.float64) -> dict:
    """Images and labels as loaders give them."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(images, 3, SIDE, SIDE, generator=generator, dtype=dtype)
    labels = torch.randint(CLASSES, (images,), generator=generator)
    return {"inputs": inputs, "data_samples": labels}


SGD = {"type": "OptimWrapper", "optimizer": {"type": "SGD", "lr": 0.1}}


def local_client(
    model: nn.Module,
    local_loss: LocalLoss,
    state: dict[str, Tensor] | None = None,
    optim_wrapper: dict | None = None,
    amp: bool = False,
    algorithm: Any = None,
) -> Client:
    """A client of a trainer, about to do a local step; seed the global generator yourself."""
    flat = FlatModel(model)
    local_loss.setup(flat)
    trainer = ClientTrainer(
        flat,
        algorithm or FedAvg(),
        build_local_optimizer(optim_wrapper or SGD, flat, max_rounds=1),
        SimpleNamespace(fits_model=True),
        seed=0,
        local_loss=local_loss,
        amp=amp,
        call_hook=lambda *_, **__: None,
    )
    model.train()
    task = Task(1, 0, 0, "a", BATCH, 1, state or {})
    message = Message(flat.w.clone(), flat.buffers.clone(), flat.counters.clone())
    client = Client(trainer, task, message)
    client.batch = batch(dtype=flat.w.dtype)
    return client


def gradient(client: Client) -> Tensor:
    client.backward()
    return client.grad.clone()


def slopes(function: Callable[[], Tensor], w: Tensor, entries: list[int]) -> Tensor:
    """Central differences of a function of the vector ``w``, which it reads anew at every call."""
    found, step = torch.zeros(len(entries), dtype=w.dtype), 1e-6
    with torch.no_grad():
        for number, i in enumerate(entries):
            value = w[i].item()
            w[i] = value + step
            high = function()
            w[i] = value - step
            low = function()
            w[i] = value
            found[number] = (high - low) / (2 * step)
    return found


def some_entries(tensor: Tensor, count: int, seed: int = 0) -> list[int]:
    """Places where ``tensor`` is not zero, the largest and others by chance."""
    places = tensor.nonzero()[:, 0]
    order = torch.randperm(len(places), generator=torch.Generator().manual_seed(seed))
    return [int(tensor.abs().argmax()), *places[order[: count - 1]].tolist()]


def relative_error(found: Tensor, expected: Tensor) -> float:
    """Of the whole vector, by the largest entry."""
    return float((found - expected).abs().max() / expected.abs().max())
