"""Classification on resident images from end to end: same bits, same figures, known references.

FedASAM + SWA with crop, flip, cutout and mixup on a toy of a second (:mod:`toycls`).
"""

import json
import shutil
import signal
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import toycls
import toyseg
from batch_twins import batches_one_by_one
from torch.nn import functional

from fedseg.core.client_data import Job
from fedseg.core.seeds import seed_for
from fedseg.engine.loop import FederatedTrainLoop
from fedseg.errors import ConfigError, Interrupted
from fedseg.evaluation.domains import DomainEvaluator
from fedseg.runner.experiment import load_config
from fedseg.runner.experiment import train as train_config
from fedseg.runs.schema import read_results

CONFIGS = Path(__file__).parents[2] / "configs"


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    return toycls.write_data(tmp_path_factory.mktemp("data") / "toy")


@pytest.fixture(scope="module")
def reference(tmp_path_factory, root):
    return toycls.run(tmp_path_factory.mktemp("reference"), root)


OUTCOME = (
    *("completed_rounds", "data", "clients_per_round", "final", "curves", "client_accuracy"),
    *("communication", "rejected_updates"),
)


def assert_same_run(one: dict, two: dict) -> None:
    """Bits of models and states, history, and every figure of the results."""
    assert toyseg.run_differences(one, two) == []
    first, second = ({key: toyseg.results(run)[key] for key in OUTCOME} for run in (one, two))
    assert toyseg.differences(first, second) == []


def test_the_reference_is_worth_comparing(reference, root):
    last, first = toyseg.checkpoint(reference), toyseg.checkpoint(reference, 5)
    assert toyseg.differences(last["state_dict"], first["state_dict"])
    assert toyseg.differences(last["state_dict"], last["averaged_state_dict"])
    folder = Path(reference["work_dir"]).parent / "other"
    fewer = {"a": toycls.AUGMENTED[:-1], "b": [*toycls.CROP_AND_FLIP, toycls.AUGMENTED[-1]]}
    for name, transforms in fewer.items():
        other = toycls.run(folder / name, root, train_dataloader={"transforms": transforms})
        assert toyseg.run_differences(reference, other)


# ---------------------------------------------------------------- whoever computes, the same bits


def test_clients_trained_in_another_order(tmp_path, root):
    """FedDyn, whose clients keep a state, and dropout, which draws while it trains."""
    changes = {"algorithm": {"type": "FedDyn", "beta": 10.0}, "model": {"dropout": 0.3}}
    changes["train_cfg"] = {"max_rounds": 4}
    kinds = ("InProcessExecutor", "BackwardExecutor")
    assert_same_run(
        *(toycls.run(tmp_path / k, root, executor={"type": k}, **changes) for k in kinds)
    )


def test_streamed_images_train_the_same_model(tmp_path, root):
    """Not augmented, normalized by the model: from loader processes or from memory."""
    preprocessor = {"type": "ImagePreprocessor", "mean": toycls.MEAN, "std": toycls.STD}
    common = {"model": {"data_preprocessor": preprocessor}, "train_cfg": {"max_rounds": 3}}
    images = {"type": "StoredImages", "data_root": str(root)}
    resident = toycls.settings(
        tmp_path / "a",
        root,
        **common,
        train_dataloader={"transforms": []},
        val_dataloader={"test": {"transforms": []}, "corrupted": {"transforms": []}},
    )
    streamed = toycls.settings(
        tmp_path / "b",
        root,
        **common,
        train_dataloader={
            "_delete_": True,
            "batch_size": 8,
            "num_workers": 2,
            "dataset": {**images, "split": "train"},
            "partition": {"type": "FixedPartition", "clients": toycls.partition()},
        },
        val_dataloader={
            "_delete_": True,
            "test": {"batch_size": 4, "dataset": {**images, "split": "test"}},
            "corrupted": {
                "type": "CorruptedData",
                "batch_size": 6,
                "final_only": True,
                "dataset": {"type": "ToyCorrupted", "data_root": str(root)},
            },
        },
    )
    toyseg.check_alike(resident, streamed)
    assert toyseg.results(resident)["final"] == toyseg.results(streamed)["final"]


