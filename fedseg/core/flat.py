"""The model as flat vectors: parameters, gradients and buffers, each one contiguous tensor.

Every parameter of the model becomes a view into ``w``, its gradient a view into ``grad``, every
float buffer (BatchNorm statistics) a view into ``buffers``, every integer buffer (BatchNorm's batch
counters) a view into ``counters``. Resetting, subtracting, correcting, measuring and averaging a
model are then one tensor operation each, and autograd, optimizers and ``load_state_dict`` go on
working through the views. The vectors themselves require no gradient: arithmetic on them records no
graph.

Each tensor starts at a multiple of 64 bytes, for vectorized kernels; the gaps are zeros and stay
zeros, so norms and sums over ``w`` are those of the parameters. 4-D weights get channels_last
strides *inside* the vector (a later ``.to(memory_format=...)`` would tear the views off).
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MethodType

import torch
from torch import Tensor, nn

from fedseg.errors import ConfigError, TensorMoved

ALIGNMENT_BYTES = 64


@dataclass(frozen=True)
class Slot:
    """The position of one tensor of the model in its vector.

    Attributes:
        name: in the model.
        offset: of its first element.
        shape, stride: of the tensor.
    """

    name: str
    offset: int
    shape: torch.Size
    stride: tuple[int, ...]

    @property
    def numel(self) -> int:
        return self.shape.numel()

    @property
    def span(self) -> slice:
        """Its elements in the vector."""
        return slice(self.offset, self.offset + self.numel)

    def view(self, vector: Tensor) -> Tensor:
        """This tensor's part of ``vector``, in its own shape (shares memory)."""
        return vector.as_strided(self.shape, self.stride, vector.storage_offset() + self.offset)


@dataclass(frozen=True)
class Home:
    """Where a parameter or buffer of the model must stay.

    Attributes:
        name: in the model.
        owner: the module's dict that holds the tensor.
        key: of the tensor in it.
        address: of the tensor's memory.
        grad_address: of its gradient's memory; None: it has none.
    """

    name: str
    owner: Mapping[str, Tensor | None]
    key: str
    address: int
    grad_address: int | None = None

    def holds_tensor(self) -> bool:
        """True if tensor and gradient still are where they were laid out."""
        tensor = self.owner.get(self.key)
        if tensor is None or tensor.data_ptr() != self.address:
            return False
        if self.grad_address is None:
            return True
        return tensor.grad is not None and tensor.grad.data_ptr() == self.grad_address


