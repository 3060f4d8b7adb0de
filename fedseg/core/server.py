"""The server: the global model, what its algorithm keeps, and the running sum of the updates."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from fedseg.core.arithmetic import accumulate
from fedseg.core.flat import FlatModel
from fedseg.core.messages import ClientResult, Message, Payload, Size, num_bytes


def accumulation_dtype(device: torch.device) -> torch.dtype:
    """float64, so that a sum over clients is exact to rounding; float32 where there is none."""
    return torch.float32 if device.type == "mps" else torch.float64


class Aggregate:
    """Running sums over the updates of a round; memory does not grow with the number of clients.

    Args:
        weightings: which sums are kept: ``"samples"`` (N_k times the vector), ``"uniform"``, or a
            name for which each update brings its weight.

    Attributes:
        single_updates: whether large rounds too add every update by itself, for a subclass that
            does more than sums; else :meth:`add` gets sums of blocks of participants.
        may_be_empty: whether a round in which no update counts is one like any other.
        num_clients: updates added. weights: the sum of their weights, by weighting.
        numbers: of the updates: name -> client's position in the partition -> number.
    """

    single_updates = False
    may_be_empty = False

    def __init__(self, weightings: tuple[str, ...] = ("samples",)) -> None:
        self.weightings = weightings
        self.num_clients = 0
        self.weights: Counter[str] = Counter()
        self._sent: Counter[tuple[str, str]] = Counter()  # weights of those who sent a vector
        self._sums: dict[tuple[str, str], Tensor] = {}
        self._means: dict[str, Tensor] = {}
        self._counters: dict[str, Tensor] = {}
        self._payloads: dict[str, tuple[Tensor, Tensor]] = {}  # weighted sums, sums of weights
        self.numbers: defaultdict[str, dict[int, float]] = defaultdict(dict)

    @torch.no_grad()
    def add(self, *parts: "ClientResult | Aggregate") -> None:
        """Add accepted updates, or sums of blocks of them, in this order."""
        terms: defaultdict[tuple[str, str], list[tuple[Tensor, float]]] = defaultdict(list)
        for part in parts:
            if isinstance(part, Aggregate):
                counters, samples = part._counters, 1
                payloads = part._payloads
                weights, self.num_clients = part.weights, self.num_clients + part.num_clients
                self._sent.update(part._sent)
                for name, of_clients in part.numbers.items():
                    self.numbers[name].update(of_clients)
                for key, vector in part._sums.items():
                    terms[key].append((vector, 1))
            else:
                counters, samples = part.counters, part.task.num_samples
                weights = {"samples": samples, "uniform": 1, **part.update.weights}
                self.num_clients += 1
                for name, number in part.update.numbers.items():
                    self.numbers[name][part.task.client] = number
                sent = [(n, w, v) for n, v in part.update.vectors.items() for w in self.weightings]
                for name, weighting, vector in sent:
                    terms[name, weighting].append((vector, weights[weighting]))
                    self._sent[name, weighting] += weights[weighting]
                terms["buffers", "samples"].append((part.buffers, samples))
                self._sent["buffers", "samples"] += samples
                payloads = {
                    name: _weighted(sent, weights.get(part.declared[name].weighting))
                    for name, sent in part.update.payloads.items()
                }
            self.weights.update(weights)
            for name, counter in counters.items():
                self._counters[name] = self._counters.get(name, 0) + counter.double() * samples
            for name, (total, weight) in payloads.items():
                before = self._payloads.get(name, (0, 0))
                self._payloads[name] = before[0] + total, before[1] + weight
        self._means.clear()
        for key, pairs in terms.items():
            begin, like = key not in self._sums, pairs[0][0]
            if begin:
                self._sums[key] = torch.empty_like(like, dtype=accumulation_dtype(like.device))
            accumulate(self._sums[key], pairs, begin)

    def weighted_sum(self, name: str, weighting: str) -> Tensor:
        """``sum_S weight_k v_k`` of any weighting, float64 (do not change in place)."""
        try:
            return self._sums[name, weighting]
        except KeyError:
            kept = ", ".join(f"{n} ({w})" for n, w in self._sums)
            raise KeyError(f"no {weighting} sum of {name!r} is kept, only of: {kept}") from None

    def mean(self, name: str = "delta") -> Tensor:
        """``sum_S N_k/N v_k`` over those who sent it, float64 (do not change in place).

        Of a payload the mean by its own weighting, in its shape; 0 where no weight is.
        """
        if name in self._payloads:
            total, weight = self._payloads[name]
            return torch.where(weight > 0, total / weight, 0)
        if name not in self._means:
            self._means[name] = self._divide(name, "samples")
        return self._means[name]

    def weight(self, name: str) -> Tensor:
        """Sum of the weights of a payload, float64, 0-d, or [R] where each row has its own."""
        weight = self._payloads[name][1]
        return weight.flatten() if weight.dim() else weight

    def has(self, name: str) -> bool:
        """True if a client sent this payload."""
        return name in self._payloads

    def uniform_mean(self, name: str = "delta") -> Tensor:
        """``mean_S v_k`` over those who sent it, float64."""
        return self._divide(name, "uniform")

    def _divide(self, name: str, weighting: str) -> Tensor:
        return self.weighted_sum(name, weighting) / self._sent[name, weighting]

    def counters(self) -> dict[str, Tensor]:
        """Integer buffers averaged by N_k and rounded."""
        samples = self._sent["buffers", "samples"]  # updates may have other weights
        return {n: (c / samples).round().long() for n, c in self._counters.items()}


def _weighted(sent: Tensor | tuple[Tensor, Tensor], weight: float | None) -> tuple[Tensor, Tensor]:
    """A payload times its weight, and the weight, both float64; of rows [R, 1, ...]."""
    values, rows = sent if isinstance(sent, tuple) else (sent, torch.tensor(weight))
    dtype = accumulation_dtype(values.device)
    rows = rows.to(values.device, dtype)
    if rows.dim():
        rows = rows.view(-1, *[1] * (values.dim() - 1))
    return values.to(dtype) * rows, rows


class Server:
    """The global model and everything that outlives a round on the server.

    Args:
        flat: gives the initial model; the server's vectors are its own.
        num_clients: all clients, K.
        server_vectors: names of the algorithm's zero-initialized vectors.

    Attributes:
        w: the global parameters, flat, in the model's dtype.
        buffers: the global float buffers, flat. counters: the global integer buffers.
        state: the algorithm's and the server optimizer's vectors, float64.
        scratch: vectors that live within a round (between exchanges) and are never saved.
        norms: medians of what the last round's clients sent, by name.
        longest: largest allowed norms, see :class:`Message`.
        round, exchange: where the run is (rounds from 1, exchanges from 0).
    """

    def __init__(
        self, flat: FlatModel, num_clients: int, server_vectors: tuple[str, ...] = ()
    ) -> None:
        self.w = flat.w.clone()
        self.buffers = flat.buffers.clone()
        self.counters = {name: counter.clone() for name, counter in flat.counters.items()}
        self.num_clients = num_clients
        dtype = accumulation_dtype(self.w.device)
        self.state = {name: torch.zeros_like(self.w, dtype=dtype) for name in server_vectors}
        self.scratch: dict[str, Tensor] = {}
        self.norms: dict[str, float] = {}
        self.longest: Mapping[str, float] = {}
        self._broadcast: list[str] = []
        self._local_buffers: Tensor | None = None
        self._local_counters: frozenset[str] = frozenset()
        self._num_parameters = flat.num_parameters
        self._num_buffers = flat.num_buffers
        self.round = self.exchange = 0

    def state_dict(self) -> dict[str, Any]:
        """The state besides the model, which a checkpoint holds as a plain state dict."""
        return {"state": dict(self.state), "norms": self.norms}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.state, self.norms = dict(state["state"]), state["norms"]

    def keep(self, payloads: Iterable[Payload]) -> None:
        """Allocate payloads that every message broadcasts to the clients."""
        for payload in payloads:
            if payload.broadcast:
                shape = self.w.shape if payload.shape is None else payload.shape
                dtype = accumulation_dtype(self.w.device)
                self.state[payload.name] = torch.zeros(shape, dtype=dtype, device=self.w.device)
                self._broadcast.append(payload.name)

    @contextmanager
    def taking_payloads(self, updates: Aggregate, left_out: Iterable[Payload]) -> Iterator[None]:
        """Afterwards take the means of broadcast payloads that nothing has changed meanwhile."""
        names = set(self._broadcast).difference(payload.name for payload in left_out)
        before = {name: (self.state[name], self.state[name]._version) for name in names}
        yield
        for name, (old, version) in before.items():
            if self.state[name] is old and old._version == version:
                self.take_payload(name, updates)

    def take_payload(self, name: str, updates: Aggregate) -> None:
        """Take the mean of a payload as its new state; rows that nobody sent stay as they are."""
        if updates.has(name):
            weight, old = updates.weight(name), self.state[name]
            known = (weight > 0).view(-1, *[1] * (old.dim() - 1)) if weight.dim() else weight > 0
            self.state[name] = torch.where(known, updates.mean(name), old)

    def message(
        self,
        w: Tensor,
        extras: Mapping[str, Tensor] | None = None,
        known: bool = False,
        numbers: Mapping[str, Sequence[float]] | None = None,
    ) -> Message:
        """A message that starts the clients at ``w``; see :class:`Message`.

        Extras are given in the model's dtype: that is what is sent.
        """
        extras = {name: tensor.to(w.dtype) for name, tensor in (extras or {}).items()}
        payloads = {name: self.state[name].to(w.dtype) for name in self._broadcast}
        return Message(
            w,
            self.buffers,
            self.counters,
            extras,
            known,
            self.longest,
            payloads,
            numbers=numbers or {},
        )

    def keep_local(self, buffers: Tensor, counters: list[str], parameters: Tensor) -> None:
        """Set what stays with the clients: it is neither averaged nor counted as traffic.

        Args:
            buffers: mask over the float buffers. counters: names of integer buffers.
            parameters: mask over ``w``; what a client sends there must be zero.
        """
        self._local_buffers = buffers
        self._local_counters = frozenset(counters)
        self._num_buffers -= int(buffers.sum())
        self._num_parameters -= int(parameters.sum())

    def traffic(self, size: Size, buffers: bool = True) -> int:
        """Bytes of a message or update; ``buffers``: float and integer buffers travel with it."""
        element, sent = self.w.element_size(), size.vector_bytes
        if sent is None:
            sent = size.vectors * self._num_parameters * element
        sent += size.more_bytes + size.more_vectors * self._num_parameters
        if not buffers:
            return sent
        shared = [c for n, c in self.counters.items() if n not in self._local_counters]
        return sent + self._num_buffers * element + num_bytes(shared)

    def take_buffers(self, updates: Aggregate) -> None:
        """Average the participants' buffers into the global ones, except those kept local."""
        mean = updates.mean("buffers").to(self.buffers.dtype)
        if self._local_buffers is not None:
            mean = torch.where(self._local_buffers, self.buffers, mean)
        self.buffers.copy_(mean)
        for name, counter in updates.counters().items():
            if name not in self._local_counters:
                self.counters[name].copy_(counter)
