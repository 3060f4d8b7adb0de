"""A sweep plans every combination once, skips what is finished, resumes what stopped."""

import json
import shutil
import threading
from functools import partial

import pytest
from command_line import ForkedJob

from fedseg.commands.sweep import main, show_plan, show_sweep
from fedseg.errors import ConfigError, DataError
from fedseg.runner.sweep import _start, check_gpus, expected_seconds, plan_sweep, run_sweep

SEED = r"^sweep: randomness\.seed: .*--seeds"
ADVICE = "give another --work-dir, or remove its folder"
SHORT = ("train_cfg.max_rounds=2",)


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
    last = jobs[-1].command
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
        assert show_sweep(jobs, at_once=2) == 1
    err = capfd.readouterr().err
    assert "data_root=nowhere seed0 failed" in err and "nowhere" in err
    assert "0.1 seed0: finished" in err and "0.1 seed1: finished" in err

    good = sweep(small_config, tmp_path, seeds=[0, 1], grid=grid[:1])[:2]
    assert [job.state for job in good] == ["finished"] * 2
    assert list(run_sweep(good, 1, lambda active: None)) == []

    first = good[0].work_dir
    whole = json.loads((first / "results.json").read_text())
    (first / "results.json").unlink()
    stopped = sweep(small_config, tmp_path, seeds=[0], grid=[["optim_wrapper.rho=0.1"]])
    assert [job.state for job in stopped] == ["stopped"] and "--resume" in stopped[0].command
    ((job, _, failure),) = run_sweep(stopped, 1, lambda active: None)
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

    def __init__(self, job, gpu, code=0):
        self.code = code

    def wait(self):
        return self.code


def test_every_run_under_way_has_a_gpu_of_its_own(small_config, tmp_path, monkeypatch):
    jobs = sweep(small_config, tmp_path, seeds=range(4))
    under_way, both = {}, threading.Barrier(2)  # two at a time

    class Waits(Ended):
        def __init__(self, job, gpu):
            super().__init__(job, gpu)
            under_way[job.seed] = gpu

        def wait(self):
            both.wait()
            return 0

    monkeypatch.setattr("fedseg.runner.sweep._start", Waits)
    assert len(list(run_sweep(jobs, 2, lambda active: None, gpus=[3, 5]))) == 4
    assert sorted(under_way.values()) == [3, 3, 5, 5]


@pytest.mark.parametrize(("visible", "expected"), [(None, "1"), ("4,7", "7")])
def test_a_gpu_is_one_of_those_that_are_visible(
    small_config, tmp_path, monkeypatch, visible, expected
):
    (job,) = sweep(small_config, tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    started = []
    monkeypatch.setattr("subprocess.Popen", lambda command, env, **_: started.append(env))
    _start(job, 1)
    assert started[0]["CUDA_VISIBLE_DEVICES"] == expected


def test_a_gpu_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    check_gpus([0, 1])
    with pytest.raises(ConfigError, match=r"^--gpus: PyTorch sees 2 GPUs, .*and no 2$"):
        check_gpus([0, 2])


def test_a_run_that_was_killed_did_not_fail_as_it_last_did(small_config, tmp_path, monkeypatch):
    (job,) = sweep(small_config, tmp_path)
    job.work_dir.mkdir(parents=True)
    (job.work_dir / "output.txt").write_text("error: the disk of last week was full\n")
    for code, expected in ((2, "error: the disk of last week was full"), (-9, "signal 9")):
        monkeypatch.setattr("fedseg.runner.sweep._start", partial(Ended, code=code))
        ((_, _, failure),) = run_sweep([job], 1, lambda active: None)
        assert expected in failure and ("last week" in failure) == (code > 0)


def test_a_plan_knows_the_time_or_why_it_does_not(small_config, tmp_path, capfd):
    jobs = sweep(small_config, tmp_path, seeds=[0, 1])
    jobs += sweep(small_config, tmp_path, options=(*SHORT, "data_root=nowhere"), seeds=[2])
    seconds = expected_seconds(jobs)
    assert seconds[jobs[0]] == seconds[jobs[1]] > 0
    assert "nowhere" in seconds[jobs[2]]
    assert not any(job.work_dir.exists() for job in jobs)
    show_plan(jobs, at_once=2)
    out = capfd.readouterr().out
    assert "3 runs" in out and "nowhere" in out


def test_a_half_run_counts_by_what_is_left(small_config, tmp_path):
    (job,) = sweep(small_config, tmp_path)
    job.work_dir.mkdir(parents=True)
    (job.work_dir / "history.jsonl").write_text('{"round": 1}\n')
    assert job.rounds_done == 1
    shutil.rmtree(job.work_dir)
    assert job.rounds_done == 0
