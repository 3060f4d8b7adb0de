"""Ray itself, on the command line: a run is stopped by a signal, a worker of a running Ray dies."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import ray_processes
import toyseg

from fedseg.errors import Interrupted

pytest.importorskip("ray")

CONFIG = {**toyseg.PLAIN, "train_cfg": {"max_rounds": 4, "local_epochs": 15, "val_interval": 4}}
DEADLINE = 200  # seconds


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return toyseg.run(tmp_path_factory.mktemp("alone"), **CONFIG)


def run_until_first_round(path: Path, config: dict, *options: str):
    """Start the command line; wait until the history has a round."""
    process = toyseg.start_cli(path, *options)
    history, deadline = Path(config["work_dir"]) / "history.jsonl", time.monotonic() + DEADLINE
    while process.poll() is None and time.monotonic() < deadline:
        if history.exists() and history.read_text():
            break
        time.sleep(0.02)
    assert process.poll() is None, process.communicate()
    return process


def test_a_signal_stops_a_run_that_is_resumed_in_one_process(tmp_path, alone):
    config = toyseg.settings(tmp_path, **CONFIG)
    path = toyseg.write_config(tmp_path / "toy.py", config)
    process = run_until_first_round(path, config, "--workers", "2")
    started = ray_processes.started_by(process.pid)
    os.killpg(process.pid, signal.SIGTERM)
    _, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == Interrupted.exit_code
    assert "are saved" in err and "Traceback" not in err and "raylet" not in err
    assert len(started) > 2 and ray_processes.left_behind(started, DEADLINE) == []
    toyseg.check_resumed(alone, config)


@pytest.fixture
def ray_of_this_machine(monkeypatch):
    """The process id of a Ray that runs already; its address is in RAY_ADDRESS, as on a cluster."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [f"--port={port}", "--num-cpus=2", "--include-dashboard=false"]
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", *options]
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
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


def test_a_worker_of_a_running_ray_is_lost(tmp_path, alone, ray_of_this_machine):
    """The recipe for Slurm and Kubernetes: --workers with executor.address."""
    config = toyseg.settings(tmp_path, **CONFIG)
    path = toyseg.write_config(tmp_path / "toy.py", config)
    options = ("--workers", "2", "--cfg-options", "executor.address=auto")
    process = run_until_first_round(path, config, *options)
    assert "gcs_server" not in " ".join(ray_processes.started_by(process.pid).values())
    worker = ray_processes.workers_of(ray_of_this_machine)[0]
    os.kill(worker, signal.SIGKILL)
    _, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, err
    assert toyseg.run_differences(alone, config) == []
    assert any("restarts" in line for line in toyseg.history(config))
