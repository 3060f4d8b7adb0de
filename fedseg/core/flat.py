"""The model as flat vectors: parameters, gradients and float buffers, each one contiguous tensor.

Every parameter of the model becomes a view into ``w``, its gradient a view into ``grad``, every
float buffer (BatchNorm statistics) a view into ``buffers``. Resetting, subtracting, correcting,
measuring and averaging a model are then one tensor operation each, and autograd, optimizers and
``load_state_dict`` go on working through the views. The vectors themselves require no gradient:
arithmetic on them records no graph.

Each tensor starts at a multiple of 64 bytes, for vectorized kernels; the gaps are zeros and stay
zeros, so norms and sums over ``w`` are those of the parameters. 4-D weights get channels_last
strides *inside* the vector (a later ``.to(memory_format=...)`` would tear the views off). Integer
buffers (BatchNorm's batch counters) cannot be averaged and stay apart, in ``counters``.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from fedseg.errors import ConfigError, TensorMoved

ALIGNMENT_BYTES = 64


def _freeze(model: nn.Module, names: Collection[str]) -> None:
    for name, parameter in model.named_parameters():
        if name in names:
            parameter.requires_grad_(False)
    for name, module in model.named_modules():
        if f"{name}.running_mean" in names:
            module.train = MethodType(_stay_in_eval_mode, module)
            module.train()


def _stay_in_eval_mode(module: nn.Module, mode: bool = True) -> nn.Module:
    module.training = False
    return module


@dataclass(frozen=True)
class Slot:
    """The position of one tensor of the model in its vector."""

    name: str
    offset: int
    shape: torch.Size
    stride: tuple[int, ...]

    @property
    def numel(self) -> int:
        return self.shape.numel()

    @property
    def span(self) -> slice:
        return slice(self.offset, self.offset + self.numel)

    def view(self, vector: Tensor) -> Tensor:
        """This tensor's part of ``vector``, in its own shape (shares memory)."""
        return vector.as_strided(self.shape, self.stride, vector.storage_offset() + self.offset)


def _dense_strides(tensor: Tensor, channels_last: bool) -> tuple[int, ...]:
    memory_format = (
        torch.channels_last if channels_last and tensor.dim() == 4 else torch.contiguous_format
    )
    return torch.empty(tensor.shape, device="meta").to(memory_format=memory_format).stride()


