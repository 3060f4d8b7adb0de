"""State that outlives a round: tensors by key, committed with it, in an SQLite file of the run.

A client's dual variable or BatchNorm statistics must survive until the client is sampled again,
must not change when its update is rejected or the round fails, and must come back bit for bit
after a kill. So a round is one transaction, which adds a row for every key. A checkpoint holds
round and SHA-256 of the row that was each key's newest.
"""

import hashlib
import io
import sqlite3
from collections.abc import ItemsView, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedseg.errors import ConfigError, DataError, ResourceError
from fedseg.files import atomic_writer, make_folder, sha256
from fedseg.units import format_bytes

Tensors = dict[str, Tensor]
Index = dict[str, dict[str, Any]]  # key -> round and sha256 of its row

LARGEST = 10**9  # bytes of a row, of which SQLite holds no more
PAGE_SIZE = 65536  # bytes: with the usual 4,096 a commit of 5 x 3.2 MB takes 74 ms, with these 16
KEEP_FREED = "PRAGMA secure_delete = OFF"  # Debian's SQLite fills with zeros what is deleted
CACHE_SIZE = 2**26  # bytes of a round's states in memory
TABLE = """
CREATE TABLE IF NOT EXISTS states (
    round INTEGER, key TEXT, tensors BLOB, PRIMARY KEY (round, key)
)
"""


def save_tensors(path: Path, payload: object) -> str:
    """``torch.save``, atomic and durable. Returns the file's SHA-256."""
    with atomic_writer(path, "wb", sync=True) as file:
        try:
            torch.save(payload, file)
        except RuntimeError as error:  # torch hides that the disk is full
            cause = error.__context__ if isinstance(error.__context__, OSError) else error
            raise cause from None
    return sha256(path)


class StoredTensors(Mapping):
    """The committed tensors of a key, read anew whenever they are asked for.

    It holds none of them, so that a list of them for many clients weighs nothing, whatever their
    states weigh. Pickled, it becomes a dict of the tensors.
    """

    def __init__(self, store: "StateStore", key: str) -> None:
        self._store, self._key = store, key

    def __getitem__(self, name: str) -> Tensor:
        return self._store.get(self._key)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._store.get(self._key))

    def __len__(self) -> int:
        return len(self._store.get(self._key))

    def items(self) -> ItemsView[str, Tensor]:
        return self._store.get(self._key).items()  # read once, not for each name

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self.items()),)


