"""Peak memory does not grow with the number of clients, in a round or with a state on disk."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import toyseg

PROGRAM = Path(__file__).with_name("memory_run.py")


FEDAVG, FEDDYN = {"type": "FedAvg"}, {"type": "FedDyn", "beta": 10.0}


def start(
    folder: Path, clients: int, rounds: int = 1, algorithm: dict = FEDAVG, keep: str = "memory"
) -> subprocess.Popen:
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    # glibc raises the size from which a block is given back to the system when it is freed, and the
    # holes that then stay in its heap, several copies of the model, would hide what is looked for
    environment["MALLOC_MMAP_THRESHOLD_"] = "65536"
    paths = [str(toyseg.ROOT), str(Path(toyseg.__file__).parent)]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    numbers = [str(folder), str(clients), str(rounds)]
    command = [sys.executable, str(PROGRAM), *numbers, json.dumps(algorithm), keep]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def peaks(runs: dict[int, subprocess.Popen]) -> dict[int, int]:
    """KiB by number of clients."""
    found = {}
    for clients, process in runs.items():
        out, err = process.communicate(timeout=480)
        assert process.returncode == 0, err
        found[clients] = int(out.split()[-1])
    return found


def test_clients_of_a_round_leave_no_copies(tmp_path):
    """With 5 million parameters a copy of the model is 20 MB, 1.6 % of the process.

    A copy kept for every client would be 400 MB more.
    """
    found = peaks({clients: start(tmp_path / str(clients), clients) for clients in (5, 25)})
    assert found[25] <= 1.05 * found[5], found


def test_states_on_disk_weigh_nothing(tmp_path):
    """Two rounds of FedDyn: every client's dual, 20 MB, is written, and read in the second.

    In memory, or mapped for all participants at once, those of ten would be 140 MB more.
    """
    options = {"rounds": 2, "algorithm": FEDDYN, "keep": "disk"}
    found = peaks(
        {clients: start(tmp_path / str(clients), clients, **options) for clients in (3, 10)}
    )
    files = list((tmp_path / "10" / "run" / "state" / "clients").glob("*.pt"))
    assert len(files) >= 10 and min(f.stat().st_size for f in files) > 19e6
    for path in tmp_path.glob("*/run"):
        shutil.rmtree(path)  # hundreds of megabytes
    assert found[10] <= 1.03 * found[3], found