def _lay_out(tensors: dict[str, Tensor], channels_last: bool) -> tuple[list[Slot], int]:
    slots, offset = [], 0
    for name, tensor in tensors.items():
        step = max(1, ALIGNMENT_BYTES // tensor.element_size())
        slots.append(Slot(name, offset, tensor.shape, _dense_strides(tensor, channels_last)))
        offset += -(-tensor.numel() // step) * step
    return slots, offset


class FlatModel:
    """A model whose trainable parameters, gradients and float buffers live in flat vectors.

    Frozen parameters (``requires_grad=False``) and the buffers of a data preprocessor are the same
    for everybody: they are not part of the vectors and are never sent.

    Args:
        model: any module whose trainable parameters share one dtype and device. It is changed in
            place.
        channels_last: give 4-D weights channels_last strides.
        frozen: names of parameters and buffers that never change. A BatchNorm layer with frozen
            statistics normalizes by them in training, too.

    Attributes:
        w: parameters, 1-D, with alignment gaps.
        grad: gradients, the same layout as ``w``.
        buffers: persistent float buffers, 1-D (empty for a model without).
        counters: persistent integer buffers by name; the module's own tensors.
        personal: mask over ``w`` of the parameters that stay with each client, or None.
        personal_names: of these parameters.
        frozen: as given.
        gaps: positions in ``w`` of no parameter.
        num_parameters: elements of ``w`` without the gaps.
        num_buffers: elements of ``buffers`` without the gaps.
    """

    def __init__(
        self, model: nn.Module, channels_last: bool = True, frozen: Collection[str] = ()
    ) -> None:
        self.model = model
        self.personal: Tensor | None = None
        self.personal_names: frozenset[str] = frozenset()
        if frozen:
            _freeze(model, frozen)
        self.frozen = frozenset(frozen)
        parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
        if not parameters:
            raise ConfigError("model: has no trainable parameter, there is nothing to federate")
        kinds = {(p.dtype, p.device) for p in parameters.values()}
        if len(kinds) > 1:
            raise ConfigError(f"model: parameters mix dtypes or devices: {sorted(map(str, kinds))}")
        dtype, device = kinds.pop()

        self.slots, size = _lay_out(parameters, channels_last)
        self.w = torch.zeros(size, dtype=dtype, device=device)
        self.grad = torch.zeros_like(self.w)
        self._gradients: list[tuple[nn.Parameter, Tensor]] = []
        gaps = torch.ones(size, dtype=torch.bool)
        for slot in self.slots:
            slot.view(gaps).fill_(False)
            parameter = parameters[slot.name]
            view = slot.view(self.w)
            view.copy_(parameter.detach())
            parameter.data = view
            parameter.grad = slot.view(self.grad)
            self._gradients.append((parameter, parameter.grad))

        self.gaps = gaps.nonzero().flatten().to(device)

        floats, self.counters = self._persistent_buffers()
        self.buffer_slots, size = _lay_out(floats, channels_last=False)
        self.buffers = torch.zeros(size, dtype=dtype, device=device)
        for slot in self.buffer_slots:
            view = slot.view(self.buffers)
            view.copy_(floats[slot.name])
            floats[slot.name].data = view

        self._homes = [self._home_of(s.name, s.view(self.w), s.view(self.grad)) for s in self.slots]
        self._homes += [self._home_of(s.name, s.view(self.buffers)) for s in self.buffer_slots]
        self._homes += [self._home_of(name, counter) for name, counter in self.counters.items()]
        self._slot_of = self._names_of(self.model.named_parameters, self.slots)
        modules = self.model.named_modules()
        names = [f"{path}.{key}".lstrip(".") for path, m in modules for key in m._parameters]
        self._views = [(name, self._slot_of[name]) for name in names if name in self._slot_of]
        self._buffer_slot_of = self._names_of(self.model.named_buffers, self.buffer_slots)
        self.num_parameters = sum(slot.numel for slot in self.slots)
        self.num_buffers = sum(slot.numel for slot in self.buffer_slots)

    def _persistent_buffers(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        persistent = set(self.model.state_dict()) - self.frozen
        floats, integers = {}, {}
        for name, buffer in self.model.named_buffers():
            if name not in persistent or "data_preprocessor" in name.split("."):
                continue
            (floats if buffer.is_floating_point() else integers)[name] = buffer
        return floats, integers

    def _home_of(self, name: str, tensor: Tensor, grad: Tensor | None = None) -> tuple[Any, ...]:
        """(name, the dict that holds its tensor, key, its address, and its gradient's)."""
        path, _, key = name.rpartition(".")
        module = self.model.get_submodule(path)
        owner = module._parameters if key in module._parameters else module._buffers
        return name, owner, key, tensor.data_ptr(), None if grad is None else grad.data_ptr()

    @staticmethod
    def _names_of(named: Callable[..., Iterable], slots: list[Slot]) -> dict[str, Slot]:
        """The slot of every name; tensors that modules share have one slot and several names."""
        slot_of = {slot.name: slot for slot in slots}
        of_tensor = {id(tensor): slot_of.get(name) for name, tensor in named()}
        names = ((n, of_tensor[id(t)]) for n, t in named(remove_duplicate=False))
        return {name: slot for name, slot in names if slot is not None}

    def views(self, vector: Tensor) -> dict[str, Tensor]:
        """A vector like ``w`` as each module's parameters, by one name, for functional_call."""
        return {name: slot.view(vector) for name, slot in self._views}

    def backward(self, loss: Tensor) -> None:
        """Replace ``grad`` by the gradient of ``loss``; zeros where it does not reach.

        Where a parameter has no gradient yet, autograd hands the new one over without a copy. To
        gather those is one pass over memory; to add them to a vector of zeros is three.
        """
        for parameter, _ in self._gradients:
            parameter.grad = None
        views, gradients = [], []
        try:
            loss.backward()
        finally:
            for parameter, view in self._gradients:
                if parameter.grad is None:
                    view.zero_()
                else:
                    views.append(view)
                    gradients.append(parameter.grad)
                parameter.grad = view
        if views:
            torch._foreach_copy_(views, gradients)

    def state_dict(
        self, w: Tensor | None = None, buffers: Tensor | None = None
    ) -> dict[str, Tensor]:
        """A plain state dict, contiguous CPU copies.

        Args:
            w: take the parameters from this vector instead of the model's own.
            buffers: take the float buffers from this vector.
        """
        w = self.w if w is None else w
        buffers = self.buffers if buffers is None else buffers
        replaced = {name: slot.view(w) for name, slot in self._slot_of.items()}
        replaced |= {name: slot.view(buffers) for name, slot in self._buffer_slot_of.items()}
        plain = {}
        for name, tensor in self.model.state_dict().items():
            source = replaced.get(name, tensor).detach().to("cpu", tensor.dtype)
            plain[name] = source.clone(memory_format=torch.contiguous_format)
        return plain

    def load_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        """Copy a plain state dict into the vectors; raises as ``nn.Module`` does on a mismatch."""
        self.model.load_state_dict(state_dict)

    def check_views(self) -> None:
        """Raise TensorMoved if a parameter, gradient or buffer is not where it was laid out."""
        for name, owner, key, address, gradient in self._homes:
            tensor = owner.get(key)
            there = tensor is not None and tensor.data_ptr() == address
            if there and gradient is not None:
                there = tensor.grad is not None and tensor.grad.data_ptr() == gradient
            if not there:
                raise TensorMoved(
                    f"model: {name} was moved out of the flat vector: something replaced it, its "
                    "data or its grad (model.to(...), zero_grad(set_to_none=True), or in forward "
                    "self.buffer = ...): change it in place, as self.buffer.copy_(...) does"
                )
