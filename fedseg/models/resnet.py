"""Residual networks: ResNet18-GN, ResNet20-GN and ResNet56 for small images, ResNet18 for large.

Blocks are torchvision's, so their layers have its names (``conv1``, ``bn1``, ..., ``downsample``),
GroupNorm layers too. He et al. describe the networks (CVPR 2016; section 4.2 those for CIFAR).
"""

from collections.abc import Callable, Sequence

import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn
from torchvision.models import resnet as torchvision_resnet

from fedseg.config.arguments import PositiveShare
from fedseg.models.classifier import Classifier, group_norm
from fedseg.registry import MODELS

Norm = Callable[[int], nn.Module]


class Residual:
    """A block of torchvision whose two paths can be called separately.

    ``forward`` computes what torchvision's does: ``relu(residual(x) + shortcut(x))``. With
    stochastic depth it is ``relu(b residual(x) + shortcut(x))``, where b is 1 with probability
    ``keep``, else 0, drawn per batch in training, and ``b = keep`` otherwise (Huang et al., ECCV
    2016, equations 2 and 5).

    Attributes:
        keep: probability of keeping the residual path.
    """

    keep: float = 1.0

    def residual(self, x: Tensor) -> Tensor:
        """The path through the convolutions, before the sum."""
        raise NotImplementedError

    def shortcut(self, x: Tensor) -> Tensor:
        """The input, at the residual's size."""
        return x if self.downsample is None else self.downsample(x)

    def forward(self, x: Tensor) -> Tensor:
        out = self.residual(x)
        if self.keep < 1:
            # torchvision.ops has the other scaling: by 1 / keep in training
            out = out * (out.new_empty(1).bernoulli_(self.keep) if self.training else self.keep)
        out += self.shortcut(x)
        return self.relu(out)


class BasicBlock(Residual, torchvision_resnet.BasicBlock):
    """Two 3x3 convolutions."""

    def residual(self, x: Tensor) -> Tensor:
        x = self.relu(self.bn1(self.conv1(x)))
        return self.bn2(self.conv2(x))


class Bottleneck(Residual, torchvision_resnet.Bottleneck):
    """1x1, 3x3 and 1x1 convolutions; four times as many channels outside as inside."""

    def residual(self, x: Tensor) -> Tensor:
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        return self.bn3(self.conv3(x))


class PaddedShortcut(nn.Module):
    """A parameter-free shortcut: every ``stride``-th pixel, zeros for the added channels."""

    def __init__(self, out_channels: int, stride: int) -> None:
        super().__init__()
        self.out_channels, self.stride = out_channels, stride

    def forward(self, x: Tensor, out_channels: int | None = None) -> Tensor:
        x = x[:, :, :: self.stride, :: self.stride]
        return F.pad(x, (0, 0, 0, 0, 0, (out_channels or self.out_channels) - x.shape[1]))


class ResNet(Classifier):
    """A stem, stages of residual blocks, global average pooling, a linear layer.

    Every stage but the first halves the resolution in its first block. Convolutions are initialized
    as by He et al. (normal, fan out), norm layers and the linear layer as in PyTorch.

    Args:
        num_classes: C of the logits.
        block: class of the blocks.
        depths: blocks in each stage.
        widths: channels inside the blocks of each stage; the stem has the first number.
        norm: builds a norm layer from its number of channels.
        padded: parameter-free shortcuts (He's option A) instead of 1x1 convolutions with norm
            (option B).
        stem: the first convolution and what follows its norm; None: one of 3x3.
        stochastic_depth: probability p_L of keeping the residual path of the last of L blocks in a
            training step; block l has ``1 - l/L (1 - p_L)`` (Huang et al., ECCV 2016, equation 4).
            None keeps all. FedAlign's released code keeps the first block always and falls in L - 1
            steps; a dropped block is computed here, but has no gradient.
        kwargs: data_preprocessor, weights, projection: see ``Classifier``.

    Attributes:
        stem: images [B, 3, H, W] to [B, widths[0], H', W'].
        stages: one ``nn.Sequential`` of blocks each; the last block is ``stages[-1][-1]``.
    """

    layer_names = (*Classifier.layer_names, "last_stage_input", "last_stage_output")

    def __init__(
        self,
        num_classes: PositiveInt,
        block: type[BasicBlock] | type[Bottleneck],
        depths: Sequence[int],
        widths: Sequence[int],
        norm: Norm,
        padded: bool = False,
        stem: Sequence[nn.Module] | None = None,
        stochastic_depth: PositiveShare | None = None,
        **kwargs,
    ) -> None:
        super().__init__(num_classes, in_channels=3, **kwargs)
        channels = widths[0]
        first, *rest = stem or (nn.Conv2d(3, channels, 3, padding=1, bias=False),)
        self.stem = nn.Sequential(first, norm(channels), nn.ReLU(inplace=True), *rest)
        self.stages = nn.Sequential()
        for depth, width in zip(depths, widths, strict=True):
            blocks = nn.Sequential()
            for position in range(depth):
                stride = 2 if position == 0 and len(self.stages) > 0 else 1
                out = width * block.expansion
                shortcut = _shortcut(channels, out, stride, norm, padded)
                blocks.append(block(channels, width, stride, shortcut, norm_layer=norm))
                channels = out
            self.stages.append(blocks)
        for number, residual in enumerate(self.blocks, start=1):
            if stochastic_depth is not None:
                residual.keep = 1 - number / sum(depths) * (1 - stochastic_depth)
        self.add_head(channels)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    @property
    def blocks(self) -> list[Residual]:
        """Every residual block, from the first to the last."""
        return [block for stage in self.stages for block in stage]

    def features(self, inputs: Tensor) -> Tensor:
        """Mean over the last stage's pixels, float [B, D], or its projection."""
        return self.layers(inputs)["features"]

    def layers(self, inputs: Tensor) -> dict[str, Tensor]:
        """``features``, and the last stage's input [B, C', H', W'] and output [B, C, H'', W'']."""
        x = self.stem(inputs)
        *earlier_stages, last_stage = self.stages
        for stage in earlier_stages:
            x = stage(x)
        output = last_stage(x)
        return {
            "last_stage_input": x,
            "last_stage_output": output,
            "features": self.projection(output.mean((2, 3))),
        }


