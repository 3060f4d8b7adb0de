"""A sweep plans every combination once, skips what is finished, resumes what stopped."""

import json
import shutil
import threading
from functools import partial

import pytest
from command_line import ForkedJob

from fedseg.commands.sweep import main, show_plan, show_sweep
from fedseg.errors import ConfigError, DataError
from fedseg.runner.sweep import (
    Slot,
    _start,
    expected_seconds,
    find_gpus,
    make_slots,
    plan_sweep,
    run_sweep,
)

SEED = r"^sweep: randomness\.seed: .*--seeds"
ADVICE = "give another --work-dir, or remove its folder"
SHORT = ("train_cfg.max_rounds=2",)
ALONE = [Slot(gpu=None, threads=1)]


def sweep(config, root, **changes):
    arguments = {"seeds": [0], "options": SHORT, "root": root, **changes}
    return plan_sweep([config], changes.pop("methods", []), **arguments)


def test_every_combination_has_a_folder_of_its_own(small_config, tmp_path):
    grid = [["optim_wrapper.rho=0.1", "optim_wrapper.rho=1e9"], ["averaging.cycle=1"]]
    jobs = sweep(small_config, tmp_path, seeds=[0, 3], grid=grid)
    name = small_config.stem
    expected = [
        f"{name},optim_wrapper.rho={rho},averaging.cycle=1/seed{seed}"
        for rho in ("0.1", "1e9")
        for seed in (0, 3)
    ]
    assert [str(job.work_dir.relative_to(tmp_path)) for job in jobs] == expected
    assert {job.state for job in jobs} == {"new"} and {job.rounds for job in jobs} == {2}
    last = jobs[-1].train_command
    assert last[last.index("--seed") + 1] == "3" and "--resume" not in last
    assert {"optim_wrapper.rho=1e9", "averaging.cycle=1", *SHORT} <= set(last)


def test_seeds_may_be_given_one_by_one(small_config, tmp_path, monkeypatch):
    planned = []
    monkeypatch.setattr("fedseg.commands.sweep.show_plan", lambda jobs, _: planned.extend(jobs))
    for seeds, expected in ((["--seeds", "1", "2", "--seeds", "5"], [1, 2, 5]), ([], [0])):
        words = ["fedseg", str(small_config), "--dry-run", "--work-dir", str(tmp_path), *seeds]
        monkeypatch.setattr("sys.argv", words)
        main()
        assert [job.seed for job in planned] == expected
        planned.clear()


def test_the_same_run_twice_is_refused(small_config, tmp_path):
    with pytest.raises(ConfigError, match="seed0"):
        sweep(small_config, tmp_path, seeds=[0, 0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grid": [["randomness.seed=1", "randomness.seed=2"]]}, SEED),
        ({"options": ["randomness.seed=1"]}, SEED),
        ({"grid": [["a=1"], ["b=1"], ["a=2"]]}, "^--grid: a: .*two axes"),
        ({"grid": [["lr=0.1", "lr=0.5"]]}, r"lr: unknown key \(did you mean optim_wrapper"),
        (
            {"grid": [["optim_wrapper.rho=0.1", "optim_wrapper.rho=0.10"]]},
            r"^sweep: .*rho=0\.1/seed0 and .*rho=0\.10/seed0 would be the same run",
        ),
        ({"options": ["a=1"], "grid": [["a=1", "a=2"]]}, "^--grid: a: is in --cfg-options, too"),
        ({"grid": [["a=1", "rho"]]}, "^--grid: 'rho' is not of the form KEY=VALUE$"),
        ({"grid": [["a=" + "x" * 300]]}, "^sweep: .* too long"),
    ],
)
def test_a_grid_that_names_no_runs_of_its_own(small_config, tmp_path, changes, message):
    with pytest.raises(ConfigError, match=message):
        sweep(small_config, tmp_path, **changes)


