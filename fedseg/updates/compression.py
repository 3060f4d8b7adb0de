"""Compression: a client sends its ``delta`` in fewer bytes, with error feedback.

Stich et al., "Sparsified SGD with Memory", NeurIPS 2018 (top-k); Karimireddy et al., "Error
Feedback Fixes SignSGD and other Gradient Compression Schemes", ICML 2019, algorithm 1 (sign and
scale); Alistarh et al., "QSGD: Communication-Efficient SGD via Gradient Quantization and Encoding",
NeurIPS 2017 (stochastic rounding).

Only ``delta`` on the way up is compressed: further vectors of an algorithm (SCAFFOLD's control
variates), payloads and BatchNorm statistics are sent and counted uncompressed, and a client's own
state comes from its uncompressed ``delta``. Personal parts are not sent. An attacker's update is
compressed like any other; robust rules and privacy act on compressed updates.
"""

import math
from typing import Annotated

import torch
from annotated_types import Interval
from torch import Tensor

from fedseg.core.algorithm import Algorithm
from fedseg.core.client import Client
from fedseg.core.client_data import ClientData
from fedseg.core.flat import FlatModel
from fedseg.core.local_state import shared_slots
from fedseg.core.messages import Update
from fedseg.core.seeds import generator_for
from fedseg.errors import ConfigError
from fedseg.registry import COMPRESSIONS
from fedseg.updates.postprocessor import Postprocessor

MEMORY = "compression.memory"  # in the client's state: what was not sent
INDEX_BYTES = 4
LEVELS = 127


class Compression(Postprocessor):
    """Base: replaces ``delta`` by its decompressed form, and counts its bytes.

    Attributes:
        memory: whether a client adds the error of its last update. The memory is its state: a
            client that is not sampled, or whose update is rejected, keeps it.
        seed: the run's.
        spans: of the tensors that are shared, in the model's vector.
        size: elements of these tensors.
    """

    memory = True

    def setup(self, flat: FlatModel, algorithm: Algorithm, data: ClientData, seed: int) -> None:
        self.seed = seed
        self.spans = [slot.span for slot in shared_slots(flat, algorithm.local_state)]
        self.size = sum(span.stop - span.start for span in self.spans)
        self._algorithm = algorithm

    def compress(self, vector: Tensor, client: Client) -> tuple[Tensor, int]:
        """(decompressed vector, bytes sent) of a vector, which is not changed."""
        raise NotImplementedError

    def process_update(self, client: Client, update: Update) -> None:
        algorithm = type(self._algorithm).__name__
        if "delta" not in update.vectors:
            if not self._algorithm.exchanges[client.exchange].train:
                return
            raise ConfigError(
                f"compression: must be None: {type(self).__name__} compresses delta, which "
                f"{algorithm} does not send"
            )
        if update.num_bytes is not None:
            raise ConfigError(
                f"compression: must be None: {algorithm} itself sets the form in which delta is "
                "sent"
            )
        delta = update.vectors["delta"]
        # p = delta + e, send C(p), keep e = p - C(p)
        corrected = delta + client.state[MEMORY] if MEMORY in client.state else delta.clone()
        sent, num_bytes = self.compress(corrected, client)
        other_vectors = len(update.vectors) - 1
        update.vectors["delta"] = sent
        update.num_bytes = num_bytes + other_vectors * self.size * delta.element_size()
        if self.memory:
            client.state[MEMORY] = corrected.sub_(sent)


@COMPRESSIONS.register_module()
class TopK(Compression):
    """The entries of largest magnitude, each with a 4-byte index; the others are kept for later.

    Args:
        share: of the entries, rounded, at least one. Where all values take fewer bytes than values
            and indices, no indices are sent; 1 is no compression.
    """

    def __init__(self, share: Annotated[float, Interval(gt=0, le=1)] = 0.01) -> None:
        self.share = share

    def compress(self, vector: Tensor, client: Client) -> tuple[Tensor, int]:
        count = max(1, round(self.share * self.size))
        largest = vector.abs().topk(count, sorted=False).indices
        sent = torch.zeros_like(vector)
        sent[largest] = vector[largest]
        value_bytes = vector.element_size()
        return sent, min(count * (value_bytes + INDEX_BYTES), self.size * value_bytes)


@COMPRESSIONS.register_module()
class Int8(Compression):
    """Every entry as a multiple from -127 to 127 of a scale, one for each tensor of the model.

    The scale is the largest magnitude / 127. Rounding is stochastic and unbiased, drawn from the
    run's seed, round and client; no error is kept.
    """

    memory = False

    def compress(self, vector: Tensor, client: Client) -> tuple[Tensor, int]:
        draws = generator_for(self.seed, "compression", client.round, client.exchange, client.index)
        sent = torch.zeros_like(vector)
        for span in self.spans:
            values = vector[span].to(torch.float64)
            # the scale is sent in the model's dtype
            scale = (values.abs().max() / LEVELS).to(vector.dtype).to(torch.float64)
            uniform = torch.from_numpy(draws.random(len(values))).to(values)
            levels = (values / scale + uniform).floor_().clamp_(-LEVELS, LEVELS)
            # a scale that is not finite stays so times 0, and the update is rejected
            sent[span] = torch.where(scale > 0, levels * scale, scale * 0).to(vector.dtype)
        return sent, self.size + len(self.spans) * vector.element_size()


@COMPRESSIONS.register_module()
class SignSGD(Compression):
    """The sign of every entry, a bit, times the mean magnitude of its tensor; 0 counts as positive.

    The error is kept. This is the paper's EF-SIGNSGD, tensor by tensor.
    """

    def compress(self, vector: Tensor, client: Client) -> tuple[Tensor, int]:
        sent = torch.zeros_like(vector)
        for span in self.spans:
            values = vector[span]
            scale = values.abs().mean(dtype=torch.float64).to(vector.dtype)
            sent[span] = torch.where(values < 0, -scale, scale)
        return sent, math.ceil(self.size / 8) + len(self.spans) * vector.element_size()
