"""What other processes, signals and the system do to a run: nothing is lost, and it is told."""

import errno
import gc
import multiprocessing
import os
import re
import resource
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from unittest import mock

import pytest
import toyseg
from command_line import ROOT

from fedseg.errors import (
    ConfigError,
    DataError,
    LoadingError,
    ResourceError,
    is_system_error,
    system_message,
)
from fedseg.hooks import FederatedHook
from fedseg.registry import DATASETS, HOOKS
from fedseg.runner.build import move_model

BROKEN, ROUND = 6, 4  # a sample of client b, which trains in round 4 for the first time
PLAIN = {**toyseg.PLAIN, "train_cfg": {"local_epochs": 1}, "val_dataloader": None}


def broken(folder: Path, what: int, **loader) -> dict:
    """A run with two loader processes, one of which sends itself a signal at a sample."""
    dataset = {"type": "BrokenScenes", "at": BROKEN, "what": int(what)}
    dataset["marker"] = str(folder / "worker")
    loader = {"num_workers": 2, "dataset": dataset, **loader}
    return toyseg.settings(folder, **PLAIN, train_dataloader=loader)


def wait_for(condition) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


# ---------------------------------------------------------------- one process, its workers


def test_a_work_dir_is_one_process_s_until_it_dies(tmp_path):
    """The holder waits for a worker that hangs; it is killed, and the lock does not stay."""
    config = broken(tmp_path, signal.SIGSTOP)
    process = toyseg.start_cli(toyseg.write_config(tmp_path / "toy.py", config))
    wait_for((tmp_path / "worker").exists)
    for resume in (False, True):
        with pytest.raises(ConfigError, match=r"work_dir: .* is in use by another process"):
            toyseg.train(config, resume)
    os.kill(process.pid, signal.SIGKILL)  # not its group
    process.wait()
    toyseg.train(config, resume=True)
    assert len(toyseg.history(config)) == 6
    os.kill(int((tmp_path / "worker").read_text()), signal.SIGKILL)


def test_a_worker_that_is_killed(tmp_path):
    config = broken(tmp_path, signal.SIGKILL)
    message = r"a loader process was lost .*rounds 1 to (\d) are saved.*resume"
    with pytest.raises((LoadingError, ResourceError), match=message) as raised:
        toyseg.train(config)
    saved = int(re.search(message, str(raised.value))[1])  # batches made in advance die with it
    assert toyseg.checkpoint(config, saved)["round"] == saved
    whole = toyseg.settings(tmp_path / "whole", **PLAIN)
    toyseg.train(whole)
    toyseg.train(config, resume=True)
    assert toyseg.run_differences(whole, config) == []


