"""Participants from a list or from an earlier run's history, in place of a random draw."""

import json
from collections.abc import Sequence
from pathlib import Path

from fedseg.checks import check_type
from fedseg.engine.sampler import ClientSampler
from fedseg.errors import ConfigError, DataError
from fedseg.files import read_bytes
from fedseg.registry import SAMPLERS

Rounds = Sequence[Sequence[str | int]]


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
        self,
        participants: Rounds | None = None,
        file: str | None = None,
        repeat: bool = False,
    ) -> None:
        if (participants is None) == (file is None):
            raise ConfigError("client_sampler: give either participants or file")
        self.rounds = self._read(Path(file)) if file is not None else participants
        self.repeat = repeat
        check_type("client_sampler.participants", self.rounds, Rounds)
        if not self.rounds:
            raise ConfigError("client_sampler: the list of participants is empty")

    @staticmethod
    def _read(path: Path) -> list[list[str]]:
        if not path.is_file():
            raise DataError(f"client_sampler.file: {path} does not exist")
        try:
            text = read_bytes(path).decode("utf-8")
            if path.suffix == ".jsonl":
                lines = [json.loads(line) for line in text.splitlines() if line.strip()]
                return [[p["client"] for p in line["participants"]] for line in lines]
            rounds = json.loads(text)
            check_type("it", rounds, Rounds)
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
            if not ids:
                raise ConfigError(f"client_sampler: round {number} has no participant")
            self._positions.append(sorted(position[client] for client in ids))

    def participants(self, round_: int) -> list[int]:
        if round_ > len(self._positions) and not self.repeat:
            raise ConfigError(
                f"client_sampler: participants are given for {len(self._positions)} rounds, "
                f"round {round_} has none (set repeat=True to start over)"
            )
        return self._positions[(round_ - 1) % len(self._positions)]
