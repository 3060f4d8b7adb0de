"""U-Net (Ronneberger et al., MICCAI 2015) in 2-D, with few channels and normalization."""

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from fedseg.errors import DataError
from fedseg.models.segmentor import Segmentor
from fedseg.registry import MODELS

STRIDE = 16  # of the deepest features
NORMS = {
    "batch": nn.BatchNorm2d,
    "instance": nn.InstanceNorm2d,  # without scale, shift and running statistics
}


@MODELS.register_module()
class UNetSegmentor(Segmentor):
    """U-Net with widths 16, 32, 64, 128 and 256.

    Height and width of the images must be multiples of 16. For 2 classes there are 1,942,594
    parameters and 18 BatchNorm layers, with InstanceNorm 1,939,650 parameters and no buffers.

    Args:
        num_classes: C of the logits, the background included.
        norm: ``batch`` for BatchNorm, ``instance`` for InstanceNorm without scale and shift.
        kwargs: loss, data_preprocessor, weights, projection: see ``Segmentor``.
    """

    def __init__(
        self, num_classes: PositiveInt, norm: Literal["batch", "instance"] = "batch", **kwargs
    ) -> None:
        super().__init__(UNet(num_classes, norm), **kwargs)


class UNet(nn.Module):
    """The network of :class:`UNetSegmentor`.

    Attributes:
        feature_channels: of the decoder's last features.
    """

    feature_channels = 16

    def __init__(self, num_classes: int, norm: str) -> None:
        super().__init__()
        self.encoder1 = DoubleConv(3, 16, norm)
        self.encoder2 = DoubleConv(16, 32, norm)
        self.encoder3 = DoubleConv(32, 64, norm)
        self.encoder4 = DoubleConv(64, 128, norm)
        self.bottom = DoubleConv(128, 256, norm)
        self.decoder4 = UpConv(256, 128, norm)
        self.decoder3 = UpConv(128, 64, norm)
        self.decoder2 = UpConv(64, 32, norm)
        self.decoder1 = UpConv(32, 16, norm)
        self.classifier = nn.Conv2d(16, num_classes, 1)

    def forward(self, inputs: Tensor) -> dict[str, Tensor]:
        """Compute ``out``, logits [B, C, H, W], and ``features`` [B, 16, H, W].

        Args:
            inputs: normalized images, float [B, 3, H, W].

        Raises:
            DataError: H or W is no multiple of 16.
        """
        height, width = inputs.shape[-2:]
        if height % STRIDE or width % STRIDE:
            raise DataError(
                f"dataset.pipeline: height and width must be multiples of {STRIDE} for U-Net, not "
                f"{height} and {width}: end it with a resize, a crop or PadIfNeeded"
            )
        x1 = self.encoder1(inputs)  # [B, 16, H, W]
        x2 = self.encoder2(F.max_pool2d(x1, 2))  # [B, 32, H/2, W/2]
        x3 = self.encoder3(F.max_pool2d(x2, 2))  # [B, 64, H/4, W/4]
        x4 = self.encoder4(F.max_pool2d(x3, 2))  # [B, 128, H/8, W/8]
        x = self.bottom(F.max_pool2d(x4, 2))  # [B, 256, H/16, W/16]
        x = self.decoder4(x, x4)  # [B, 128, H/8, W/8]
        x = self.decoder3(x, x3)  # [B, 64, H/4, W/4]
        x = self.decoder2(x, x2)  # [B, 32, H/2, W/2]
        x = self.decoder1(x, x1)  # [B, 16, H, W]
        return {"out": self.classifier(x), "features": x}


class DoubleConv(nn.Sequential):
    """Two 3x3 convolutions, each with normalization and ReLU."""

    def __init__(self, in_channels: int, channels: int, norm: str) -> None:
        super().__init__(
            nn.Conv2d(in_channels, channels, 3, padding=1, bias=False),
            NORMS[norm](channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            NORMS[norm](channels),
            nn.ReLU(inplace=True),
        )


class UpConv(nn.Module):
    """Doubles the resolution by a 2x2 up-convolution and joins the encoder's features."""

    def __init__(self, in_channels: int, channels: int, norm: str) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(in_channels, channels, 2, stride=2)
        self.conv = DoubleConv(2 * channels, channels, norm)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        """Combine features [B, 2 C, h, w] and the encoder's [B, C, 2 h, 2 w]: [B, C, 2 h, 2 w]."""
        return self.conv(torch.cat([skip, self.up(x)], dim=1))
