"""Rounds of FedAvg without the engine: the floor of the classification benchmark.

:class:`HandWritten` is what one writes for one case and speed: images resident as uint8, batched
augmentation, one model. It makes the engine's draws, so that both end at the same weights.
:class:`LoaderPerClient` is the obvious way: for each client a DataLoader with torchvision's
transforms and a copy of the model.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset
from torchvision import transforms

from fedseg.core.seeds import generator_for
from fedseg.loaders.resident import ResidentData
from fedseg.models.classifier import Classifier

PADDING = 4
FLIP = 0.5


class PlainFedAvg:
    """What the loops share: they have ``run(chosen)``, a round, and ``weights()`` by name.

    Args: the engine's model, of which a copy is trained, and its data; arguments of
    ``torch.optim.SGD``; mean and std of each channel; which clients take part in a round; whether
    to compute in bfloat16.

    Attributes:
        round: the last round that was run.
        loss: the mean loss of its steps.
    """

    memory_format = torch.contiguous_format

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
        self.round = 0
        self.loss = 0.0
        self.data, self.optimizer, self.mean, self.std = data, optimizer, mean, std
        self.participants, self.amp = participants, amp
        self.parts = [data.indices[client] for client in data.clients]
        self.device = data.images.device
        self.model = copy.deepcopy(model)
        for parameter in self.model.parameters():  # ordinary ones, no views into a flat vector
            parameter.data = parameter.data.contiguous().clone()
            parameter.grad = None
        self.model.to(memory_format=self.memory_format).train()

    def __call__(self) -> None:
        """Run the next round."""
        self.round += 1
        self.run(self.participants(self.round))
        if self.device.type == "cuda":
            torch.cuda.synchronize()


class HandWritten(PlainFedAvg):
    """One model, resident images, every batch augmented at once. Arguments: the base's."""

    memory_format = torch.channels_last

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.parameters = list(self.model.parameters())
        self.sgd = torch.optim.SGD(self.parameters, fused=True, **self.optimizer)
        self.w = [parameter.detach().clone() for parameter in self.parameters]
        std, mean = (torch.tensor(v, dtype=torch.float64) for v in (self.std, self.mean))
        width = self.data.images.shape[2]
        self.scale = (1 / (255 * std)).repeat(width).to(self.device, torch.float32)
        self.shift = (-mean / std).repeat(width).to(self.device, torch.float32)

    def weights(self) -> dict[str, Tensor]:
        names = (name for name, _ in self.model.named_parameters())
        return dict(zip(names, self.w, strict=True))

    def run(self, chosen: list[int]) -> None:
        total = sum(len(self.parts[client]) for client in chosen)
        mean = [torch.zeros_like(w) for w in self.w]
        losses, steps = torch.zeros((), device=self.device), 0
        for client in chosen:
            with torch.no_grad():
                for parameter, w in zip(self.parameters, self.w, strict=True):
                    parameter.copy_(w)
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
                for sum_, parameter in zip(mean, self.parameters, strict=True):
                    sum_.add_(parameter, alpha=len(self.parts[client]) / total)
        self.w = mean
        self.loss = float(losses) / steps

    def batches(self, client: int) -> Any:
        """(images [B, C, H, W], labels [B]) of a client's local epoch."""
        part, size = self.parts[client], self.data.batch_size
        keys = self.round, client, 0
        seed = self.data.seed
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


class Images(Dataset):
    """uint8 [N, H, W, C] images, one by one through PIL and a transform."""

    def __init__(self, data: ResidentData, transform: Any) -> None:
        self.images, self.labels = data.images.cpu().numpy(), data.labels.cpu().numpy()
        self.transform = transform

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(Image.fromarray(self.images[index])), int(self.labels[index])


class LoaderPerClient(PlainFedAvg):
    """A DataLoader over a Subset, a model and an optimizer for each client; averaged state dicts.

    Arguments: the base's; float32. Draws come from torch's global generator.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        steps = [
            transforms.RandomCrop(self.data.images.shape[1], padding=PADDING),
            transforms.RandomHorizontalFlip(FLIP),
            transforms.ToTensor(),
            transforms.Normalize(self.mean, self.std),
        ]
        self.dataset = Images(self.data, transforms.Compose(steps))

    def weights(self) -> dict[str, Tensor]:
        return {name: w.detach() for name, w in self.model.named_parameters()}

    def run(self, chosen: list[int]) -> None:
        states, sizes, losses = [], [], []
        for client in chosen:
            subset = Subset(self.dataset, self.parts[client].tolist())
            loader = DataLoader(subset, batch_size=self.data.batch_size, shuffle=True)
            own = copy.deepcopy(self.model)
            optimizer = torch.optim.SGD(own.parameters(), **self.optimizer)
            for images, labels in loader:
                images, labels = images.to(self.device), labels.to(self.device)
                optimizer.zero_grad()
                loss = F.cross_entropy(own(images), labels)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            states.append(copy.deepcopy(own.state_dict()))
            sizes.append(len(subset))
        mean = {
            name: sum(s[name] * (n / sum(sizes)) for s, n in zip(states, sizes, strict=True))
            for name in states[0]
        }
        self.model.load_state_dict(mean)
        self.loss = sum(losses) / len(losses)
