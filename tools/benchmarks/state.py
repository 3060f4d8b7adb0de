"""The clients' states on disk: how much memory they take, how fast they are written and read."""

from pathlib import Path

import torch

from benchmarks.engine import measure_seconds, peak
from fedseg.errors import DataError
from fedseg.runner.state_store import StateStore

PARTICIPANTS = 50  # clients per round


def state(
    folder: Path,
    clients: int = 1262,
    parameters: int = 3_500_000,
) -> dict[str, float]:
    """Let every client take part once, resume from what is on disk, and look at every state again.

    A state is staged when its client has finished, and committed with the round. Peaks are in MiB,
    speeds in MB/s of state.
    """
    path = folder / "state.sqlite"
    scratch = torch.zeros(parameters)
    store, resumed = StateStore(path), StateStore(path)

    def write() -> None:
        for number, first in enumerate(range(0, clients, PARTICIPANTS), start=1):
            for client in range(first, min(first + PARTICIPANTS, clients)):
                store.stage(str(client), number, {"vector": scratch.fill_(client)})
            store.commit()

    def read() -> None:
        for client in range(clients):
            scratch.copy_(resumed.look_up(str(client))["vector"])
            if not (scratch == client).all():
                raise DataError(f"{path}: the state of client {client} came back changed")

    megabytes, before = 4 * clients * parameters / 1e6, peak()
    written = megabytes / measure_seconds(write)
    index = store.state_dict()
    checked = megabytes / measure_seconds(lambda: resumed.load_state_dict(index))
    was_read = megabytes / measure_seconds(read)
    return {
        "clients": clients,
        "state of a client, MiB": 4 * parameters / 2**20,
        "states on disk, MiB": path.stat().st_size / 2**20,
        "peak memory before, MiB": before,
        "peak memory at the end, MiB": peak(),
        "written and committed, MB/s": written,
        "checked on resuming, MB/s": checked,
        "read, MB/s": was_read,
    }
