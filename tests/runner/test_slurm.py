"""The script of a job array starts, stops and requeues one run a task."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedseg.commands.sweep import main
from fedseg.runner.slurm import array_script
from fedseg.runner.sweep import plan_sweep

# in the place of Python: says how it was called, and may then wait for SIGTERM
STUB = """#!/bin/bash
trap 'echo stopped >>"$CALLS"; exit 130' TERM
printf '%s\\n' "$OMP_NUM_THREADS" "$PWD" "$@" >"$CALLS"
while [ -n "$WAITS" ]; do sleep 0.1; done
exit 3
"""
SCONTROL = """#!/bin/bash
echo "scontrol $*" >>"$CALLS"
"""


@pytest.fixture
def jobs(small_config, tmp_path, monkeypatch):
    """Three runs, one of them finished, whose command is a stub in a folder with a space."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    for name, text in (("python", STUB), ("scontrol", SCONTROL)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.chdir(folder)
    jobs = plan_sweep([small_config], [], [0, 1, 2], root=Path("runs"))
    jobs[1].work_dir.mkdir(parents=True)
    jobs[1].results.touch()
    return jobs


def start_task(script: str, number: int, **variables: str) -> subprocess.Popen:
    """Start a task of a script as Slurm does, in another folder."""
    folder = Path.cwd()
    (folder / "sweep.sbatch").write_text(script)
    environment = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "CALLS": str(folder / "calls"),
        "SLURM_ARRAY_TASK_ID": str(number),
        "SLURM_JOB_ID": "17",
        **variables,
    }
    return subprocess.Popen(["bash", folder / "sweep.sbatch"], env=environment, cwd="/")


def calls() -> list[str]:
    """Lines that the stubs have written."""
    file = Path("calls")
    return file.read_text().splitlines() if file.is_file() else []


def test_a_task_trains_the_run_of_its_number(jobs):
    script = array_script(jobs, Path.cwd(), at_once=4)
    assert "#SBATCH --array=0-1%4\n" in script
    for number, job in enumerate((jobs[0], jobs[2])):
        process = start_task(script, number, SLURM_CPUS_PER_TASK="8")
        assert process.wait(60) == 3  # Slurm sees that a run has failed
        threads, folder, *words = calls()
        assert (threads, folder) == ("8", str(Path.cwd()))
        assert words == job.resume_command[1:] and words[-1] == "--resume"


def test_the_threads_may_be_given(jobs):
    script = array_script(jobs, Path.cwd(), threads=2)
    assert "#SBATCH --array=0-1\n" in script
    start_task(script, 0, SLURM_CPUS_PER_TASK="8").wait(60)
    assert calls()[0] == "2"


def test_before_the_time_limit_a_run_saves_and_is_queued_again(jobs):
    process = start_task(array_script(jobs, Path.cwd()), 0, WAITS="1")
    while "--resume" not in calls():
        time.sleep(0.05)
    time.sleep(0.2)  # the script waits, too
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    assert calls()[-2:] == ["stopped", "scontrol requeue 17"]


def test_the_command_writes_the_script(small_config, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["fedseg", str(small_config), "--seeds", "0", "1", "--slurm", "sweep.sbatch"]
    monkeypatch.setattr("sys.argv", words)
    assert main() == 0
    assert "2 of 2 runs in sweep.sbatch" in capsys.readouterr().out
    assert "#SBATCH --array=0-1\n" in Path("sweep.sbatch").read_text()
    assert not Path("work_dirs").exists()
