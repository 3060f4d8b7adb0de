"""Class weights by median frequency balancing over the participating clients."""

from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from fedseg.config.schema import Float32
from fedseg.core.aggregate import Aggregate
from fedseg.core.client import Client
from fedseg.core.flat import FlatModel
from fedseg.core.local_loss import LocalLoss
from fedseg.core.messages import Payload
from fedseg.core.server import Server
from fedseg.local_losses.requirements import require_segmentor
from fedseg.models.losses import cross_entropies
from fedseg.models.segmentor import resize
from fedseg.names import ERASED
from fedseg.registry import LOCAL_LOSSES

UNIT = 1e6  # pixels: a payload may not be much longer than the model
PIXELS = "class_pixels"  # of each class
IMAGE_PIXELS = "class_image_pixels"  # labelled pixels of the images that contain the class


@LOCAL_LOSSES.register_module()
class ClassWeights(LocalLoss):
    """Median frequency balancing (Eigen and Fergus, ICCV 2015) over the clients.

    The frequency of a class is the number of its pixels divided by the labeled pixels of the images
    that contain it. Each client sends both numbers for every class, of the images of its local
    steps, and the server sums them over the round's participants. In the next round the weight of
    class c is the median of the classes' frequencies divided by that of c; in the first round all
    weights are equal. The weighted cross-entropy of all outputs of the network replaces the model's
    own loss.

    Args:
        most: largest weight, also of classes that did not occur.
    """

    payloads = (
        Payload(PIXELS, ("classes",), broadcast=True),
        Payload(IMAGE_PIXELS, ("classes",), broadcast=True),
    )

    def __init__(self, most: Annotated[Float32, Ge(1)] = 10.0) -> None:
        self.most = most

    def setup(self, flat: FlatModel) -> None:
        require_segmentor(flat.model, self)

    def receive(self, client: Client) -> None:
        pixels, image_pixels = client.payloads[PIXELS], client.payloads[IMAGE_PIXELS]
        self.weights = median_frequency_weights(pixels.float(), image_pixels.float(), self.most)
        self.pixels, self.image_pixels = torch.zeros(2, len(pixels), device=pixels.device)

    def loss(self, client: Client) -> Tensor:
        model = client.model
        labels = client.batch["data_samples"].long()
        classes = len(self.pixels)
        if classes <= ERASED:
            labels = labels.masked_fill(labels == ERASED, model.ignore_index)
        loss = torch.zeros((), device=labels.device, dtype=self.weights.dtype)
        for number, logits in enumerate(model.outputs(client.batch["inputs"])):
            logits = resize(logits, labels.shape[-2:])
            weights = self.weights.to(logits.dtype)
            losses = cross_entropies(logits, labels, model.ignore_index, weights)
            loss = loss + losses.sum() * (model.aux_weight if number else 1)
        ignored = labels == model.ignore_index
        index = labels.masked_fill(ignored, classes).flatten(1)  # ignored pixels are counted last
        counted = index.new_zeros(len(index), classes + 1)
        counted = counted.scatter_add_(1, index, torch.ones_like(index))[:, :-1]  # by image
        self.pixels += counted.sum(0) / UNIT
        self.image_pixels += ((counted > 0) * counted.sum(1, keepdim=True)).sum(0) / UNIT
        total = counted.sum(0).to(self.weights.dtype) @ self.weights
        return loss / total.clamp(min=1e-6)  # it may have no label

    def finish(self, client: Client) -> dict[str, Tensor]:
        dtype = client.w.dtype
        return {PIXELS: self.pixels.to(dtype), IMAGE_PIXELS: self.image_pixels.to(dtype)}

    def step(self, server: Server, sums: Aggregate) -> None:
        for name in (PIXELS, IMAGE_PIXELS):
            server.state[name] = sums.payload(name)


def median_frequency_weights(pixels: Tensor, image_pixels: Tensor, most: float) -> Tensor:
    """The weight of each class, float [C]; 1 for all where no class has a pixel.

    Args:
        pixels: of each class. image_pixels: of all classes in the images that contain it.
        most: largest weight, also of classes without a pixel.
    """
    occurs = (pixels > 0) & (image_pixels > 0)
    frequencies = torch.where(occurs, pixels / image_pixels, torch.nan)
    median = frequencies.nanquantile(0.5)  # of an even number of classes the mean of the middle two
    weights = torch.where(occurs, (median / frequencies).clamp(max=most), most)
    return torch.where(occurs.any(), weights, 1.0)
