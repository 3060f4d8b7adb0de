"""What goes wrong in a worker reads as in one process; what kills workers stops a run in time."""

import os
import re
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import forkray
import pytest
import torch
import toyseg
from torch.utils.data import get_worker_info

from fedseg.errors import DataError, ResourceError, TrainingError, WorkersLost
from fedseg.hooks import FederatedHook
from fedseg.loaders.partitioned import PartitionedData
from fedseg.parallel import cluster
from fedseg.parallel import pool as pools
from fedseg.parallel.executor import RayExecutor
from fedseg.parallel.worker import Worker
from fedseg.registry import HOOKS

SMALL = {**toyseg.PLAIN, "train_cfg": {"max_rounds": 3, "val_interval": 3, "val_last_rounds": 0}}
EVERY = {"client_sampler": {"clients_per_round": "all"}}


@pytest.fixture(autouse=True)
def ray(monkeypatch):
    forkray.install(monkeypatch)
    yield
    assert forkray.Actor.alive == []


def settings(folder, workers=0, **changes):
    if workers:
        changes["executor"] = {
            "type": "RayExecutor",
            "num_workers": workers,
            "cpus_per_worker": 1,
            "restart_timeout": changes.pop("restart_timeout", 60.0),
            **changes.pop("executor", {}),
        }
    return toyseg.settings(folder, **toyseg.merge(SMALL, changes))


@HOOKS.register_module()
class DeadlyClient(FederatedHook):
    """A client that kills whoever trains it, or asks for more memory than there is."""

    def __init__(self, client, round_, numbers=0):
        self.client, self.deadly_round, self.numbers = client, round_, numbers

    def before_client(self, runner, client):
        if client.id == self.client and runner.round == self.deadly_round:
            if not self.numbers:
                os.kill(os.getpid(), signal.SIGKILL)
            torch.empty(self.numbers)


