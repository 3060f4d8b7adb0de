"""BatchNorm policies: which of its parameters and statistics stay with each client.

SiloBN: Andreux et al., "Siloed Federated Learning for Multi-Centric Histopathology Datasets", DART
2020: running statistics are local, scale and shift are averaged. FedBN: Li et al., "FedBN:
Federated Learning on Non-IID Features via Local Batch Normalization", ICLR 2021: scale and shift
are local too. Both act on every BatchNorm layer of the model, whatever its name.
"""

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from fedseg.batchnorm import batchnorm_layers
from fedseg.config.schema import Pattern
from fedseg.core.algorithm import Algorithm
from fedseg.core.client import Client
from fedseg.core.flat import FlatModel
from fedseg.core.hook import FederatedHook, Run
from fedseg.core.messages import Update
from fedseg.errors import ConfigError
from fedseg.registry import HOOKS

BUFFERS, AFFINE, COUNTER = "bn.buffers", "bn.affine", "bn.counter."


class BatchNormPolicy(FederatedHook):
    """Keeps a part of every BatchNorm layer in the client's state; the rest is averaged.

    Args:
        layers: a regular expression that the names of the layers in question match somewhere; the
            others are averaged as if there were no policy. None: every layer.
    """

    local_affine = False

    def __init__(self, layers: Pattern | None = None) -> None:
        self._pattern = re.compile(layers or "")

    def bind(self, flat: FlatModel) -> None:
        names = [name for name in batchnorm_layers(flat.model) if self._pattern.search(name)]
        tracked = {s.name: s for s in flat.buffer_slots}
        self.layers = [n for n in names if f"{n}.running_mean" in tracked]
        if not self.layers:
            named = f" whose names match {self._pattern.pattern!r}" * bool(self._pattern.pattern)
            raise ConfigError(
                f"batchnorm: {type(self).__name__} needs a model with BatchNorm layers that track "
                f"statistics; {type(flat.model).__name__} has none{named}. Set batchnorm=None"
            )
        self._slots = tracked
        self.buffer_mask = torch.zeros_like(flat.buffers, dtype=torch.bool)
        self.affine_mask = torch.zeros_like(flat.w, dtype=torch.bool)
        for layer in self.layers:
            for name in ("running_mean", "running_var"):
                self.buffer_mask[tracked[f"{layer}.{name}"].span] = True
        prefixes = tuple(f"{layer}." for layer in names)
        if self.local_affine:
            for slot in flat.slots:
                if slot.name.startswith(prefixes):
                    self.affine_mask[slot.span] = True
        self.counter_names = [n for n in flat.counters if n.startswith(prefixes)]

    def before_train(self, runner: Run) -> None:
        runner.server.keep_local(self.buffer_mask, self.counter_names, self.affine_mask)

    def before_client(self, runner: Run, client: Client) -> None:
        if BUFFERS not in client.state:
            return  # its first participation: the global model's initial statistics
        client.buffers[self.buffer_mask] = client.state[BUFFERS]
        for name in self.counter_names:
            client.counters[name].copy_(client.state[COUNTER + name])
        if self.local_affine:
            client.start = client.start.clone()
            client.start[self.affine_mask] = client.state[AFFINE]
            client.w.copy_(client.start)

    def after_client(self, runner: Run, client: Client, update: Update) -> None:
        client.state[BUFFERS] = client.buffers[self.buffer_mask]
        for name in self.counter_names:
            client.state[COUNTER + name] = client.counters[name].clone()
        if self.local_affine:
            client.state[AFFINE] = client.w[self.affine_mask]
            for vector in update.vectors.values():
                vector[self.affine_mask] = 0

    @staticmethod
    def select_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The part of a client's state that belongs to this policy."""
        return {n: t for n, t in state.items() if n in (BUFFERS, AFFINE) or n.startswith(COUNTER)}

    def personal(
        self, w: Tensor, buffers: Tensor, states: list[tuple[int, Mapping[str, Tensor]]]
    ) -> tuple[Tensor, Tensor] | None:
        """The model with the statistics (and scale and shift, if local) of some clients.

        Several clients' statistics are pooled: the mean and variance of the union of their samples.

        Args:
            w, buffers: the global model.
            states: (number of samples, stored state) of each client; those that never trained are
                left out.

        Returns:
            (parameters, buffers), or None if none of the clients has trained.
        """
        states = [(n, s) for n, s in states if BUFFERS in s]
        if not states:
            return None
        w, pooled = w.clone(), buffers.clone()
        if len(states) == 1:
            pooled[self.buffer_mask] = states[0][1][BUFFERS].to(buffers)
        else:
            total = sum(n for n, _ in states)
            mean = torch.zeros_like(buffers, dtype=torch.float64)
            square = torch.zeros_like(mean)
            for samples, state in states:
                statistics = torch.zeros_like(mean)
                statistics[self.buffer_mask] = state[BUFFERS].to(mean)
                mean += statistics * (samples / total)
                square += statistics**2 * (samples / total)
            for layer in self.layers:
                m = self._slots[f"{layer}.running_mean"].span
                v = self._slots[f"{layer}.running_var"].span
                pooled[m] = mean[m].to(buffers.dtype)
                pooled[v] = (mean[v] + square[m] - mean[m] ** 2).to(buffers.dtype)
        if self.local_affine:
            total = sum(n for n, _ in states)
            w[self.affine_mask] = sum(s[AFFINE].double() * (n / total) for n, s in states).to(w)
        return w, pooled


@HOOKS.register_module()
class SiloBN(BatchNormPolicy):
    """Running mean, variance and batch counter stay with each client, between its rounds too."""


@HOOKS.register_module()
class FedBN(BatchNormPolicy):
    """As :class:`SiloBN`, and scale and shift stay with the client as well.

    A domain without clients of its own is evaluated with the clients' mean scale and shift.

    Algorithms that correct local steps by vectors of the whole model, the client's own or the
    server's, are refused: on what stays local the correction has no counterpart and would go on
    acting. A pull to where a client started (FedProx, FedACG) is to its own scale and shift.
    """

    local_affine = True

    def before_train(self, runner: Run) -> None:
        algorithm, kind = runner.algorithm, type(runner.algorithm)
        own_steps = (kind.gradient, kind.correct) != (Algorithm.gradient, Algorithm.correct)
        extras = algorithm.broadcast(runner.server).extras
        if own_steps and (algorithm.client_vectors or algorithm.full_gradient or extras):
            raise ConfigError(
                "batchnorm.type: FedBN keeps scale and shift on the client, and the correction by "
                f"{kind.__name__} has no counterpart there: use SiloBN, or an algorithm "
                "without one, such as FedAvg or FedProx"
            )
        super().before_train(runner)