def test_a_sweep_from_its_plan_to_the_board(small_config, tmp_path, capfd, monkeypatch):
    """Two runs of three finish, one fails; finished runs are skipped, a stopped one is resumed."""
    grid = [["optim_wrapper.rho=0.1", "data_root=nowhere"]]
    jobs = sweep(small_config, tmp_path, seeds=[0, 1], grid=grid)[:3]
    with monkeypatch.context() as patch:  # later a process of its own resumes one of the runs
        patch.setattr("fedseg.runner.sweep._start", ForkedJob)
        assert show_sweep(jobs, ALONE * 2) == 1
    err = capfd.readouterr().err
    assert "data_root=nowhere seed0 failed" in err and "nowhere" in err
    assert "0.1 seed0: finished" in err and "0.1 seed1: finished" in err

    good = sweep(small_config, tmp_path, seeds=[0, 1], grid=grid[:1])[:2]
    assert [job.state for job in good] == ["finished"] * 2
    assert list(run_sweep(good, ALONE, lambda active: None)) == []

    first = good[0].work_dir
    whole = json.loads((first / "results.json").read_text())
    (first / "results.json").unlink()
    stopped = sweep(small_config, tmp_path, seeds=[0], grid=[["optim_wrapper.rho=0.1"]])
    assert [job.state for job in stopped] == ["stopped"]  # a new start would be refused
    ((job, _, failure),) = run_sweep(stopped, ALONE, lambda active: None)
    assert failure is None and job.rounds_done == 2
    again = json.loads((first / "results.json").read_text())
    assert again["final"] == whole["final"]

    options = ("train_cfg.max_rounds=3",)
    with pytest.raises(
        ConfigError, match=rf"results\.json: is of a run with other options; {ADVICE}"
    ):
        sweep(small_config, tmp_path, options=options, grid=grid)
    (first / "results.json").write_text("{")
    with pytest.raises(DataError, match=r"results\.json"):
        sweep(small_config, tmp_path, grid=[["optim_wrapper.rho=0.1"]])


class Ended:
    """A run's process that has ended."""

    def __init__(self, job, slot, code=0):
        self.code = code

    def wait(self):
        return self.code


def test_every_run_under_way_has_a_slot_that_the_next_one_takes(
    small_config, tmp_path, monkeypatch
):
    """Two runs at a time on GPUs 3 and 5; one of four fails."""
    jobs = sweep(small_config, tmp_path, seeds=range(4))
    under_way, both = {}, threading.Barrier(2)

    class Waits(Ended):
        def __init__(self, job, slot):
            super().__init__(job, slot, code=-9 if job.seed == 0 else 0)
            under_way[job.seed] = slot.gpu

        def wait(self):
            both.wait()
            return self.code

    monkeypatch.setattr("fedseg.runner.sweep._start", Waits)
    ended = list(run_sweep(jobs, make_slots(gpus=[3, 5]), lambda active: None))
    assert {job.seed: failure is None for job, _, failure in ended} == {
        0: False,
        1: True,
        2: True,
        3: True,
    }
    assert sorted(under_way.values()) == [3, 3, 5, 5]


@pytest.mark.parametrize(
    ("arguments", "limit", "gpus", "threads"),
    [
        ({"jobs": 3}, None, [None] * 3, 2),
        ({"jobs": 3}, "8", [None] * 3, 2),
        ({"jobs": 3}, "1", [None] * 3, 1),  # fewer than the cores allow
        ({"jobs": 20}, None, [None] * 20, 1),
        ({"jobs": 3, "threads": 5}, "1", [None] * 3, 5),
        ({"gpus": [0, 3], "per_gpu": 2}, None, [0, 3, 0, 3], 2),
    ],
)
def test_runs_at_a_time_share_the_cores(monkeypatch, arguments, limit, gpus, threads):
    monkeypatch.setattr("fedseg.runner.sweep.count_cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if limit is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", limit)
    slots = make_slots(**arguments)
    assert [slot.gpu for slot in slots] == gpus
    assert {slot.threads for slot in slots} == {threads}


