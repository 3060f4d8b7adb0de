"""Segmentation networks of torchvision, by name."""

from pydantic import PositiveInt
from torch import nn
from torchvision.models import get_model

from fedseg.registry import MODELS


@MODELS.register_module()
def TorchvisionSegmentation(
    name: str, num_classes: PositiveInt, aux_loss: bool = False
) -> nn.Module:
    """Build e.g. ``deeplabv3_resnet50`` or ``lraspp_mobilenet_v3_large``, randomly initialized.

    Args:
        name: one of ``torchvision.models.list_models(module=torchvision.models.segmentation)``.
        num_classes: C of the logits.
        aux_loss: with the auxiliary head, where the network has one.
    """
    options = {"aux_loss": True} if aux_loss else {}
    return get_model(name, weights=None, weights_backbone=None, num_classes=num_classes, **options)
