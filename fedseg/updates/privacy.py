"""Client-level differential privacy: bounds what a model reveals about a single client.

McMahan et al., "Learning Differentially Private Recurrent Language Models", ICLR 2018, algorithm 1:
every client takes part in a round with probability q, its update is clipped to length C, and the
server moves by ``(sum_k delta_k + N(0, z^2 C^2)) / (q K)``, also if nobody takes part. Updates have
equal weights (the paper's ``w_k = 1``). The budget (epsilon, delta) after T rounds is
that of Opacus' RDP accountant for T sampled Gaussian mechanisms; neighbours differ by one client.

The budget covers the global models and what is computed from them alone (averages, server
optimizers). What else a run could go on with is refused. It does not cover the history's
participants, their losses and samples, personal parts and client states in checkpoints, and
evaluations on clients' own images. Noise and participants follow from the run's seed, which is in
``config.json`` and ``results.json``: whoever knows it can remove the noise.
"""

import math
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import torch
from annotated_types import Interval
from torch import Tensor

from fedseg.config.arguments import NonNegative, Positive
from fedseg.core.aggregate import Aggregate
from fedseg.core.algorithm import AggregationRule, Algorithm
from fedseg.core.client import Client
from fedseg.core.client_data import ClientData
from fedseg.core.flat import FlatModel
from fedseg.core.local_state import shared_slots
from fedseg.core.messages import Size, Update
from fedseg.core.seeds import generator_for
from fedseg.core.server import Server
from fedseg.errors import ConfigError
from fedseg.registry import ALGORITHMS, PRIVACIES
from fedseg.updates.accountant import Accountant
from fedseg.updates.postprocessor import Postprocessor

COUNTED = ("FedAvg", "FedProx")  # algorithms whose server moves by the mean of the updates alone


class PrivateAggregate(Aggregate):
    """Sums of clipped updates, with noise and a denominator that does not depend on who took part.

    They are read after :meth:`release`.
    """

    _noise: Tensor
    _expected_clients: float
    _server: Server

    def release(self, noise: Tensor, expected_clients: float, server: Server) -> None:
        """Add noise to the sum of ``delta``, and divide by the expected number of participants.

        Args:
            noise: like ``w``, float64.
            expected_clients: q K.
            server: its buffers and counters stay where nobody took part.
        """
        self._noise = noise
        self._expected_clients = expected_clients
        self._server = server

    def total(self, name: str = "delta", weighting: str | None = None) -> Tensor:
        if self.num_clients == 0:
            return self._noise
        return super().total(name, weighting) + self._noise

    def mean(self, name: str = "delta", weighting: str | None = None) -> Tensor:
        return self.total(name, weighting) / self._expected_clients

    def buffers(self) -> Tensor:
        if self.num_clients == 0:
            return self._server.buffers.to(torch.float64)
        return super().buffers()

    def counters(self) -> Tensor:
        if self.num_clients == 0:
            return self._server.counters
        return super().counters()


class PrivateRule(AggregationRule):
    """Gives :class:`PrivateAggregate`."""

    may_be_empty = True

    def new_aggregate(self, algorithm: Algorithm) -> PrivateAggregate:
        return PrivateAggregate(algorithm.weightings)