class StateStore:
    """Tensors by key, such as a client's id, in an SQLite file; a row for each commit of a key.

    What is staged is in the file, too, in a transaction that the round's commit ends: no more than
    some tens of megabytes of it are in memory. Between rounds the file is closed.

    Args:
        path: of the file, which is made when it is first written.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._transaction: sqlite3.Connection | None = None
        self._staged: Index = {}
        self._current: Index = {}
        self._saved_round = 0  # of the newest row that a checkpoint refers to
        self._has_later_rows = True  # the file may have rows of rounds that are done again

    # ---------------------------------------------------------------- read

    def keys(self) -> list[str]:
        """Every committed key, sorted."""
        return sorted(self._current)

    def get(self, key: str) -> Tensors:
        """The committed tensors of a key; empty if there are none."""
        if key not in self._current:
            return {}
        content = self._read(key, self._current[key]["round"])
        return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)

    def look_up(self, key: str) -> StoredTensors:
        """As :meth:`get`, but nothing is read before it is used."""
        return StoredTensors(self, key)

    def _read(self, key: str, round_: int) -> bytes:
        """The content of a row; DataError if it is missing."""
        row = None
        if self.path.is_file():
            with self._open() as database:
                query = "SELECT tensors FROM states WHERE round = ? AND key = ?"
                row = database.execute(query, (round_, key)).fetchone()
        if row is None:
            raise DataError(f"{self.path}: the state of {key!r} of round {round_} is missing")
        return row[0]

    # ---------------------------------------------------------------- write

    def stage(self, key: str, round_: int, tensors: Mapping[str, Tensor]) -> None:
        """Write new tensors of a key, which count if the round is committed."""
        file = io.BytesIO()
        torch.save({n: t.detach().to("cpu", copy=True) for n, t in tensors.items()}, file)
        content = file.getbuffer()
        if len(content) > LARGEST:
            raise ConfigError(
                f"state of {key!r}: has {format_bytes(len(content))}, must have at most "
                f"{format_bytes(LARGEST)}"
            )
        if self._transaction is None:
            self._begin()
        with self._open() as database:
            row = (round_, key, content)
            database.execute("INSERT OR REPLACE INTO states VALUES (?, ?, ?)", row)
        digest = hashlib.sha256(content).hexdigest()
        self._staged[key] = {"round": round_, "sha256": digest}

    def _begin(self) -> None:
        make_folder(self.path.parent)
        with _naming_errors(self.path):
            self._transaction = sqlite3.connect(self.path, isolation_level=None)
            self._transaction.execute(KEEP_FREED)
            self._transaction.execute(f"PRAGMA page_size = {PAGE_SIZE}")
            self._transaction.execute(f"PRAGMA cache_size = -{CACHE_SIZE // 1024}")
            self._transaction.execute(TABLE)
            self._transaction.execute("BEGIN")
            if self._has_later_rows:
                later = (self._saved_round,)
                self._transaction.execute("DELETE FROM states WHERE round > ?", later)

    def discard(self) -> None:
        """Forget what was staged: the round failed."""
        if self._transaction is not None:
            self._transaction.close()  # without a commit
            self._transaction = None
        self._staged.clear()

    def commit(self) -> None:
        """Make everything staged current.

        A row that it replaces is deleted if no checkpoint refers to it: with many rounds between
        checkpoints they would outgrow the states themselves.
        """
        if self._transaction is None:
            return
        replaced = []
        for key, entry in self._staged.items():
            before = self._current.get(key, entry)["round"]
            if self._saved_round < before < entry["round"]:
                replaced.append((before, key))
        with self._open() as database:
            database.executemany("DELETE FROM states WHERE round = ? AND key = ?", replaced)
            database.execute("COMMIT")
        self._current |= self._staged
        self._has_later_rows = False
        self.discard()

    def delete_before(self, round_: int) -> None:
        """Delete the rows that no checkpoint of this or a later round refers to."""
        if not self.path.is_file():
            return
        keys: set[str] = set()  # those whose newest row until the round was met
        old = []
        with self._open() as database:
            database.execute(TABLE)  # a kill may have come before it was made
            query = "SELECT round, key FROM states WHERE round <= ? ORDER BY round DESC"
            for number, key in database.execute(query, (round_,)):
                if key in keys:
                    old.append((number, key))
                keys.add(key)
            database.executemany("DELETE FROM states WHERE round = ? AND key = ?", old)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """The open file: in the round's transaction, if there is one, else in one of its own."""
        with _naming_errors(self.path):
            if self._transaction is not None:
                yield self._transaction
            else:
                with closing(sqlite3.connect(self.path)) as database, database:
                    database.execute(KEEP_FREED)
                    yield database

    # ---------------------------------------------------------------- checkpoints

    def state_dict(self) -> Index:
        """The index that a checkpoint keeps; its rows stay until :meth:`delete_before`."""
        self._saved_round = _newest_round(self._current)
        return {key: dict(entry) for key, entry in self._current.items()}

    def load_state_dict(self, index: Index) -> None:
        """Return to the state that an index describes; what is written next deletes later rows.

        Raises:
            DataError: a row is missing, or another than it was.
        """
        self.discard()
        for key, entry in index.items():
            content = self._read(key, entry["round"])
            if hashlib.sha256(content).hexdigest() != entry["sha256"]:
                raise DataError(
                    f"{self.path}: the state of {key!r} of round {entry['round']} is damaged, its "
                    "checksum does not match"
                )
        self._current = {key: dict(entry) for key, entry in index.items()}
        self._saved_round = _newest_round(index)
        self._has_later_rows = True


@contextmanager
def closing_stores(stores: Mapping[str, StateStore]) -> Iterator[None]:
    """Discard at the end what a failed round has staged, so that no file stays open and locked."""
    try:
        yield
    finally:
        for store in stores.values():
            store.discard()


@contextmanager
def _naming_errors(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as DataError, or as ResourceError, such as of a full disk."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise ResourceError(f"{path} (or {path.name}-journal): {error}") from error
    except sqlite3.DatabaseError as error:
        raise DataError(f"{path}: is damaged: {error}") from error


def _newest_round(index: Index) -> int:
    return max((entry["round"] for entry in index.values()), default=0)


class CheckpointStates:
    """The clients' states that a checkpoint holds itself, for its evaluation."""

    def __init__(self, states: Mapping[str, Tensors]) -> None:
        self._states = states

    def get(self, key: str) -> Tensors:
        """The tensors of a key; empty if there are none."""
        return self._states.get(key, {})
