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

from typing import Annotated

import torch
from annotated_types import Interval
from torch import Tensor

from fedseg.core.client import Client
from fedseg.core.flat import FlatModel
from fedseg.core.hook import FederatedHook, Run
from fedseg.core.messages import Update
from fedseg.core.seeds import generator_for
from fedseg.errors import ConfigError
from fedseg.registry import COMPRESSIONS

MEMORY = "compression.memory"
INDEX_BYTES = 4
LEVELS = 127


class Compression(FederatedHook):
    """Base: replaces ``delta`` by its decompressed form, and counts its bytes.

    Attributes:
        memory: whether a client adds the error of its last update. The memory is its state: a
            client that is not sampled, or whose update is rejected, keeps it.
        seed: the run's.
        spans: of the tensors that are shared, in the model's vector. size: their elements.
    """

    priority = "LOWEST"
    memory = True
    seed = 0

    def bind(self, flat: FlatModel) -> None:
        shared = [s for s in flat.slots if s.name not in flat.personal_names]
        self.spans = [s.span for s in shared if s.numel]
        self.size = sum(span.stop - span.start for span in self.spans)

    def compress(self, vector: Tensor, client: Client) -> tuple[Tensor, int]:
        """(decompressed vector, bytes sent) of a vector, which is not changed."""
        raise NotImplementedError

    def after_client(self, runner: Run, client: Client, update: Update) -> None:
        name = f"compression.type: {type(self).__name__}"
        algorithm = type(runner.algorithm).__name__
        if "delta" not in update.vectors:
            if not runner.algorithm.exchanges[client.exchange].train:
                return
            raise ConfigError(f"{name} compresses delta, which {algorithm} does not send: drop one")
        if update.num_bytes is not None:
            raise ConfigError(f"{name} and {algorithm} both set the form in which delta is sent")
        delta = update.vectors["delta"]
        whole = delta + client.state[MEMORY] if MEMORY in client.state else delta.clone()
        sent, size = self.compress(whole, client)
        update.vectors["delta"] = sent
        others = (len(update.vectors) - 1) * self.size * delta.element_size()
        update.num_bytes = size + others
        if self.memory:
            client.state[MEMORY] = whole.sub_(sent)


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
        count, width = max(1, round(self.share * self.size)), vector.element_size()
        chosen = vector.abs().topk(count, sorted=False).indices
        sent = torch.zeros_like(vector)
        sent[chosen] = vector[chosen]
        return sent, min(count * (width + INDEX_BYTES), self.size * width)


@COMPRESSIONS.register_module()
class Int8(Compression):
    """Every entry as a multiple from -127 to 127 of a scale, one for each tensor of the model.

    The scale is the largest magnitude / 127. Rounding is stochastic and unbiased, drawn from the
    run's seed, round and client; no error is kept.
    """

    memory = False

    def compress(self, vector: Tensor, client: Client) -> tuple[Tensor, int]:
        counters = client.round, client.exchange, client.index
        draws = generator_for(self.seed, "compression", *counters)
        sent = torch.zeros_like(vector)
        for span in self.spans:
            part = vector[span].to(torch.float64)
            scale = (part.abs().max() / LEVELS).to(vector.dtype).to(part.dtype)
            draw = torch.from_numpy(draws.random(len(part))).to(part)
            levels = (part / scale + draw).floor_().clamp_(-LEVELS, LEVELS)
            # times 0, what is not finite stays so, and is rejected
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
            part = vector[span]
            scale = part.abs().mean(dtype=torch.float64).to(vector.dtype)
            sent[span] = torch.where(part < 0, -scale, scale)
        return sent, -(-self.size // 8) + len(self.spans) * vector.element_size()
