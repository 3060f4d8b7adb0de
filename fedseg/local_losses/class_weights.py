"""Class weights by median frequency balancing over the participating clients."""

from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from fedseg.config.arguments import Float32
from fedseg.core.aggregate import Aggregate
from fedseg.core.client import Client
from fedseg.core.flat import FlatModel
from fedseg.core.local_loss import LocalLoss
from fedseg.core.messages import Payload
from fedseg.core.server import Server
from fedseg.local_losses.counting import count_by_group
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
        self.model = require_segmentor(flat.model, self)

    def receive(self, client: Client) -> None:
        pixels = client.payloads[PIXELS]
        image_pixels = client.payloads[IMAGE_PIXELS]
        self.weights = median_frequency_weights(pixels.float(), image_pixels.float(), self.most)
        self.pixels = torch.zeros(len(pixels), device=pixels.device)
        self.image_pixels = torch.zeros(len(pixels), device=pixels.device)

    def loss(self, client: Client) -> Tensor:
        model = self.model
        num_classes = len(self.weights)
        labels = client.batch["data_samples"].long()
        if num_classes <= ERASED:
            labels = labels.masked_fill(labels == ERASED, model.ignore_index)
        weighted_sum = torch.zeros((), device=labels.device, dtype=self.weights.dtype)
        for number, logits in enumerate(model.outputs(client.batch["inputs"])):
            logits = resize(logits, labels.shape[-2:])
            weights = self.weights.to(logits.dtype)
            losses = cross_entropies(logits, labels, model.ignore_index, weights)
            output_weight = model.aux_weight if number > 0 else 1
            weighted_sum = weighted_sum + losses.sum() * output_weight
        counts = count_classes(labels, num_classes, model.ignore_index)
        self._add_counts(counts)
        weight_sum = counts.sum(0).to(self.weights.dtype) @ self.weights
        return weighted_sum / weight_sum.clamp(min=1e-6)  # a batch may have no label

    def _add_counts(self, counts: Tensor) -> None:
        """Add a batch's pixels of each class and image [B, C] to what the client sends."""
        of_images = counts.sum(1, keepdim=True)
        self.pixels += counts.sum(0) / UNIT
        self.image_pixels += ((counts > 0) * of_images).sum(0) / UNIT

    def finish(self, client: Client) -> dict[str, Tensor]:
        dtype = client.w.dtype
        return {PIXELS: self.pixels.to(dtype), IMAGE_PIXELS: self.image_pixels.to(dtype)}

    def step(self, server: Server, aggregate: Aggregate) -> None:
        for name in (PIXELS, IMAGE_PIXELS):
            server.state[name] = aggregate.payload(name)


def count_classes(labels: Tensor, num_classes: int, ignored: int) -> Tensor:
    """Pixels of each class in each image, int64 [B, C], from labels [B, H, W]."""
    groups = labels.masked_fill(labels == ignored, num_classes)  # counted last
    return count_by_group(groups.flatten(1), num_classes + 1)[:, :-1]


def median_frequency_weights(pixels: Tensor, image_pixels: Tensor, most: float) -> Tensor:
    """The weight of each class, float [C]; 1 for all where no class has a pixel.

    Args:
        pixels: of each class [C].
        image_pixels: labelled pixels of the images that contain it [C].
        most: largest weight, also of classes without a pixel.
    """
    occurs = (pixels > 0) & (image_pixels > 0)
    frequencies = torch.where(occurs, pixels / image_pixels, torch.nan)
    median = frequencies.nanquantile(0.5)  # of an even number of classes the mean of the middle two
    weights = torch.where(occurs, (median / frequencies).clamp(max=most), most)
    return torch.where(occurs.any(), weights, 1.0)
