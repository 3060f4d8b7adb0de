"""The privacy budget of rounds of the sampled Gaussian mechanism, by Opacus' RDP accountant."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Accountant:
    """Epsilon after T rounds; neighbours differ by one client.

    Attributes:
        noise: z, standard deviation of the noise on the sum, in units of the clipping length.
        rate: q, probability with which a client takes part in a round.
        delta: of the budget (epsilon, delta).
    """

    noise: float
    rate: float
    delta: float

    @cached_property
    def _divergence(self) -> tuple[list[float], Any]:
        """The orders, and the Rényi divergence of one round at each of them, float64 [orders]."""
        from opacus.accountants import RDPAccountant
        from opacus.accountants.analysis.rdp import compute_rdp

        orders = RDPAccountant.DEFAULT_ALPHAS
        divergence = compute_rdp(q=self.rate, noise_multiplier=self.noise, steps=1, orders=orders)
        return orders, divergence

    def epsilon(self, rounds: int) -> float | None:
        """Epsilon after so many rounds; None without noise."""
        if not self.noise:
            return None
        from opacus.accountants.analysis.rdp import get_privacy_spent

        orders, divergence = self._divergence
        with warnings.catch_warnings():  # that other orders may give a smaller epsilon
            warnings.simplefilter("ignore")
            epsilon, _ = get_privacy_spent(orders=orders, rdp=divergence * rounds, delta=self.delta)
        return float(epsilon)

    def results(self, rounds: int) -> dict[str, float | None]:
        """The budget after so many rounds, for ``results.json``."""
        return {"epsilon": self.epsilon(rounds), "delta": self.delta, "rate": self.rate}
