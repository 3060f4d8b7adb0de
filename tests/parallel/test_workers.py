"""Calls of workers, on Ray: their order, lost workers, errors; how Ray is started."""

import os
import signal
import sys
from logging import getLogger

import pytest

from fedseg.errors import ConfigError, DataError, LoaderKilled, ResourceError, WorkersLost
from fedseg.parallel import executor
from fedseg.parallel.executor import Call, RemoteWorker, Workers
from fedseg.parallel.ray_start import start_ray
from fedseg.parallel.worker import _naming_lacks

ray = pytest.importorskip("ray")


class LightWorker:
    """Starts in a moment: it needs neither PyTorch nor a config."""

    def build(self, number):
        self.number = number

    def answer(self, value):
        return self.number, value

    def die(self, marker=None):
        """Die; with a marker only once, then answer."""
        if marker is None or not os.path.exists(marker):
            if marker is not None:
                open(marker, "x").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.number, "alive"

    def lose_a_loader(self, marker):
        if os.path.exists(marker):
            return self.number, "loaded"
        open(marker, "x").close()
        raise LoaderKilled("loader process 7 was killed")

    def fail(self, error):
        raise error


@pytest.fixture
def start_workers(running_ray, monkeypatch):
    """Start so many workers; ``build`` is the method that each calls first."""
    # Ray's processes cannot import this module
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    monkeypatch.setattr(executor, "Worker", LightWorker)
    started = []

    def start(number, build="build", num_cpus=1, restart_timeout=60.0):
        remote = []
        for i in range(number):
            arguments = (i,) if build == "build" else ()
            first = Call(i, build, arguments, "its start")
            remote.append(RemoteWorker(first, {"num_cpus": num_cpus}))
        logger = getLogger("tests")
        workers = Workers(remote, logger, lambda: None, restart_timeout)
        started.append(workers)
        return workers

    yield start
    ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    for workers in started:
        workers.close()


def answers(numbers):
    return [Call(number % 2, "answer", (number,), f"call {number}") for number in numbers]


@pytest.mark.parametrize("method", ["die", "lose_a_loader"])
@pytest.mark.parametrize("ahead", [3, 8])
def test_calls_of_a_lost_worker_are_done_again(start_workers, tmp_path, method, ahead):
    workers = start_workers(2)
    calls = answers(range(8))
    calls[3] = Call(1, method, (str(tmp_path / "lost"),), "call 3")
    results = list(workers.run(calls, ahead))
    assert [number for number, _ in results] == [0, 1] * 4
    assert [value for _, value in results[:3] + results[4:]] == [0, 1, 2, 4, 5, 6, 7]
    assert len(workers.restarts) == 1


def test_a_call_that_kills_three_workers_ends_the_run(start_workers):
    workers = start_workers(2)
    calls = [*answers(range(2)), Call(0, "die", (), "client 'c' of round 2")]
    reports = workers.run(calls, ahead=3)
    assert [next(reports), next(reports)] == [(0, 0), (1, 1)]
    said = r"client 'c' of round 2 has killed 3 workers.*fewer workers \(--workers\)"
    with pytest.raises(WorkersLost, match=said):
        next(reports)


@pytest.mark.parametrize("error", [DataError("sample 10: the disk is gone"), KeyError("bug")])
def test_the_first_error_in_the_order_of_calls_is_raised(start_workers, error):
    """A user's error as it is, another one with its traceback in the worker."""
    workers = start_workers(2)
    calls = answers(range(6))
    calls[2] = Call(0, "fail", (error,), "call 2")
    calls[5] = Call(1, "fail", (ValueError("later"),), "call 5")
    reports = workers.run(calls, ahead=6)
    assert [next(reports), next(reports)] == [(0, 0), (1, 1)]
    with pytest.raises(type(error)) as caught:
        next(reports)
    if isinstance(error, DataError):
        assert str(caught.value) == str(error)
    else:
        assert "in fail" in str(caught.value)


def test_workers_that_die_as_they_start(start_workers):
    workers = start_workers(1, build="die")
    with pytest.raises(WorkersLost, match="its start has killed 3 workers"):
        list(workers.run(answers([0]), ahead=1))


def test_workers_that_are_not_started_in_time(start_workers):
    workers = start_workers(1, num_cpus=1000, restart_timeout=0.5)
    said = r"not started within 0\.5 s .*num_cpus=1000; the cluster has CPU 3.*restart_timeout"
    with pytest.raises(WorkersLost, match=said):
        list(workers.run(answers([0]), ahead=1))


def test_a_worker_without_memory_says_so():
    class Allocation:
        @_naming_lacks
        def train(self):
            raise MemoryError

    with pytest.raises(ResourceError, match=r"a worker on .*: memory ran out"):
        Allocation().train()


@pytest.mark.parametrize(
    ("address", "error", "message"),
    [
        (None, ResourceError, "Ray has not started .*the node timed out.*end other programs"),
        ("host:1", ConfigError, r"^executor\.address: no Ray cluster at 'host:1': the node timed"),
    ],
)
def test_ray_that_does_not_start(monkeypatch, address, error, message):
    def init(**options):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise RuntimeError("the node timed out")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    before = os.getcwd(), signal.getsignal(signal.SIGTERM)
    with pytest.raises(error, match=message):
        start_ray(address, cpus=2, gpus=0)
    assert (os.getcwd(), signal.getsignal(signal.SIGTERM)) == before
