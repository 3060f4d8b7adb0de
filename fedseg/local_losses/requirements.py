"""What local losses require of a model; each raises ConfigError with the way out."""

from collections.abc import Sequence

from torch import nn

from fedseg.core.local_loss import LocalLoss
from fedseg.errors import ConfigError
from fedseg.models.segmentor import Segmentor


def require_layers(model: nn.Module, loss: LocalLoss, names: Sequence[str], instead: str) -> None:
    """Raise ConfigError unless the model returns these layers from ``forward(mode="layers")``.

    Args:
        instead: what to use if the model cannot, for the message.
    """
    returned = getattr(model, "layer_names", ())
    for name in names:
        if name not in returned:
            raise ConfigError(
                f"local_loss: {type(loss).__name__} reads the layer {name!r}, which "
                f"{type(model).__name__} does not return: let forward(mode='layers') return it and "
                f"add it to layer_names, or use {instead} or another loss"
            )


def require_segmentor(model: nn.Module, loss: LocalLoss) -> Segmentor:
    """The model; ConfigError unless it is a Segmentor."""
    if not isinstance(model, Segmentor):
        raise ConfigError(
            f"local_loss: {type(loss).__name__} is for segmentation; use a model of type "
            f"Segmentor, which {type(model).__name__} is not, or another loss"
        )
    return model


def require_pixel_features(model: Segmentor, loss: LocalLoss) -> None:
    """Raise ConfigError unless the model returns its decoder's features."""
    if "pixel_features" not in model.layer_names:
        raise ConfigError(
            f"local_loss: {type(loss).__name__} compares the decoder's features, which "
            f"{type(model.network).__name__} does not return: let its forward return "
            "dict(out=logits, features=features) and set its attribute feature_channels"
        )
