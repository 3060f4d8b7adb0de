"""A run is the same bits whether it was killed, stopped, or fed by other workers.

FedASAM + SWA with augmentation, six rounds, on scenes that are streamed (with SiloBN) and on images
in memory; the command line in processes of its own where a signal must really come, and many more
moments and algorithms in this process, where an exception that nothing catches stands for the kill.
"""

import contextlib
import os
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import toycls
import toyseg
from algorithm_table import ENTRIES
from command_line import TIMEOUT
from faults import kill_at
from toyalgorithms import StoppedError, raise_at

from fedseg.errors import DataError, Interrupted
from fedseg.evaluation.domains import DomainEvaluator
from fedseg.runner import checkpoint as checkpoint_module
from fedseg.runner.interrupt import InterruptGuard

TOYS = ("scenes", "images")
EACH_TOY = pytest.mark.parametrize("toy", TOYS)
Settings = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def settings(tmp_path_factory) -> dict[str, Settings]:
    """By toy, what makes a config from a folder and changes."""
    root = toycls.write_data(tmp_path_factory.mktemp("data") / "images")
    return {
        "scenes": toyseg.settings,
        "images": lambda folder, **changes: toycls.settings(folder, root, **changes),
    }


@pytest.fixture(scope="module")
def references(tmp_path_factory, settings):
    runs = {toy: settings[toy](tmp_path_factory.mktemp(toy)) for toy in TOYS}
    for config in runs.values():
        toyseg.train(config)
    return runs


@pytest.fixture(scope="module")
def reference(references):
    return references["scenes"]


def test_the_reference_is_worth_comparing(reference):
    last, first = toyseg.checkpoint(reference), toyseg.checkpoint(reference, 5)
    assert toyseg.differences(last["state_dict"], first["state_dict"])
    assert toyseg.differences(last["state_dict"], last["averaged_state_dict"])
    states = toyseg.client_states(reference)["clients"]
    assert len(states) >= 5 and all("personal.buffers" in s for s in states.values())
    other = toyseg.run(Path(reference["work_dir"]).parent / "other", randomness={"seed": 1})
    assert toyseg.run_differences(reference, other)


@pytest.mark.parametrize("workers", [1, 2])
def test_loader_workers(tmp_path, reference, workers):
    config = toyseg.run(tmp_path, train_dataloader={"num_workers": workers})
    assert toyseg.run_differences(reference, config) == []


@EACH_TOY
def test_a_second_run_and_the_state_of_the_process(tmp_path, settings, references, toy):
    torch.manual_seed(99)
    np.random.seed(3)  # noqa: NPY002 - nothing of it may matter
    config = settings[toy](tmp_path)
    toyseg.train(config)
    assert toyseg.run_differences(references[toy], config) == []


# ---------------------------------------------------------------- signals, in other processes


def killing(
    settings: Settings, folder: Path, at: str, round_: int, number: int = signal.SIGKILL
) -> tuple[dict, Path]:
    hook = {
        "type": "KillHook",
        "at": at,
        "round_": round_,
        "marker": str(folder / "killed"),
        "number": int(number),
    }
    changes = {"custom_hooks": [hook], "train_cfg": {"hook_interval": 1}}
    config = settings(folder, **changes)
    return config, toyseg.write_config(folder / "toy.py", config)


MOMENTS = [
    ("scenes", "client", 4),
    ("scenes", "aggregate", 5),
    ("scenes", "checkpoint", 4),
    ("images", "client", 5),
]


@pytest.fixture(scope="module")
def killed(tmp_path_factory, settings):
    """Runs of the command line that were killed, by moment: config, config file, exit code."""
    started = {}
    for toy, at, round_ in MOMENTS:
        config, path = killing(settings[toy], tmp_path_factory.mktemp(at), at, round_)
        started[toy, at] = config, path, toyseg.start_cli(path)
    return {moment: (c, p, s.wait()) for moment, (c, p, s) in started.items()}


