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
import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import torch
from annotated_types import Interval
from torch import Tensor

from fedseg.config.schema import NonNegative, Positive
from fedseg.core.aggregate import Aggregate, SumRule, WeightedSum, weightings
from fedseg.core.algorithm import Algorithm
from fedseg.core.client import Client
from fedseg.core.flat import FlatModel
from fedseg.core.hook import FederatedHook, Run
from fedseg.core.messages import Size, Update
from fedseg.core.seeds import generator_for
from fedseg.errors import ConfigError
from fedseg.hooks.momentum import KeptMomentum
from fedseg.registry import ALGORITHMS, PRIVACIES

COUNTED = ("FedAvg", "FedProx")  # algorithms


class PrivateSums(Aggregate):
    """Sums that get noise, and a denominator that does not depend on who took part."""

    def release(self, noise: Tensor, clients: float, buffers: Tensor) -> None:
        """Add noise to the sum of ``delta``; its mean divides by ``clients``.

        Args:
            noise: like ``w``, float64.
            clients: expected number of participants.
            buffers: the server's, which stay where nobody took part.
        """
        (weighting,) = weightings(self._declared, "delta")
        delta = self._vectors.get(("delta", weighting))
        total = noise if delta is None else delta.total + noise
        self._vectors["delta", weighting] = WeightedSum(total, clients)
        if self._buffers is None:
            self._buffers = WeightedSum.start(buffers, 1)
        self.num_clients = clients
        self.weights[weighting] = clients


class PrivateRule(SumRule):
    """Gives :class:`PrivateSums`."""

    may_be_empty = True

    def new_sums(self, algorithm: Algorithm) -> PrivateSums:
        return PrivateSums(algorithm.sums)


def _is_checkpoint(path: str) -> bool:
    """True if a file is the checkpoint of a run, which names its clients."""
    if path.endswith(".safetensors") or not Path(path).is_file():
        return False
    content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    return isinstance(content, dict) and "client_sizes" in content