@pytest.mark.parametrize(
    ("gpu", "visible", "expected"),
    [(1, None, "1"), (1, "4,7", "7"), (None, None, None), (None, "4,7", "4,7")],
)
def test_the_environment_of_a_run_has_its_gpu_and_its_threads(
    small_config, tmp_path, monkeypatch, gpu, visible, expected
):
    (job,) = sweep(small_config, tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    started = []
    monkeypatch.setattr("subprocess.Popen", lambda command, env, **_: started.append(env))
    _start(job, Slot(gpu=gpu, threads=3))
    assert started[0].get("CUDA_VISIBLE_DEVICES") == expected
    assert started[0]["OMP_NUM_THREADS"] == "3"


def test_gpus_are_all_or_some_of_those_that_are_there(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert find_gpus(["all"]) == find_gpus(["0", "1"]) == [0, 1]
    assert find_gpus(["1"]) == [1] and find_gpus([]) == []
    for names in (["2"], ["0", "all"], ["-1"]):
        with pytest.raises(ConfigError, match=f"^--gpus: PyTorch sees 2, and no {names[-1]}: "):
            find_gpus(names)
    with pytest.raises(ConfigError, match=r"^--gpus: 1 is listed twice: use --per-gpu 2$"):
        find_gpus(["1", "1"])
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    for names in (["all"], ["0"]):
        with pytest.raises(ConfigError, match=r"^--gpus: PyTorch sees no GPU: leave it out"):
            find_gpus(names)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--gpus all --jobs 2", "^--jobs: leave it out with --gpus"),
        ("--per-gpu 2", "^--per-gpu: needs --gpus"),
        ("--threads 2 --workers 2", "^--threads: leave it out with --workers"),
        ("--slurm a.sbatch --gpus all", "^--slurm: leave out --gpus"),
        ("--slurm a.sbatch --dry-run", "^--slurm: leave out --gpus and --dry-run"),
    ],
)
def test_options_that_contradict_each_other(small_config, monkeypatch, options, message):
    monkeypatch.setattr("sys.argv", ["fedseg", str(small_config), *options.split()])
    with pytest.raises(ConfigError, match=message):
        main()


def test_workers_and_trackers_are_those_of_every_run(small_config, tmp_path):
    (job,) = sweep(small_config, tmp_path, workers=2, trackers=["tensorboard"])
    command = job.train_command
    assert command[command.index("--workers") + 1] == "2"
    assert command[command.index("--tracker") + 1] == "tensorboard"


def test_a_run_that_was_killed_did_not_fail_as_it_last_did(small_config, tmp_path, monkeypatch):
    (job,) = sweep(small_config, tmp_path)
    job.work_dir.mkdir(parents=True)
    (job.work_dir / "output.txt").write_text("error: the disk of last week was full\n")
    for code, expected in ((2, "error: the disk of last week was full"), (-9, "signal 9")):
        monkeypatch.setattr("fedseg.runner.sweep._start", partial(Ended, code=code))
        ((_, _, failure),) = run_sweep([job], ALONE, lambda active: None)
        assert expected in failure and ("last week" in failure) == (code > 0)


def test_a_plan_knows_the_time_or_why_it_does_not(small_config, tmp_path, capfd):
    jobs = sweep(small_config, tmp_path, seeds=[0, 1])
    jobs += sweep(small_config, tmp_path, options=(*SHORT, "data_root=nowhere"), seeds=[2])
    seconds = expected_seconds(jobs, threads=1)
    assert seconds[jobs[0]] == seconds[jobs[1]] > 0
    assert "nowhere" in seconds[jobs[2]]
    assert not any(job.work_dir.exists() for job in jobs)
    show_plan(jobs, ALONE * 2)
    out = capfd.readouterr().out
    assert "3 runs" in out and "nowhere" in out
    assert "with 2 at a time; threads of each: 1" in " ".join(out.split())


def test_a_half_run_counts_by_what_is_left(small_config, tmp_path):
    (job,) = sweep(small_config, tmp_path)
    job.work_dir.mkdir(parents=True)
    (job.work_dir / "history.jsonl").write_text('{"round": 1}\n')
    assert job.rounds_done == 1
    shutil.rmtree(job.work_dir)
    assert job.rounds_done == 0
