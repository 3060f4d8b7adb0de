"""Rounds of FedAvg without the engine: the floor of the classification benchmark.

What one writes for one case and speed: images resident as uint8, batched augmentation, one model.
It makes the engine's draws, so that both end at the same weights.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fedseg.core.seeds import generator_for
from fedseg.loaders.resident import ResidentData
from fedseg.models.classifier import Classifier

PADDING = 4
FLIP = 0.5


class HandWritten:
    """Rounds of FedAvg with a copy of the engine's model on its data; a call is a round.

    Args:
        model, data: the engine's. optimizer: arguments of ``torch.optim.SGD``.
        mean, std: of each channel. participants: of a round. amp: compute in bfloat16.

    Attributes:
        round: the last round. loss: the mean loss of its steps. w: the global model by name.
    """

    def __init__(
        self,
        model: Classifier,
        data: ResidentData,
        optimizer: dict[str, Any],
        mean: Sequence[float],
        std: Sequence[float],
        participants: Callable[[int], list[int]],
        amp: bool = False,
    ) -> None:
        self.round, self.loss = 0, 0.0
        self.data, self.participants, self.amp = data, participants, amp
        self.parts = [data.indices[client] for client in data.clients]
        self.device = data.images.device
        self.model = copy.deepcopy(model)
        for parameter in self.model.parameters():  # ordinary ones, no views into a flat vector
            parameter.data = parameter.data.contiguous().clone()
            parameter.grad = None
        self.model.to(memory_format=torch.channels_last).train()
        self.w = {name: w.detach().clone() for name, w in self.model.named_parameters()}
        self.sgd = torch.optim.SGD(self.model.parameters(), fused=True, **optimizer)
        scale, shift = (torch.tensor(v, dtype=torch.float64) for v in (std, mean))
        width = data.images.shape[2]
        self.scale = (1 / (255 * scale)).repeat(width).to(self.device, torch.float32)
        self.shift = (-shift / scale).repeat(width).to(self.device, torch.float32)

    def __call__(self) -> None:
        """Run the next round."""
        self.round += 1
        chosen = self.participants(self.round)
        total = sum(len(self.parts[client]) for client in chosen)
        mean = {name: torch.zeros_like(w) for name, w in self.w.items()}
        losses, steps = torch.zeros((), device=self.device), 0
        for client in chosen:
            with torch.no_grad():
                for name, parameter in self.model.named_parameters():
                    parameter.copy_(self.w[name])
            self.sgd.state.clear()
            for images, labels in self.batches(client):
                with torch.autocast(self.device.type, torch.bfloat16, enabled=self.amp):
                    logits = self.model.classifier(self.model.features(images))
                    loss = F.cross_entropy(logits, labels)
                self.sgd.zero_grad(set_to_none=True)
                loss.backward()
                self.sgd.step()
                losses += loss.detach()
                steps += 1
            with torch.no_grad():
                for name, parameter in self.model.named_parameters():
                    mean[name].add_(parameter, alpha=len(self.parts[client]) / total)
        self.w = mean
        self.loss = float(losses) / steps
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def batches(self, client: int) -> Iterator[tuple[Tensor, Tensor]]:
        """(images [B, C, H, W], labels [B]) of a client's local epoch."""
        part, size, seed = self.parts[client], self.data.batch_size, self.data.seed
        keys = self.round, client, 0
        order = part[generator_for(seed, "shuffle", *keys).permutation(len(part))]
        # height and width move alike: images are square and keep their size
        corners = generator_for(seed, "augment batch", 0, *keys).integers(
            0, 2 * PADDING + 1, (len(part), 2)
        )
        flips = generator_for(seed, "augment batch", 1, *keys).random(len(part)) < FLIP
        order, corners, flips = (
            torch.from_numpy(a).to(self.device, non_blocking=True) for a in (order, corners, flips)
        )
        for start in range(0, len(part), size):
            rows = slice(start, start + size)
            images = self.data.images.index_select(0, order[rows])
            yield (
                self.augment(images, corners[rows], flips[rows]),
                self.data.labels.index_select(0, order[rows]),
            )

    def augment(self, images: Tensor, corners: Tensor, flips: Tensor) -> Tensor:
        """Crop, flip, normalize: uint8 [B, H, W, C] to float [B, C, H, W]."""
        count, height, width, channels = images.shape
        pad = F.pad(images, (0, 0, PADDING, PADDING, PADDING, PADDING))
        row = pad.shape[2] * channels
        windows = pad.as_strided(
            (count, 2 * PADDING + 1, 2 * PADDING + 1, height, width * channels),
            (pad.shape[1] * row, row, channels, row, 1),
        )
        which = torch.arange(count, device=images.device)
        cut = windows[which, corners[:, 0], corners[:, 1]]
        mirrored = cut.view(images.shape).flip(2).flatten(1).view(torch.int64)
        plain = cut.flatten(1).view(torch.int64)  # eight pixels at a time
        cut = torch.where(flips.view(-1, 1), mirrored, plain).view(torch.uint8)
        rows = cut.view(count, height, width * channels).to(torch.float32)
        pixels = torch.addcmul(self.shift, rows, self.scale)
        return pixels.view(images.shape).permute(0, 3, 1, 2)
