"""The server's state: the global model and what else outlives a round."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fedseg.core.aggregate import Aggregate
from fedseg.core.flat import FlatModel
from fedseg.core.local_state import LocalState
from fedseg.core.messages import Message, Payload, Size


class Server:
    """The global model and everything that outlives a round on the server.

    Args:
        flat: gives the initial model; the server's vectors are its own.
        num_clients: all clients, K.
        server_vectors: names of the algorithm's zero-initialized vectors.
        local_state: what stays with the clients: the server neither averages it nor counts it as
            traffic; None: nothing.

    Attributes:
        w: the global parameters, flat, in the model's dtype.
        buffers: the global float buffers, flat.
        counters: the global integer buffers, flat.
        state: the algorithm's and the server optimizer's vectors, float64.
        scratch: tensors and numbers that live until the end of the round and are never saved.
        median_norms: of what the last round's clients sent, by name: the median over the clients.
        norm_limits: largest allowed norms in this round, see :class:`Message`.
        round: the present round, from 1.
        exchange: the present exchange of the round, from 0.
    """

    def __init__(
        self,
        flat: FlatModel,
        num_clients: int,
        server_vectors: tuple[str, ...] = (),
        local_state: LocalState | None = None,
    ) -> None:
        self.w = flat.w.clone()
        self.buffers = flat.buffers.clone()
        self.counters = flat.counters.clone()
        self.num_clients = num_clients
        self.state = {
            name: torch.zeros_like(self.w, dtype=torch.float64) for name in server_vectors
        }
        self.scratch: dict[str, Any] = {}
        self.median_norms: dict[str, float] = {}
        self.norm_limits: Mapping[str, float] = {}
        self.local_state = local_state
        self._broadcast: list[str] = []
        self._num_parameters = flat.num_parameters  # that are shared
        self._num_buffers = flat.num_buffers
        self._num_counters = flat.num_counters
        if local_state is not None:
            self._num_parameters -= len(local_state.parameter_positions)
            self._num_buffers -= len(local_state.buffer_positions)
            self._num_counters -= len(local_state.counter_positions)
        self.round = 0
        self.exchange = 0

    def state_dict(self) -> dict[str, Any]:
        """The state besides the model, which a checkpoint holds as a plain state dict."""
        return {"state": dict(self.state), "norms": self.median_norms}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.state = dict(state["state"])
        self.median_norms = state["norms"]

    def start_round(self, round_: int) -> None:
        """Begin a round, numbered from 1: the scratch of the one before is gone."""
        self.round = round_
        self.scratch.clear()

    def keep(self, payloads: Iterable[Payload]) -> None:
        """Allocate the payloads that every message broadcasts to the clients, zeros at first."""
        for payload in payloads:
            if payload.broadcast:
                self.state[payload.name] = torch.zeros(
                    payload.sizes(self.w), dtype=torch.float64, device=self.w.device
                )
                self._broadcast.append(payload.name)

    def message(
        self,
        w: Tensor,
        *,
        w_is_known: bool = False,
        numbers: Mapping[str, Sequence[float]] | None = None,
        **extras: Tensor,
    ) -> Message:
        """A message that starts the clients at ``w``.

        Args:
            w: the parameters to start from, flat.
            w_is_known: the participants have ``w`` from an earlier exchange of the round: neither
                it nor payloads and buffers count as traffic again.
            numbers: by name, one for each client, in partition order; a client receives its own.
            extras: further tensors, ``client.extras`` by name; sent in the model's dtype.
        """
        return Message(
            w=w,
            buffers=self.buffers,
            counters=self.counters,
            extras={name: tensor.to(w.dtype) for name, tensor in extras.items()},
            w_is_known=w_is_known,
            norm_limits=self.norm_limits,
            payloads={name: self.state[name].to(w.dtype) for name in self._broadcast},
            numbers=numbers or {},
        )

    def traffic(self, size: Size, buffers: bool = True) -> int:
        """Bytes of a message or update; personal parts and gaps are not sent.

        Args:
            size: of the message or update.
            buffers: float and integer buffers travel with it.
        """
        element = self.w.element_size()
        sent = size.vector_bytes
        if sent is None:
            sent = size.vectors * self._num_parameters * element
        sent += size.payload_bytes_per_parameter * self._num_parameters
        sent += size.other_bytes
        if not buffers:
            return sent
        sent += self._num_buffers * element
        return sent + self._num_counters * self.counters.element_size()

    def take_buffers(self, aggregate: Aggregate) -> None:
        """Average the participants' buffers into the global ones, except personal ones."""
        buffers = aggregate.buffers().to(self.buffers.dtype)
        counters = aggregate.counters()
        if self.local_state is not None:
            buffers = torch.where(self.local_state.buffer_mask, self.buffers, buffers)
            counters = torch.where(self.local_state.counter_mask, self.counters, counters)
        self.buffers.copy_(buffers)
        self.counters.copy_(counters)
