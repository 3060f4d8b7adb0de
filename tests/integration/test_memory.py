"""Peak memory does not grow with the number of clients of a round, nor with their states."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import toyseg

PROGRAM = Path(__file__).with_name("memory_run.py")


def start(folder: Path, clients: int) -> subprocess.Popen:
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    # glibc raises the size from which a block is given back to the system when it is freed, and the
    # holes that then stay in its heap, several copies of the model, would hide what is looked for
    environment["MALLOC_MMAP_THRESHOLD_"] = "65536"
    paths = [str(toyseg.ROOT), str(Path(toyseg.__file__).parent)]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    command = [sys.executable, str(PROGRAM), str(folder), str(clients)]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_peak_does_not_grow_with_the_clients_of_a_round(tmp_path):
    """Two rounds of FedDyn, 5 million parameters: 20 MB a vector.

    A copy kept for every client, or a dual in memory for all participants at once, would
    be 7 times 20 MB more, of a process of 1.3 GB.
    """
    runs = {clients: start(tmp_path / str(clients), clients) for clients in (3, 10)}
    found = {}
    for clients, process in runs.items():
        out, err = process.communicate(timeout=480)
        assert process.returncode == 0, err
        found[clients] = int(out.split()[-1])
    assert (tmp_path / "10" / "run" / "state" / "clients.sqlite").stat().st_size > 10 * 19e6
    for path in tmp_path.glob("*/run"):
        shutil.rmtree(path)  # hundreds of megabytes
    assert found[10] <= 1.03 * found[3], found