def _shortcut(
    in_channels: int, out_channels: int, stride: int, norm: Norm, padded: bool
) -> nn.Module | None:
    """The module that brings a block's input to its output's size; None if it has that size."""
    if stride == 1 and in_channels == out_channels:
        return None
    if padded:
        return PaddedShortcut(out_channels, stride)
    convolution = nn.Conv2d(in_channels, out_channels, 1, stride, bias=False)
    return nn.Sequential(convolution, norm(out_channels))


@MODELS.register_module()
class ResNet18(ResNet):
    """ResNet18 of He et al. for 224x224 images: a 7x7 stem and max-pooling, four stages.

    FedAlign (Mendieta et al., CVPR 2022, Table 7) trains it on 200 classes of ImageNet, with
    11,279,112 parameters; the table prints 11.22 million.

    Args:
        num_classes: C of the logits.
        groups: of GroupNorm in place of BatchNorm; None: BatchNorm.
        kwargs: stochastic_depth: see ``ResNet``; data_preprocessor, weights, projection: see
            ``Classifier``.
    """

    def __init__(
        self, num_classes: PositiveInt, groups: PositiveInt | None = None, **kwargs
    ) -> None:
        norm = nn.BatchNorm2d if groups is None else group_norm(groups)
        stem = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.MaxPool2d(3, 2, 1)
        widths = (64, 128, 256, 512)
        super().__init__(num_classes, BasicBlock, (2, 2, 2, 2), widths, norm, stem=stem, **kwargs)


@MODELS.register_module()
class ResNet18GN(ResNet):
    """ResNet18 with GroupNorm: four stages of two basic blocks, 64 to 512 channels.

    The flat-minima papers say "ResNet18, group norm with 2 groups" and give no stem. This is the
    usual one for 32x32 images, a 3x3 convolution with stride 1 and no max-pooling: 11,220,132
    parameters for 100 classes.

    Args:
        num_classes: C of the logits.
        groups: of every GroupNorm layer; must divide the channels.
        kwargs: stochastic_depth: see ``ResNet``; data_preprocessor, weights, projection: see
            ``Classifier``.
    """

    def __init__(self, num_classes: PositiveInt, groups: PositiveInt = 2, **kwargs) -> None:
        norm = group_norm(groups)
        super().__init__(num_classes, BasicBlock, (2, 2, 2, 2), (64, 128, 256, 512), norm, **kwargs)


@MODELS.register_module()
class ResNet20GN(ResNet):
    """ResNet20 for CIFAR with GroupNorm: three stages of three basic blocks, 16 to 64 channels.

    Shortcuts have no parameters (option A, which He et al. use for CIFAR): 269,722 parameters for
    10 classes.

    Args:
        num_classes: C of the logits.
        groups: of every GroupNorm layer; must divide the channels.
        kwargs: stochastic_depth: see ``ResNet``; data_preprocessor, weights, projection: see
            ``Classifier``.
    """

    def __init__(self, num_classes: PositiveInt, groups: PositiveInt = 2, **kwargs) -> None:
        norm = group_norm(groups)
        super().__init__(
            num_classes, BasicBlock, (3, 3, 3), (16, 32, 64), norm, padded=True, **kwargs
        )


@MODELS.register_module()
class ResNet56(ResNet):
    """ResNet56 of bottleneck blocks, as FedAlign (Mendieta et al., CVPR 2022) uses it for CIFAR.

    Three stages of six bottleneck blocks, 16, 32 and 64 channels inside and four times as many
    outside: 614,452 parameters for 100 classes. He's ResNet56 is another network, of basic blocks.

    Args:
        num_classes: C of the logits.
        groups: of GroupNorm in place of BatchNorm; None: BatchNorm.
        kwargs: stochastic_depth: see ``ResNet``; data_preprocessor, weights, projection: see
            ``Classifier``.
    """

    def __init__(
        self, num_classes: PositiveInt, groups: PositiveInt | None = None, **kwargs
    ) -> None:
        norm = nn.BatchNorm2d if groups is None else group_norm(groups)
        super().__init__(num_classes, Bottleneck, (6, 6, 6), (16, 32, 64), norm, **kwargs)