def test_channels_last_is_a_matter_of_speed(tmp_path, root):
    """float64: up to the order of sums."""
    changes = {"dtype": "float64", "train_cfg": {"max_rounds": 2}}
    one, two = (
        toyseg.checkpoint(toycls.run(tmp_path / str(last), root, channels_last=last, **changes))
        for last in (True, False)
    )
    torch.testing.assert_close(one["state_dict"], two["state_dict"], rtol=1e-9, atol=1e-11)


def test_other_images_are_not_resumed_on(tmp_path):
    root = toycls.write_data(tmp_path / "data")
    config = toycls.run(tmp_path, root, train_cfg={"max_rounds": 1})
    (images, labels), test = toycls.pictures(toycls.TRAIN, 0), toycls.pictures(toycls.TEST, 1)
    images[17, 3, 3, 0] ^= 1
    names = [f"class {i}" for i in range(toycls.CLASSES)]
    toycls.write_images(root, "Toy", names, (images, labels), test)
    with pytest.raises(ConfigError, match="was made with another train data"):
        toyseg.train(config, resume=True)


def test_bfloat16_is_resumed_too(tmp_path, root):
    amp = {"train_cfg": {"amp": True, "max_rounds": 2, "hook_interval": 1}}
    whole = toycls.run(tmp_path / "whole", root, **amp)
    halved = toycls.settings(tmp_path / "halved", root, **amp)
    stop = {"type": "KillHook", "at": "client", "round_": 2, "marker": str(tmp_path / "stopped")}
    with pytest.raises(Interrupted, match="rounds 1 to"):
        toyseg.train({**halved, "custom_hooks": [{**stop, "number": int(signal.SIGINT)}]})
    toyseg.train(halved, resume=True)
    assert_same_run(whole, halved)
    plain = toycls.run(tmp_path / "plain", root, train_cfg={"max_rounds": 2})
    assert toyseg.run_differences(whole, plain)


# ---------------------------------------------------------------- known references

PLAIN = {"averaging": None, "optim_wrapper": toyseg.PLAIN["optim_wrapper"]}


@pytest.mark.parametrize("transforms", ["CROP_AND_FLIP", "AUGMENTED"])
def test_one_client_is_centralized_training(tmp_path, root, transforms):
    """A hand-written loop over images that were augmented one at a time, in float64."""
    sgd = {"type": "SGD", "lr": 0.05, "momentum": 0.9, "weight_decay": 1e-3}
    config = toycls.settings(
        tmp_path,
        root,
        dtype="float64",
        averaging=None,
        optim_wrapper={"_delete_": True, "type": "OptimWrapper", "optimizer": sgd},
        train_dataloader={
            "transforms": getattr(toycls, transforms),
            "partition": {"_delete_": True, "type": "SinglePartition"},
        },
        client_sampler={"clients_per_round": "all"},
        train_cfg={"max_rounds": 3},
    )
    runner = toyseg.train(config)

    torch.manual_seed(seed_for(0, "build"))
    model = toycls.ToyClassifier().double()
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for round_ in range(1, 4):
        optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, weight_decay=1e-3)
        for batch in batches_one_by_one(runner.data, Job(round_, 0, 0)):
            labels = torch.from_numpy(batch["data_samples"])
            optimizer.zero_grad()
            logits = model(torch.from_numpy(batch["inputs"]))
            functional.cross_entropy(logits, labels).backward()
            optimizer.step()

    got = toyseg.checkpoint(config)["state_dict"]
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(got[name], tensor, rtol=1e-9, atol=1e-11, msg=name)
        assert (tensor - start[name]).abs().max() > 1e-3, "it has learned something"
    test = runner.val_loop.sets[0].dataset
    inputs = (test.images / 255 - np.asarray(toycls.MEAN)) / np.asarray(toycls.STD)
    with torch.no_grad():
        predictions = model(torch.from_numpy(inputs).permute(0, 3, 1, 2)).argmax(1).numpy()
    accuracy = toyseg.results(config)["final"]["test"]["accuracy"]
    assert accuracy == pytest.approx(100 * (predictions == test.labels).mean(), abs=1e-9)


