"""The programs of the long runs: every sweep is planned, and no run twice."""

import os
import shlex
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[2] / "tools" / "papers"


@pytest.fixture
def called(tmp_path):
    """The commands of fedseg that a program calls for some tables, without executing them."""

    def called(name: str, *tables: str) -> list[list[str]]:
        log, program = tmp_path / "log", tmp_path / "bin" / "fedseg"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\necho "$@" >> {shlex.quote(str(log))}\n')
        program.chmod(0o755)
        path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "SEEDS": "0"}
        command = [shutil.which("bash"), str(PROGRAMS / name), *tables]
        subprocess.run(command, check=True, cwd=tmp_path, env=environment)
        return [line.split() for line in log.read_text().splitlines()]

    return called


@pytest.fixture
def planned(called, run_tool, configs_read_once, monkeypatch, tmp_path):
    """The folders of the runs that a program's sweeps plan, in order."""

    def planned(name: str) -> list[Path]:
        monkeypatch.chdir(tmp_path)
        plans = []
        monkeypatch.setattr("fedseg.commands.sweep.show_plan", lambda jobs, _: plans.append(jobs))
        for command in called(name):
            if command[0] == "sweep":
                code, _, error = run_tool(*command, "--dry-run")
                assert code == 0, error
        return [job.work_dir.relative_to("work_dirs") for jobs in plans for job in jobs]

    return planned


def test_the_ranking_has_every_run_once(planned):
    runs = planned("ranking.sh")
    assert len(runs) == len(set(runs))
    tables = Counter(run.parts[1] for run in runs)
    # of a seed: all; without FedAvg and SiloBN alone; fifteen; without SCAFFOLD and with two more
    assert tables == {"streets": 34, "combined": 32, "camvid": 15, "classes": 16}


def test_the_long_schedule_has_every_run_once(planned):
    runs = planned("long_schedule.sh")
    assert len(runs) == len(set(runs))
    assert Counter(run.parts[1] for run in runs) == {"500": 5, "1500": 2}


def test_a_table_is_named(called):
    (sweep,) = {tuple(command[:2]) for command in called("ranking.sh", "camvid")}
    assert sweep == ("sweep", "camvid_small")