@pytest.mark.parametrize(("toy", "at", "round_"), MOMENTS)
def test_sigkill_and_resume(killed, references, toy, at, round_):
    config, path, code = killed[toy, at]
    folder = path.parent
    assert code == -signal.SIGKILL and (folder / "killed").exists()
    written = sorted(p.name for p in (folder / "run" / "checkpoints").glob("round_*.pth"))
    assert written[-1] == f"round_{round_ - 1:06d}.pth", "killed where it was meant to be"
    if at == "checkpoint":
        parts = list((folder / "run" / "checkpoints").glob("*.pth.*.tmp"))
        assert len(parts) == 1 and parts[0].stat().st_size > 1000, "half of it was written"
        process = toyseg.start_cli(path, "--resume")
        _, err = process.communicate()
        assert process.returncode == 0, err
    else:
        toyseg.check_resumed(references[toy], config)
    assert (folder / "run" / "results.json").is_file()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_saves_and_tells_how_to_resume(tmp_path, reference, number):
    """A terminal and a scheduler send it to the whole process group, loader workers too."""
    config, path = killing(toyseg.settings, tmp_path, "client", 4, signal.SIGSTOP)
    config["train_dataloader"]["num_workers"] = 2
    toyseg.write_config(path, config)
    process = toyseg.start_cli(path)
    deadline = time.monotonic() + TIMEOUT
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
        if (tmp_path / "killed").exists():
            break
    assert process.poll() is None, process.communicate()
    os.killpg(process.pid, number)
    while process.poll() is None and time.monotonic() < deadline:
        # again and again: it may stop itself after the first of them
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.killpg(process.pid, signal.SIGCONT)
        time.sleep(0.05)
    out, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130, err
    assert "Traceback" not in out + err
    assert err.count("stopping at the next safe point") == 1
    assert "rounds 1 to 3 are saved: the same command with --resume continues" in err
    advised = toyseg.start_cli(path, "--resume")
    assert advised.wait() == 0, advised.communicate()[1]
    assert toyseg.run_differences(reference, config) == []


# ---------------------------------------------------------------- many moments, in this process


def killed_on_disk(config: dict, moment: int, resume: bool = False) -> bool:
    """Train, killed at the n-th write, rename or sync; whether it came to that."""
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, moment - 1)
        try:
            toyseg.train(config, resume)
        except StoppedError:
            return True
    return False


SGD = {"optim_wrapper": toyseg.PLAIN["optim_wrapper"]}
MIME = {
    "algorithm": {"type": "MIME", "momentum": 0.6},
    "optim_wrapper": {"optimizer": {"momentum": 0.0}},
}
VARIANTS = {
    "SCAFFOLD": {"algorithm": {"type": "SCAFFOLD"}, **SGD},
    "FedSMOO": {"algorithm": {"type": "FedSMOO", "rho": 0.1, "beta": 10.0}, **SGD},
    "MIME, two exchanges": MIME,
    "FedDyn, WIMA, a schedule": {
        "algorithm": {"type": "FedDyn", "beta": 10.0},
        "averaging": {"_delete_": True, "type": "WIMA", "window": 2},
        "param_scheduler": [{"type": "ExponentialLR", "gamma": 0.9}],
    },
    "NaiveFedGloSS, WIMA, FedBN": {
        "algorithm": {
            "type": "NaiveFedGloSS",
            "rho_server": 0.1,
            "admm": False,
            "rho0": 0.01,
            "rho_rounds": 3,
        },
        "averaging": {"_delete_": True, "type": "WIMA", "window": 2},
        "personal": toyseg.FEDBN,
    },
    "SiloBN, a personal head, a frozen layer": {
        "personal": [*toyseg.SILOBN, "@head"],
        "model": {"freeze": "conv1"},
    },
    "Ditto": {"algorithm": {"type": "Ditto"}},
    "what a compression has lost": {"compression": {"type": "TopK", "share": 0.4}},
    "FedAvgM with noise": {
        "algorithm": {"type": "FedAvg", "server_optim": {"type": "SGD", "momentum": 0.9}},
        "privacy": {"type": "DPFedAvg", "noise": 1.0, "clip": 0.3},
        "client_sampler": {"_delete_": True, "type": "PoissonSampler", "clients_per_round": 2},
        "train_cfg": {"max_norm_ratio": None},
    },
    "FedAdam, cyclic SWA, no evaluation": {
        "algorithm": {"type": "FedAvg", "server_optim": {"type": "Adam", "lr": 0.1}},
        "averaging": {"start": 2, "cycle": 2, "lr2": 0.01},
        "personal": None,
        "val_dataloader": None,
        "val_evaluator": None,
    },
    **{
        name: {
            "algorithm": {"type": name, **ENTRIES[name].options},
            "optim_wrapper": {"clip_grad": {"max_norm": 1.0}},
        }
        for name in ("SCAFFOLD", "FedCM", "AdaBest")
    },
}