def test_a_data_set_that_hangs_ends_the_program(tmp_path):
    config = toyseg.write_config(tmp_path / "toy.py", broken(tmp_path, 0, timeout=1.0))
    ended = subprocess.run(
        [sys.executable, ROOT / "tools" / "train.py", config],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests" / "support")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 2
    assert re.search(
        r"error: train_dataloader\.timeout: no batch came within 1 s: .*rounds 1 to \d are saved",
        ended.stderr,
    )
    wait_for(lambda: is_gone(int((tmp_path / "worker").read_text())))


# ---------------------------------------------------------------- samples


@DATASETS.register_module()
class FaultyScenes(toyseg.ToyScenes):
    def __getitem__(self, key):
        if key[0] == BROKEN:
            raise ValueError("no such label")  # the line of the fault
        return super().__getitem__(key)


@DATASETS.register_module()
class FilesScenes(toyseg.ToyScenes):
    """As a data set of the suite's: an image that cannot be read is no fault of the program."""

    __module__ = "fedseg.datasets.own"

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.files = [(f"images/{number}.png",) for number in range(len(self))]

    def __getitem__(self, key):
        if key[0] == BROKEN:
            raise DataError("is truncated")
        return super().__getitem__(key)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_set_s_error_names_sample_and_file(tmp_path, workers):
    for kind in ("FaultyScenes", "FilesScenes"):
        loader = {"num_workers": workers, "dataset": {"type": kind}}
        config = toyseg.settings(tmp_path / kind, **PLAIN, train_dataloader=loader)
        with pytest.raises(LoadingError, match=f"{kind}, sample {BROKEN} .*client 'b'") as raised:
            toyseg.train(config)
        assert f"rounds 1 to {ROUND - 1} are saved" in str(raised.value)
        if kind == "FilesScenes":
            assert f"(images/{BROKEN}.png)" in str(raised.value)
        else:
            text = "".join(traceback.format_exception(raised.value))
            assert "the line of the fault" in text and "Traceback" not in str(raised.value)


@DATASETS.register_module()
class UnequalScenes(toyseg.ToyScenes):
    def __getitem__(self, key):
        made = super().__getitem__(key)
        return {**made, "inputs": made["inputs"][:, : 8 - (key[0] == BROKEN)]}


def test_samples_that_make_no_batch(tmp_path):
    loader = {"num_workers": 1, "dataset": {"type": "UnequalScenes"}}
    config = toyseg.settings(tmp_path, **PLAIN, train_dataloader=loader)
    with pytest.raises(LoadingError, match=r"sample \d of client 'b': its batch.*differ in size"):
        toyseg.train(config)


# ---------------------------------------------------------------- memory, disks


@HOOKS.register_module()
class CallHook(FederatedHook):
    def __init__(self, call, number):
        self.call, self.number = call, number

    def before_round(self, runner):
        if runner.round == self.number:
            self.call(Path(runner.work_dir))


def fill_the_disk(work_dir: Path) -> None:
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    mock.patch("torch.save", side_effect=error).start()


def limit_files(work_dir: Path) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (8000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def fill_the_memory(work_dir: Path) -> None:
    raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")


def kill_a_loader(work_dir: Path) -> None:
    """Torch then raises wherever the main process is: here in the write of a checkpoint."""

    def save(payload: object, file: object) -> None:
        newest = max(multiprocessing.active_children(), key=lambda child: child.pid)
        newest.kill()
        time.sleep(60)

    mock.patch("torch.save", side_effect=save).start()


CASES = {
    kill_a_loader: "a loader process was lost .*Killed",
    fill_the_disk: "No space left on device: .*round_000003",
    limit_files: "File too large: .*round_000003",
    fill_the_memory: "memory",
}


@pytest.mark.parametrize("call", CASES)
def test_what_the_system_refuses(tmp_path, call):
    workers = 2 if call is kill_a_loader else 0
    config = toyseg.settings(tmp_path, **PLAIN, train_dataloader={"num_workers": workers})
    run = toyseg.runner(config)
    run.register_hook(CallHook(call, 3))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        message = rf"{CASES[call]}.*rounds 1 to 2 are saved: the same command with --resume"
        with pytest.raises(ResourceError, match=message):
            run.train()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        mock.patch.stopall()
    toyseg.train(config, resume=True)
    assert len(toyseg.history(config)) == 6


def remove_states(work_dir: Path) -> None:
    (work_dir / "state" / "clients.sqlite").unlink()


def test_a_run_whose_states_are_removed_says_so(tmp_path):
    changes = {"algorithm": {"_delete_": True, "type": "SCAFFOLD"}}
    run = toyseg.runner(toyseg.settings(tmp_path, **PLAIN, **changes))
    run.register_hook(CallHook(remove_states, 3))
    with pytest.raises(DataError, match=r"clients\.sqlite: the state of .* is missing"):
        run.train()


@pytest.mark.parametrize("name", ["results.json", "vis_data", "checkpoints", "test"])
def test_no_link_leads_a_run_out_of_its_folder(tmp_path, name):
    config = toyseg.settings(tmp_path / "a", **PLAIN, visualizer=None)
    outside = tmp_path / "outside"
    outside.mkdir()
    Path(config["work_dir"]).mkdir(parents=True)
    (Path(config["work_dir"]) / name).symlink_to(outside)
    with pytest.raises(DataError, match=f"{name}: is a link that leads out of"):
        toyseg.train(config, resume=True)
    assert not list(outside.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_runs_of_one_process_leave_no_file_open(tmp_path):
    opened = []
    for number in range(3):
        toyseg.train(toyseg.settings(tmp_path / str(number), **PLAIN, visualizer=None))
        gc.collect()
        opened.append(len(os.listdir("/proc/self/fd")))
    assert opened[1] == opened[2]


def test_lacking_memory_is_not_the_device_s_fault(tmp_path):
    class Model:
        def to(self, device):
            raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB")

    with pytest.raises(RuntimeError, match="CUDA out of memory") as raised:
        move_model(Model(), toyseg.runner(toyseg.settings(tmp_path)).cfg)
    assert system_message(raised.value).startswith("memory ran out (CUDA out of memory")
    assert not is_system_error(ConfigError("out of memory is a name"))


def test_a_work_dir_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ResourceError, match="cannot create the folder") as raised:
        toyseg.runner(toyseg.settings(tmp_path / "file"))
    assert str(tmp_path / "file") in str(raised.value)


@pytest.mark.parametrize("work_dir", ["", " "])
def test_an_empty_work_dir(tmp_path, monkeypatch, run_tool, work_dir):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="work_dir"):
        toyseg.runner(toyseg.settings(tmp_path, work_dir=work_dir))
    assert run_tool("train", "toy.py", "--work-dir", work_dir)[0] == 2
    assert not list(tmp_path.iterdir())
