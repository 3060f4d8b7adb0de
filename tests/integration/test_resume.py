"""A run is resumed from what is its own and whole, or not at all."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import toyseg

from fedseg.core.hook import FederatedHook
from fedseg.errors import ConfigError, DataError, Interrupted, LoadingError
from fedseg.registry import HOOKS
from fedseg.runner.checkpoint import checkpoint_path, load_checkpoint, save_checkpoint
from fedseg.runner.experiment import load_config, train
from fedseg.runs.results import write_results
from fedseg.runs.schema import read_results

ROUNDS, BEFORE = 6, 4  # the last round, and that of the checkpoint before its own


def settings(folder: Path, **changes: Any) -> dict[str, Any]:
    """A run with a server state, a schedule and a checkpoint every two rounds."""
    base = {
        **toyseg.PLAIN,
        "averaging": {"type": "SWA", "start": 2, "cycle": 1},
        "algorithm": {"type": "FedAvg", "server_optim": {"type": "Adam", "lr": 0.01}},
        "param_scheduler": [{"type": "ExponentialLR", "gamma": 0.9}],
        "train_cfg": {"max_rounds": ROUNDS, "local_epochs": 1, "val_interval": 2},
        "default_hooks": {"checkpoint": {"interval": 2}},
    }
    return toyseg.settings(folder, **toyseg.merge(base, changes))


def fail(at: str, round_: int) -> dict[str, Any]:
    return {"type": "FailHook", "at": at, "round_": round_}


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> dict[str, Any]:
    config = settings(tmp_path_factory.mktemp("finished"))
    toyseg.train(config)
    return config


@pytest.fixture
def run(tmp_path, finished) -> dict[str, Any]:
    shutil.copytree(finished["work_dir"], tmp_path / "run")
    return settings(tmp_path)


def files(config: dict[str, Any], *names: str) -> dict[str, bytes]:
    paths = [path for name in names for path in Path(config["work_dir"]).glob(name)]
    return {path.name: path.read_bytes() for path in paths if path.is_file()}


def change_lines(config: dict[str, Any], change: Callable[[list[bytes]], list[bytes]]) -> bytes:
    path = Path(config["work_dir"]) / "history.jsonl"
    damaged = b"".join(change(path.read_bytes().splitlines(keepends=True)))
    path.write_bytes(damaged)
    return damaged


def edit(number: int, old: bytes, new: bytes) -> Callable[[list[bytes]], list[bytes]]:
    def change(lines: list[bytes]) -> list[bytes]:
        assert old in lines[number - 1]
        lines[number - 1] = lines[number - 1].replace(old, new)
        return lines

    return change


# ---------------------------------------------------------------- the history


DAMAGES = {
    "the file is missing": lambda lines: [],
    "it ends early": lambda lines: lines[:2],
    "garbage in the middle": edit(2, b'"round"', b"\xff\0{"),
    "a changed metric": edit(4, b'accuracy": ', b'accuracy": 1'),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_changed_history_is_refused(run, name):
    change_lines(run, DAMAGES[name])
    before = files(run, "*", "checkpoints/*")
    with pytest.raises(DataError, match=r"history.jsonl: its first .* bytes are not those"):
        toyseg.train(run, resume=True)
    after = files(run, "*", "checkpoints/*")
    assert {name: after[name] for name in before} == before, "nothing is lost by trying"


@pytest.mark.parametrize("cut", [0, 50])
def test_lines_after_the_checkpoint_are_written_again(run, finished, cut):
    """Killed after a round's line was written, or half of it, before the checkpoint was."""
    folder = Path(run["work_dir"]) / "checkpoints"
    checkpoint_path(folder, ROUNDS).unlink()
    (folder / "round_000006.pth.0a1b2c3d.tmp").write_bytes(b"PK")
    change_lines(run, lambda lines: [*lines[:5], lines[5][: len(lines[5]) - cut]])
    first = toyseg.history(finished)
    toyseg.check_resumed(finished, run)
    assert toyseg.history(run)[:BEFORE] == first[:BEFORE] and toyseg.history(run) != first
    assert sorted(files(run, "checkpoints/*.pth")) == ["round_000004.pth", "round_000006.pth"]


def test_a_history_that_is_touched_while_the_run_runs(run):
    made = toyseg.train(run, resume=True)
    change_lines(run, lambda lines: lines[1:])
    with pytest.raises(DataError, match=r"history\.jsonl: its first "):
        write_results(made)


# ---------------------------------------------------------------- the checkpoint


def poison(path: Path, *keys: str) -> None:
    payload = part = load_checkpoint(path)
    for key in keys:
        part = part[key]
    next(iter(part.values())).view(-1)[0] = float("nan")
    save_checkpoint(path, payload)


