"""Ray itself: several nodes of which one is lost, and the life of a run on the command line."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import toyseg

pytest.importorskip("ray")

LONG = {"train_cfg": {"max_rounds": 6, "local_epochs": 30}}
DEADLINE = 300  # seconds


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    config = toyseg.settings(tmp_path_factory.mktemp("alone"), **LONG)
    toyseg.train(config)
    return config


def differences(one, other):
    found = toyseg.run_differences(one, other)
    return [d for d in found if not d.endswith("restarts: only on one side")]


NODES = """
import os, sys
import ray
from ray.cluster_utils import Cluster
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
import toyseg

head = {{"num_cpus": 0, "include_dashboard": False}}
cluster = Cluster(initialize_head=True, head_node_args=head)
nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
runner = toyseg.runner({config!r} | {{"executor": dict(
    type="RayExecutor", num_workers=2, cpus_per_worker=1, address=cluster.address)}})

class LoseANode:
    priority = 50
    def after_result(self, runner, result):
        if runner.round == 3 and nodes:
            cluster.remove_node(nodes.pop())
            cluster.add_node(num_cpus=1)
            nodes.clear()

runner._hooks.append(LoseANode())
try:
    runner.train()
    print("nodes", len(ray.nodes()) if ray.is_initialized() else 0)
finally:
    ray.shutdown()
    cluster.shutdown()
"""


def test_a_machine_of_a_cluster_is_lost(tmp_path, alone):
    config = toyseg.settings(tmp_path, **LONG)
    (tmp_path / "nodes.py").write_text(NODES.format(config=config))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    options = {"env": environment, "capture_output": True, "text": True, "timeout": DEADLINE}
    done = subprocess.run([sys.executable, str(tmp_path / "nodes.py")], **options)
    assert done.returncode == 0, done.stderr
    assert differences(alone, config) == []
    assert sum(len(line.get("restarts", [])) for line in toyseg.history(config)) >= 1


def started_by(pid: int) -> list[int]:
    """Processes below one, from what it started on."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True).stdout
    parents = dict(map(int, line.split()) for line in listed.splitlines())
    found, above = [], {pid}
    while above:
        above = {child for child, parent in parents.items() if parent in above}
        found += above
    return found


def run_until(path: Path, config: dict, rounds: int, *options: str):
    """Start the command line; wait until so many rounds are in the history."""
    process = toyseg.start_cli(path, "--workers", "2", *options)
    history, deadline = Path(config["work_dir"]) / "history.jsonl", time.monotonic() + DEADLINE
    while process.poll() is None and time.monotonic() < deadline:
        if history.exists() and len(history.read_text().splitlines()) >= rounds:
            break
        time.sleep(0.05)
    return process, started_by(process.pid)


def wait_for_the_end_of(processes: list[int], folders: set[Path]) -> None:
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        alive = [pid for pid in processes if Path(f"/proc/{pid}").exists()]
        left = {folder for folder in folders if folder.exists()}
        if not alive and not left:
            return
        time.sleep(0.1)
    raise AssertionError(f"left behind: {alive}, {left}")


def folders_of(processes: list[int]) -> set[Path]:
    """Ray's folders that the processes were started with."""
    commands = [Path(f"/proc/{pid}/cmdline") for pid in processes]
    text = " ".join(file.read_bytes().decode() for file in commands if file.exists())
    return {Path(name) for name in re.findall(r"/tmp/fedseg-ray-\w+", text)}


def test_the_life_of_a_run(tmp_path, alone):
    """Ctrl-C, resumed; SIGKILL of the driver, resumed with another number of workers."""
    config = toyseg.settings(tmp_path, **LONG)
    path = toyseg.write_config(tmp_path / "toy.py", config)
    process, started = run_until(path, config, 1)
    folders = folders_of(started)
    assert process.poll() is None, process.communicate()
    assert len(started) > 2 and len(folders) == 1
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 130 and "are saved" in err and "Traceback" not in err
    wait_for_the_end_of(started, folders)

    process, started = run_until(path, config, 3, "--resume")
    folders = folders_of(started)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_for_the_end_of(started, folders)

    process = toyseg.start_cli(path, "--resume", "--workers", "1")
    out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, err
    assert "raylet" not in out + err and "ray" not in err.lower()
    assert differences(alone, config) == []
