"""Loader processes that end while a batch is waited for."""

import os
import signal
from multiprocessing.connection import wait

import pytest

from fedseg.loaders import workers
from fedseg.loaders.workers import Places, WorkerError, watched


class Ending:
    """A process whose files are closed, and that has no exit code until it is waited for."""

    pid, exitcode = 7, None

    def __init__(self):
        self.sentinel, held = os.pipe()
        os.close(held)

    def join(self):
        self.exitcode = -signal.SIGKILL


class Batches:
    def __init__(self, worker):
        self._workers = [worker]

    def __next__(self):
        raise ConnectionResetError


def test_a_process_that_has_not_quite_ended():
    with pytest.raises(WorkerError, match="loader process 7 was killed by SIGKILL") as raised:
        next(watched(Batches(Ending()), Places(1), None))
    assert raised.value.killed


def test_torch_tells_of_a_death_while_it_is_waited_for(monkeypatch):
    calls = []

    def interrupted(sentinels, timeout):
        calls.append(timeout)
        if len(calls) == 1:  # as torch's handler of SIGCHLD
            raise RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed.")
        return wait(sentinels, timeout)

    monkeypatch.setattr(workers, "wait", interrupted)
    test_a_process_that_has_not_quite_ended()
    assert len(calls) == 2