def test_weights_that_are_not_finite(run):
    folder = Path(run["work_dir"]) / "checkpoints"
    path = checkpoint_path(folder, ROUNDS)
    poison(path, "state_dict")
    with pytest.raises(DataError, match="is not finite"):
        toyseg.runner(run).test(path)
    with pytest.raises(DataError, match="is not finite"):
        toyseg.train(toyseg.merge(run, {"load_from": str(path), "work_dir": str(folder / "new")}))
    with pytest.raises(DataError, match=r"is not finite.*delete round_000006\.pth"):
        toyseg.train(run, resume=True)
    checkpoint_path(folder, ROUNDS).unlink()
    poison(checkpoint_path(folder, BEFORE), "server", "state")
    with pytest.raises(DataError, match=r"round_000004\.pth: server: state: .*is not finite"):
        toyseg.train(run, resume=True)


def test_a_checkpoint_that_was_shared_has_no_training_state(run):
    path = checkpoint_path(Path(run["work_dir"]) / "checkpoints", ROUNDS)
    payload = load_checkpoint(path)
    save_checkpoint(path, {name: payload[name] for name in ("state_dict", "round", "meta")})
    with pytest.raises(DataError, match=r"round_000006\.pth: has no training state"):
        toyseg.train(run, resume=True)


# ---------------------------------------------------------------- where it goes on


def test_another_number_of_threads_is_said(run):
    checkpoint_path(Path(run["work_dir"]) / "checkpoints", ROUNDS).unlink()
    torch.set_num_threads(2)
    try:
        toyseg.train(run, resume=True)
    finally:
        torch.set_num_threads(1)
    assert "rounds 1 to 4 were computed with threads 1, now 2" in toyseg.logs(run)
    results = json.loads((Path(run["work_dir"]) / "results.json").read_text())
    assert [(e["round"], e["threads"]) for e in results["environments"]] == [(1, 1), (5, 2)]
    assert all("torch" in entry for entry in results["environments"])


LATE_SWA = {"type": "SWA", "cycle": 2, "lr2": 0.01, "start": BEFORE + 1}
LATE_WIMA = {"type": "WIMA", "window": 2, "start": BEFORE + 1}


@pytest.mark.parametrize(
    ("before", "after"), [(None, LATE_SWA), (LATE_SWA, None), (None, LATE_WIMA), (LATE_WIMA, None)]
)
def test_until_an_average_starts_a_run_with_it_is_one_without(tmp_path, before, after):
    first = {**settings(tmp_path / "first"), "averaging": before}
    whole = {**settings(tmp_path / "whole"), "averaging": after}
    for config in (first, whole):
        toyseg.train(config)
    shared = {**settings(tmp_path / "shared"), "averaging": after}
    shutil.copytree(first["work_dir"], shared["work_dir"])
    checkpoint_path(Path(shared["work_dir"]) / "checkpoints", ROUNDS).unlink()
    toyseg.train(shared, resume=True)
    assert not toyseg.run_differences(shared, whole)
    assert toyseg.history(first) != toyseg.history(whole)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"averaging": {"start": 3}}, "average's first round"),
        ({"averaging": {"cycle": 2, "lr2": 0.1}}, "averaging.cycle"),
        ({"averaging": {"start": 0.75}, "train_cfg": {"max_rounds": 8}}, "average's first round"),
        ({"param_scheduler": [{"type": "ExponentialLR", "gamma": 0.8}]}, "param_scheduler.0.gamma"),
        ({"optim_wrapper": {"optimizer": {"lr": 0.2}}}, "optim_wrapper.optimizer.lr"),
        ({"optim_wrapper": {"optimizer": {"momentum": 0.5}}}, "optim_wrapper.optimizer.momentum"),
        ({"optim_wrapper": {"type": "SAMOptimWrapper", "rho": 0.1}}, "optim_wrapper.(rho|type)"),
        ({"train_cfg": {"local_epochs": 2}}, "train_cfg.local_epochs"),
        ({"client_sampler": {"clients_per_round": 1}}, "client_sampler.clients_per_round"),
        ({"averaging": None}, "averaging"),
        ({"averaging": {"_delete_": True, "type": "WIMA"}}, "averaging"),
        ({"randomness": {"seed": 5}}, "randomness.seed"),
        ({"algorithm": {"_delete_": True, "type": "FedDyn", "beta": 1.0}}, "algorithm"),
        ({"train_dataloader": {"dataset": {"scale": 2}}}, "train_dataloader.dataset.scale"),
        ({"channels_last": False}, "channels_last"),
    ],
)
def test_a_resumed_run_is_the_same_run(run, changes, what):
    message = f"--resume: .*was made with another {what}[ .].*or another --work-dir"
    with pytest.raises(ConfigError, match=message):
        toyseg.train(toyseg.merge(run, changes), resume=True)


