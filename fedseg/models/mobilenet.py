"""MobileNetV2 (Sandler et al., CVPR 2018) with GroupNorm, for images of about 224x224."""

from pydantic import PositiveInt
from torch import Tensor, nn
from torchvision.models import mobilenet_v2

from fedseg.models.classifier import Classifier, group_norm
from fedseg.registry import MODELS


@MODELS.register_module()
class MobileNetV2GN(Classifier):
    """torchvision's MobileNetV2 of width 1 with GroupNorm; no layer between pooling and classifier.

    4,821,740 parameters for 2,028 classes. To start from a checkpoint of this network that was
    trained on other classes, whose classifier is left out (``configs/settings/imagenet_*.py``)::

        weights=dict(path="round_000300.pth", module="backbone")

    Or from torchvision's ``mobilenet_v2-*.pth``, which is made for BatchNorm: its scales and shifts
    go into GroupNorm, its running statistics are skipped::

        weights=dict(path="mobilenet_v2.pth", module="backbone", ignore=("classifier.",))

    Args:
        num_classes: C of the logits.
        groups: of every GroupNorm layer; must divide the channels.
        kwargs: data_preprocessor, weights, pretrained, projection: see ``Classifier``.

    Attributes:
        backbone: torchvision's network without its classifier. ``backbone.features`` are the stem,
            17 inverted residual blocks and the last 1x1 convolution, one after another.
    """

    def __init__(self, num_classes: PositiveInt, groups: PositiveInt = 8, **kwargs) -> None:
        super().__init__(num_classes, in_channels=3, **kwargs)
        self.backbone = mobilenet_v2(norm_layer=group_norm(groups))
        self.add_head(self.backbone.last_channel)
        self.backbone.classifier = nn.Identity()

    def features(self, inputs: Tensor) -> Tensor:
        """Mean over the last pixels, float [B, 1280], or its projection."""
        return self.projection(self.backbone(inputs))
