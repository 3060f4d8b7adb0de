"""A segmentation network with its loss: the model of a federated run."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict
from typing import Any

import torch
import torch.nn.functional as F
from mmengine.config import ConfigDict
from pydantic import PositiveInt
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torchvision.models import get_model
from torchvision.models.segmentation import FCN, DeepLabV3

from fedseg.config.arguments import NonNegative
from fedseg.errors import ConfigError
from fedseg.memory import finite
from fedseg.models.losses import compute_dtype
from fedseg.models.network_options import Windows, check_network, read_windows
from fedseg.models.weights import InitializedModel
from fedseg.names import ERASED
from fedseg.registry import MODELS, build


@MODELS.register_module()
class Segmentor(InitializedModel):
    """Any segmentation network, trained with one loss on its main and auxiliary outputs.

    The network is the config of an ``EncoderDecoder`` of MMSegmentation (whose ``test_cfg`` may be
    sliding windows, and which has no loss of its own), or any module that maps images
    [B, 3, H, W] to logits [B, C, h, w]: alone, as a sequence with the main output first, or as a
    mapping whose entry ``out`` is the main one (torchvision). Logits of any resolution are resized
    bilinearly.

    Local losses that compare pixels read the decoder's features. Of an EncoderDecoder these are
    what comes out of BiSeNetV2's aggregation layer or into the main head's last convolution, of
    torchvision's DeepLabV3 and FCN what comes into their last convolution. Any other network
    returns them as the entry ``features`` [B, D, h', w'] of its mapping, and has D as its attribute
    ``feature_channels``.

    Args:
        network: config or module; in a config file also the path of a config of MMSegmentation, or
            its name in the installed one, ``mmseg::pspnet/pspnet_r50-d8_4xb2-40k_....py``, whose
            layers, ``test_cfg``, mean and std are taken.
        loss: config or module, called with logits and labels [B, H, W]. One with an attribute
            ``resizes = True`` gets logits as the network made them, any other at the labels' size.
        num_classes: written into the network's config (into every head of an EncoderDecoder). None
            leaves the config as it is.
        aux_weight: weight of each auxiliary loss; the main one has weight 1.
        align_corners: whether predictions are resized with aligned corners.
        data_preprocessor: config or module.
        weights: a local file of weights to start from (see ``WeightsFile``): its path, or
            ``dict(path=..., module=..., ignore=...)``.
        projection: widths of 1x1 convolutions, ReLU in between, that embed the decoder's features
            for local losses which compare pixels; FedSeg's are (128, 256). None: no such layers.
        recompute_losses: compute each output's loss a second time in the backward pass instead of
            keeping its logits at the labels' size. Less memory, more time, the same gradients.

    Attributes:
        layer_names: what ``mode="layers"`` returns besides the loss.
    """

    def __init__(
        self,
        network: dict | nn.Module,
        loss: dict | nn.Module = {"type": "OHEMCrossEntropy"},  # noqa: B006 (never changed)
        num_classes: PositiveInt | None = None,
        aux_weight: NonNegative = 1.0,
        align_corners: bool = False,
        data_preprocessor: dict | nn.Module | None = None,
        weights: str | dict | None = None,
        init_cfg: dict | None = None,
        projection: Sequence[PositiveInt] | None = None,
        recompute_losses: bool = False,
    ) -> None:
        super().__init__(data_preprocessor or {"type": "ImagePreprocessor"}, weights, init_cfg)
        self.network_config = None
        windows = Windows()
        if isinstance(network, Mapping):
            if "decode_head" in network:
                check_network(network)
                windows = read_windows(network)
            self.network_config = _with_num_classes(network, num_classes)
            network = build(MODELS, deepcopy(self.network_config), "model.network")
        if self._weights is None:
            self.lacks = getattr(network, "pretrained", None)
        self.network = network
        self.criterion = build(MODELS, loss, "model.loss", base=nn.Module)
        self.aux_weight = aux_weight
        self.align_corners = align_corners
        self.recompute_losses = recompute_losses
        self._heads = _heads_of(network)
        if self._heads:
            network.test_cfg = ConfigDict(asdict(windows))  # which its slide_inference reads
        self._has_aggregation = bool(self._heads) and _begins_with_aggregation(network)
        self.slides = windows.mode == "slide"
        channels = _feature_channels(network, bool(self._heads))
        self.layer_names = ("logits",) if channels is None else ("logits", "pixel_features")
        if projection and channels is None:
            raise ConfigError(
                f"model.projection: embeds the decoder's features, which {type(network).__name__} "
                "does not return: let its forward return dict(out=logits, features=features) and "
                "set its attribute feature_channels, or leave the projection out"
            )
        # a head: optimizer options by name, such as FedSeg's rate of heads, are for it, too
        self.projection_head = _projection(channels, projection or ())
        # A hook from the beginning is a part of what torch.compile compiles.
        self._keeps_features = False
        self._kept_features: Tensor | None = None
        last_convolution = _last_convolution(network, bool(self._heads))
        if last_convolution is not None:
            last_convolution.register_forward_pre_hook(self._keep_features)

    @property
    def projection(self) -> nn.Module:
        """Embeds the decoder's features."""
        return self.projection_head

    @property
    def weights_target(self) -> nn.Module:
        return self.network

    def forward(
        self, inputs: Tensor, data_samples: Tensor | None = None, mode: str = "tensor"
    ) -> dict[str, Tensor] | Tensor:
        """Losses, class maps, logits or layers.

        Args:
            inputs: normalized images, float [B, 3, H, W].
            data_samples: labels, int64 [B, H', W'].
            mode: ``loss``: ``dict(loss_main, loss_aux1, ...)`` of scalars, weighted, to be summed;
                ``predict``: int64 class map [B, H', W'] (H x W without labels);
                ``tensor``: main logits at that size, float; ``layers``: the dict of
                :meth:`layers`, and the losses if there are labels.
        """
        if mode == "loss":
            return self.losses(self.outputs(inputs), data_samples)
        if mode == "layers":
            layers = self.layers(inputs)
            losses = {} if data_samples is None else self.losses(layers["logits"], data_samples)
            return {**losses, **layers}
        size = (inputs if data_samples is None else data_samples).shape[-2:]
        if mode == "predict":
            return class_map(self._main_logits(inputs), size, self.align_corners)
        if mode == "tensor":
            return resize(self._main_logits(inputs), size, self.align_corners)
        raise ValueError(f"mode {mode!r} is none of 'loss', 'predict', 'tensor', 'layers'")

    def layers(self, inputs: Tensor, auxiliary: bool = True) -> dict[str, Any]:
        """``logits``, the list of :meth:`outputs`, and ``pixel_features`` [B, D, h', w'].

        The features, the decoder's, are missing where the network does not return them.
        """
        self._keeps_features = True
        logits, features = self._logits_and_features(inputs, auxiliary)
        self._keeps_features = False
        if self._kept_features is not None:
            features, self._kept_features = self._kept_features, None
        if "pixel_features" not in self.layer_names:
            return {"logits": logits}
        if features is None:
            raise ConfigError(
                f"model.network: {type(self.network).__name__} has feature_channels, and its "
                "forward must return dict(out=logits, features=features)"
            )
        return {"logits": logits, "pixel_features": features}

    def outputs(self, inputs: Tensor, auxiliary: bool = True) -> list[Tensor]:
        """Logits as the network makes them, [B, C, h, w] each, the main output first.

        Args:
            inputs: normalized images, float [B, 3, H, W].
            auxiliary: also compute auxiliary heads (for an EncoderDecoder; other networks decide).
        """
        logits, _ = self._logits_and_features(inputs, auxiliary)
        return logits

    def _logits_and_features(
        self, inputs: Tensor, auxiliary: bool
    ) -> tuple[list[Tensor], Tensor | None]:
        """All logits, and the decoder's features if they are among what the network returns."""
        if not self._heads:
            output = self.network(inputs)
            features = output.get("features") if isinstance(output, Mapping) else None
            return _outputs_of(output), features
        maps = self.network.extract_feat(inputs)
        heads = self._heads if auxiliary else self._heads[:1]
        logits = [head(maps) for head in heads]
        return logits, maps[0] if self._has_aggregation else None

    def _keep_features(self, _layer: nn.Module, inputs: tuple[Tensor]) -> None:
        if self._keeps_features:
            self._kept_features = inputs[0]

    def _main_logits(self, inputs: Tensor) -> Tensor:
        """Main logits of whole images as the network makes them, or of windows at the images' size.

        Args:
            inputs: normalized images, float [B, 3, H, W].
        """
        if self.slides:
            return self.network.slide_inference(inputs, [{}])
        return self.outputs(inputs, auxiliary=False)[0]

    @property
    def ignore_index(self) -> int:
        """The label of pixels without a loss."""
        ignored = getattr(self.criterion, "ignore_index", None)
        return 255 if ignored is None else ignored

    def losses(
        self, outputs: Sequence[Tensor], labels: Tensor, **options: Any
    ) -> dict[str, Tensor]:
        """The losses of :meth:`forward` from all outputs.

        Erased labels (:data:`fedseg.names.ERASED`) are ignored, unless there are ``options`` of the
        loss that says what they mean.
        """
        losses = {}
        if not options and outputs[0].shape[1] <= ERASED:
            labels = labels.masked_fill(labels == ERASED, self.ignore_index)
        for index, logits in enumerate(outputs):
            if self.recompute_losses and torch.is_grad_enabled():
                loss = checkpoint(self._loss, logits, labels, use_reentrant=False, **options)
            else:
                loss = self._loss(logits, labels, **options)
            if index == 0:
                losses["loss_main"] = loss
            else:
                losses[f"loss_aux{index}"] = loss * self.aux_weight
        return losses

    def _loss(self, logits: Tensor, labels: Tensor, **options: Any) -> Tensor:
        """The loss of one output."""
        if not getattr(self.criterion, "resizes", False):
            logits = resize(logits, labels.shape[-2:])
        return self.criterion(logits, labels, **options)


