"""Runs on workers: the bits of one process, whoever dies on the way; a signal; other data."""

import os
import signal
import time
from pathlib import Path

import pytest
import ray_processes
import toyseg

from fedseg.core.hook import FederatedHook
from fedseg.errors import DataError, Interrupted
from fedseg.loaders.partitioned import PartitionedData

ray = pytest.importorskip("ray")

DEADLINE = 200  # seconds
SHORT = {"max_rounds": 4, "local_epochs": 1, "val_interval": 2, "val_last_rounds": 0}
SGD = {**toyseg.PLAIN["optim_wrapper"], "optimizer": {"type": "SGD", "lr": 0.05}}


def executor(workers):
    return {"type": "RayExecutor", "num_workers": workers}


class KillAWorker(FederatedHook):
    """As a hook of the driver: a worker dies in the second round, when the first client is done."""

    def after_result(self, runner, result):
        first = runner.client_sampler.participants(runner.round)[0]
        if runner.round == 2 and result.task.client == first:
            os.kill(ray_processes.workers_of(os.getpid())[0], signal.SIGKILL)


def test_a_worker_is_lost(tmp_path, running_ray):
    """FedASAM, SWA and SiloBN; clients are evaluated, too, after local steps done once more."""
    changes = {
        "train_cfg": SHORT,
        "client_sampler": {"clients_per_round": 6},
        "train_dataloader": {"num_workers": 1, "partition": {"holdout": 0.3}},
        "val_evaluator": {"type": "IoUMetric"},
        "val_cfg": {"views": ["by_domain", "fine_tuned"], "spread": True},
    }
    alone = toyseg.run(tmp_path / "alone", **changes)
    shared = toyseg.settings(tmp_path / "shared", **changes, executor=executor(2))
    runner = toyseg.runner(shared)
    runner.register_hook(KillAWorker())
    runner.train()
    assert toyseg.run_differences(alone, shared) == []
    values = [(Path(run["work_dir"]) / "clients.json").read_bytes() for run in (alone, shared)]
    assert values[0] == values[1] and b"_fine_tuned" in values[0]
    lines = toyseg.history(shared)
    assert sum(len(line.get("restarts", [])) for line in lines) == 1
    assert all(line["seconds"]["busy"] > 0 for line in lines)


def test_a_run_of_one_process_goes_on_with_workers_of_a_cluster(tmp_path, running_ray):
    """On the command line; two exchanges, full gradients, and what a compression has left out."""
    changes = {
        **toyseg.PLAIN,
        "train_cfg": SHORT,
        "client_sampler": {"clients_per_round": 5},
        "algorithm": {"_delete_": True, "type": "MIME", "momentum": 0.9},
        "optim_wrapper": SGD,
        "compression": {"type": "TopK", "share": 0.2},
    }
    whole = toyseg.run(tmp_path / "whole", **changes)
    cut = toyseg.settings(tmp_path / "cut", **changes)
    toyseg.train(toyseg.merge(cut, {"train_cfg": {"max_rounds": 2}}))
    path = toyseg.write_config(tmp_path / "toy.py", cut)
    address = ray.get_runtime_context().gcs_address
    options = ("--workers", "2", "--cfg-options", f"executor.address={address}")
    process = toyseg.start_cli(path, "--resume", *options)
    _, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, err
    assert toyseg.run_differences(whole, cut) == []


def test_workers_sum_the_blocks_of_many_clients(tmp_path, running_ray):
    """FedDyn, whose clients' states travel; 130 clients in 65 blocks, one of them rejected."""
    clients = {f"{number:03d}": 2 for number in range(130)}
    changes = {
        **toyseg.PLAIN,
        "train_cfg": {**SHORT, "max_rounds": 2},
        "train_dataloader": {"dataset": {"users": clients}},
        "client_sampler": {"clients_per_round": "all"},
        "algorithm": {"_delete_": True, "type": "FedDyn", "beta": 10.0},
        "custom_hooks": [{"type": "PoisonHook", "clients": ["007"], "round_": 2}],
    }
    alone = toyseg.settings(tmp_path / "alone", **changes)
    shared = toyseg.settings(tmp_path / "shared", **changes, executor=executor(2))
    toyseg.check_alike(alone, shared)
    rejected = [line["rejected"] for line in toyseg.history(shared)]
    assert rejected[0] == [] and [entry["client"] for entry in rejected[1]] == ["007"]


def test_a_worker_with_other_data_is_refused(tmp_path, running_ray, monkeypatch):
    monkeypatch.setattr(PartitionedData, "checksum", lambda data: "of this process")
    with pytest.raises(DataError, match=r"train_dataloader: worker 0 on .* has other clients"):
        toyseg.run(tmp_path, executor=executor(1))


def test_a_signal_stops_a_run_that_is_resumed_in_one_process(tmp_path):
    """On the command line, with a Ray of its own, of which nothing is left."""
    changes = {**toyseg.PLAIN, "train_cfg": {**SHORT, "max_rounds": 10, "local_epochs": 8}}
    alone = toyseg.run(tmp_path / "alone", **changes)
    config = toyseg.settings(tmp_path, **changes)
    path = toyseg.write_config(tmp_path / "toy.py", config)
    process = toyseg.start_cli(path, "--workers", "2")
    wait_for_a_round(process, config)
    started = ray_processes.started_by(process.pid)
    os.killpg(process.pid, signal.SIGTERM)
    _, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == Interrupted.exit_code, err
    assert "are saved" in err and "Traceback" not in err and "raylet" not in err
    assert len(started) > 2 and ray_processes.left_behind(started, DEADLINE) == []
    toyseg.check_resumed(alone, config)


class StopBetweenRounds(FederatedHook):
    """As a hook of the driver: a signal comes after the first round."""

    def before_round(self, runner):
        runner.interrupt.requested = runner.round == 2


def test_nothing_is_given_to_ray_after_a_signal(tmp_path, running_ray, monkeypatch):
    """Ray may be gone by then, and would end the process before the run is saved."""
    shared = toyseg.settings(
        tmp_path, **toyseg.PLAIN, train_cfg={**SHORT, "val_interval": 1}, executor=executor(1)
    )
    runner = toyseg.runner(shared)
    runner.register_hook(StopBetweenRounds())
    put = ray.put

    def put_before_the_signal(value):
        assert not runner.interrupt.requested
        return put(value)

    monkeypatch.setattr(ray, "put", put_before_the_signal)
    with pytest.raises(Interrupted):
        runner.train()
    assert len(toyseg.history(shared)) == 1


def wait_for_a_round(process, config):
    history = Path(config["work_dir"]) / "history.jsonl"
    deadline = time.monotonic() + DEADLINE
    while process.poll() is None and time.monotonic() < deadline:
        if history.exists() and history.read_text():
            break
        time.sleep(0.02)
    assert process.poll() is None, process.communicate()
