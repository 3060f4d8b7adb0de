"""Ray itself: several machines of which one is lost, and the life of a run on the command line."""

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import ray_processes
import torch
import toyseg

from fedseg.errors import Interrupted

pytest.importorskip("ray")

CONFIG = {**toyseg.PLAIN, "train_cfg": {"max_rounds": 4, "local_epochs": 15, "val_interval": 2}}
DEADLINE = 200  # seconds


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    config = toyseg.run(tmp_path_factory.mktemp("alone"), **CONFIG)
    return config


class LoseANode:
    """As a hook: a machine of a cluster ends in the second round, and another one joins."""

    priority = 50

    def __init__(self, cluster, node):
        self.cluster, self.node = cluster, node

    def after_result(self, runner, result):
        if runner.round == 2 and self.node is not None:
            self.cluster.remove_node(self.node)
            self.node = self.cluster.add_node(num_cpus=1) and None


def surroundings():
    """What of this process Ray might change: environment, handlers of signals."""
    handlers = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)]
    return {name: value for name, value in os.environ.items() if "RAY" in name}, handlers


def train_on_a_cluster(config):
    """In a process of its own, because what Ray leaves in one is not to be forked later."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    import ray
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    node = cluster.add_node(num_cpus=1)
    executor = {"type": "RayExecutor", "address": cluster.address}  # as many workers as there fit
    try:
        runner = toyseg.runner({**config, "executor": executor})
        runner._hooks.append(LoseANode(cluster, node))
        before = surroundings()
        torch.set_num_threads(2)  # another number than a worker's
        runner.train()
        assert torch.get_num_threads() == 2 and surroundings() == before
        assert runner.executor.num_workers == 2
    finally:
        ray.shutdown()
        cluster.shutdown()


def test_a_machine_of_a_cluster_is_lost(tmp_path, alone):
    config = toyseg.settings(tmp_path, **CONFIG)
    context = multiprocessing.get_context("spawn")  # forked, it could wait for threads of OpenMP
    process = context.Process(target=train_on_a_cluster, args=(config,))
    process.start()
    process.join(DEADLINE)
    process.kill()  # if it hangs
    assert process.exitcode == 0
    assert toyseg.run_differences(alone, config) == []
    assert sum(len(line.get("restarts", [])) for line in toyseg.history(config)) >= 1


def run_until(path: Path, config: dict, rounds: int, *options: str):
    """Start the command line; wait until so many rounds are in the history."""
    process = toyseg.start_cli(path, *options)
    history, deadline = Path(config["work_dir"]) / "history.jsonl", time.monotonic() + DEADLINE
    while process.poll() is None and time.monotonic() < deadline:
        if history.exists() and len(history.read_text().splitlines()) >= rounds:
            break
        time.sleep(0.05)
    return process, ray_processes.started_by(process.pid)


def test_the_life_of_a_run(tmp_path, alone):
    """A signal to the whole group; resumed on one worker; SIGKILL; resumed in one process."""
    config = toyseg.settings(tmp_path, **CONFIG)
    path = toyseg.write_config(tmp_path / "toy.py", config)
    process, started = run_until(path, config, 1, "--workers", "2")
    assert process.poll() is None, process.communicate()
    assert len(started) > 2 and len(ray_processes.folders_of(started)) == 1
    os.killpg(process.pid, signal.SIGTERM)
    _, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == Interrupted.exit_code and "Traceback" not in err
    assert "raylet" not in err and "are saved" in err
    assert ray_processes.left_behind(started, DEADLINE) == []

    process, started = run_until(path, config, 3, "--workers", "1", "--resume")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert ray_processes.left_behind(started, DEADLINE) == []
    toyseg.check_resumed(alone, config)


@pytest.fixture
def ray_of_this_machine(monkeypatch):
    """The process id of a Ray that runs already; its address is in RAY_ADDRESS, as on a cluster."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    options = [f"--port={address.rpartition(':')[2]}", "--num-cpus=2", "--include-dashboard=false"]
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", *options]
    monkeypatch.setenv("RAY_ADDRESS", address)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0123456789abcdef" * 4)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    started = {}
    try:
        lines = iter(process.stdout.readline, "")
        assert any("Ray runtime started" in line for line in lines)
        started = ray_processes.started_by(process.pid)
        yield process.pid
    finally:
        process.terminate()  # which ends its processes
        process.communicate(timeout=DEADLINE)
        assert ray_processes.left_behind(started, DEADLINE) == []


def test_workers_join_a_ray_that_is_running(tmp_path, alone, ray_of_this_machine):
    """The recipe for Slurm and Kubernetes: --workers with executor.address."""
    config = toyseg.settings(tmp_path, **CONFIG)
    path = toyseg.write_config(tmp_path / "toy.py", config)
    options = ("--workers", "2", "--cfg-options", "executor.address=auto")
    process, started = run_until(path, config, 1, *options)
    assert process.poll() is None, process.communicate()
    assert "gcs_server" not in " ".join(started.values())  # no Ray of its own
    assert ray_processes.workers_of(ray_of_this_machine)  # a slow machine starts the second later
    process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
    assert toyseg.run_differences(alone, config) == []


def test_a_signal_while_ray_starts(tmp_path):
    config = toyseg.settings(tmp_path, **CONFIG)
    process = toyseg.start_cli(toyseg.write_config(tmp_path / "toy.py", config), "--workers", "1")
    started, deadline = {}, time.monotonic() + DEADLINE
    while "gcs_server" not in " ".join(started.values()) and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        started = ray_processes.started_by(process.pid)
    os.kill(process.pid, signal.SIGTERM)
    _, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == Interrupted.exit_code and "Traceback" not in err
    assert ray_processes.left_behind(started, DEADLINE) == []
