"""Local state: the parts of a model that stay with each client; they are neither sent nor averaged.

``personal`` of a config lists them. An entry is a group or a pattern of names:

- ``@batchnorm.statistics``: :class:`SiloBN`; ``@batchnorm``: :class:`FedBN`;
- ``@head``: the layers that give the logits. FedPer: Arivazhagan et al., "Federated Learning with
  Personalization Layers", 2019; FedRep and FedBABU train it in their own ways;
- ``@body``: all others. LG-FedAvg: Liang et al., "Think Locally, Act Globally", 2020;
- a pattern of parameters and buffers, such as ``*.lora_B`` (FedSA-LoRA).
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from fedseg.batchnorm import batchnorm_layers
from fedseg.core.client import Client
from fedseg.core.flat import FlatModel, Slot
from fedseg.core.messages import Update
from fedseg.errors import ConfigError
from fedseg.parts import HEAD, part_names

# what a client keeps in ``client.state``
BUFFERS = "personal.buffers"
COUNTERS = "personal.counters"
PARAMETERS = "personal.parameters"


class SiloBN:
    """Running mean, variance and batch counter stay with each client, between its rounds too.

    Andreux et al., "Siloed Federated Learning for Multi-Centric Histopathology Datasets", DART
    2020. Scale and shift are averaged.
    """

    group: ClassVar[str] = "@batchnorm.statistics"
    tensors: ClassVar[tuple[str, ...]] = ("running_mean", "running_var", "num_batches_tracked")

    @classmethod
    def names(cls, model: nn.Module) -> set[str]:
        """Names of these tensors of every BatchNorm layer, whatever the layer's name."""
        return {f"{layer}.{tensor}" for layer in batchnorm_layers(model) for tensor in cls.tensors}


class FedBN(SiloBN):
    """As :class:`SiloBN`, and scale and shift stay with the client as well.

    Li et al., "FedBN: Federated Learning on Non-IID Features via Local Batch Normalization", ICLR
    2021. A domain without clients of its own is evaluated with the clients' mean scale and shift.
    Corrections by vectors of the whole model (SCAFFOLD, FedDyn) act on shared parameters; a
    proximal term (FedProx, FedACG) pulls towards the client's own scale and shift.
    """

    group = "@batchnorm"
    tensors = (*SiloBN.tensors, "weight", "bias")


GROUPS: Mapping[str, type[SiloBN]] = {policy.group: policy for policy in (SiloBN, FedBN)}


def personal_names(flat: FlatModel, entry: str) -> set[str]:
    """Names of the parameters and buffers that an entry of ``personal`` stands for.

    Raises:
        ConfigError: it stands for nothing in this model.
    """
    policy = GROUPS.get(entry)
    if policy is None:
        return part_names(flat.model, entry, "personal")
    names = policy.names(flat.model)
    if not any(slot.name in names for slot in flat.buffer_slots):
        raise ConfigError(
            f"personal: {entry!r} ({policy.__name__}) needs a model with BatchNorm layers that "
            f"track statistics; {type(flat.model).__name__} has none: leave it out"
        )
    return names


