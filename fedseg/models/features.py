"""Features of a frozen encoder, computed once for each image and kept on disk."""

import hashlib
import io
import sys
import warnings
from collections.abc import Callable, Collection
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fedseg.errors import ConfigError
from fedseg.files import atomic_writer
from fedseg.memory import map_tensors

CHECKSUM_BYTES = 16  # before the features in a file
METHODS = ("forward_features", "forward_intermediates")  # of timm's encoders


class FeatureCache:
    """Answers for a frozen module where it has seen an image before, in this run or another.

    Features lie in a folder named by a checksum of the module, of the versions of its packages and
    of the device, in files named by a checksum of the prepared image: it serves training and tests.
    Where a module draws random numbers, as dropout does in training, or gives an image alone other
    bits than in a batch, features would not be what they are without a cache: the first batch that
    is computed in training shows it, and that in tests, a warning says so, and nothing is kept.
    """

    def __init__(self, module: nn.Module, name: str, folder: Path) -> None:
        self.module, self.name, self._root = module, name, folder
        self.active: dict[bool, bool] = {}  # by module.training, from its first batch on
        for method in [one for one in METHODS if hasattr(module, one)] or ["forward"]:
            setattr(module, method, self._wrap(getattr(module, method)))

    @cached_property
    def folder(self) -> Path:
        """The folder of the features; the weights must be loaded by then."""
        digest = hashlib.blake2b(digest_size=16)
        for name, tensor in self.module.state_dict().items():
            digest.update(name.encode())
            digest.update(tensor.cpu().contiguous().view(-1).view(torch.uint8).numpy())
            device = tensor.device
        chip = torch.backends.cpu.get_cpu_capability()
        if device.type == "cuda":
            chip = torch.cuda.get_device_name(device)
        packages = {type(module).__module__.partition(".")[0] for module in self.module.modules()}
        versions = [(p, getattr(sys.modules.get(p), "__version__", "")) for p in sorted(packages)]
        facts = versions, torch.__version__, device.type, chip, torch.get_num_threads(), self.module
        digest.update(repr(facts).encode())
        return self._root / digest.hexdigest()

    def _wrap(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        @torch.no_grad()
        def answer(images: Tensor, *args: Any, **options: Any) -> Any:
            active = self.active.get(self.module.training)
            if active is False:
                return compute(images, *args, **options)
            if images.requires_grad:
                raise ConfigError(
                    f"model.feature_cache: layers before {self.name} are trained, so that its "
                    "features change: freeze them too, or leave the cache out"
                )
            paths = self._paths(images, f"{compute.__name__}{args}{options}")
            features = [_read(path, images.device) for path in paths]
            missing = [number for number, one in enumerate(features) if one is None]
            if missing and active is None:
                made = self._try(partial(compute, *args, **options), images)
                if not self.active[self.module.training]:
                    return made
                missing = list(range(len(paths)))
            elif missing:
                made = compute(images[missing], *args, **options)
            for row, number in enumerate(missing):
                features[number] = map_tensors(lambda rows, row=row: rows[row].clone(), made)
                _write(paths[number], features[number])
            return map_tensors(_stack, *features)

        return answer

    def _try(self, compute: Callable[[Tensor], Any], images: Tensor) -> Any:
        """The features of a first batch, which show whether to keep those of its mode."""
        training, before, fault = self.module.training, _random_state(images.device), None
        batch = compute(images)
        if not torch.equal(before, _random_state(images.device)):
            fault = "draws random numbers"  # and draws no more than without a cache
        else:
            other = compute(images[:1] if len(images) > 1 else torch.cat([images, images]))
            same = map_tensors(lambda a, b: torch.equal(a[:1], b[:1]), batch, other)
            if "False" in str(same):
                fault = "gives an image alone other bits than in a batch"
        self.active[training] = fault is None
        if fault:
            warnings.warn(
                f"model.feature_cache: {self.name} {fault} in {'training' if training else 'tests'}"
                ", so nothing is kept there",
                stacklevel=2,
            )
        return batch

    def _paths(self, images: Tensor, call: str) -> list[Path]:
        device = images.device.type
        amp = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device)
        facts = f"{call}{self.module.training}{amp}{images.dtype}{tuple(images.shape[1:])}".encode()
        rows = images.cpu().contiguous().flatten(1).view(torch.uint8).numpy()
        names = (hashlib.blake2b(facts + row.tobytes(), digest_size=16).hexdigest() for row in rows)
        return [self.folder / name[:2] / f"{name}.pt" for name in names]


def _random_state(device: torch.device) -> Tensor:
    state = torch.get_rng_state()
    if device.type == "cuda":
        state = torch.cat([state, torch.cuda.get_rng_state(device)])
    return state


def _write(path: Path, features: Any) -> None:
    buffer = io.BytesIO()
    torch.save(features, buffer)
    with atomic_writer(path, "wb") as file:
        file.write(_checksum(path, buffer.getvalue()) + buffer.getvalue())


def _read(path: Path, device: torch.device) -> Any:
    """The features in a file; None if there is none, or it is damaged: it is written again."""
    try:
        content = path.read_bytes()
        if content[:CHECKSUM_BYTES] == _checksum(path, content[CHECKSUM_BYTES:]):
            file = io.BytesIO(content[CHECKSUM_BYTES:])
            return torch.load(file, weights_only=True, map_location=device)
    except Exception:  # it is missing, or of whatever else
        pass
    return None


def _checksum(path: Path, content: bytes) -> bytes:
    """Of a file's content under its name."""
    return hashlib.blake2b(content, digest_size=CHECKSUM_BYTES, key=path.stem.encode()).digest()


def _stack(*rows: Tensor) -> Tensor:
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
    frozen_modules: list[str] = []
    for name, module in model.named_modules():
        inside = [tensor for tensor in tensors if tensor.startswith(f"{name}.")]
        inner = name.startswith(tuple(f"{outer}." for outer in frozen_modules))
        if inside and not inner and any(True for _ in module.parameters()):
            frozen_modules += [name] * frozenset(inside).issubset(frozen)
    if len(frozen_modules) != 1:
        raise ConfigError(
            "model.feature_cache: needs one module that model.freeze names as a whole, such as "
            f"'backbone', not {', '.join(frozen_modules) or 'none'}"
        )
    FeatureCache(model.get_submodule(frozen_modules[0]), frozen_modules[0], Path(folder))
