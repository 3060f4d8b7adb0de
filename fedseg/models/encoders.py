"""Encoders of timm, with a linear head: for classes of images, and of pixels.

Nothing is downloaded: ``model.weights`` names a file, with timm's names or those of the project
that trained the encoder (DINOv2, ConvNeXt, EfficientNet-Lite). Its own classifier is left out.
"""

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from fedseg.errors import ConfigError
from fedseg.models.classifier import Classifier
from fedseg.registry import MODELS

# layers of EfficientNet-Lite's blocks: in its project's order, and timm's names
BLOCK = ("_expand_conv", "_bn0", "_depthwise_conv", "_bn1", "_project_conv", "_bn2")
WITH_EXPANSION = ("conv_pw", "bn1", "conv_dw", "bn2", "conv_pwl", "bn3")
WITHOUT = ("", "", "conv_dw", "bn1", "conv_pw", "bn2")
STEM = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2"}


class TimmEncoder:
    """Base of a network with an encoder of timm as ``backbone``."""

    backbone: nn.Module

    def add_backbone(self, encoder: str, options: Mapping[str, Any] | None) -> None:
        """Build the encoder, without its classifier, from random weights."""
        import timm  # takes seconds

        if not timm.is_model(encoder):
            raise ConfigError(
                f"model: timm has no encoder {encoder!r}: timm.list_models() names them"
            )
        if "checkpoint_path" in (options or {}):
            raise ConfigError("model.options: weights are named by model.weights")
        self.backbone = timm.create_model(
            encoder, pretrained=False, num_classes=0, **(options or {})
        )
        if not hasattr(self.backbone, "forward_intermediates"):
            raise ConfigError(f"model: {encoder} of timm gives no feature maps: take another one")
        info = self.backbone.feature_info
        last = info[-1] if isinstance(info, list) else info.info[-1]
        self.stride, self.channels = last["reduction"], last["num_chs"]

    def padded(self, inputs: Tensor) -> Tensor:
        """Images with zeros below and to the right, up to a multiple of the stride."""
        height, width = (-size % self.stride for size in inputs.shape[-2:])
        return F.pad(inputs, (0, width, 0, height)) if height or width else inputs

    def fit_weights(
        self, content: dict[str, Tensor]
    ) -> tuple[nn.Module, dict[str, Tensor], tuple[str, ...]]:
        """The purpose of a weights file, its tensors by name, and prefixes of its classifier.

        A checkpoint of such a network, whose names begin with ``backbone``, has nothing besides.
        """
        if any(name.startswith("backbone.") for name in content):
            return self, content, ()
        if "_conv_stem.weight" in content:
            content = _of_efficientnet_lite(content, self.backbone)
        module = import_module(type(self.backbone).__module__)
        if hasattr(module, "checkpoint_filter_fn"):
            content = module.checkpoint_filter_fn(content, self.backbone)
        parts = {name.partition(".")[0] for name in self.backbone.state_dict()}
        others = {name.partition(".")[0] for name in content} - parts
        classifier = self.backbone.pretrained_cfg.get("classifier") or ()
        names = [classifier] if isinstance(classifier, str) else classifier
        return self.backbone, content, tuple(f"{name}." for name in names) + tuple(others)


def _of_efficientnet_lite(content: Mapping[str, Tensor], backbone: nn.Module) -> dict[str, Tensor]:
    """The names of Google's EfficientNet in PyTorch as timm's."""
    blocks = [n for n, _ in backbone.named_modules() if re.fullmatch(r"blocks\.\d+\.\d+", n)]
    renamed = {}
    for name, tensor in content.items():
        match = re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", name)
        if match and int(match[1]) < len(blocks) and match[2] in BLOCK:
            expands = f"_blocks.{match[1]}._expand_conv.weight" in content
            layer = (WITH_EXPANSION if expands else WITHOUT)[BLOCK.index(match[2])]
            name = f"{blocks[int(match[1])]}.{layer}.{match[3]}"
        else:
            layer, _, kind = name.rpartition(".")
            name = f"{STEM.get(layer, layer)}.{kind}"
        renamed[name] = tensor
    return renamed


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

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits [B, C, h, w]; of images that were padded [B, C, H, W]."""
        padded = self.padded(inputs)
        (maps,) = self.backbone.forward_intermediates(
            padded, indices=1, norm=True, output_fmt="NCHW", intermediates_only=True
        )
        logits, (height, width) = self.head(maps), inputs.shape[-2:]
        if padded is inputs:
            return logits
        return F.interpolate(logits, padded.shape[-2:], mode="bilinear")[..., :height, :width]
