"""Cross-entropy with weights of classes, by their frequency over the participating clients."""

from typing import Annotated

import torch
import torch.nn.functional as F
from annotated_types import Ge
from torch import Tensor

from fedseg.config.schema import Float32
from fedseg.core.client import Client
from fedseg.core.flat import FlatModel
from fedseg.core.local_loss import LocalLoss
from fedseg.core.messages import Payload
from fedseg.errors import ConfigError
from fedseg.models.segmentor import Segmentor, resize
from fedseg.names import ERASED
from fedseg.registry import LOCAL_LOSSES

UNIT = 1e6  # pixels: a payload may not be much longer than the model


@LOCAL_LOSSES.register_module()
class ClassWeights(LocalLoss):
    """Median frequency balancing (Eigen and Fergus, ICCV 2015) without a look at clients' labels.

    Each client sends how many pixels of each class its local steps have had; the server sums them
    up over the round's participants. In the next round a pixel of class c weighs the median of the
    classes' frequencies over that of c; in the first one all weigh the same. The weighted
    cross-entropy is that of all outputs of the network, in place of the model's own loss.

    Args:
        most: largest weight, also that of classes which nobody has had.
    """

    payloads = (Payload("class_pixels", ("classes",), "uniform", broadcast=True),)

    def __init__(self, most: Annotated[Float32, Ge(1)] = 10.0) -> None:
        self.most = most

    def check(self, flat: FlatModel) -> None:
        if not isinstance(flat.model, Segmentor):
            raise ConfigError(
                "local_loss: ClassWeights is for segmentation; use a model of type Segmentor, "
                f"which {type(flat.model).__name__} is not, or another loss"
            )

    def receive(self, client: Client) -> None:
        pixels = client.payloads["class_pixels"].float()
        self.weights, self.pixels = torch.ones_like(pixels), torch.zeros_like(pixels)
        if pixels.any():
            balanced = pixels[pixels > 0].median() / pixels  # inf for 0
            self.weights = balanced.clamp(max=self.most)

    def loss(self, client: Client) -> Tensor:
        model, labels = client.model, client.batch["data_samples"].long()
        labels = labels.masked_fill(labels == ERASED, 255)
        ones = torch.ones(labels.numel(), device=labels.device)
        counted = torch.zeros(256, device=labels.device).scatter_add_(0, labels.flatten(), ones)
        counted = counted[: len(self.pixels)]
        self.pixels += counted / UNIT
        losses = []
        for number, logits in enumerate(model.outputs(client.batch["inputs"])):
            logits = resize(logits, labels.shape[-2:])
            options = {"weight": self.weights.to(logits.dtype), "ignore_index": 255}
            loss = F.cross_entropy(logits, labels, **options, reduction="sum")
            losses.append(loss * (model.aux_weight if number else 1))
        return sum(losses) / (counted @ self.weights).clamp(min=1e-6)  # it may have no label

    def finish(self, client: Client) -> dict[str, Tensor]:
        return {"class_pixels": self.pixels.to(client.w.dtype)}
