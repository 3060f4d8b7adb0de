"""Participants of a round: drawn as a pure function of (seed, round), or read from a list.

Because the plan depends on nothing else, a resumed run needs no replay and the data loader's
workers can prefetch past the end of the round.
"""

import json
import operator
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import MinLen
from pydantic import PositiveInt

from fedseg.config.arguments import Positive, check_value
from fedseg.core.seeds import generator_for
from fedseg.errors import ConfigError, DataError
from fedseg.registry import SAMPLERS, build
from fedseg.runs.history import read_history


class ClientSampler:
    """Chooses the participants of each round. Subclasses define :meth:`draw`."""

    clients: Sequence[str]
    seed: int

    def bind(self, clients: Sequence[str], seed: int) -> None:
        """Tell the sampler the clients, in partition order, and the seed; raises ConfigError."""
        self.clients, self.seed = clients, seed

    def participants(self, round_: int) -> list[int]:
        """Positions of the clients of 1-based round ``round_``, ascending.

        Raises:
            ConfigError: :meth:`draw`, which may be the user's own, gives something else.
        """
        count = len(self.clients)
        drawn = self.draw(round_)
        try:
            positions = [operator.index(position) for position in drawn]
        except TypeError:
            positions = [-1]
        ascending = all(a < b for a, b in pairwise(positions))
        if not ascending or any(not 0 <= position < count for position in positions):
            raise ConfigError(
                f"client_sampler: {type(self).__name__}.draw({round_}) must be positions below "
                f"{count}, ascending, not {drawn}"
            )
        return positions

    def draw(self, round_: int) -> Sequence[int]:
        """Choose the participants of a round, see :meth:`participants`; the seed is ``seed``."""
        raise NotImplementedError


def build_sampler(config: Mapping[str, Any], clients: Sequence[str], seed: int) -> ClientSampler:
    """Build a sampler, and tell it the clients and the seed."""
    sampler = build(SAMPLERS, config, "client_sampler", base=ClientSampler)
    sampler.bind(clients, seed)
    return sampler


@SAMPLERS.register_module()
class UniformSampler(ClientSampler):
    """Uniform without replacement within a round, independent between rounds.

    Args:
        clients_per_round: a number of clients, or ``"all"``.

    Attributes:
        rate: probability of a client to take part, q.
    """

    def __init__(self, clients_per_round: PositiveInt | Literal["all"]) -> None:
        self.clients_per_round = clients_per_round

    def bind(self, clients: Sequence[str], seed: int) -> None:
        super().bind(clients, seed)
        wanted = self.clients_per_round
        self.rate = 1.0 if wanted == "all" else wanted / len(clients)
        if self.rate > 1:
            raise ConfigError(
                f"client_sampler.clients_per_round: {wanted} clients per round, but the partition "
                f"has only {len(clients)}"
            )

    def draw(self, round_: int) -> Sequence[int]:
        total = len(self.clients)
        count = total if self.clients_per_round == "all" else self.clients_per_round
        if count == total:
            return list(range(total))
        return sorted(self.choose(round_, total, count))

    def choose(self, round_: int, total: int, count: int) -> list[int]:
        """``count`` of ``total`` clients in any order."""
        rng = generator_for(self.seed, "participants", round_)
        return rng.choice(total, size=count, replace=False).tolist()


@SAMPLERS.register_module()
class RoundSeededSampler(UniformSampler):
    """FedDrive's draws: NumPy's legacy generator, seeded by the 0-based round in every run."""

    def choose(self, round_: int, total: int, count: int) -> list[int]:
        rng = np.random.RandomState(round_ - 1)
        return rng.choice(total, size=count, replace=False).tolist()


@SAMPLERS.register_module()
class PoissonSampler(UniformSampler):
    """Each client independently of the others, so that their number varies: for ``privacy``.

    Args:
        clients_per_round: their number on average, or ``"all"``.

    Attributes:
        independent: whether clients take part independently, as the budget of ``privacy`` needs.
    """

    independent = True

    def __init__(self, clients_per_round: Positive | Literal["all"]) -> None:
        self.clients_per_round = clients_per_round

    def draw(self, round_: int) -> Sequence[int]:
        draws = generator_for(self.seed, "participants", round_).random(len(self.clients))
        return np.flatnonzero(draws < self.rate).tolist()


Rounds = Annotated[Sequence[Annotated[Sequence[str | int], MinLen(1)]], MinLen(1)]


@SAMPLERS.register_module()
class FixedSampler(ClientSampler):
    """A given list of participants for every round, for replays and tests.

    Args:
        participants: one list of client ids per round.
        file: instead, a JSON file with that list, or a ``history.jsonl`` of an earlier run, whose
            participants are replayed.
        repeat: start over when the list is shorter than the run (otherwise an error).
    """

    def __init__(
        self, participants: Rounds | None = None, file: str | None = None, repeat: bool = False
    ) -> None:
        if (participants is None) == (file is None):
            raise ValueError("give either participants or file")
        self.rounds = self._read(Path(file)) if file is not None else participants
        self.repeat = repeat

    @staticmethod
    def _read(path: Path) -> list[list[str]]:
        if not path.is_file():
            raise DataError(f"client_sampler.file: {path} does not exist")
        try:
            if path.suffix == ".jsonl":
                return [_clients(record) for record in read_history(path, finished=True)]
            rounds = json.loads(path.read_bytes())
            check_value("it", rounds, Rounds)
            return rounds
        except (OSError, ValueError, KeyError, TypeError, RecursionError, ConfigError) as error:
            raise DataError(f"{path}: not a list of participants ({error})") from error

    def bind(self, clients: Sequence[str], seed: int) -> None:
        super().bind(clients, seed)
        position = {client: i for i, client in enumerate(clients)}
        self._positions = []
        for number, ids in enumerate(self.rounds, start=1):
            ids = [str(client) for client in ids]
            unknown = [client for client in ids if client not in position]
            if unknown:
                raise ConfigError(
                    f"client_sampler: round {number} names unknown client {unknown[0]!r}"
                )
            if len(set(ids)) < len(ids):
                raise ConfigError(f"client_sampler: round {number} names a client twice")
            self._positions.append(sorted(position[client] for client in ids))

    def draw(self, round_: int) -> Sequence[int]:
        if round_ > len(self._positions) and not self.repeat:
            raise ConfigError(
                f"client_sampler: participants are given for {len(self._positions)} rounds, "
                f"round {round_} has none (set repeat=True to start over)"
            )
        return self._positions[(round_ - 1) % len(self._positions)]


def _clients(record: Mapping[str, Any]) -> list[str]:
    """The participants of a line of a history."""
    return [participant["client"] for participant in record["participants"]]
