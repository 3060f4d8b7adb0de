"""Ctrl-C: a flag first, a stop the second time, the old handlers back afterwards."""

import os
import signal
import threading
from contextlib import suppress

import pytest

from fedseg.errors import UserError
from fedseg.runner.interrupt import Interrupted, InterruptGuard


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_asks(number, capsys):
    guard = InterruptGuard()
    guard.check()
    before = signal.signal(number, signal.SIG_DFL)  # the tests themselves may run under nohup
    try:
        with guard:
            os.kill(os.getpid(), number)
            assert guard.requested
            with pytest.raises(Interrupted):
                guard.check()
    finally:
        signal.signal(number, before)
    assert "stopping at the next safe point" in capsys.readouterr().err
    assert issubclass(Interrupted, UserError)


def test_a_stop_is_asked_for_where_nobody_reads_the_output_any_more(monkeypatch):
    """As in ``fedseg train ... 2>&1 | tee log``: Ctrl-C ends tee as well."""
    reads, writes = os.pipe()
    os.close(reads)
    with open(writes, "w", buffering=1) as pipe, InterruptGuard() as guard:
        monkeypatch.setattr("sys.stderr", pipe)
        os.kill(os.getpid(), signal.SIGINT)
        assert guard.requested
        with suppress(BrokenPipeError):  # what is left in the buffer
            pipe.close()


def test_nohup():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with InterruptGuard() as guard:
            os.kill(os.getpid(), signal.SIGHUP)
            guard.check()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_second_ctrl_c_stops_at_once():
    with InterruptGuard():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_handlers_are_put_back_also_after_an_error():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with InterruptGuard():
        assert signal.getsignal(signal.SIGINT) is not before[0]
    with pytest.raises(ValueError, match="x"), InterruptGuard():
        raise ValueError("x")
    assert before == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))


def test_other_threads_have_no_signals():
    errors = []

    def enter():
        try:
            with InterruptGuard() as guard:
                guard.check()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert errors == []
