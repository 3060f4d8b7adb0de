"""BiSeNetV2 (Yu et al., IJCV 2021) as in MMSegmentation, and with FedDrive's heads."""

# before what imports MMEngine's optimizers itself
import fedseg.mmengine_optim  # noqa: F401, isort: skip

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from mmcv.cnn import ConvModule
from mmengine.model import kaiming_init
from mmseg.models.backbones.bisenetv2 import BGALayer, BiSeNetV2, GELayer
from mmseg.models.decode_heads.decode_head import BaseDecodeHead
from pydantic import PositiveInt
from torch import Tensor, nn

from fedseg.config.arguments import Share
from fedseg.models.segmentor import Segmentor
from fedseg.registry import MODELS

# Input and inner channels and convolutions of the main head, then of the auxiliary head behind each
# semantic stage (1/4 to 1/32).
MMSEG_HEADS = ((128, 1024, 1), (16, 16, 2), (32, 64, 2), (64, 256, 2), (128, 1024, 2))
# FedDrive's: input and inner channels, and how far the head upsamples.
FEDDRIVE_HEADS = ((128, 1024, 8), (16, 128, 4), (32, 128, 8), (64, 128, 16), (128, 128, 32))


@MODELS.register_module()
class BiSeNetV2Segmentor(Segmentor):
    """BiSeNetV2 from MMSegmentation.

    Main logits are at 1/8 of the input's size, auxiliary ones at 1/4, 1/8, 1/16 and 1/32. In
    training a batch needs two images or more: the context block pools to 1x1, and BatchNorm has
    nothing to normalize over in a batch of one.

    With all heads there are 62 BatchNorm layers: 8 in the detail branch, 40 in the semantic branch,
    5 in the aggregation layer, 1 in the main head and 2 in each auxiliary head.

    Args:
        num_classes: C of the logits.
        dropout: probability of dropping a channel before the classifier of each head.
        auxiliary: train with the four auxiliary heads.
        kwargs: loss, aux_weight, data_preprocessor, weights: see ``Segmentor``.
    """

    def __init__(
        self, num_classes: PositiveInt, dropout: Share = 0.1, auxiliary: bool = True, **kwargs
    ) -> None:
        heads = []
        for in_channels, channels, num_convs in MMSEG_HEADS:
            heads.append(
                dict(
                    type="FCNHead",
                    in_channels=in_channels,
                    channels=channels,
                    num_convs=num_convs,
                    concat_input=False,
                )
            )
        network = bisenetv2_config("BiSeNetV2", heads, num_classes, dropout, auxiliary)
        super().__init__(network, **kwargs)


def bisenetv2_config(
    backbone: str | type, heads: Sequence[dict], num_classes: int, dropout: float, auxiliary: bool
) -> dict:
    """MMSegmentation's config of a network whose main head and four auxiliary ones are given."""
    common = {
        "num_classes": num_classes,
        "out_channels": num_classes,
        "dropout_ratio": dropout,
        "norm_cfg": {"type": "BN"},
    }
    main, *auxiliary_heads = [
        {**common, **head, "in_index": index} for index, head in enumerate(heads)
    ]
    return {
        "type": "EncoderDecoder",
        "backbone": {"type": backbone},
        "decode_head": main,
        "auxiliary_head": auxiliary_heads if auxiliary else None,
    }


