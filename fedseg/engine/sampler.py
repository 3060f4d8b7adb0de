"""Who takes part in a round: a pure function of (seed, round).

Because the plan depends on nothing else, a resumed run needs no replay and the data loader's
workers can prefetch past the end of the round.
"""

from collections.abc import Sequence

import numpy as np

from fedseg.checks import check_int
from fedseg.core.seeds import generator_for
from fedseg.errors import ConfigError
from fedseg.registry import SAMPLERS


class ClientSampler:
    """Chooses the participants of each round. Subclasses define :meth:`participants`."""

    clients: Sequence[str]
    seed: int

    def bind(self, clients: Sequence[str], seed: int) -> None:
        """Tell the sampler the clients, in partition order, and the seed; raises ConfigError."""
        self.clients, self.seed = clients, seed

    def participants(self, round_: int) -> list[int]:
        """Positions of the clients of 1-based round ``round_``, ascending."""
        raise NotImplementedError


@SAMPLERS.register_module()
class UniformSampler(ClientSampler):
    """Uniform without replacement within a round, independent between rounds.

    Args:
        clients_per_round: a number of clients, or ``"all"``.
    """

    def __init__(self, clients_per_round: int | str) -> None:
        check_int("client_sampler.clients_per_round", clients_per_round, also="all")
        self.clients_per_round = clients_per_round

    def bind(self, clients: Sequence[str], seed: int) -> None:
        super().bind(clients, seed)
        if self.clients_per_round != "all" and self.clients_per_round > len(clients):
            raise ConfigError(
                f"client_sampler.clients_per_round: {self.clients_per_round} clients per round, "
                f"but the partition has only {len(clients)}"
            )

    def participants(self, round_: int) -> list[int]:
        total = len(self.clients)
        count = total if self.clients_per_round == "all" else self.clients_per_round
        if count == total:
            return list(range(total))
        return sorted(self.draw(round_, total, count))

    def draw(self, round_: int, total: int, count: int) -> list[int]:
        """``count`` of ``total`` clients in any order."""
        rng = generator_for(self.seed, "participants", round_)
        return rng.choice(total, size=count, replace=False).tolist()


@SAMPLERS.register_module()
class RoundSeededSampler(UniformSampler):
    """FedDrive's draws: NumPy's legacy generator, seeded by the 0-based round in every run."""

    def draw(self, round_: int, total: int, count: int) -> list[int]:
        rng = np.random.RandomState(round_ - 1)
        return rng.choice(total, size=count, replace=False).tolist()
