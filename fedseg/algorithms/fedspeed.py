"""FedSpeed: a perturbed gradient, a proximal term and a correction that is sent with the model.

Sun et al., "FedSpeed: Larger Local Interval, Less Communication Round, and Higher Generalization
Accuracy", ICLR 2023, algorithm 1.

The released code differs from the paper, which is followed here. It adds the mean of *all* clients'
corrections to the mean of the participants' models, as FedDyn does, where the paper averages what
the participants send: ``all_corrections``. And it steps along the perturbed gradient alone, which
is alpha = 1. Both averages are uniform over the participants, whatever their numbers of samples.

Note that ``lam ghat_k`` is minus the sum of the client's drifts so far and does not depend on lam:
for a large lam the clients train like FedAvg's, but what they send goes on to grow by that sum. At
its first participation a client sends a model twice as far away as the one it has trained. With few
of many heterogeneous clients in a round the paper's average moves by the participants' sums and
may not settle; the mean of all clients' corrections changes little from a round to the next.
"""

import torch

from fedseg.algorithms.perturbation import WeightPerturbation
from fedseg.config.arguments import NonNegative, Positive, Share
from fedseg.core.aggregate import Aggregate
from fedseg.core.client import Client, LocalOptimizer
from fedseg.core.flat import FlatModel
from fedseg.core.messages import Update
from fedseg.core.server import Server
from fedseg.core.vectors import descend, scale_to_norm
from fedseg.registry import ALGORITHMS


@ALGORITHMS.register_module()
class FedSpeed(WeightPerturbation):
    """Quasi-gradients, prox-term and prox-correction.

    Args:
        rho: radius of the perturbation, >= 0.
        alpha: weight of the gradient at the perturbed weights, 0 to 1; 0 takes the plain gradient
            (at two passes per step).
        lam: the inverse strength lambda of the proximal term, > 0 and finite.
        freeze_statistics: see :class:`~fedseg.algorithms.perturbation.WeightPerturbation`.
        all_corrections: the released code's server rule, ``w <- mean_S w_k - lam mean_K ghat_k``.
    """

    client_vectors = ("ghat",)
    weightings = {"delta": "uniform"}

    def __init__(
        self,
        rho: NonNegative,
        alpha: Share,
        lam: Positive,
        freeze_statistics: bool = False,
        all_corrections: bool = False,
    ) -> None:
        super().__init__(freeze_statistics)
        self.rho = rho
        self.alpha = alpha
        self.lam = lam
        self.all_corrections = all_corrections
        self.server_vectors = ("ghat",) if all_corrections else ()

    def setup(self, flat: FlatModel, local: LocalOptimizer, max_rounds: int) -> None:
        super().setup(flat, local, max_rounds)
        self._plain = torch.empty_like(flat.w)

    def perturb(self, client: Client) -> None:
        """``e = rho g1/||g1||``; keeps ``g1``."""
        self._plain.copy_(client.grad)
        client.w.addcmul_(client.grad, scale_to_norm(self.rho, client.grad.norm()))

    def gradient(self, client: Client) -> None:
        """``gt = (1 - alpha) g1 + alpha g2``."""
        super().gradient(client)
        client.grad.mul_(self.alpha).add_(self._plain, alpha=1 - self.alpha)

    def correct(self, client: Client) -> None:
        """``gt - ghat_k + (w_k - w)/lam``."""
        client.grad.sub_(client.state["ghat"])
        client.grad.add_(client.w, alpha=1 / self.lam).sub_(client.start, alpha=1 / self.lam)

    def finish(self, client: Client) -> Update:
        """``ghat_k <- ghat_k - (w_k - w)/lam``; sends ``w_k - lam ghat_k``, or ``w_k``."""
        delta = client.delta()
        correction = client.state["ghat"].add_(delta, alpha=1 / self.lam)
        if self.all_corrections:  # the server can add up what they are
            return Update({"delta": delta})
        return Update({"delta": delta.add_(correction, alpha=self.lam)})

    def step(self, server: Server, aggregate: Aggregate) -> None:
        """``w <- mean_S (w_k - lam ghat_k)``; or with the mean of all clients' ghat."""
        step = aggregate.mean("delta")
        if self.all_corrections:
            scale = 1 / (self.lam * server.num_clients)
            ghat = server.state["ghat"].add_(aggregate.total("delta"), alpha=scale)
            step = step + self.lam * ghat
        descend(server.w, step)
