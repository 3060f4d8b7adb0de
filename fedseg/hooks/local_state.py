"""Local state: the parameters and buffers that stay with each client and are not averaged.

SiloBN: Andreux et al., "Siloed Federated Learning for Multi-Centric Histopathology Datasets", DART
2020: running statistics are local, scale and shift are averaged. FedBN: Li et al., "FedBN:
Federated Learning on Non-IID Features via Local Batch Normalization", ICLR 2021: scale and shift
are local too. Both act on every BatchNorm layer of the model, whatever its name. ``personal`` of a
config adds any other part. FedPer: Arivazhagan et al., "Federated Learning with Personalization
Layers", 2019: the head. LG-FedAvg: Liang et al., "Think Locally, Act Globally", 2020: the body.
"""

import re
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from fedseg.batchnorm import batchnorm_layers
from fedseg.config.schema import Pattern
from fedseg.core.algorithm import Algorithm, uses_full_gradient
from fedseg.core.client import Client
from fedseg.core.flat import FlatModel
from fedseg.core.hook import FederatedHook, Run
from fedseg.core.messages import Update
from fedseg.errors import ConfigError
from fedseg.parts import HEAD, part_names
from fedseg.registry import HOOKS

BUFFERS, PARAMETERS, COUNTER = "bn.buffers", "bn.affine", "bn.counter."