@PRIVACIES.register_module()
class DPFedAvg(FederatedHook):
    """Clips what clients send, adds noise to its sum, and keeps the budget.

    Args:
        noise: z, standard deviation of the noise on the sum, in units of ``clip``; 0: none, which
            has no epsilon.
        clip: C, the longest update; None: any length, only without noise.
        delta: of the budget; None: K^-1.1 with all K clients.

    Attributes:
        seed: the run's.
    """

    priority = "LOWEST"
    seed = 0

    def __init__(
        self,
        noise: NonNegative = 1.0,
        clip: Positive | None = 1.0,
        delta: Annotated[float, Interval(gt=0, lt=1)] | None = None,
    ) -> None:
        if clip is None and noise:
            raise ValueError("noise is in units of clip: give clip, or noise=0")
        self.noise, self.clip, self.delta = noise, clip, delta

    def bind(self, flat: FlatModel) -> None:
        self._spans = [s.span for s in flat.slots if s.name not in flat.personal_names]

    def before_train(self, runner: Any) -> None:
        """Raise ConfigError for what would reveal more about a client than the budget covers."""
        self.count(runner.client_sampler)
        leak = next(self._leaks(runner), None)
        if leak is not None:
            raise ConfigError(f"privacy: {leak}")
        runner.trainer.sum_rule = PrivateRule()

    def _leaks(self, runner: Any) -> Iterator[str]:
        """What of the run the budget does not count, and what to do about it."""
        if not math.isinf(runner.train_loop.max_norm_ratio):
            yield (
                "whether an update counts must not depend on those of others: set "
                "train_cfg.max_norm_ratio=None"
            )
        if type(runner.algorithm) not in map(ALGORITHMS.get, COUNTED):
            yield (
                f"algorithm.type: epsilon is that of {' and '.join(COUNTED)}, with any server "
                f"optimizer, and not of {type(runner.algorithm).__name__}: take one of them"
            )
        if type(runner.trainer.sum_rule) not in (SumRule, PrivateRule):
            yield "robust sums have no bound on what one client changes: set robust=None"
        if runner.trainer.payloads:
            yield (
                f"payloads ({', '.join(runner.trainer.payloads)}) are sent without noise: leave "
                "out what declares them"
            )
        if runner.server.traffic(Size()):
            yield (
                "BatchNorm statistics are averaged without noise: let them stay with the clients "
                "(batchnorm=dict(type='SiloBN')) or freeze them (model.freeze)"
            )
        if any(isinstance(hook, KeptMomentum) for hook in runner.hooks):
            yield "KeptMomentum hands a client's momentum to another one: leave it out"
        if getattr(runner.data.dataset, "style", None) is not None:
            yield "styles of images go to other clients: leave style out"
        if any(getattr(hook, "save_best", None) for hook in runner.hooks):
            yield (
                "default_hooks.checkpoint.save_best: the choice of a model by evaluations is not "
                "counted: leave it out"
            )
        yield from self._uncounted_weights(runner.cfg)

    @staticmethod
    def _uncounted_weights(cfg: Any) -> Iterator[str]:
        """Why the run may not start from the weights that its config names."""
        fix = "start from weights of public data, a plain state dict as model.weights"
        if cfg.get("load_from") is not None:
            yield f"load_from: what an earlier run revealed is not counted: {fix}"
        weights = cfg.model.get("weights")
        path = weights.get("path") if isinstance(weights, Mapping) else weights
        if path is not None and _is_checkpoint(str(path)):
            yield f"model.weights: {path} is a run's checkpoint, and its clients count: {fix}"

    def count(self, sampler: Any) -> None:
        """Take the clients and their rate from the run's sampler, a ``PoissonSampler``."""
        if not getattr(sampler, "independent", False):
            raise ConfigError(
                "privacy: the budget assumes clients that are drawn independently, not as by "
                f"{type(sampler).__name__} does: set client_sampler.type='PoissonSampler'"
            )
        if self.noise and find_spec("opacus") is None:
            raise ConfigError(
                "privacy: epsilon is computed by Opacus, which is not installed: pip install "
                "'fedseg[privacy]', or leave privacy out"
            )
        self._clients, self.rate = len(sampler.clients), sampler.rate
        self.delta = self.delta or min(self._clients**-1.1, 0.5)

    def after_client(self, runner: Run, client: Client, update: Update) -> None:
        """``delta min(1, C/||delta||)``, weighing 1."""
        noiseless = {*update.vectors, *update.payloads, *update.numbers} - {"delta"}
        if noiseless:
            raise ConfigError(
                f"privacy: {', '.join(sorted(noiseless))} would be sent without noise: leave out "
                "the hook that adds it"
            )
        update.weights = {**update.weights, "samples": 1}
        delta = update.vectors["delta"]
        norm = float(torch.linalg.vector_norm(delta, dtype=torch.float64))
        if self.clip is not None and self.clip < norm < math.inf:
            update.vectors["delta"] = delta * (self.clip / norm)

    def after_aggregate(self, runner: Run, sums: PrivateSums) -> None:
        server = runner.server
        noise = torch.zeros_like(server.w, dtype=torch.float64)
        draws = generator_for(self.seed, "privacy", runner.round)
        for span in self._spans if self.noise else ():
            drawn = torch.from_numpy(draws.standard_normal(span.stop - span.start))
            noise[span] = drawn.to(noise) * (self.noise * self.clip)
        sums.release(noise, self.rate * self._clients, server.buffers)

    @cached_property
    def _spent(self) -> Any:
        """The accountant's orders, and the Rényi divergence of a round at each."""
        from opacus.accountants import RDPAccountant
        from opacus.accountants.analysis.rdp import compute_rdp

        orders = RDPAccountant.DEFAULT_ALPHAS
        options = {"q": self.rate, "noise_multiplier": self.noise, "steps": 1}
        return orders, compute_rdp(**options, orders=orders)

    def epsilon(self, rounds: int) -> float | None:
        """Epsilon after so many rounds at ``delta``; None without noise."""
        if not self.noise:
            return None
        from opacus.accountants.analysis.rdp import get_privacy_spent

        orders, divergence = self._spent
        with warnings.catch_warnings():  # that other orders may give a smaller one
            warnings.simplefilter("ignore")
            spent, _ = get_privacy_spent(orders=orders, rdp=divergence * rounds, delta=self.delta)
        return float(spent)

    def after_round(self, runner: Run, record: dict[str, Any]) -> None:
        record["epsilon"] = self.epsilon(runner.round)

    def results(self, runner: Run, history: list[dict[str, Any]]) -> dict[str, Any]:
        epsilon = self.epsilon(len(history))
        return {"privacy": {"epsilon": epsilon, "delta": self.delta, "rate": self.rate}}
