"""The clients' states on disk: how much memory they take, how fast they are written and read."""

import resource
import sys
import time
from pathlib import Path

import torch

from fedseg.errors import DataError
from fedseg.runner.state_store import StateStore

PARTICIPANTS = 50  # clients a round


def peak_memory() -> float:
    """Peak resident memory of this process so far, MiB."""
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 2**20


def state(folder: Path, clients: int, parameters: int, vectors: int = 1) -> dict[str, float]:
    """Let every client take part once, resume from what is on disk, and look at every state again.

    The rounds are those of a run with ``state_store=dict(keep="disk")``: a state is copied, changed
    and staged when its client has finished, and committed with the round.

    Args:
        folder: where the files go: on a disk, with room for ``4 * clients * parameters * vectors``
            bytes; they are left there.
        clients: participants of the whole run, 50 a round.
        parameters: of the model, in float32.
        vectors: like the model that each client keeps.

    Returns:
        Sizes and peaks in MiB, speeds in MB/s of state.

    Raises:
        DataError: a state came back changed.
    """
    names = [f"vector{i}" for i in range(vectors)]
    scratch = {name: torch.zeros(parameters) for name in names}
    store = StateStore(folder, "disk")
    before = peak_memory()

    begin = time.perf_counter()
    for number, first in enumerate(range(0, clients, PARTICIPANTS), start=1):
        for client in range(first, min(first + PARTICIPANTS, clients)):
            for name, vector in scratch.items():
                found = store.look_up(str(client)).get(name)
                if found is not None:
                    raise DataError(f"{folder}: holds the state of a client that never trained")
                vector.fill_(client)
            store.stage(str(client), scratch)
        store.commit(number)
    written = time.perf_counter() - begin
    peak_written = peak_memory()

    index = store.flush()
    begin = time.perf_counter()
    resumed = StateStore(folder, "disk")
    resumed.load(index)
    checked = time.perf_counter() - begin

    begin = time.perf_counter()
    for client in range(clients):
        for name, vector in resumed.look_up(str(client)).items():
            scratch[name].copy_(vector)
            if scratch[name][0] != client or scratch[name].sum() != vector.sum():
                raise DataError(f"{folder}: the state of client {client} came back changed")
    read = time.perf_counter() - begin

    size = sum((folder / entry["file"]).stat().st_size for entry in index.values())
    megabytes = 4 * clients * parameters * vectors / 1e6
    return {
        "clients": clients,
        "state of a client, MiB": 4 * parameters * vectors / 2**20,
        "states on disk, MiB": size / 2**20,
        "peak memory before, MiB": before,
        "peak memory when all are written, MiB": peak_written,
        "peak memory at the end, MiB": peak_memory(),
        "written and committed, MB/s": megabytes / written,
        "checked on resuming, MB/s": megabytes / checked,
        "read, MB/s": megabytes / read,
    }