def resize(logits: Tensor, size: torch.Size, align_corners: bool = False) -> Tensor:
    """Logits [B, C, h, w] at ``size``, bilinear, at least in float32."""
    logits = logits.to(compute_dtype(logits))
    return F.interpolate(logits, size, mode="bilinear", align_corners=align_corners)


def class_map(logits: Tensor, size: torch.Size, align_corners: bool = False) -> Tensor:
    """Class with the highest resized logit (the first of equals), int64 [B, H, W].

    Image by image, since full-size logits of one image take 133 MB at 1080p and 16 classes.
    channels_last makes resizing and the argmax faster on a CPU.
    """
    logits = finite(logits).contiguous(memory_format=torch.channels_last)
    classes = torch.empty((len(logits), *size), dtype=torch.int64, device=logits.device)
    for image in range(len(logits)):
        resized = resize(logits[image : image + 1], size, align_corners)
        classes[image] = resized.max(dim=1).indices[0]
    return classes


def _with_num_classes(network: Mapping, num_classes: int | None) -> dict:
    """A copy of a network's config with the number of classes in it, or in each of its heads."""
    network = deepcopy(dict(network))
    if num_classes is None:
        return network
    if "decode_head" not in network:
        network["num_classes"] = num_classes
        return network
    for head in [network["decode_head"], *_as_list(network.get("auxiliary_head"))]:
        head["num_classes"] = num_classes
    return network


