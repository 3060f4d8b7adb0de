"""``history.jsonl``: one line of JSON a round."""

import json
import math
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedseg.errors import ConfigError, DataError
from fedseg.files import atomic_writer, open_to_append, parse_json


def plain(value: Any) -> Any:
    """The value as JSON takes it: a non-finite float is None, an array a list."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is not None and not isinstance(value, str | int | float):
        raise ConfigError(
            f"a hook or metric left a {type(value).__name__} in the history: give numbers, text, "
            "lists or dicts"
        )
    return value


def timeless(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records without times, which differ from one computation to the next."""
    return [{k: v for k, v in record.items() if k != "seconds"} for record in history]


class History:
    """The lines of a run's rounds.

    A line is the file system's as soon as its round ends, so that a kill does not lose it. What a
    checkpoint builds on is on the disk before the checkpoint is: see :meth:`sync`.

    A checkpoint keeps ``checksums``, the CRC-32 of all lines up to each, so that a run does not go
    on from a history that is not its own.
    """

    def __init__(self, path: Path, check: Callable[[], None] = lambda: None) -> None:
        self.path = path
        self._check = check  # called before a line is added
        self.checksums: list[int] = []

    plain = staticmethod(plain)

    def state_dict(self) -> list[int]:
        return list(self.checksums)

    def load_state_dict(self, state: list[int]) -> None:
        self.checksums = list(state)

    def append(self, record: dict[str, Any]) -> None:
        """Add the line of a round."""
        self._check()
        line = json.dumps(plain(record), allow_nan=False).encode() + b"\n"
        with open_to_append(self.path) as file:
            file.write(line)
        self.checksums.append(zlib.crc32(line, self.checksums[-1] if self.checksums else 0))

    def sync(self) -> None:
        """Wait until every line is on the disk; too slow, milliseconds, for every short round."""
        if self.path.is_file():
            with open_to_append(self.path) as file:
                os.fsync(file.fileno())

    def read(self, finished: bool = False) -> list[dict[str, Any]]:
        """All records; unless the run is finished, a last line that a kill cut off is left out.

        Raises:
            DataError: another line is damaged.
        """
        lines, records = self._lines(), []
        for number, line in enumerate(lines, start=1):
            try:
                records.append(parse_json(line.decode()))
            except (ValueError, RecursionError) as error:
                if number < len(lines) or (finished and line != b"\n"):
                    raise DataError(f"{self.path}, line {number}: is damaged: {error}") from error
        return records

    def verify(self, rounds: int, checksums: list[int] | None = None) -> list[int]:
        """The checksums of the lines up to a round, which must be those that the run wrote.

        Raises:
            DataError: one is missing, or its checksum is not that of ``checksums``, if known.
        """
        lines, found = self._lines(), [0]
        complete = len(lines) - (lines[-1] == b"\n")
        for number in range(1, rounds + 1):
            line = b"".join(lines[number - 1 : number])
            found.append(zlib.crc32(line, found[-1]))
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                record = None
            problem = None
            if number > complete:
                problem = "is missing"
            elif not isinstance(record, dict) or record.get("round") != number:
                problem = f"is not the record of round {number}"
            elif checksums is not None and checksums[number - 1 : number] != found[-1:]:
                problem = "was changed after the run wrote it"
            if problem is not None:
                raise DataError(f"{self.path}, line {number}: {problem}; restore it from a copy")
        return found[1:]

    def changed(self, checksums: list[int]) -> int | None:
        """The number of the first line that is not the one that the run wrote; None if none is."""
        lines, found = self._lines(), 0
        for number, known in enumerate(checksums, start=1):
            found = zlib.crc32(b"".join(lines[number - 1 : number]), found)
            if found != known:
                return number
        return None

    def restore(self, rounds: int, checksums: list[int] | None = None) -> None:
        """Drop the lines after a round, and a cut-off one, once :meth:`verify` has passed."""
        self.checksums = self.verify(rounds, checksums)
        if self.path.is_file():
            with atomic_writer(self.path, "wb", sync=True) as file:
                file.writelines(self._lines()[:rounds])

    def _lines(self) -> list[bytes]:
        """Every line, and at last what follows the last line's end: nothing, or what a kill cut."""
        content = self.path.read_bytes() if self.path.is_file() else b""
        return [line + b"\n" for line in content.split(b"\n")]