@HOOKS.register_module()
class LocalState(FederatedHook):
    """Keeps parts of the model in the client's state; the rest is averaged.

    Args:
        layers: regular expression, searched in the names of BatchNorm layers, that selects the
            local ones; the others are averaged. None: every layer.

    Attributes:
        parts: patterns of further local parts (:func:`fedseg.parts.part_names`).
        own_model: name of a vector in the client's state that is a whole model of its own.
        layers: BatchNorm layers whose running statistics are local.
        estimable: the server's model gives statistics of all others: clients share all but a head.
        buffer_mask, parameter_mask: what is local in the model's vectors.
    """

    local_statistics = local_affine = False
    parts: str | Sequence[str] = ()
    own_model: str | None = None

    def __init__(self, layers: Pattern | None = None) -> None:
        self._pattern = re.compile(layers or "")

    def bind(self, flat: FlatModel) -> None:
        self._slots = {s.name: s for s in flat.buffer_slots}
        local = part_names(flat.model, self.parts, "personal") if self.parts else set()
        if self.local_statistics:
            local |= self._batchnorm_names(flat)
        self.buffer_mask = torch.zeros_like(flat.buffers, dtype=torch.bool)
        self.parameter_mask = torch.zeros_like(flat.w, dtype=torch.bool)
        masked = [(self.buffer_mask, s) for s in flat.buffer_slots]
        for mask, slot in masked + [(self.parameter_mask, s) for s in flat.slots]:
            mask[slot.span] = slot.name in local
        self.counter_names = [name for name in flat.counters if name in local]
        kinds = ("running_mean", "running_var")
        self.layers = [
            name
            for name in batchnorm_layers(flat.model)
            if all(f"{name}.{kind}" in local & self._slots.keys() for kind in kinds)
        ]
        personal = frozenset(slot.name for slot in flat.slots if slot.name in local)
        self.has_parameters = bool(personal)
        self.estimable = not self.layers and personal <= part_names(flat.model, HEAD, "personal")
        if personal:
            flat.personal, flat.personal_names = self.parameter_mask, personal
        if len(personal) == len(flat.slots):
            raise ConfigError("personal: every parameter stays with the clients; share some")

    def _batchnorm_names(self, flat: FlatModel) -> set[str]:
        """Names of the local tensors of the BatchNorm layers in question."""
        names = [name for name in batchnorm_layers(flat.model) if self._pattern.search(name)]
        if not any(f"{name}.running_mean" in self._slots for name in names):
            named = f" whose names match {self._pattern.pattern!r}" * bool(self._pattern.pattern)
            raise ConfigError(
                f"batchnorm: {type(self).__name__} needs a model with BatchNorm layers that track "
                f"statistics; {type(flat.model).__name__} has none{named}. Set batchnorm=None"
            )
        kinds = {"running_mean", "running_var", "num_batches_tracked"}
        if self.local_affine:
            kinds |= {"weight", "bias"}
        return {f"{name}.{kind}" for name in names for kind in kinds}

    def before_train(self, runner: Run) -> None:
        algorithm, kind = runner.algorithm, type(runner.algorithm)
        extras = algorithm.broadcast(runner.server).extras
        corrects = algorithm.client_vectors or uses_full_gradient(algorithm) or extras
        if self.has_parameters and kind.gradient is not Algorithm.gradient and corrects:
            owner = "personal: it" if self.parts else f"batchnorm.type: {type(self).__name__}"
            raise ConfigError(
                f"{owner} keeps parameters on the client, and {kind.__name__} takes gradients at "
                "weights that it shifts by vectors of the whole model: share all parameters "
                "(personal=None, SiloBN for FedBN), or take FedAvg, FedProx or SCAFFOLD"
            )
        runner.server.keep_local(self.buffer_mask, self.counter_names, self.parameter_mask)

    def before_client(self, runner: Run, client: Client) -> None:
        if BUFFERS not in client.state:
            return  # its first participation: the global model's initial statistics
        client.buffers[self.buffer_mask] = client.state[BUFFERS]
        for name in self.counter_names:
            client.counters[name].copy_(client.state[COUNTER + name])
        if self.has_parameters:
            client.start = client.start.clone()
            client.start[self.parameter_mask] = client.state[PARAMETERS]
            client.w.copy_(client.start)

    def after_client(self, runner: Run, client: Client, update: Update) -> None:
        client.state[BUFFERS] = client.buffers[self.buffer_mask]
        for name in self.counter_names:
            client.state[COUNTER + name] = client.counters[name].clone()
        if self.has_parameters:
            client.state[PARAMETERS] = client.w[self.parameter_mask]
            corrections = [client.state[name] for name in runner.algorithm.client_vectors]
            payloads = [p for p in update.payloads.values() if isinstance(p, Tensor)]
            like = [p for p in payloads if p.shape == client.w.shape]
            for vector in [*update.vectors.values(), *like, *corrections]:
                vector[self.parameter_mask] = 0

    def select_state(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The part of a client's state that its evaluation needs."""
        names = (BUFFERS, PARAMETERS, self.own_model)
        return {n: t for n, t in state.items() if n in names or n.startswith(COUNTER)}

    def personal(
        self,
        w: Tensor,
        buffers: Tensor,
        states: list[tuple[int, Mapping[str, Tensor]]],
        own_model: bool = True,
    ) -> tuple[Tensor, Tensor] | None:
        """The model with the local parts of some clients.

        Several clients' parts are averaged, by samples; BatchNorm statistics are pooled: the mean
        and variance of the union of their samples.

        Args:
            w, buffers: the global model.
            own_model: whether to use the full models of clients that have one.
            states: (number of samples, stored state) of each client; those that never trained are
                left out.

        Returns:
            (parameters, buffers), or None if none of the clients has trained.
        """
        states = [(n, s) for n, s in states if BUFFERS in s]
        if not states:
            return None
        w, pooled, total = w.clone(), buffers.clone(), sum(n for n, _ in states)
        if len(states) == 1:
            pooled[self.buffer_mask] = states[0][1][BUFFERS].to(buffers)
        else:
            mean = torch.zeros_like(buffers, dtype=torch.float64)
            square = torch.zeros_like(mean)
            for samples, state in states:
                statistics = torch.zeros_like(mean)
                statistics[self.buffer_mask] = state[BUFFERS].to(mean)
                mean += statistics * (samples / total)
                square += statistics**2 * (samples / total)
            pooled[self.buffer_mask] = mean[self.buffer_mask].to(buffers)
            for layer in self.layers:
                m = self._slots[f"{layer}.running_mean"].span
                v = self._slots[f"{layer}.running_var"].span
                pooled[v] = (mean[v] + square[m] - mean[m] ** 2).to(buffers.dtype)
        if self.own_model and own_model:
            w = sum(s[self.own_model].to(w).double() * (n / total) for n, s in states).to(w)
        elif self.has_parameters:
            mean = sum(s[PARAMETERS].double() * (n / total) for n, s in states)
            w[self.parameter_mask] = mean.to(w)
        return w, pooled


@HOOKS.register_module()
class SiloBN(LocalState):
    """Running mean, variance and batch counter stay with each client, between its rounds too."""

    local_statistics = True


@HOOKS.register_module()
class FedBN(SiloBN):
    """As :class:`SiloBN`, and scale and shift stay with the client as well.

    A domain without clients of its own is evaluated with the clients' mean scale and shift.
    Corrections by vectors of the whole model (SCAFFOLD, FedDyn) act on shared parameters; a
    proximal term (FedProx, FedACG) pulls towards the client's own scale and shift.
    """

    local_affine = True
