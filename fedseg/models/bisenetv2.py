"""BiSeNetV2 (Yu et al., IJCV 2021) with its four auxiliary heads."""

from collections.abc import Sequence

from pydantic import PositiveInt

from fedseg.config.schema import Share
from fedseg.models.segmentor import Segmentor
from fedseg.registry import MODELS

# Input and inner channels and convolutions of the main head, then of the auxiliary head behind each
# semantic stage (1/4 to 1/32).
HEADS = ((128, 1024, 1), (16, 16, 2), (32, 64, 2), (64, 256, 2), (128, 1024, 2))


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
        heads = [
            dict(type="FCNHead", in_channels=i, channels=c, num_convs=n, concat_input=False)
            for i, c, n in HEADS
        ]
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
    main, *others = ({**common, **head, "in_index": i} for i, head in enumerate(heads))
    return {
        "type": "EncoderDecoder",
        "backbone": {"type": backbone},
        "decode_head": main,
        "auxiliary_head": others if auxiliary else None,
    }