def test_a_schedule_that_more_rounds_would_change(tmp_path):
    schedule = {"param_scheduler": [{"type": "PolyLR", "power": 0.9}]}
    short = settings(tmp_path, averaging=None, **schedule)
    toyseg.train(short)
    longer = toyseg.merge(short, {"train_cfg": {"max_rounds": 8}})
    with pytest.raises(ConfigError, match=r"another course over 8 rounds than over 6: add end=7"):
        toyseg.train(longer, resume=True)
    longer["param_scheduler"][0]["end"] = 7
    toyseg.train(longer, resume=True)
    lrs = [record["lr"] for record in toyseg.history(longer)]
    assert lrs[5:] == [pytest.approx(0.0199, rel=1e-2), 0, 0]
    assert toyseg.logs(longer).count("from round 7 on the learning rate is 0") == 1


def test_a_schedule_goes_on_over_more_rounds(tmp_path):
    short, whole = (settings(tmp_path / name, averaging=None) for name in ("short", "whole"))
    whole = toyseg.merge(whole, {"train_cfg": {"max_rounds": 8}})
    toyseg.train(short)
    toyseg.train(whole)
    longer = toyseg.merge(short, {"train_cfg": {"max_rounds": 8}})
    toyseg.train(longer, resume=True)
    assert [r["lr"] for r in toyseg.history(longer)] == [r["lr"] for r in toyseg.history(whole)]
    assert len({r["lr"] for r in toyseg.history(whole)}) == 8


def test_while_a_run_goes_on_it_has_no_results(run):
    """They would be those of fewer rounds, or of another method, beside its history."""
    toyseg.train(run, resume=True)  # nothing is left to do
    assert list(files(run, "results.json")) == ["results.json"]
    longer = toyseg.merge(run, {"train_cfg": {"max_rounds": ROUNDS + 2}})
    with pytest.raises(RuntimeError, match="power cut"):
        toyseg.train({**longer, "custom_hooks": [fail("before_client", 7)]}, True)
    assert not files(run, "results.json")
    toyseg.train(longer, resume=True)
    assert json.loads(files(run, "results.json")["results.json"])["completed_rounds"] == ROUNDS + 2


@HOOKS.register_module()
class StopInRoundFive(FederatedHook):
    """The run is asked to stop by a signal."""

    def before_client(self, runner, client):
        if runner.round == BEFORE + 1:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("algorithm", ["FedAvg", "FedDGGA"])
def test_what_is_saved_within_a_round_is_of_the_round_before(tmp_path, algorithm):
    """SWA's cycle lowers the rate for a round, FedDG-GA has the round's shares in its middle."""
    changes = {
        "algorithm": {"_delete_": True, "type": algorithm},
        "averaging": {"cycle": 3, "lr2": 0.001, "start": 4},
        "default_hooks": {"checkpoint": {"interval": ROUNDS}},
    }
    whole, cut = (settings(tmp_path / name, **changes) for name in ("whole", "cut"))
    toyseg.train(whole)
    with pytest.raises(Interrupted):
        toyseg.train({**cut, "custom_hooks": [{"type": "StopInRoundFive"}]})
    assert checkpoint_path(Path(cut["work_dir"]) / "checkpoints", BEFORE).is_file()
    toyseg.check_resumed(whole, cut)


def test_fewer_rounds_than_are_trained_are_refused(run, finished):
    """Whatever is there stays; a checkpoint before them is one to go on from, the last one too."""
    before = files(run, "*.py", "*.json*", "checkpoints/*")
    with pytest.raises(ConfigError, match=r"--resume.*rounds 1 to 6 are .*max_rounds=4 .*work-dir"):
        toyseg.train(toyseg.merge(run, {"train_cfg": {"max_rounds": BEFORE}}), resume=True)
    assert files(run, "*.py", "*.json*", "checkpoints/*") == before
    toyseg.check_resumed(finished, run)
    checkpoint_path(Path(run["work_dir"]) / "checkpoints", ROUNDS).unlink()
    fewer = toyseg.merge(run, {"train_cfg": {"max_rounds": BEFORE + 1}})
    toyseg.train(fewer, resume=True)
    assert [line["round"] for line in toyseg.history(fewer)] == list(range(1, BEFORE + 2))


def test_resume_in_a_config(run, tmp_path):
    path = toyseg.write_config(tmp_path / "toy.py", {**run, "resume": True})
    config = load_config(path, work_dir=Path(run["work_dir"]))
    train(config, quiet=True)
    assert "resumed from" in toyseg.logs(run)
    config.resume = "False"
    with pytest.raises(ConfigError, match="resume: must be a valid boolean"):
        train(config)


# ---------------------------------------------------------------- stops and changes


