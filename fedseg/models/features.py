"""Features of a frozen encoder, computed once for each image and kept on disk."""

import hashlib
import warnings
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fedseg.errors import ConfigError
from fedseg.files import atomic_writer

METHODS = ("forward_features", "forward_intermediates")  # of timm's encoders


class FeatureCache:
    """Answers for a frozen module where it has seen an image before, in this run or another.

    Features lie in a folder named by a checksum of the module, of PyTorch and of the device, in
    files named by a checksum of the prepared image: it serves training and tests. Where a module
    gives an image alone other bits than in a batch, or draws random numbers, features would not be
    what they are without a cache: it says so at the first batch and keeps nothing.
    """

    def __init__(self, module: nn.Module, name: str, folder: Path) -> None:
        self.module, self.name, self._root = module, name, folder
        self.active: bool | None = None  # until the first batch
        for method in [one for one in METHODS if hasattr(module, one)] or ["forward"]:
            setattr(module, method, self._wrap(getattr(module, method)))

    @cached_property
    def folder(self) -> Path:
        """Where the features are; the weights must be loaded by then."""
        digest = hashlib.blake2b(digest_size=16)
        for name, tensor in self.module.state_dict().items():
            digest.update(name.encode())
            digest.update(tensor.cpu().contiguous().view(-1).view(torch.uint8).numpy())
            device = tensor.device.type
        facts = torch.__version__, device, torch.get_num_threads(), self.module
        digest.update(repr(facts).encode())
        return self._root / digest.hexdigest()

    def _wrap(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        @torch.no_grad()
        def answer(images: Tensor, *args: Any, **options: Any) -> Any:
            if self.active is False:
                return compute(images, *args, **options)
            if images.requires_grad:
                raise ConfigError(
                    f"model.feature_cache: layers before {self.name} are trained, so that its "
                    "features change: freeze them too, or leave the cache out"
                )
            if self.active is None:
                batch, alone = (compute(part, *args, **options) for part in (images, images[:1]))
                self._check(_map(lambda rows: torch.equal(rows[0][:1], rows[1]), [batch, alone]))
                return batch
            paths = self._paths(images, f"{compute.__name__}{args}{options}")
            missing = [number for number, path in enumerate(paths) if not path.is_file()]
            if missing:
                made = compute(images[missing], *args, **options)
                for row, number in enumerate(missing):
                    with atomic_writer(paths[number], "wb") as file:
                        torch.save(_map(lambda rows, row=row: rows[0][row].clone(), [made]), file)
            load = {"weights_only": True, "map_location": images.device}
            return _map(_stack, [torch.load(path, **load) for path in paths])

        return answer

    def _check(self, same: Any) -> None:
        self.active = "False" not in str(same)
        if not self.active:
            warnings.warn(
                f"model.feature_cache: {self.name} gives an image alone other bits than in a batch "
                "(or draws random numbers), so nothing is kept",
                stacklevel=2,
            )

    def _paths(self, images: Tensor, call: str) -> list[Path]:
        device = images.device.type
        amp = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device)
        facts = f"{call}{amp}{images.dtype}{tuple(images.shape[1:])}".encode()
        rows = images.cpu().contiguous().flatten(1).view(torch.uint8).numpy()
        names = (hashlib.blake2b(facts + row.tobytes(), digest_size=16).hexdigest() for row in rows)
        return [self.folder / name[:2] / f"{name}.pt" for name in names]


def _map(function: Callable[[list[Tensor]], Any], values: Sequence[Any]) -> Any:
    """A function over the corresponding tensors of values of one structure."""
    if isinstance(values[0], Tensor):
        return function(list(values))
    if isinstance(values[0], dict):
        return {key: _map(function, [one[key] for one in values]) for key in values[0]}
    return type(values[0])(_map(function, one) for one in zip(*values, strict=True))


def _stack(rows: list[Tensor]) -> Tensor:
    """Features of single images as a batch, in the order of dimensions that they have in memory."""
    order = sorted(range(rows[0].dim()), key=lambda d: -rows[0].stride(d))
    back = [0, *(1 + order.index(d) for d in range(len(order)))]
    return torch.stack([row.permute(order) for row in rows]).permute(back)


def cache_features(model: nn.Module, frozen: Collection[str], folder: str | Path) -> None:
    """Keep the features of the one module all of whose parameters and buffers are ``frozen``.

    Raises:
        ConfigError: there is none, or more than one.
    """
    tensors = [name for name, _ in [*model.named_parameters(), *model.named_buffers()]]
    found: list[str] = []
    for name, module in model.named_modules():
        own = [tensor for tensor in tensors if tensor.startswith(f"{name}.")]
        inner = name.startswith(tuple(f"{outer}." for outer in found))
        if own and not inner and any(True for _ in module.parameters()):
            found += [name] * frozenset(own).issubset(frozen)
    if len(found) != 1:
        raise ConfigError(
            "model.feature_cache: needs one module that model.freeze names as a whole, such as "
            f"'backbone', not {', '.join(found) or 'none'}"
        )
    FeatureCache(model.get_submodule(found[0]), found[0], Path(folder))
