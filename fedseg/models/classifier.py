"""The base of image classifiers."""

from collections.abc import Callable, Sequence

import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from fedseg.errors import DataError, is_system_error
from fedseg.memory import finite
from fedseg.models.weights import InitializedModel


class Classifier(InitializedModel):
    """Base of image classifiers: logits are ``classifier(features(inputs))``.

    A subclass implements ``features`` and calls ``add_head``. Layers are initialized as PyTorch
    does unless the subclass says otherwise.

    Args:
        num_classes: C of the logits.
        in_channels: channels of the images.
        image_size: (H, W) that the architecture requires; None takes any.
        data_preprocessor: config or module, for loaders that give uint8 images. None passes batches
            on as they are (to the model's device).
        weights: a local file of weights to start from (see ``WeightsFile``): its path, or
            ``dict(path=..., module=..., ignore=...)``.
        pretrained: the weights that published runs start from, in words, e.g. ``"ImageNet"``; to
            train without any is warned of.
        projection: widths of linear layers, ReLU in between, after the network's last activations:
            their output is what ``features`` returns. ``(256, 256)`` is MOON's projection head (Li
            et al., CVPR 2021, section 3.3). None: no such layers.

    Attributes:
        projection: these layers, the identity without any.
        classifier: the last layer, [B, D] to [B, C].
        layer_names: what ``mode="layers"`` returns besides the loss.
    """

    layer_names = ("features", "logits")

    projection: nn.Module
    classifier: nn.Linear

    def __init__(
        self,
        num_classes: PositiveInt,
        in_channels: int = 3,
        image_size: Sequence[int] | None = None,
        data_preprocessor: dict | nn.Module | None = None,
        weights: str | dict | None = None,
        projection: Sequence[PositiveInt] | None = None,
        init_cfg: dict | None = None,
        pretrained: str | None = None,
    ) -> None:
        super().__init__(data_preprocessor, weights, init_cfg, pretrained)
        self.num_classes = num_classes
        self.in_channels = in_channels
        self.image_size = None if image_size is None else tuple(image_size)
        self._projection_widths = projection or ()

    def add_head(self, width: int) -> None:
        """Add ``projection`` and ``classifier`` on top of ``width`` activations of an image."""
        layers: list[nn.Module] = []
        for out in self._projection_widths:
            if layers:
                layers.append(nn.ReLU(inplace=True))
            layers.append(nn.Linear(width, out))
            width = out
        self.projection = nn.Sequential(*layers) if layers else nn.Identity()
        self.classifier = nn.Linear(width, self.num_classes)

    def features(self, inputs: Tensor) -> Tensor:
        """Activations before the last layer, through the projection, float [B, D]."""
        raise NotImplementedError

    def layers(self, inputs: Tensor) -> dict[str, Tensor]:
        """``features`` by their name, and what else of the network local losses read."""
        return {"features": self.features(inputs)}

    def forward(
        self, inputs: Tensor, data_samples: Tensor | None = None, mode: str = "tensor"
    ) -> dict[str, Tensor] | Tensor:
        """Loss, classes, logits or layers.

        Args:
            inputs: normalized images, float [B, in_channels, H, W].
            data_samples: class ids, int64 [B], or class probabilities, float [B, C] (mixup).
            mode: ``loss``: ``dict(loss=...)``, the mean cross-entropy, a scalar; ``predict``: class
                ids, int64 [B], the first of equals; ``tensor``: logits [B, C]; ``layers``: a dict
                of :meth:`layers`, ``logits`` and, if there are labels, ``loss``.
        """
        if mode == "layers":
            return self._loss_and_layers(inputs, data_samples)
        (logits,) = outputs = self.outputs(inputs)
        if mode == "loss":
            return self.losses(outputs, data_samples)
        if mode == "predict":
            return finite(logits).argmax(dim=1)
        if mode == "tensor":
            return logits
        raise ValueError(f"mode {mode!r} is none of 'loss', 'predict', 'tensor', 'layers'")

    def _loss_and_layers(self, inputs: Tensor, labels: Tensor | None) -> dict[str, Tensor]:
        self._check_inputs(inputs)
        layers = self.layers(inputs)
        logits = self.classifier(layers["features"])
        losses = {} if labels is None else self.losses([logits], labels)
        return {**losses, **layers, "logits": logits}

    def outputs(self, inputs: Tensor) -> list[Tensor]:
        """The logits [B, C], alone in a list: a segmentation network has several outputs."""
        self._check_inputs(inputs)
        return [self.classifier(self.features(inputs))]

    def losses(self, outputs: Sequence[Tensor], labels: Tensor | None) -> dict[str, Tensor]:
        """The loss of :meth:`forward` from its outputs."""
        logits = outputs[0]
        try:  # labels are checked only when they fail, so that no step waits for the device
            return {"loss": F.cross_entropy(logits, labels)}
        except (IndexError, RuntimeError, TypeError, ValueError) as error:
            if is_system_error(error):
                raise
            kind = "missing" if labels is None else f"{labels.dtype} {list(labels.shape)}"
            raise DataError(
                f"data_samples: {error} Labels are {kind}, logits {list(logits.shape)}: give int64 "
                "class ids or probabilities, and set model.num_classes to the data set's number"
            ) from error

    def _check_inputs(self, inputs: Tensor) -> None:
        shape = inputs.shape
        expected = self.in_channels, *(shape[2:] if self.image_size is None else self.image_size)
        if len(shape) != 4 or shape[1:] != expected or not inputs.is_floating_point():
            height, width = self.image_size or ("height", "width")
            raise DataError(
                f"inputs: {type(self).__name__} takes float images [batch, {self.in_channels}, "
                f"{height}, {width}], not {inputs.dtype} {list(shape)}: change transforms or model"
            )


def group_norm(groups: int) -> Callable[[int], nn.GroupNorm]:
    """A function from number of channels to GroupNorm layer, torchvision's ``norm_layer``."""

    def build(channels: int) -> nn.GroupNorm:
        if channels % groups:
            raise ValueError(f"groups: {groups} does not divide a layer's {channels} channels")
        return nn.GroupNorm(groups, channels)

    return build