@pytest.mark.parametrize("name", [*VARIANTS, "images"])
def test_kills_while_something_is_written(tmp_path, settings, name):
    """Every few writes, renames and syncs of a four-round run; one run killed again and again."""
    make = settings["images" if name == "images" else "scenes"]
    small = {"train_cfg": {"max_rounds": 4, "local_epochs": 1, "val_interval": 4}}
    changes = toyseg.merge(VARIANTS.get(name, {}), small)
    whole = make(tmp_path / "whole", **changes)
    toyseg.train(whole)
    vectors = [toyseg.checkpoint(whole, i)["server"]["state"] for i in (3, 4)]
    assert toyseg.differences(*vectors) or not vectors[0], "the server's vectors move"
    again = make(tmp_path / "again", **changes)
    resume, kills = False, 0
    for moment in (7, 9, 6, 11, 8, 14, 13, 21, 25, 10_000):
        if not killed_on_disk(again, moment, resume):
            break
        resume, kills = True, kills + 1
    assert kills >= 3
    assert toyseg.run_differences(whole, again) == []


STOPS = {"scenes": (3, 50, 60, 24, 7, 10**9), "images": (1, 11, 4, 13, 9, 10**9)}


@EACH_TOY
@pytest.mark.parametrize("error", [StoppedError, Interrupted])
def test_stopped_at_a_step_or_in_an_evaluation(
    tmp_path, settings, references, monkeypatch, toy, error
):
    """One run stopped again and again: before its first round, in clients, in evaluations."""
    config = settings[toy](tmp_path)
    resume, stops = False, 0
    for number in STOPS[toy]:
        with monkeypatch.context() as patch, contextlib.suppress(error):
            patch.setattr(InterruptGuard, "check", raise_at(number, error))
            toyseg.train(config, resume)
            break
        resume, stops = True, stops + 1
    assert stops >= 3
    assert toyseg.run_differences(references[toy], config) == []


def test_ctrl_c_in_every_exchange(tmp_path, monkeypatch):
    """In full-batch gradients, in the local steps after them, at the first and at a later client.

    What an interrupted round has gathered goes; the server is where the round before left it.
    """
    whole = toyseg.run(tmp_path / "whole", **MIME)
    config = toyseg.settings(tmp_path / "again", **MIME)
    moments = [(2, 0, 1), (2, 1, 1), (3, 1, 8), (5, 0, 4)]
    for number, (round_, exchange, check) in enumerate(moments):
        runner, seen = toyseg.runner(config, resume=number > 0), []

        def stop(_guard, runner=runner, seen=seen, moment=(round_, exchange), check=check):
            seen += [None] * ((runner.server.round, runner.server.exchange) == moment)
            if len(seen) == check:
                raise Interrupted("stopped")

        with monkeypatch.context() as patch, pytest.raises(Interrupted):
            patch.setattr(InterruptGuard, "check", stop)
            runner.train()
        assert bool(runner.server.scratch) == (exchange == 1)
        assert toyseg.history(config)[-1]["round"] == round_ - 1
        kept = toyseg.checkpoint(config, round_ - 1)["server"]["state"]
        assert toyseg.differences(kept, dict(runner.server.state)) == []
    toyseg.check_resumed(whole, config)