class FlatModel:
    """A model whose trainable parameters, gradients and buffers live in flat vectors.

    Frozen parameters (``requires_grad=False``) and the buffers of a data preprocessor are the same
    for everybody: they are not part of the vectors and are never sent.

    Args:
        model: any module whose trainable parameters share one dtype and device. It is changed in
            place.
        channels_last: give 4-D weights channels_last strides.
        frozen: names of parameters and buffers that never change. A BatchNorm layer with frozen
            statistics normalizes by them in training, too.

    Attributes:
        model: as given.
        slots: the position of every trainable parameter in ``w``.
        w: parameters, 1-D, with alignment gaps.
        grad: gradients, the same layout as ``w``.
        buffer_slots: the position of every float buffer in ``buffers``.
        buffers: persistent float buffers, 1-D (empty for a model without).
        counter_slots: the position of every integer buffer in ``counters``.
        counters: persistent integer buffers, int64, 1-D (empty for a model without).
        frozen: as given.
        gaps: positions in ``w`` of no parameter.
        num_parameters: elements of ``w`` without the gaps.
        num_buffers: elements of ``buffers`` without the gaps.
        num_counters: elements of ``counters`` without the gaps.
    """

    def __init__(
        self, model: nn.Module, channels_last: bool = True, frozen: Collection[str] = ()
    ) -> None:
        self.model = model
        self.frozen = frozenset(frozen)
        _freeze(model, self.frozen)
        parameters = {}
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameters[name] = parameter
        if not parameters:
            raise ConfigError("model: has no trainable parameter, there is nothing to federate")
        placements = {(parameter.dtype, parameter.device) for parameter in parameters.values()}
        if len(placements) > 1:
            mixed = sorted(str(placement) for placement in placements)
            raise ConfigError(f"model: parameters mix dtypes or devices: {mixed}")
        dtype, device = placements.pop()

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

        floats, integers = self._persistent_buffers()
        self.buffer_slots, self.buffers = _move_buffers(floats, dtype, device)
        self.counter_slots, self.counters = _move_buffers(integers, torch.int64, device)

        self.num_parameters = sum(slot.numel for slot in self.slots)
        self.num_buffers = sum(slot.numel for slot in self.buffer_slots)
        self.num_counters = sum(slot.numel for slot in self.counter_slots)
        self._homes = self._find_homes()
        self._slot_of = _slots_by_name(model.named_parameters, self.slots)
        self._buffer_slot_of = _slots_by_name(model.named_buffers, self.buffer_slots)
        self._counter_slot_of = _slots_by_name(model.named_buffers, self.counter_slots)
        self._functional_names = [name for name in _parameter_names(model) if name in self._slot_of]

    def _persistent_buffers(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """(float buffers, integer buffers) of a state dict by name, without frozen ones."""
        persistent = set(self.model.state_dict()) - self.frozen
        floats: dict[str, Tensor] = {}
        integers: dict[str, Tensor] = {}
        for name, buffer in self.model.named_buffers():
            if name not in persistent or "data_preprocessor" in name.split("."):
                continue
            if buffer.is_floating_point():
                floats[name] = buffer
            elif buffer.dtype == torch.int64:
                integers[name] = buffer
            else:
                raise ConfigError(
                    f"model: {name} must be a float or int64 buffer, not {buffer.dtype}: convert "
                    "it, or register it with persistent=False"
                )
        return floats, integers

    def _find_homes(self) -> list[Home]:
        """The home of every trainable parameter and of every buffer that is sent."""
        homes = []
        for slot in self.slots:
            grad_address = slot.view(self.grad).data_ptr()
            homes.append(self._home(slot.name, slot.view(self.w).data_ptr(), grad_address))
        for slot in self.buffer_slots:
            homes.append(self._home(slot.name, slot.view(self.buffers).data_ptr()))
        for slot in self.counter_slots:
            homes.append(self._home(slot.name, slot.view(self.counters).data_ptr()))
        return homes

    def _home(self, name: str, address: int, grad_address: int | None = None) -> Home:
        """The home of a tensor, by its name in the model."""
        path, _, key = name.rpartition(".")
        module = self.model.get_submodule(path)
        owner = module._parameters if key in module._parameters else module._buffers
        return Home(name=name, owner=owner, key=key, address=address, grad_address=grad_address)

    def views(self, vector: Tensor) -> dict[str, Tensor]:
        """A vector like ``w`` as each module's parameters, by one name, for functional_call."""
        return {name: self._slot_of[name].view(vector) for name in self._functional_names}

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
        self,
        w: Tensor | None = None,
        buffers: Tensor | None = None,
        counters: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """A plain state dict, contiguous CPU copies.

        Args:
            w: take the parameters from this vector instead of the model's own.
            buffers: take the float buffers from this vector.
            counters: take the integer buffers from this vector.
        """
        w = self.w if w is None else w
        buffers = self.buffers if buffers is None else buffers
        counters = self.counters if counters is None else counters
        replaced = {name: slot.view(w) for name, slot in self._slot_of.items()}
        replaced |= {name: slot.view(buffers) for name, slot in self._buffer_slot_of.items()}
        replaced |= {name: slot.view(counters) for name, slot in self._counter_slot_of.items()}
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
        for home in self._homes:
            if not home.holds_tensor():
                raise TensorMoved(
                    f"model: {home.name} was moved out of the flat vector: something replaced it, "
                    "its data or its grad (model.to(...), zero_grad(set_to_none=True), or in "
                    "forward self.buffer = ...): change it in place, as self.buffer.copy_(...) does"
                )


def _slots_by_name(named_tensors: Callable[..., Iterable], slots: list[Slot]) -> dict[str, Slot]:
    """The slot of every name of a tensor; one that modules share has one slot and several names.

    Args:
        named_tensors: the model's ``named_parameters`` or ``named_buffers``.
    """
    slots_by_first_name = {slot.name: slot for slot in slots}
    slots_by_tensor = {
        id(tensor): slots_by_first_name[name]
        for name, tensor in named_tensors()
        if name in slots_by_first_name
    }
    return {
        name: slots_by_tensor[id(tensor)]
        for name, tensor in named_tensors(remove_duplicate=False)
        if id(tensor) in slots_by_tensor
    }


def _parameter_names(model: nn.Module) -> list[str]:
    """The name of every parameter in every module; a module with two names counts once."""
    names = []
    for path, module in model.named_modules():
        names += [f"{path}.{key}".lstrip(".") for key in module._parameters]
    return names


def _freeze(model: nn.Module, names: Collection[str]) -> None:
    """Train no parameter of these names, and update no running statistics of these names."""
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


def _dense_strides(tensor: Tensor, channels_last: bool) -> tuple[int, ...]:
    """Strides of a dense tensor of this shape; of a 4-D one channels_last, if asked for."""
    if channels_last and tensor.dim() == 4:
        memory_format = torch.channels_last
    else:
        memory_format = torch.contiguous_format
    return torch.empty(tensor.shape, device="meta").to(memory_format=memory_format).stride()


def _lay_out(tensors: Mapping[str, Tensor], channels_last: bool) -> tuple[list[Slot], int]:
    """Slots for tensors, one after the other, and the length of the vector that has them."""
    slots: list[Slot] = []
    offset = 0
    for name, tensor in tensors.items():
        strides = _dense_strides(tensor, channels_last)
        slots.append(Slot(name=name, offset=offset, shape=tensor.shape, stride=strides))
        elements = max(1, ALIGNMENT_BYTES // tensor.element_size())
        offset += math.ceil(tensor.numel() / elements) * elements
    return slots, offset


def _move_buffers(
    buffers: dict[str, Tensor], dtype: torch.dtype, device: torch.device
) -> tuple[list[Slot], Tensor]:
    """The slots of buffers and a vector that holds them; each becomes a view into it."""
    slots, size = _lay_out(buffers, channels_last=False)
    vector = torch.zeros(size, dtype=dtype, device=device)
    for slot in slots:
        view = slot.view(vector)
        view.copy_(buffers[slot.name])
        buffers[slot.name].data = view
    return slots, vector
