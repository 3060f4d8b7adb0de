"""What the config of a network of MMSegmentation may say here besides its layers.

Its loss, its weights and how its images are padded belong to other places of a config; the
normalization of its images and sliding windows are taken.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import PositiveInt

from fedseg.config.arguments import check_arguments, check_value
from fedseg.errors import ConfigError

IGNORED_LABEL = 255
# options of a head, and what to set instead
LOSS_OPTIONS: Mapping[str, str] = {
    "loss_decode": "set model.loss, and model.aux_weight for auxiliary heads",
    "sampler": "set model.loss=dict(type='OHEMCrossEntropy')",
    "ignore_index": "set model.loss.ignore_index",
}
# options of an EncoderDecoder, and what to set instead
NETWORK_OPTIONS: Mapping[str, str] = {
    "data_preprocessor": "set model.data_preprocessor=dict(type='ImagePreprocessor', mean, std)",
    "train_cfg": "remove it",
}
# options of MMSegmentation's preprocessor: the data set's pipeline pads
PADDING = ("pad_val", "size", "size_divisor", "test_cfg")
PLAIN_LOSSES = (
    {"type": "CrossEntropyLoss"},
    {"type": "CrossEntropyLoss", "use_sigmoid": False},
)


@dataclass(frozen=True)
class Windows:
    """How an EncoderDecoder predicts, its ``test_cfg``.

    Attributes:
        mode: of whole images, or the mean of overlapping windows.
        crop_size: (height, width) of a window.
        stride: (down, across) from window to window, in pixels.
    """

    mode: Literal["whole", "slide"] = "whole"
    crop_size: tuple[PositiveInt, PositiveInt] | None = None
    stride: tuple[PositiveInt, PositiveInt] | None = None


@dataclass(frozen=True)
class Network:
    """The network of a config of MMSegmentation.

    Attributes:
        config: its layers.
        data_preprocessor: the config of an ImagePreprocessor; None: the file has none.
        left_out: options of the file that do not apply here.
    """

    config: dict[str, Any]
    data_preprocessor: dict[str, Any] | None
    left_out: list[str]


def read_windows(network: Mapping[str, Any]) -> Windows:
    """Read the ``test_cfg`` of an EncoderDecoder's config."""
    field = "model.network.test_cfg"
    options = network.get("test_cfg") or {}
    check_value(field, options, Mapping)
    check_arguments(Windows, options, field)
    windows = Windows(**options)
    if windows.mode == "whole":
        if windows.crop_size is not None or windows.stride is not None:
            raise ConfigError(
                f"{field}.mode: must be 'slide' for crop_size and stride, not 'whole'"
            )
        return windows
    if windows.crop_size is None or windows.stride is None:
        raise ConfigError(f"{field}: mode 'slide' needs crop_size and stride")
    for size, step in zip(windows.crop_size, windows.stride, strict=True):
        if step > size:
            raise ConfigError(
                f"{field}.stride: must be at most crop_size {windows.crop_size}, not "
                f"{windows.stride}"
            )
    return windows


def check_network(network: Mapping[str, Any]) -> None:
    """Raise ConfigError for options of an EncoderDecoder that have no effect here."""
    for key, fix in NETWORK_OPTIONS.items():
        if network.get(key):
            raise ConfigError(f"model.network.{key}: has no effect here: {fix}")
    for field, head in _heads(network):
        for key, fix in LOSS_OPTIONS.items():
            is_default = key == "ignore_index" and head.get(key) == IGNORED_LABEL
            if head.get(key) is not None and not is_default:
                raise ConfigError(f"model.network.{field}.{key}: has no effect here: {fix}")


def read_network(model: Mapping[str, Any], file: str) -> Network:
    """Read the network of the ``model`` of a config file of MMSegmentation.

    A plain cross-entropy, which most of these files have, is left out; any other loss stays, and
    :func:`check_network` refuses it. ConfigError names the file.
    """
    config = deepcopy(dict(model))
    left_out = []
    for field, head in _heads(config):
        loss = dict(head.get("loss_decode") or {})
        loss.pop("loss_weight", None)
        if loss in PLAIN_LOSSES:
            del head["loss_decode"]
            left_out.append(f"{field}.loss_decode")
    preprocessor = config.pop("data_preprocessor", None) or {}
    left_out += [f"data_preprocessor.{key}" for key in PADDING if preprocessor.get(key)]
    field = f"model.network: {file}: data_preprocessor"
    return Network(
        config=config,
        data_preprocessor=_read_preprocessor(preprocessor, field),
        left_out=left_out,
    )


def _read_preprocessor(options: Mapping[str, Any], field: str) -> dict[str, Any] | None:
    """MMSegmentation's preprocessor, which has units of 0..255, as an ImagePreprocessor."""
    if not options:
        return None
    fix = "set model.data_preprocessor and use a copy of the file without it"
    allowed = ("type", "mean", "std", "bgr_to_rgb", "seg_pad_val", *PADDING)
    for key in options:
        if key not in allowed and options[key]:
            raise ConfigError(f"{field}.{key}: has no effect here: {fix}")
    if not options.get("bgr_to_rgb"):
        raise ConfigError(f"{field}.bgr_to_rgb: must be True, images are RGB here: {fix}")
    if options.get("seg_pad_val", IGNORED_LABEL) != IGNORED_LABEL:
        raise ConfigError(f"{field}.seg_pad_val: must be {IGNORED_LABEL}: {fix}")
    preprocessor: dict[str, Any] = {"type": "ImagePreprocessor"}
    for key in ("mean", "std"):
        numbers = options.get(key)
        check_value(f"{field}.{key}", numbers, Sequence[float])
        preprocessor[key] = [number / 255 for number in numbers]
    return preprocessor


def _heads(network: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(field, config) of every head of an EncoderDecoder's config."""
    for name in ("decode_head", "auxiliary_head"):
        head = network.get(name)
        if isinstance(head, Mapping):
            yield name, head
        elif isinstance(head, list | tuple):
            for number, part in enumerate(head):
                yield f"{name}[{number}]", part
