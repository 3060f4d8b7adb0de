"""GradAug: narrow sub-networks learn the full network's output from transformed images.

Yang, Zhu, Chen, "GradAug: A New Regularization Method for Deep Neural Networks", NeurIPS 2020,
algorithm 1, as local training of federated clients after Mendieta et al. (FedAlign), CVPR 2022.

- A sub-network of width a has the first channels of every layer, its BatchNorm normalizes by the
  batch, running statistics are the full network's (see ``Slim``).
- The transformation is another resolution, bilinear with aligned corners, as in both codes.
- The paper draws every width from the uniform distribution on [width, 1]; in both released codes
  one of the n sub-networks always has the smallest width: ``smallest``.
- GradAug's code keeps whole channels, FedAlign's code multiples of eight: ``multiple``.

Widths and resolutions come from torch's CPU generator, which is seeded for every client and round
and set back for SAM's second pass: both passes have the same sub-networks.
"""

from collections.abc import Sequence
from typing import Annotated

import torch
import torch.nn.functional as F
from annotated_types import Interval, MinLen
from pydantic import PositiveInt
from torch import Tensor

from fedseg.config.arguments import Float32, NonNegative
from fedseg.core.client import Client
from fedseg.core.flat import FlatModel
from fedseg.core.forward import total_loss
from fedseg.core.local_loss import LocalLoss, full_precision
from fedseg.errors import ConfigError
from fedseg.models.classifier import Classifier
from fedseg.models.slim import Slim
from fedseg.registry import LOCAL_LOSSES


@LOCAL_LOSSES.register_module()
class GradAug(LocalLoss):
    """``CE(f(x)) + mu sum_i KL(f(x) || f_i(T_i(x)))`` over n sub-networks ``f_i``.

    ``f(x)``, the full network's class probabilities, is a fixed target there. Each step has n
    forward and backward passes of narrower networks more than FedAvg's.

    Args:
        n: sub-networks.
        width: smallest part of the channels that a sub-network has.
        mu: weight of their losses; 0 is plain training. The NeurIPS paper has 1; FedAlign
            1.75 for n = 2.
        resolutions: sides in pixels, one of which is drawn for every sub-network; None leaves the
            images as they are. The default is FedAlign's for CIFAR.
        smallest: the first sub-network has the smallest width, only the others are drawn.
        multiple: numbers of channels are multiples of it.
    """

    def __init__(
        self,
        n: PositiveInt = 2,
        width: Annotated[Float32, Interval(gt=0, le=1)] = 0.8,
        mu: NonNegative = 1.75,
        resolutions: Annotated[Sequence[PositiveInt], MinLen(1)] | None = (32, 28, 24, 20),
        smallest: bool = False,
        multiple: PositiveInt = 1,
    ) -> None:
        self.n = n
        self.width = width
        self.mu = mu
        self.resolutions = None if resolutions is None else tuple(resolutions)
        self.smallest = smallest
        self.multiple = multiple

    def setup(self, flat: FlatModel) -> None:
        model = flat.model
        if not isinstance(model, Classifier):
            raise ConfigError(
                "local_loss: GradAug compares class probabilities of images at different "
                f"resolutions, which {type(model).__name__} does not give; use a classifier"
            )
        if model.image_size is not None and self.resolutions is not None:
            wrong = [side for side in self.resolutions if model.image_size != (side, side)]
            if wrong:
                raise ConfigError(
                    f"local_loss.resolutions: {type(model).__name__} takes "
                    f"{model.image_size} only, not {wrong}; set None for sub-networks at full "
                    "resolution, or use a network for any size"
                )
        self._slim = Slim(model, self.multiple, whole=[model.classifier])

    def loss(self, client: Client) -> Tensor:
        if self.mu == 0:
            return client.model_loss()
        outputs = client.model_layers()
        loss = total_loss(outputs)
        target = F.log_softmax(full_precision(outputs["logits"].detach()), dim=1)
        images = client.batch["inputs"]
        widths, sides = self._draw()
        for width, side in zip(widths, sides, strict=True):
            with self._slim.at(width):
                logits = client.model(_resize(images, side), mode="tensor")
            answer = F.log_softmax(full_precision(logits), dim=1)
            distance = F.kl_div(answer, target, reduction="batchmean", log_target=True)
            loss = loss + self.mu * distance
        return loss

    def _draw(self) -> tuple[list[float], list[int | None]]:
        """Widths and resolutions of this step's sub-networks, as numbers: drawn on the CPU."""
        parts = torch.rand(self.n, dtype=torch.float64, device="cpu")
        if self.smallest:
            parts[0] = 0
        widths = (self.width + (1 - self.width) * parts).tolist()
        if self.resolutions is None:
            return widths, [None] * self.n
        numbers = torch.randint(len(self.resolutions), (self.n,), device="cpu").tolist()
        return widths, [self.resolutions[number] for number in numbers]


def _resize(images: Tensor, side: int | None) -> Tensor:
    if side is None or images.shape[2:] == (side, side):
        return images
    return F.interpolate(images, (side, side), mode="bilinear", align_corners=True)