def _as_list(value: Any) -> list:
    """The auxiliary heads of an EncoderDecoder, or their configs: none, one, or several."""
    if value is None:
        return []
    if isinstance(value, list | tuple | nn.ModuleList):
        return list(value)
    return [value]


def _heads_of(network: nn.Module) -> list[nn.Module]:
    """The decode head and the auxiliary heads of an EncoderDecoder; none of any other network."""
    from mmseg.models.segmentors import EncoderDecoder  # its import takes a second

    if not isinstance(network, EncoderDecoder):
        return []
    heads = [network.decode_head, *_as_list(getattr(network, "auxiliary_head", None))]
    for head in heads:
        _check_head(head)
    return heads


def _begins_with_aggregation(network: nn.Module) -> bool:
    """Whether an EncoderDecoder's first feature map comes out of BiSeNetV2's aggregation layer."""
    if network.with_neck or not hasattr(network.backbone, "bga"):
        return False
    return network.backbone.out_indices[0] == 0


def _last_convolution(network: nn.Module, is_encoder_decoder: bool) -> nn.Conv2d | None:
    """The layer whose input are the decoder's features, where the network does not return them."""
    if is_encoder_decoder and not _begins_with_aggregation(network):
        return getattr(network.decode_head, "conv_seg", None)
    if isinstance(network, DeepLabV3 | FCN):
        return network.classifier[-1]
    return None


def _feature_channels(network: nn.Module, is_encoder_decoder: bool) -> int | None:
    """Channels of the decoder's features; None: they are not known."""
    if is_encoder_decoder and _begins_with_aggregation(network):
        return network.decode_head.in_channels
    last_convolution = _last_convolution(network, is_encoder_decoder)
    if last_convolution is not None:
        return last_convolution.in_channels
    return getattr(network, "feature_channels", None)


def _projection(channels: int, widths: Sequence[int]) -> nn.Sequential:
    """1x1 convolutions of these widths, ReLU in between."""
    layers: list[nn.Module] = []
    for width in widths:
        if layers:
            layers.append(nn.ReLU(inplace=True))
        layers.append(nn.Conv2d(channels, width, 1))
        channels = width
    return nn.Sequential(*layers)


def _check_head(head: nn.Module) -> None:
    """Raise ConfigError for a head that gives no logits of its own classes at its own size."""
    name = type(head).__name__
    if isinstance(head, nn.ModuleList):
        raise ConfigError(
            "model.network: a cascade of decode heads is not supported: wrap it in a module that "
            "returns logits"
        )
    if head.align_corners:
        raise ConfigError(f"model.network: {name} has align_corners=True: set it to False")
    if head.out_channels != head.num_classes:
        raise ConfigError(
            f"model.network: {name} has {head.out_channels} output channels for "
            f"{head.num_classes} classes: set out_channels to the number of classes"
        )


def _outputs_of(output: Tensor | Sequence[Tensor] | Mapping[str, Tensor]) -> list[Tensor]:
    """The outputs of a network that is no EncoderDecoder, the main one first."""
    if isinstance(output, Tensor):
        return [output]
    if isinstance(output, Mapping):
        auxiliary = [logits for name, logits in output.items() if name not in ("out", "features")]
        return [output["out"], *auxiliary]
    return list(output)


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