def test_an_interrupted_evaluation_is_done_again(tmp_path, reference, monkeypatch):
    config = toyseg.settings(tmp_path)
    run = DomainEvaluator.run

    def stop(evaluator, *args):
        run(evaluator, *args)
        raise Interrupted("stopped")

    with monkeypatch.context() as patch, pytest.raises(Interrupted, match="rounds 1 to 3"):
        patch.setattr(DomainEvaluator, "run", stop)
        toyseg.train(config)
    assert [line["round"] for line in toyseg.history(config)] == [1, 2]
    assert toyseg.checkpoint(config, 3)["loop"]["pending"]["round"] == 3
    toyseg.check_resumed(reference, config)


@pytest.mark.parametrize("damage", ["truncated", "no states"])
def test_a_damaged_checkpoint_is_refused_and_the_one_before_is_named(tmp_path, reference, damage):
    config = toyseg.run(tmp_path)
    newest = tmp_path / "run" / "checkpoints" / "round_000006.pth"
    if damage == "truncated":
        newest.write_bytes(newest.read_bytes()[:-100])
    else:
        with closing(sqlite3.connect(tmp_path / "run" / "state" / "clients.sqlite")) as database:
            database.execute("DELETE FROM states WHERE round = 6")
            database.commit()
    with pytest.raises(DataError, match=r"delete round_000006\.pth to continue from round_000005"):
        toyseg.train(config, resume=True)
    newest.unlink()
    toyseg.train(config, resume=True)
    assert toyseg.run_differences(reference, config) == []


@EACH_TOY
def test_resuming_a_finished_run_changes_nothing(tmp_path, settings, toy):
    config = settings[toy](tmp_path)
    toyseg.train(config)
    before, checkpoint, history = (
        toyseg.results(config),
        toyseg.checkpoint(config),
        toyseg.history(config),
    )
    toyseg.train(config, resume=True)
    assert toyseg.differences(before, toyseg.results(config)) == []
    assert toyseg.differences(checkpoint, toyseg.checkpoint(config)) == []
    assert toyseg.history(config) == history


@pytest.mark.parametrize(
    "last", ["fedseg.runner.runner.write_results", "fedseg.evaluation.sets.CorruptedSet.score"]
)
def test_killed_at_the_very_end(tmp_path, settings, references, monkeypatch, last):
    """All rounds are done; what only the last evaluation knows must be found again."""
    config = settings["images"](tmp_path)
    with monkeypatch.context() as patch, pytest.raises(StoppedError):
        patch.setattr(last, raise_at(1, StoppedError))
        toyseg.train(config)
    assert not (tmp_path / "run" / "results.json").exists()
    toyseg.check_resumed(references["images"], config)
    assert toyseg.results(config)["final"] == toyseg.results(references["images"])["final"]


def test_a_longer_run_goes_on_from_a_shorter_one(tmp_path, reference):
    """Only what depends on the number of rounds may differ: here SWA's start is a fixed round."""
    fixed = {"averaging": {"start": 3, "cycle": 1}}
    toyseg.run(tmp_path, **fixed, train_cfg={"max_rounds": 4})
    whole = toyseg.run(tmp_path / "whole", **fixed)
    longer = toyseg.settings(tmp_path, **fixed)
    toyseg.train(longer, resume=True)
    for key in toyseg.CARRIED:
        assert not toyseg.differences(
            toyseg.checkpoint(whole).get(key), toyseg.checkpoint(longer).get(key)
        ), key


def test_garbage_goes_and_what_a_resume_needs_stays(tmp_path):
    changes = {"default_hooks": {"checkpoint": {"interval": 1, "keep_last": 3}}}
    config = toyseg.run(tmp_path, **changes)
    kept = [r for r, _ in checkpoint_module.checkpoints(tmp_path / "run" / "checkpoints")]
    assert kept == [4, 5, 6]
    needed = {
        (entry["round"], client)
        for round_ in kept
        for client, entry in toyseg.checkpoint(config, round_)["stores"]["clients"].items()
    }
    assert toyseg.state_rows(config) == needed