def test_a_round_that_a_hook_ended_has_had_its_step_of_the_schedule(tmp_path):
    whole, cut = (settings(tmp_path / name) for name in ("whole", "cut"))
    toyseg.train(whole)
    with pytest.raises(LoadingError):
        toyseg.train({**cut, "custom_hooks": [fail("after_round", 3)]})
    toyseg.check_resumed(whole, cut)


SILO = {"personal": toyseg.SILOBN}
TOP = {"compression": {"type": "TopK", "share": 0.4}}
TEST_SET = {"seen": {"dataset": {"users": {"u": 5}, "domains": {"u": "nowhere"}}}}


@pytest.mark.parametrize(
    ("before", "changes", "what"),
    [
        (SILO, {"personal": toyseg.FEDBN}, "personal"),
        (SILO, {"personal": None}, "personal"),
        (
            {"param_scheduler": None},
            {"param_scheduler": [{"type": "ExponentialLR", "gamma": 0.5}]},
            "param_scheduler",
        ),
        (TOP, {"compression": {"share": 0.7}}, "compression.share"),
        ({}, {"val_dataloader": TEST_SET}, "val_dataloader.seen.dataset.*"),
        ({}, {"val_evaluator": {"prefix": "other"}}, "val_evaluator.prefix"),
    ],
)
def test_what_decides_a_runs_figures_stays(tmp_path, before, changes, what):
    config = settings(
        tmp_path, optim_wrapper={"optimizer": {"momentum": 0.9}}, model={"norm": True}, **before
    )
    toyseg.train(config)
    longer = toyseg.merge(config, {"train_cfg": {"max_rounds": ROUNDS + 2}, **changes})
    with pytest.raises(ConfigError, match=f"was made with another {what}[ .]"):
        toyseg.train(longer, resume=True)


def test_a_finished_run_with_a_permitted_change_is_one_run(run):
    """Its checkpoint has the config's digest as its results have."""
    before = toyseg.checkpoint(run)
    changed = toyseg.merge(run, {"default_hooks": {"checkpoint": {"keep_last": 3}}})
    results = toyseg.train(changed, resume=True).results
    after = toyseg.checkpoint(run)
    assert after["meta"]["config_sha256"] == results["config_sha256"]
    assert before["meta"]["config_sha256"] != results["config_sha256"]
    names = ("state_dict", "averaged_state_dict", "server", "history", "stores")
    assert [toyseg.differences(before[name], after[name]) for name in names] == [[]] * len(names)


def test_the_last_of_fewer_rounds_is_evaluated(run, monkeypatch):
    folder = Path(run["work_dir"]) / "checkpoints"
    rounds = {"max_rounds": 9, "val_interval": 6, "val_last_rounds": 1}
    longer = toyseg.merge(run, {"train_cfg": rounds})
    with pytest.raises(RuntimeError, match="power cut"):
        toyseg.train({**longer, "custom_hooks": [fail("before_client", 9)]}, True)
    assert "metrics" not in toyseg.history(run)[7] and checkpoint_path(folder, 8).is_file()
    fewer = toyseg.merge(longer, {"train_cfg": {"max_rounds": 8}})
    with monkeypatch.context() as patched:  # a kill within the evaluation
        patched.setattr("fedseg.evaluation.loops.FederatedValLoop.run", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            toyseg.train(fewer, resume=True)
    toyseg.train(fewer, resume=True)
    results = read_results(Path(run["work_dir"]) / "results.json")
    assert results.final_round == results.completed_rounds == 8
    figure = toyseg.history(run)[7]["metrics"]["seen/accuracy"]
    assert results.final["seen"]["accuracy"] == figure


def test_the_best_checkpoint_survives_a_kill_before_it_is_copied(tmp_path, monkeypatch):
    options = {
        "train_cfg": {"val_interval": 1},
        "default_hooks": {"checkpoint": {"interval": 100, "save_best": "seen/accuracy"}},
    }
    whole, cut = (settings(tmp_path / name, **options) for name in ("whole", "cut"))
    toyseg.train(whole)
    scores = [line["metrics"]["seen/accuracy"] for line in toyseg.history(whole)]
    best = 1 + scores.index(max(scores))

    def killed(source, target):
        if Path(source.name).name == f"round_{best:06d}.pth":
            raise RuntimeError("killed")
        target.write(source.read())

    with monkeypatch.context() as patched:
        patched.setattr("fedseg.runner.checkpoint.shutil.copyfileobj", killed)
        with pytest.raises(RuntimeError, match="killed"):
            toyseg.train(cut)
    toyseg.train(cut, resume=True)
    for config in (whole, cut):
        found = Path(config["work_dir"]) / "checkpoints" / "best_seen_accuracy.pth"
        assert load_checkpoint(found)["round"] == best
