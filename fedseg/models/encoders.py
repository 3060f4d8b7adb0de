"""Encoders of timm, with a linear head: for classes of images, and of pixels.

They start from random weights, from timm's pretrained ones (``options=dict(pretrained=True)``), or
from a file with timm's names: ``model.weights=dict(path=..., module="backbone")``. ``fedseg prepare
weights`` writes such a file from those of other projects.
"""

from collections.abc import Mapping
from typing import Any

import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from fedseg.errors import ConfigError
from fedseg.models.classifier import Classifier
from fedseg.registry import MODELS


class TimmEncoder:
    """Base of a network with an encoder of timm as ``backbone``."""

    backbone: nn.Module

    def add_backbone(self, encoder: str, options: Mapping[str, Any] | None) -> None:
        """Build the encoder, without its classifier, with random or timm's pretrained weights."""
        import timm  # takes seconds

        options = options or {}
        if not timm.is_model(encoder):
            raise ConfigError(
                f"model: timm has no encoder {encoder!r}: timm.list_models() names them"
            )
        if "checkpoint_path" in options:
            raise ConfigError("model.options: weights are named by model.weights")
        self.backbone = timm.create_model(encoder, num_classes=0, **options)
        # MMEngine's init_weights draws the weights of layers that are not initialized
        self.backbone.is_init = bool(options.get("pretrained"))
        if not hasattr(self.backbone, "forward_intermediates"):
            raise ConfigError(f"model: {encoder} of timm gives no feature maps: take another one")
        info = self.backbone.feature_info
        last_stage = info[-1] if isinstance(info, list) else info.info[-1]
        self.stride = last_stage["reduction"]
        self.channels = last_stage["num_chs"]

    def padded(self, inputs: Tensor) -> Tensor:
        """Images with zeros below and to the right, up to a multiple of the stride."""
        height, width = inputs.shape[-2:]
        below = -height % self.stride
        right = -width % self.stride
        if below == 0 and right == 0:
            return inputs
        return F.pad(inputs, (0, right, 0, below))


@MODELS.register_module()
class TimmClassifier(TimmEncoder, Classifier):
    """Classes of images: a linear layer on what the encoder pools.

    That is the class token of a ViT where it has one, else the mean over all pixels. Images of any
    size: they are padded to a multiple of the encoder's stride (a ViT's patch).

    Args:
        num_classes: C of the logits.
        encoder: a model of timm.
        options: its further arguments.
        groups: None: encoders have none; it replaces a network's that has.
        kwargs: data_preprocessor, weights, pretrained, projection: see ``Classifier``.
    """

    def __init__(
        self,
        num_classes: PositiveInt,
        encoder: str,
        options: Mapping[str, Any] | None = None,
        groups: None = None,
        **kwargs,
    ) -> None:
        super().__init__(num_classes, in_channels=3, **kwargs)
        self.add_backbone(encoder, options)
        self.add_head(self.backbone.num_features)

    def features(self, inputs: Tensor) -> Tensor:
        """The encoder's pooled activations, float [B, D], or their projection."""
        maps = self.backbone.forward_features(self.padded(inputs))
        return self.projection(self.backbone.forward_head(maps, pre_logits=True))


@MODELS.register_module()
class TimmSegmentation(TimmEncoder, nn.Module):
    """Classes of pixels: a linear layer on each of the encoder's last activations.

    A ViT has one for every patch. Images of any size: they are padded to a multiple of the stride
    (a ViT's patch), and the logits cut to the image.

    Args:
        encoder: a model of timm with ``forward_intermediates``.
        num_classes: C of the logits.
        options: further arguments of timm's.
        pretrained: the weights it is meant to start from, in words; to train without any is warned
            of.
    """

    def __init__(
        self,
        encoder: str,
        num_classes: PositiveInt,
        options: Mapping[str, Any] | None = None,
        pretrained: str | None = None,
    ) -> None:
        super().__init__()
        self.pretrained = pretrained
        self.add_backbone(encoder, options)
        # what comes after the last feature map would have no gradient
        self.backbone.prune_intermediate_layers(1, prune_norm=False, prune_head=True)
        self.head = nn.Conv2d(self.channels, num_classes, 1)
        self.feature_channels = self.channels

    def forward(self, inputs: Tensor) -> dict[str, Tensor]:
        """Logits ``out`` [B, C, h, w], of padded images [B, C, H, W]; ``features`` [B, D, h, w]."""
        padded = self.padded(inputs)
        (maps,) = self.backbone.forward_intermediates(
            padded, indices=1, norm=True, output_fmt="NCHW", intermediates_only=True
        )
        logits = self.head(maps)
        if padded is not inputs:
            height, width = inputs.shape[-2:]
            logits = F.interpolate(logits, padded.shape[-2:], mode="bilinear")
            logits = logits[..., :height, :width]
        return {"out": logits, "features": maps}
