"""What local losses require of a model; each raises ConfigError with the way out."""

from torch import nn

from fedseg.core.local_loss import LocalLoss
from fedseg.errors import ConfigError
from fedseg.models.segmentor import Segmentor


def require_segmentor(model: nn.Module, loss: LocalLoss) -> None:
    """Raise ConfigError unless the model is a Segmentor."""
    if not isinstance(model, Segmentor):
        raise ConfigError(
            f"local_loss: {type(loss).__name__} is for segmentation; use a model of type "
            f"Segmentor, which {type(model).__name__} is not, or another loss"
        )