@PRIVACIES.register_module()
class DPFedAvg(Postprocessor):
    """Clips what clients send, adds noise to its sum, and keeps the budget.

    Args:
        noise: z, standard deviation of the noise on the sum, in units of ``clip``; 0: none, which
            has no epsilon.
        clip: C, the longest update; None: any length, only without noise.
        delta: of the budget; None: K^-1.1 with all K clients.

    Attributes:
        accountant: of the run, from :meth:`check` on.
    """

    aggregation_rule = PrivateRule()

    def __init__(
        self,
        noise: NonNegative = 1.0,
        clip: Positive | None = 1.0,
        delta: Annotated[float, Interval(gt=0, lt=1)] | None = None,
    ) -> None:
        if clip is None and noise:
            raise ValueError("noise is in units of clip: give clip, or noise=0")
        self.noise = noise
        self.clip = clip
        self._deviation = 0.0 if clip is None else noise * clip
        self.delta = delta

    def setup(self, flat: FlatModel, algorithm: Algorithm, data: ClientData, seed: int) -> None:
        self.seed = seed
        self.num_clients = len(data.clients)
        self._spans = [slot.span for slot in shared_slots(flat, algorithm.local_state)]

    # ---------------------------------------------------------------- clip, add noise

    def process_update(self, client: Client, update: Update) -> None:
        """``delta min(1, C / ||delta||)``, weighing 1."""
        noiseless = {*update.vectors, *update.payloads, *update.numbers} - {"delta"}
        if noiseless:
            raise ConfigError(
                f"privacy: {', '.join(sorted(noiseless))} would be sent without noise: leave out "
                "the hook that adds it"
            )
        update.weights = {**update.weights, "samples": 1}
        delta = update.vectors["delta"]
        norm = float(torch.linalg.vector_norm(delta, dtype=torch.float64))
        # an update that is not finite stays so, and is rejected
        if self.clip is not None and self.clip < norm < math.inf:
            update.vectors["delta"] = delta * (self.clip / norm)

    def process_aggregate(self, server: Server, aggregate: Aggregate) -> None:
        """``(sum_k delta_k + N(0, z^2 C^2)) / (q K)``."""
        if not isinstance(aggregate, PrivateAggregate):
            raise TypeError(f"privacy needs PrivateAggregate, not {type(aggregate).__name__}")
        noise = torch.zeros_like(server.w, dtype=torch.float64)
        if self.noise:
            draws = generator_for(self.seed, "privacy", server.round)
            for span in self._spans:
                normal = torch.from_numpy(draws.standard_normal(span.stop - span.start))
                noise[span] = normal.to(noise) * self._deviation
        aggregate.release(noise, self.accountant.rate * self.num_clients, server)

    # ---------------------------------------------------------------- the budget

    def accountant_of(self, sampler: Any) -> Accountant:
        """The accountant of a run with this client sampler, a ``PoissonSampler``."""
        for sentence in self._sampling_refusals(sampler):
            raise ConfigError(f"privacy: {sentence}")
        delta = self.delta or min(len(sampler.clients) ** -1.1, 0.5)
        return Accountant(self.noise, sampler.rate, delta)

    def metrics(self, round_: int) -> dict[str, float | None]:
        return {"epsilon": self.accountant.epsilon(round_)}

    def results(self, rounds: int) -> dict[str, Any]:
        return {"privacy": self.accountant.results(rounds)}

    # ---------------------------------------------------------------- what is refused

    def check(self, run: Any) -> None:
        """Raise ConfigError for what would reveal more about a client than the budget covers."""
        for sentence in self.refusals(run):
            raise ConfigError(f"privacy: {sentence}")
        self.accountant = self.accountant_of(run.client_sampler)

    def refusals(self, run: Any) -> Iterator[str]:
        """What of the run the budget does not count, and what to do about it."""
        yield from self._sampling_refusals(run.client_sampler)
        if not math.isinf(run.train_loop.max_norm_ratio):
            yield (
                "whether an update counts must not depend on those of others: set "
                "train_cfg.max_norm_ratio=None"
            )
        if type(run.algorithm) not in [ALGORITHMS.get(name) for name in COUNTED]:
            yield (
                f"algorithm.type: epsilon is that of {' and '.join(COUNTED)}, with any server "
                f"optimizer, and not of {type(run.algorithm).__name__}: take one of them"
            )
        if run.trainer.payloads:
            yield (
                f"payloads ({', '.join(run.trainer.payloads)}) are sent without noise: leave "
                "out what declares them"
            )
        if run.server.traffic(Size()):
            yield (
                "BatchNorm statistics are averaged without noise: let them stay with the clients "
                "(personal='@batchnorm.statistics') or freeze them (model.freeze)"
            )
        if getattr(run.data.dataset, "style", None) is not None:
            yield "styles of images go to other clients: leave style out"
        if any(getattr(hook, "save_best", None) for hook in run.hooks):
            yield (
                "default_hooks.checkpoint.save_best: the choice of a model by evaluations is not "
                "counted: leave it out"
            )
        fix = "start from weights of public data, a plain state dict as model.weights"
        if run.cfg.get("load_from") is not None:
            yield f"load_from: what an earlier run revealed is not counted: {fix}"
        path = weights_path(run.cfg.model.get("weights"))
        if path is not None and is_checkpoint(path):
            yield f"model.weights: {path} is a run's checkpoint, and its clients count: {fix}"

    def _sampling_refusals(self, sampler: Any) -> Iterator[str]:
        """Why there is no budget for the clients that this sampler draws."""
        if not getattr(sampler, "independent", False):
            yield (
                "the budget assumes clients that are drawn independently, not as by "
                f"{type(sampler).__name__}: set client_sampler.type='PoissonSampler'"
            )
        if self.noise and find_spec("opacus") is None:
            yield (
                "epsilon is computed by Opacus, which is not installed: pip install "
                "'fedseg[privacy]', or leave privacy out"
            )


def weights_path(weights: Any) -> str | None:
    """The file that ``model.weights`` names, as a path or as a dict with a path."""
    path = weights.get("path") if isinstance(weights, Mapping) else weights
    return None if path is None else str(path)


def is_checkpoint(path: str) -> bool:
    """True if a file is the checkpoint of a run, which names its clients."""
    if path.endswith(".safetensors") or not Path(path).is_file():
        return False
    content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    return isinstance(content, dict) and "client_sizes" in content