@MODELS.register_module()
class FedDriveBiSeNetV2Segmentor(Segmentor):
    """BiSeNetV2 (Yu et al., IJCV 2021) as in FedDrive (Fantauzzo et al., IROS 2022).

    Every head's logits have the images' size if that is divisible by 32; of another size they are
    up to 31 pixels larger, and the loss and predictions resize them. In training a batch needs two
    images or more, as for ``BiSeNetV2Segmentor``.

    With all heads there are 58 BatchNorm layers (53 in the backbone) and 7,473,296 parameters for
    16 classes. Convolutions start from Kaiming's normal distribution by their fan out; the last
    BatchNorm scale of each gather-and-expansion layer starts at 0, as in the released code.

    Args:
        num_classes: C of the logits.
        dropout: probability of dropping an activation before the classifier of each head.
        auxiliary: train with the four auxiliary heads.
        align_corners: of predictions, which FedDrive resizes from 512x928 to 1024x1856.
        kwargs: loss, aux_weight, data_preprocessor, weights: see ``Segmentor``.
    """

    def __init__(
        self,
        num_classes: PositiveInt,
        dropout: Share = 0.1,
        auxiliary: bool = True,
        align_corners: bool = True,
        **kwargs,
    ) -> None:
        heads = []
        for in_channels, channels, up in FEDDRIVE_HEADS:
            head = dict(type=PixelShuffleHead, in_channels=in_channels, channels=channels, up=up)
            heads.append(head)
        network = bisenetv2_config(FedDriveBiSeNetV2, heads, num_classes, dropout, auxiliary)
        super().__init__(network, align_corners=align_corners, **kwargs)


@MODELS.register_module()
class FedDriveBiSeNetV2(BiSeNetV2):
    """MMSegmentation's backbone with FedDrive's aggregation of the two branches.

    Args:
        kwargs: see ``BiSeNetV2`` of MMSegmentation.
    """

    def __init__(self, **kwargs) -> None:
        super().__init__(**kwargs)
        self.bga = FedDriveAggregation(self.bga_channels)

    def init_weights(self) -> None:
        super().init_weights()
        for layer in self.modules():
            if isinstance(layer, GELayer):  # starts as the identity
                nn.init.zeros_(layer.conv2[0].bn.weight)


class FedDriveAggregation(BGALayer):
    """Bilateral guided aggregation; resized with aligned corners, no bias in 1x1 convolutions."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        for branch in (self.detail_dwconv, self.semantic_dwconv):
            branch[0].pointwise_conv.conv.bias = None

    def forward(self, detail: Tensor, semantic: Tensor) -> Tensor:
        """Features [B, C, h, w] of the detail branch, guided by the semantic branch's at h/4, w/4.

        MMSegmentation's own computation, written out: its ``resize`` warns of aligned corners in
        every step.
        """
        guide = _resize(self.semantic_conv(semantic), detail.shape[-2:])
        fine = self.detail_dwconv(detail) * torch.sigmoid(guide)
        coarse = self.detail_down(detail) * torch.sigmoid(self.semantic_dwconv(semantic))
        return self.conv(fine + _resize(coarse, detail.shape[-2:]))


def _resize(features: Tensor, size: torch.Size) -> Tensor:
    """Features [B, C, h, w] at ``size``, bilinear with aligned corners."""
    return F.interpolate(features, size, mode="bilinear", align_corners=True)


@MODELS.register_module()
class PixelShuffleHead(BaseDecodeHead):
    """Convolution 3x3, BatchNorm, ReLU, dropout, convolution 1x1 and PixelShuffle.

    Features [B, in_channels, h, w] become logits [B, num_classes, up h, up w].

    Args:
        up: factor of the upsampling.
        kwargs: in_channels, channels, num_classes, norm_cfg and others of ``BaseDecodeHead``.
    """

    def __init__(self, up: int, **kwargs) -> None:
        super().__init__(init_cfg=None, **kwargs)
        self.conv = ConvModule(
            self.in_channels,
            self.channels,
            3,
            padding=1,
            bias=False,
            norm_cfg=self.norm_cfg,
            act_cfg=self.act_cfg,
        )
        self.dropout = nn.Dropout(self.dropout_ratio)  # MMSegmentation's drops whole channels
        self.conv_seg = nn.Conv2d(self.channels, self.num_classes * up**2, 1)
        kaiming_init(self.conv_seg)  # here: EncoderDecoder initializes no auxiliary head
        self.shuffle = nn.PixelShuffle(up)

    def forward(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """Logits, from the backbone's features of all stages."""
        return self.shuffle(self.cls_seg(self.conv(self._transform_inputs(inputs))))