class LocalState:
    """Keeps the personal parts of a model in each client's state; the rest is averaged.

    The trainer calls :meth:`load` before a client's local steps and :meth:`save` after them; the
    server averages and counts as traffic what is not personal.

    Args:
        flat: the model.
        personal: the parts, as in a config.
        own_model: name in ``client.state`` of a whole model of the client's own, with which it is
            evaluated (``Algorithm.own_model``); None: it has none.

    Attributes:
        parameter_names: names of the personal parameters.
        parameter_positions: positions of their elements in ``w``, int64, 1-D.
        parameter_mask: like ``w``, bool: True at these positions.
        buffer_positions: positions of personal float buffers in ``FlatModel.buffers``, as above.
        buffer_mask: like ``FlatModel.buffers``, bool: True at these positions.
        counter_positions: positions of personal integer buffers in ``FlatModel.counters``.
        counter_mask: like ``FlatModel.counters``, bool: True at these positions.
        norm_layers: BatchNorm layers whose running statistics are personal.
        estimable: the server's model has the features of all clients, so that BatchNorm statistics
            can be estimated with it: nothing but layers of the head is personal.

    Raises:
        ConfigError: an entry stands for nothing, or no parameter is shared.
    """

    def __init__(
        self, flat: FlatModel, personal: str | Sequence[str] = (), own_model: str | None = None
    ) -> None:
        entries = [personal] if isinstance(personal, str) else personal
        names: set[str] = set()
        for entry in entries:
            names |= personal_names(flat, entry)
        self.own_model = own_model
        slots = [slot for slot in flat.slots if slot.name in names]
        if len(slots) == len(flat.slots):
            raise ConfigError("personal: every parameter stays with the clients; share some")
        self.parameter_names = frozenset(slot.name for slot in slots)
        self.parameter_positions = _positions(slots).to(flat.w.device)
        self.parameter_mask = _mask(flat.w, slots)
        buffer_slots = [slot for slot in flat.buffer_slots if slot.name in names]
        self.buffer_positions = _positions(buffer_slots).to(flat.w.device)
        self.buffer_mask = _mask(flat.buffers, buffer_slots)
        counter_slots = [slot for slot in flat.counter_slots if slot.name in names]
        self.counter_positions = _positions(counter_slots).to(flat.w.device)
        self.counter_mask = _mask(flat.counters, counter_slots)
        self._buffer_slots = {slot.name: slot for slot in buffer_slots}
        self.norm_layers = [
            layer
            for layer in batchnorm_layers(flat.model)
            if {f"{layer}.running_mean", f"{layer}.running_var"} <= self._buffer_slots.keys()
        ]
        self.estimable = not self.norm_layers and self._leaves_body_shared(flat.model)

    def _leaves_body_shared(self, model: nn.Module) -> bool:
        """True if no parameter but those of the head is personal."""
        if not self.parameter_names:
            return True
        return self.parameter_names <= part_names(model, HEAD, "personal")

    def load(self, client: Client) -> None:
        """Put the client's own parts over the global model that it received.

        At its first participation it has none and keeps the global model's.
        """
        if self.parameter_names:
            client.personal_positions = self.parameter_positions
        if BUFFERS not in client.state:
            return
        client.buffers[self.buffer_positions] = client.state[BUFFERS]
        client.counters[self.counter_positions] = client.state[COUNTERS]
        if self.parameter_names:
            client.start = client.start.clone()
            client.start[self.parameter_positions] = client.state[PARAMETERS]
            client.w.copy_(client.start)

    def save(self, client: Client, update: Update, client_vectors: Sequence[str]) -> None:
        """Keep the trained personal parts; what is sent, and kept like ``w``, is zero there.

        Args:
            client: after its local steps.
            update: what it sends.
            client_vectors: names in ``client.state`` of the algorithm's vectors like ``w``.
        """
        client.state[BUFFERS] = client.buffers[self.buffer_positions]
        client.state[COUNTERS] = client.counters[self.counter_positions]
        if not self.parameter_names:
            return
        client.state[PARAMETERS] = client.w[self.parameter_positions]
        tensors = [payload for payload in update.payloads.values() if isinstance(payload, Tensor)]
        whole = [tensor for tensor in tensors if tensor.shape == client.w.shape]
        corrections = [client.state[name] for name in client_vectors]
        for vector in [*update.vectors.values(), *whole, *corrections]:
            vector[self.parameter_positions] = 0

    def select_state(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The part of a client's state that its evaluation needs."""
        names = (BUFFERS, COUNTERS, PARAMETERS, self.own_model)
        return {name: tensor for name, tensor in state.items() if name in names}

    def personal_model(
        self,
        w: Tensor,
        buffers: Tensor,
        states: Sequence[tuple[int, Mapping[str, Tensor]]],
        own_model: bool = True,
    ) -> tuple[Tensor, Tensor] | None:
        """The model with the personal parts of some clients.

        Several clients' parts are averaged, by samples; BatchNorm statistics are pooled: the mean
        and variance of the union of their samples.

        Args:
            w: the global parameters. buffers: the global float buffers.
            states: (number of samples, stored state) of each client; those that never trained are
                left out.
            own_model: use the whole models of clients that have one.

        Returns:
            (parameters, buffers), or None if none of the clients has trained.
        """
        trained = [(samples, state) for samples, state in states if BUFFERS in state]
        if not trained:
            return None
        pooled = self._pooled_buffers(buffers, trained)
        if self.own_model and own_model:
            models = [(samples, state[self.own_model].to(w)) for samples, state in trained]
            return _mean_by_samples(models).to(w), pooled
        w = w.clone()
        if self.parameter_names:
            parts = [(samples, state[PARAMETERS]) for samples, state in trained]
            w[self.parameter_positions] = _mean_by_samples(parts).to(w)
        return w, pooled

    def _pooled_buffers(
        self, buffers: Tensor, states: Sequence[tuple[int, Mapping[str, Tensor]]]
    ) -> Tensor:
        """The buffers with the mean of the clients' own; running variances are those of the union.

        ``Var = E[Var_k + mean_k^2] - (E[mean_k])^2``, with expectations over clients by samples.
        """
        pooled = buffers.clone()
        if len(states) == 1:
            pooled[self.buffer_positions] = states[0][1][BUFFERS].to(buffers)
            return pooled
        total = sum(samples for samples, _ in states)
        mean = torch.zeros_like(buffers, dtype=torch.float64)
        square = torch.zeros_like(mean)
        for samples, state in states:
            statistics = torch.zeros_like(mean)
            statistics[self.buffer_positions] = state[BUFFERS].to(mean)
            mean += statistics * (samples / total)
            square += statistics**2 * (samples / total)
        pooled[self.buffer_positions] = mean[self.buffer_positions].to(buffers)
        for layer in self.norm_layers:
            means = self._buffer_slots[f"{layer}.running_mean"].span
            variances = self._buffer_slots[f"{layer}.running_var"].span
            variance = mean[variances] + square[means] - mean[means] ** 2
            pooled[variances] = variance.to(buffers.dtype)
        return pooled


def shared_slots(flat: FlatModel, local_state: LocalState | None) -> list[Slot]:
    """The slots of the parameters that are sent: all but personal and empty ones."""
    personal = local_state.parameter_names if local_state is not None else frozenset()
    return [slot for slot in flat.slots if slot.numel and slot.name not in personal]


def _mean_by_samples(vectors: Sequence[tuple[int, Tensor]]) -> Tensor:
    """The mean of vectors, float64; each is given with its number of samples."""
    total = sum(samples for samples, _ in vectors)
    mean = torch.zeros_like(vectors[0][1], dtype=torch.float64)
    for samples, vector in vectors:
        mean += vector.double() * (samples / total)
    return mean


def _mask(vector: Tensor, slots: Sequence[Slot]) -> Tensor:
    """A mask over a flat vector: True in these slots."""
    mask = torch.zeros_like(vector, dtype=torch.bool)
    for slot in slots:
        mask[slot.span] = True
    return mask


def _positions(slots: Sequence[Slot]) -> Tensor:
    """The positions of the elements of slots in their vector, ascending.

    To index by a mask instead would wait for the device.
    """
    if not slots:
        return torch.zeros(0, dtype=torch.int64)
    return torch.cat([torch.arange(slot.span.start, slot.span.stop) for slot in slots])
