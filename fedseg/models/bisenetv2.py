"""BiSeNetV2 (Yu et al., IJCV 2021) with its four auxiliary heads."""

from fedseg.models.segmentor import Segmentor
from fedseg.registry import MODELS

# Input and inner channels of the auxiliary head behind each semantic stage (1/4 to 1/32).
AUXILIARY_CHANNELS = ((16, 16), (32, 64), (64, 256), (128, 1024))


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
        self, num_classes: int, dropout: float = 0.1, auxiliary: bool = True, **kwargs
    ) -> None:
        super().__init__(bisenetv2_config(num_classes, dropout, auxiliary), **kwargs)


def bisenetv2_config(num_classes: int, dropout: float, auxiliary: bool) -> dict:
    """MMSegmentation's config of the network."""

    def head(in_index: int, in_channels: int, channels: int, num_convs: int) -> dict:
        return {
            "type": "FCNHead",
            "in_index": in_index,
            "in_channels": in_channels,
            "channels": channels,
            "num_convs": num_convs,
            "num_classes": num_classes,
            "out_channels": num_classes,
            "dropout_ratio": dropout,
            "concat_input": False,
            "norm_cfg": {"type": "BN"},
            "align_corners": False,
        }

    return {
        "type": "EncoderDecoder",
        "backbone": {"type": "BiSeNetV2"},
        "decode_head": head(0, 128, 1024, num_convs=1),
        "auxiliary_head": [
            head(stage, in_channels, channels, num_convs=2)
            for stage, (in_channels, channels) in enumerate(AUXILIARY_CHANNELS, start=1)
        ]
        if auxiliary
        else None,
    }
