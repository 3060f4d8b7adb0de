"""From a loader's uint8 batch to what a network takes: normalized, on its device, in its dtype."""

# before what imports MMEngine's optimizers itself
import fedseg.mmengine_optim  # noqa: F401, isort: skip

from collections.abc import Mapping, Sequence

import torch
from mmengine.model import BaseDataPreprocessor
from torch import Tensor

from fedseg.config.arguments import PositiveShare, Share
from fedseg.errors import DataError
from fedseg.registry import MODELS


@MODELS.register_module()
class ImagePreprocessor(BaseDataPreprocessor):
    """Normalize uint8 images: ``(x / 255 - mean) / std``, as one multiplication and one addition.

    It follows its model: after ``model.to(device)`` or ``model.double()`` results have that device
    and that float type. Constants are not part of the state dict.

    Args:
        mean: one number per channel (RGB), in units of 0..1.
        std: likewise.
    """

    def __init__(
        self,
        mean: Sequence[Share] = (0.5, 0.5, 0.5),
        std: Sequence[PositiveShare] = (0.5, 0.5, 0.5),
    ) -> None:
        super().__init__()
        if len(mean) != len(std):
            raise ValueError(f"mean {mean} and std {std} differ in length")
        self.mean = list(mean)
        self.std = list(std)
        # float64 until the model is cast, so that a float64 model gets exact constants.
        std64 = torch.tensor(std, dtype=torch.float64).view(-1, 1, 1)
        mean64 = torch.tensor(mean, dtype=torch.float64).view(-1, 1, 1)
        self._scale64 = 1 / (255 * std64)
        self._shift64 = -mean64 / std64
        dtype = torch.get_default_dtype()
        self.register_buffer("scale", self._scale64.to(dtype), persistent=False)
        self.register_buffer("shift", self._shift64.to(dtype), persistent=False)

    def _apply(self, fn, recurse: bool = True):
        super()._apply(fn, recurse)
        self.scale = self._scale64.to(self.scale)
        self.shift = self._shift64.to(self.shift)
        return self

    def forward(self, data: Mapping | Sequence, training: bool = False) -> dict[str, Tensor]:
        """Preprocess a batch.

        Args:
            data: ``dict(inputs=uint8 [B, 3, H, W] RGB, data_samples=integer labels)`` or the pair
                of them. Labels may be missing, or probabilities, which are left as they are.
            training: unused; the interface of MMEngine.

        Returns:
            ``dict(inputs=float, data_samples=int64)`` on the model's device.
        """
        if isinstance(data, Mapping):
            inputs, labels = data["inputs"], data.get("data_samples")
        else:
            inputs, labels = data
        if inputs.dtype != torch.uint8 or inputs.shape[1] != len(self.scale):
            raise DataError(
                f"inputs: expected uint8 [batch, {len(self.scale)}, height, width], got "
                f"{inputs.dtype} {list(inputs.shape)}: use another model.data_preprocessor"
            )
        device = self.scale.device
        inputs = inputs.to(device, non_blocking=True)
        inputs = (inputs * self.scale).add_(self.shift)
        # convolutions are fastest in these strides, which are cheaper to make after the arithmetic
        batch = {"inputs": inputs.contiguous(memory_format=torch.channels_last)}
        if labels is not None:
            labels = labels.to(device, non_blocking=True)
            batch["data_samples"] = labels if labels.is_floating_point() else labels.long()
        return batch
