"""Loader processes that end while a batch is waited for."""

import os
import signal
from multiprocessing.connection import wait

import pytest
from torch.utils.data import DataLoader
from torch.utils.data._utils import signal_handling

from fedseg.loaders import workers
from fedseg.loaders.workers import Places, WorkerError, start_workers, watch


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
        next(watch(Batches(Ending()), Places(1), None))
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


@pytest.mark.parametrize("own", [signal.SIG_DFL, lambda number, frame: None])
def test_torch_leaves_no_handler_that_raises_anywhere(monkeypatch, own):
    before = signal.signal(signal.SIGCHLD, own)
    monkeypatch.setattr(signal_handling, "_SIGCHLD_handler_set", False)
    loader = DataLoader([0], num_workers=1)
    try:
        start_workers(loader)
        assert signal.getsignal(signal.SIGCHLD) is own
        monkeypatch.setattr(signal_handling, "_SIGCHLD_handler_set", False)
        iter(loader)  # of somebody else in this process
        assert signal.getsignal(signal.SIGCHLD) not in (own, signal.SIG_DFL)
        start_workers(loader)
        assert signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGCHLD, before)