@HOOKS.register_module()
class SlowClients(FederatedHook):
    """The first worker to train anything waits in every round for the other to train four."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def before_client(self, runner, client):
        if not hasattr(self, "slow"):
            try:
                (self.folder / "slow").mkdir()
                self.slow = True
            except FileExistsError:
                self.slow = False
        deadline = time.monotonic() + 60
        while self.slow and len(list(self.folder.glob(f"{runner.round} *"))) < 4:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        (self.folder / f"{runner.round} {client.id} {os.getpid()}").touch()


def test_a_client_that_kills_three_workers_stops_the_run_at_the_last_round(tmp_path):
    changes = {**EVERY, "custom_hooks": [{"type": "DeadlyClient", "client": "c", "round_": 2}]}
    config = settings(tmp_path, 2, **changes, default_hooks={"checkpoint": {"interval": 100}})
    said = (
        r"client 'c' of round 2 has killed 3 workers.*: killed; workers have used up to [1-9].*iB"
    )
    with pytest.raises(WorkersLost, match=said + r".*fewer workers \(--workers\).*1 to 1 "):
        toyseg.train(config)
    assert [line["round"] for line in toyseg.history(config)] == [1]
    assert toyseg.checkpoint(config, 1)["round"] == 1


@pytest.mark.parametrize("times", [1, 99])
def test_a_loader_process_is_killed(tmp_path, monkeypatch, times):
    whole = toyseg.ToyScenes.__getitem__

    def deadly(scenes, key):
        deaths = len(list(tmp_path.glob("death *")))
        if key[0] == 10 and not scenes.test_mode and deaths < times and get_worker_info():
            (tmp_path / f"death {deaths}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(scenes, key)

    alone = settings(tmp_path / "alone", **EVERY)
    toyseg.train(alone)
    monkeypatch.setattr(toyseg.ToyScenes, "__getitem__", deadly)
    shared = settings(tmp_path / "shared", 2, **EVERY, train_dataloader={"num_workers": 1})
    said = r"train_dataloader: loader process \d+ was killed by SIGKILL .*sample 10 of client"
    if times == 99:
        with pytest.raises(WorkersLost, match=rf"has killed 3 workers, the last one so: {said}"):
            toyseg.train(shared)
        return
    toyseg.train(shared)
    assert toyseg.run_differences(alone, shared) == []
    (reason,) = toyseg.history(shared)[0]["restarts"]
    assert re.match(said, reason)


def test_a_worker_without_memory_says_how_much_it_had_and_what_to_set(tmp_path):
    hooks = [{"type": "DeadlyClient", "client": "c", "round_": 2, "numbers": 10**15}]
    said = (
        r"a worker on .* used up to [1-9].*iB: memory ran out .*--workers.*rounds 1 to 1 are saved"
    )
    with pytest.raises(ResourceError, match=said):
        toyseg.train(settings(tmp_path, 2, **EVERY, custom_hooks=hooks))


def test_ray_that_does_not_start(tmp_path, monkeypatch):
    ray = sys.modules["ray"]
    ray.is_initialized, ray.shutdown = (lambda: False), lambda: None
    private = SimpleNamespace(print_to_stdstream=print, ConsolePopen=print)
    ray._private = SimpleNamespace(worker=private, services=private)

    def init(**_):
        os.environ["RAY_SOMETHING"] = "1"
        raise Exception("the node timed out")

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))  # torch sets it if nobody has
    ray.init, threads, before = init, torch.get_num_threads(), dict(os.environ)
    with pytest.raises(ResourceError, match=r"Ray has not started .*the node timed out.*end other"):
        toyseg.train(settings(tmp_path, 2, executor={"cpus_per_worker": 3}))
    assert torch.get_num_threads() == threads
    assert dict(os.environ) == before
    assert private.print_to_stdstream is private.ConsolePopen is print


@pytest.mark.parametrize(
    ("clients", "value"), [("all", float("nan")), (["b", "c"], float("inf")), (["b", "c"], 1e5)]
)
def test_rejected_updates(tmp_path, clients, value):
    poison = [{"type": "PoisonHook", "clients": clients, "round_": 2, "value": value}]
    every = {**EVERY, "custom_hooks": poison}
    alone, shared = settings(tmp_path / "alone", **every), settings(tmp_path / "two", 2, **every)
    if clients == "all":
        errors = []
        for config in (alone, shared):
            with pytest.raises(TrainingError) as caught:
                toyseg.train(config)
            errors.append(str(caught.value).replace(str(Path(config["work_dir"])), ""))
        assert errors[0] == errors[1] and "all 6 updates were rejected" in errors[0]
        return
    toyseg.check_alike(alone, shared)
    assert [r["client"] for r in toyseg.history(shared)[1]["rejected"]] == clients


@pytest.mark.parametrize("loaders", [0, 1])
def test_a_data_error(tmp_path, monkeypatch, loaders):
    whole = toyseg.ToyScenes.__getitem__

    def broken(scenes, key):
        if key[0] in (10, 20) and not scenes.test_mode:
            raise OSError("the disk is gone")
        return whole(scenes, key)

    monkeypatch.setattr(toyseg.ToyScenes, "__getitem__", broken)
    errors = []
    for workers in (0, 2):
        loader = {"num_workers": loaders}
        config = settings(tmp_path / str(workers), workers, **EVERY, train_dataloader=loader)
        with pytest.raises(DataError) as caught:
            toyseg.train(config)
        errors.append(str(caught.value))
    assert errors[0] == errors[1] and "sample 10" in errors[0]


def test_other_data_on_a_worker_s_machine(tmp_path, monkeypatch):
    driver, checksum = os.getpid(), PartitionedData.checksum
    monkeypatch.setattr(
        PartitionedData,
        "checksum",
        lambda data: checksum(data) if os.getpid() == driver else "another",
    )
    with pytest.raises(DataError, match="train_dataloader: worker 0"):
        toyseg.train(settings(tmp_path, 1))


def test_states_travel_where_their_folder_is_not_seen(tmp_path, monkeypatch):
    build = Worker.build

    def elsewhere(worker, config, place, *others):
        return build(worker, config, (*place[:2], (tmp_path / "none", "")), *others)

    monkeypatch.setattr(Worker, "build", elsewhere)
    kept = {"algorithm": {"type": "FedDyn", "beta": 10.0}, "state_store": {"keep": "disk"}}
    alone, shared = settings(tmp_path / "alone", **kept), settings(tmp_path / "two", 2, **kept)
    toyseg.check_alike(alone, shared)


@pytest.mark.parametrize(
    ("start", "timeout", "message"),
    [
        (lambda *_: time.sleep(60), 1.0, "restart_timeout"),
        (lambda *_: os.kill(os.getpid(), signal.SIGKILL), 60.0, "its start has killed 3 workers"),
    ],
)
def test_no_worker_can_be_started(tmp_path, monkeypatch, start, timeout, message):
    monkeypatch.setattr(Worker, "build", start)
    with pytest.raises(WorkersLost, match=message):
        toyseg.train(settings(tmp_path, 2, restart_timeout=timeout))


def test_a_late_worker_loses_clients_to_an_idle_one(tmp_path, monkeypatch):
    monkeypatch.setattr(pools, "SOON", 0.0)  # else these short calls are sent ahead
    (tmp_path / "seen").mkdir()
    hooks = [{"type": "SlowClients", "folder": str(tmp_path / "seen")}]
    shared = settings(tmp_path / "two", 2, **EVERY, custom_hooks=hooks)
    toyseg.check_alike(settings(tmp_path / "alone", **EVERY), shared)
    trained = [path.name.split() for path in (tmp_path / "seen").glob("* * *")]
    assert len(trained) == 18, "each client once a round"
    by_worker = [sum(pid == one for *_, pid in trained) for one in {p for *_, p in trained}]
    assert sorted(by_worker) == [6, 12]


def test_the_plan_says_what_workers_bring(tmp_path):
    from fedseg.runner.plan import make_plan

    longer = {**EVERY, "train_cfg": {"local_epochs": 20}}
    before = torch.get_num_threads()
    threads = {"executor": {"cpus_per_worker": 3}}
    plan = make_plan(toyseg.runner(settings(tmp_path, 2, **longer, **threads)))
    assert plan["threads of a worker"] == 3 and torch.get_num_threads() == before
    assert plan["workers"] == 2 and plan["memory of a worker"] > 0
    assert 1.7 < plan["expected speed-up"] <= 2


def test_workers_on_the_command_line(tmp_path):
    from fedseg.runner.experiment import load_config

    own = {"type": "RayExecutor", "num_workers": 3, "restart_timeout": 5.0}
    path = toyseg.write_config(tmp_path / "toy.py", {"executor": own})
    assert load_config(path, workers=2).executor == {**own, "num_workers": 2}
    path = toyseg.write_config(tmp_path / "plain.py", {"executor": {"type": "InProcessExecutor"}})
    assert load_config(path, workers="auto").executor == {
        "type": "RayExecutor",
        "num_workers": "auto",
    }


@pytest.mark.parametrize(
    ("per_worker", "workers", "gpus"), [(None, 4, 1.0), (0.5, 8, 0.5), (2, 2, 2), (0, 6, 0)]
)
def test_how_many_workers_there_are_room_for(per_worker, workers, gpus):
    """On a machine with four GPUs and twelve cores, two for each worker."""
    executor = RayExecutor("auto", cpus_per_worker=2, gpus_per_worker=per_worker)
    executor._resources(gpus=4, cores=12)
    assert (executor.num_workers, executor.gpus) == (workers, gpus)


def test_ray_is_started_from_any_thread():
    """Only the main thread may set handlers for signals, as a notebook's or a server's is not."""
    started = []
    ray = SimpleNamespace(init=lambda **options: started.append(options))
    with ThreadPoolExecutor(1) as users, ThreadPoolExecutor(1) as rays:
        users.submit(cluster._start, ray, {"num_cpus": 2}, rays).result()
    assert started == [{"num_cpus": 2}]


class Echo:
    def back(self, value):
        return value


def test_calls_and_answers_larger_than_a_pipe_do_not_wait_for_each_other():
    """In the stand-in for Ray, as in Ray."""
    actor, large = forkray.Actor(Echo), b"x" * (1 << 22)
    refs = [actor.back.remote(large) for _ in range(3)]
    while not all(ref.ready for ref in refs):
        forkray.wait(refs, timeout=1)
    assert [forkray.get(ref) for ref in refs] == [large] * 3
    forkray.kill(actor)