@pytest.mark.parametrize("wrapper", ["SAMOptimWrapper", "ASAMOptimWrapper"])
def test_sam_of_no_radius_is_fedavg(tmp_path, root, wrapper):
    sgd = {"type": "SGD", "lr": 0.1, "momentum": 0.9}
    changes = {"model": {"dropout": 0.4}, "train_cfg": {"max_rounds": 3}}
    plain = {"_delete_": True, "type": "OptimWrapper", "optimizer": sgd}
    one = toycls.run(tmp_path / "a", root, optim_wrapper=plain, **changes)
    sam = {**plain, "type": wrapper, "rho": 0.0}
    assert_same_run(one, toycls.run(tmp_path / "b", root, optim_wrapper=sam, **changes))


# ---------------------------------------------------------------- clients that are special


def test_a_client_with_fewer_images_than_a_batch(tmp_path, root):
    sampler = {"_delete_": True, "type": "FixedSampler", "participants": [["d"]], "repeat": True}
    config = toycls.run(tmp_path, root, client_sampler=sampler, train_cfg={"max_rounds": 2})
    for line in toyseg.history(config):
        (entry,) = line["participants"]
        assert entry["client"] == "d" and entry["samples"] == 3
        assert entry["steps"] == 2  # one batch of three in each of two local epochs
        assert np.isfinite(entry["loss"])
    with pytest.raises(ConfigError, match=r"client 'a' has 5 sample.*full batch of 8"):
        toyseg.train(toycls.settings(tmp_path / "b", root, train_dataloader={"drop_last": True}))


# ---------------------------------------------------------------- what a run leaves


def test_when_it_is_evaluated_and_the_window_at_the_end(tmp_path, root):
    loop = {"max_rounds": 12, "val_interval": 3, "val_last_rounds": 3, "val_last_interval": 1}
    config = toycls.run(tmp_path, root, train_cfg=loop)
    metrics = {r["round"]: r["metrics"] for r in toyseg.history(config) if "metrics" in r}
    assert list(metrics) == [3, 6, 9, 10, 11, 12]
    window = [metrics[round_]["test/accuracy"] for round_ in (10, 11, 12)]
    assert len(set(window)) > 1, "worth averaging"
    results = toyseg.results(config)
    last = read_results(Path(config["work_dir"]) / "results.json").last_rounds
    assert last.rounds == 3 and last.evaluations == 3
    assert last.mean["test/accuracy"] == pytest.approx(np.mean(window), abs=1e-12)
    assert last.std["test/accuracy"] == pytest.approx(np.std(window), abs=1e-12)
    assert results["final"]["test"]["accuracy"] == window[-1]
    assert set(results["final"]["test"]["accuracy_by_class"]) == {f"class {i}" for i in range(4)}
    table = results["final"]["corrupted"]["corruptions"]
    assert results["final"]["corrupted"]["accuracy"] == pytest.approx(np.mean(list(table.values())))
    train = results["data"]["train"]
    assert train["samples"] == toycls.TRAIN and train["clients"] == 6 and train["synthetic"] is True
    assert results["data"]["test:corrupted"]["samples"] == 10 * toycls.TEST


def test_the_initial_model_is_evaluated_and_changes_nothing(tmp_path, root):
    def train(name, initial=True, **changes):
        loop = {"max_rounds": 2, "val_interval": 2, "val_initial": initial}
        config = toycls.settings(tmp_path / name, root, train_cfg=loop, **changes)
        return config, toyseg.train(config).server.w.clone()

    config, w = train("with")
    assert torch.equal(w, train("without", initial=False)[1])
    resting, _ = train("resting", optim_wrapper={"optimizer": {"lr": 0.0}})
    first, last = toyseg.history(config)
    assert "metrics" not in first and first["initial_metrics"] != last["metrics"]
    end = toyseg.history(resting)[-1]["metrics"]
    assert first["initial_metrics"] == {name: end[name] for name in first["initial_metrics"]}
    results = read_results(Path(config["work_dir"]) / "results.json")
    assert results.curves.rounds == [0, 2] and results.curves.bytes[0] == 0
    assert results.last_rounds.evaluations == 1  # of a window longer than the run
    assert results.last_rounds.mean["test/accuracy"] == last["metrics"]["test/accuracy"]


