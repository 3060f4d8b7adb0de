"""Participants from a list or from an earlier run's history, in place of a random draw."""

import json
from collections.abc import Sequence
from pathlib import Path

from fedseg.engine.sampler import ClientSampler
from fedseg.errors import ConfigError, DataError
from fedseg.registry import SAMPLERS
from fedseg.runs.history import History


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
        participants: Sequence[Sequence[str]] | None = None,
        file: str | None = None,
        repeat: bool = False,
    ) -> None:
        if (participants is None) == (file is None):
            raise ConfigError("client_sampler: give either participants or file")
        self.rounds = self._read(Path(file)) if file is not None else participants
        self.repeat = repeat
        if not isinstance(self.rounds, list | tuple):
            raise ConfigError("client_sampler.participants: must be one list of client ids a round")
        if not self.rounds:
            raise ConfigError("client_sampler: the list of participants is empty")

    @staticmethod
    def _read(path: Path) -> list[list[str]]:
        if not path.is_file():
            raise DataError(f"client_sampler.file: {path} does not exist")
        try:
            text = path.read_text(encoding="utf-8").rstrip()
            if path.suffix == ".jsonl":
                history = History(path)
                history.verify(len(text.splitlines()))
                return [[p["client"] for p in line["participants"]] for line in history.read()]
            rounds = json.loads(text)
        except (json.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: not a list of participants ({error})") from error
        if not isinstance(rounds, list):
            raise DataError(f"{path}: must hold a JSON list with one list of client ids per round")
        return rounds

    def bind(self, clients: Sequence[str], seed: int) -> None:
        super().bind(clients, seed)
        position = {client: i for i, client in enumerate(clients)}
        self._positions = []
        for number, ids in enumerate(self.rounds, start=1):
            if not isinstance(ids, list | tuple):
                raise ConfigError(
                    f"client_sampler: round {number} must have a list of client ids, not {ids!r}"
                )
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