@pytest.mark.parametrize("name", ["cifar10_a005", "cifar100_pam"])
def test_published_configs_are_evaluated_in_every_one_of_the_last_100_rounds(name):
    own = dict(load_config(CONFIGS / "settings" / f"{name}.py").train_cfg)
    rounds = own["max_rounds"]
    keys = ("max_rounds", "val_interval", "val_last_rounds", "val_last_interval")
    schedule = {key: own[key] for key in keys if key in own}
    loop = FederatedTrainLoop(None, None, **schedule)
    evaluated = [round_ for round_ in range(1, rounds + 1) if loop.evaluates(round_)]
    assert evaluated[-100:] == list(range(rounds - 99, rounds + 1))
    assert evaluated[:2] == [loop.val_interval, 2 * loop.val_interval]
    loop = FederatedTrainLoop(None, None, **schedule, val_shares=[0.5])
    more = {round_ for round_ in range(1, rounds + 1) if loop.evaluates(round_)} - set(evaluated)
    half = range(rounds // 2 - 99, rounds // 2 + 1)
    assert more == {round_ for round_ in half if round_ % loop.val_interval}


@pytest.fixture
def tool(run_tool):
    """Runs the tool; returns (exit code, standard output, standard error)."""
    return partial(run_tool, "test")


def test_testing_a_checkpoint_gives_the_runs_figures(tool, tmp_path, root, reference):
    """Corrupted images too; the training images are not needed."""
    copy = Path(shutil.copytree(root, tmp_path / "data"))
    for path in copy.glob("train_*"):
        path.unlink()
    config = toycls.settings(tmp_path, copy)
    path = toyseg.write_config(tmp_path / "toy.py", config)
    checkpoint = Path(reference["work_dir"]) / "checkpoints" / "round_000006.pth"
    code, out, err = tool(path, checkpoint, "--out", tmp_path / "out")
    assert code == 0, err
    tested = json.loads((tmp_path / "out" / "test_results.json").read_text())
    images = {"test": toycls.TEST, "corrupted": 10 * toycls.TEST}
    final = toyseg.results(reference)["final"]
    assert tested["domains"] == {d: {**final[d], "images": images[d]} for d in images}
    assert tested["averaged"] is True and tested["round"] == 6
    assert f"{final['corrupted']['accuracy']:.2f}" in out
    pictures = {p.name for p in (tmp_path / "out" / "pictures").rglob("*") if p.is_file()}
    assert "corruptions.png" in pictures
    assert "could not" not in err and "Traceback" not in err


def test_a_dry_run_tells_the_plan_and_writes_nothing(tmp_path, root, capsys):
    path = toyseg.write_config(tmp_path / "toy.py", toycls.settings(tmp_path, root))
    train_config(load_config(path, work_dir=tmp_path / "run"), dry_run=True)
    rows = {}
    for line in capsys.readouterr().out.splitlines():
        cells = [cell.strip() for cell in line.split("│")[1:-1]]
        if len(cells) == 2:
            rows[cells[0]] = cells[1]
    assert rows["clients"] == "6" and rows["training images"] == "60" and rows["rounds"] == "6"
    assert rows["test images"] == "test 22, corrupted 220"
    assert rows["evaluations"] == "2"
    assert not (tmp_path / "run").exists()


def test_pictures_of_a_classification_run(tmp_path, root):
    hooks = {"pictures": {"type": "PicturesHook"}, "progress": {"type": "ProgressHook"}}
    config = toycls.run(
        tmp_path, root, default_hooks=hooks, train_cfg={"max_rounds": 2}, log_level="WARNING"
    )
    written = {path.name for path in (tmp_path / "run" / "pictures").glob("*.png")}
    assert {"curves.png", "corruptions.png", "client_accuracy.png"} <= written
    log = toyseg.logs(config)
    assert "not all could be drawn" not in log and "Traceback" not in log


def test_the_last_evaluation_is_made_once(tmp_path, root, monkeypatch):
    """Corrupted images are many: the end of training must not evaluate them twice."""
    seen = []
    run = DomainEvaluator.run

    def counting(evaluator, w, buffers, on_prediction, sets, final):
        seen.append([test.name for test in sets])
        return run(evaluator, w, buffers, on_prediction, sets, final)

    monkeypatch.setattr(DomainEvaluator, "run", counting)
    toyseg.train(toycls.settings(tmp_path, root, train_cfg={"max_rounds": 2, "val_interval": 1}))
    assert seen == [["test"], ["test", "corrupted"]]
