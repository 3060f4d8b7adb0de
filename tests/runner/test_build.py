"""A trainer from the config alone does what the run's own does, in whatever process."""

import hashlib
import json
import warnings
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
import toyquad
import toyseg
from command_line import python
from landmark_files import write_photo
from mmengine.config import Config
from torch import nn

from fedseg.config.check import complete_config
from fedseg.core.client_data import Job
from fedseg.core.messages import Message, Task
from fedseg.core.server import Server
from fedseg.datasets import SegmentationDataset
from fedseg.errors import ConfigError, DataError
from fedseg.evaluation.sets import StreamedSet
from fedseg.runner.build import (
    build_client_data,
    build_hooks,
    build_model,
    build_trainer,
    build_vectors,
    check_classes,
    check_tests,
)
from fedseg.runner.experiment import load_config
from fedseg.runner.runner import FederatedRunner

ROOT = Path(__file__).parents[2]
SCRIPT = """
import hashlib, json, sys
from fedseg.runner.build import build_model, build_trainer, build_vectors
sys.path.insert(0, {toy!r})
trainer = build_trainer(json.load(open({config!r})))
print(hashlib.sha256(trainer.flat.w.numpy().tobytes()).hexdigest())
"""


def settings(folder, **changes):
    optimizer = {"type": "SGD", "lr": 0.1}
    sam = {"_delete_": True, "type": "SAMOptimWrapper", "rho": 0.1, "optimizer": optimizer}
    scaffold = {"_delete_": True, "type": "SCAFFOLD"}
    changes |= {"algorithm": scaffold, "optim_wrapper": sam, "personal": toyseg.SILOBN}
    return toyseg.settings(folder, **changes)


def train(trainer, client=2):
    """The result of one client's first round."""
    data = trainer.data
    server = Server(trainer.flat, len(data.clients), trainer.algorithm.server_vectors)
    server.round = 1
    trainer.local.start_round(1)
    message = trainer.algorithm.broadcast(server)
    assert isinstance(message, Message)
    task = Task(1, 0, client, data.clients[client], data.sizes[client], data.num_steps(client), {})
    data.start([Job(1, 0, client)])
    try:
        return trainer.train(task, message)
    finally:
        data.close()


def test_the_trainer_of_a_config_gives_the_updates_of_the_run(tmp_path):
    config = settings(tmp_path)
    runner = toyseg.runner(config)
    runner.build_federation()
    runner.call_hook("before_train")
    expected = train(runner.trainer)
    found = train(build_trainer(config))
    assert torch.equal(found.update.vectors["delta"], expected.update.vectors["delta"])
    assert found.update.vectors.keys() == expected.update.vectors.keys() > {"delta"}
    assert found.loss == expected.loss and found.state.keys() == expected.state.keys()
    for name, tensor in expected.state.items():
        assert torch.equal(found.state[name], tensor), name


@pytest.mark.parametrize("value", [torch.nan, -torch.inf, 1e30, -1e12])
def test_initial_weights_are_what_training_can_give(tmp_path, value):
    """Wherever they come from: the network may have read them from a file of weights."""
    cfg = Config({"model": {"type": "MNISTCNN"}, "randomness": {"seed": 0}})
    weights = build_vectors(build_model(cfg), cfg).model.state_dict()
    name = next(iter(weights))
    torch.save({**weights, name: torch.full_like(weights[name], value)}, tmp_path / "a.pth")
    cfg.model.weights = str(tmp_path / "a.pth")
    with pytest.raises(ConfigError, match=rf"{name}.*model\.weights"):
        build_vectors(build_model(cfg), cfg)


def test_load_from_names_the_global_or_the_averaged_model(tmp_path, recwarn):
    """A path alone is the global model, with a warning if the run reports another one."""
    run = toyseg.run(tmp_path / "first", train_cfg={"max_rounds": 3}, averaging={"start": 1})
    saved = toyseg.checkpoint(run)
    path = str(tmp_path / "first" / "run" / "checkpoints" / "round_000003.pth")
    assert not torch.equal(
        saved["state_dict"]["conv1.weight"], saved["averaged_state_dict"]["conv1.weight"]
    )
    for start, key in (
        (path, "state_dict"),
        ({"path": path, "model": "global"}, "state_dict"),
        ({"path": path, "model": "averaged"}, "averaged_state_dict"),
    ):
        recwarn.clear()
        trainer = build_trainer(toyseg.settings(tmp_path / "second", load_from=start))
        begun = trainer.flat.state_dict()
        assert all(torch.equal(begun[name], value) for name, value in saved[key].items())
        told = [str(w.message) for w in recwarn if str(w.message).startswith("load_from: ")]
        assert len(told) == (start == path) and all("model='averaged'" in text for text in told)


def test_an_averaged_model_that_a_checkpoint_lacks_is_refused(tmp_path):
    toyseg.run(tmp_path / "first", **toyseg.PLAIN, train_cfg={"max_rounds": 1})
    path = str(tmp_path / "first" / "run" / "checkpoints" / "round_000001.pth")
    for model, message in (("averaged", "has no averaged model"), ("mean", "must be 'global' or")):
        start = {"path": path, "model": model}
        with pytest.raises(ConfigError, match=rf"^load_from\.model: .*{message}"):
            build_trainer(toyseg.settings(tmp_path / "second", load_from=start))


def test_a_test_of_a_checkpoint_does_not_need_the_initial_weights(tmp_path):
    run = toyseg.run(tmp_path / "first", **toyseg.PLAIN, train_cfg={"max_rounds": 1})
    path = tmp_path / "first" / "run" / "checkpoints" / "round_000001.pth"
    gone = toyseg.merge(run, {"load_from": "gone.pth", "work_dir": str(tmp_path / "test")})
    assert "seen/accuracy" in toyseg.runner(gone).test(path)


def test_a_learning_rate_of_0_is_told(tmp_path):
    config = toyseg.settings(tmp_path, optim_wrapper={"optimizer": {"lr": 0}})
    with pytest.warns(UserWarning, match=r"optim_wrapper\.optimizer\.lr"):
        build_trainer(config)


def test_a_test_set_of_other_classes_is_told_before_training(tmp_path):
    for split, names in (("train", ("cat", "dog")), ("val", ("cat", "horse"))):
        for number, name in enumerate(names):
            color = number + 10 * (split == "val")
            write_photo(tmp_path / split / name / f"{number}.JPEG", color)
    changes = [f"data_root={tmp_path}", f"work_dir={tmp_path / 'run'}", "model.num_classes=2"]
    for loader in ("train_dataloader", "val_dataloader.test"):
        changes += [f"{loader}.dataset.num_classes=2", f"{loader}.num_workers=0"]

    def runner():
        made = FederatedRunner.from_cfg(load_config("imagenet_centralized", options=changes))
        made.build_federation()
        return made

    with pytest.raises(DataError, match=r"val/horse: must be a class of .*train"):
        runner()
    (tmp_path / "val" / "horse").rename(tmp_path / "val" / "dog")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(runner().val_loop.sets[0].dataset) == 2


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"num_classes": 19}, r"model\.num_classes: is 19, .*dataset has 3 classes: set .*=3"),
        ({"num_classes": 2}, r"model\.num_classes: is 2, .*dataset has 3 classes"),
        ({"network": {"num_classes": 5}}, r"model\.network\.num_classes: is 5"),
        ({"network": {"decode_head": {"num_classes": 4}}}, r"decode_head\.num_classes: is 4"),
        ({"num_classes": 3, "network": {"type": "X"}}, None),
        ({}, None),
    ],
)
def test_the_model_has_the_classes_of_the_data(changes, told):
    config = Config({"model": {"type": "Segmentor", **changes}})
    with pytest.raises(ConfigError, match=told) if told else nullcontext():
        check_classes(config, toyseg.ToyScenes())


def test_a_single_class_is_no_task(tmp_path):
    config = toyseg.settings(tmp_path, val_evaluator={"_delete_": True, "type": "IoUMetric"})
    for test in config["val_dataloader"].values():
        test["dataset"] = Named({"classes": ("x",)})
    with pytest.raises(ConfigError, match=r"dataset: has the single class 'x'.*IoUMetric"):
        toyseg.runner(config).build_federation()


class Named(toyseg.ToyScenes):
    """The toy's images, whose classes may have other names, or none."""

    def __init__(self, metainfo):
        super().__init__()
        self.metainfo = metainfo


@pytest.mark.parametrize(
    ("train", "test", "told"),
    [
        ({"classes": ("a", "b")}, {"classes": ["a", "b"], "palette": []}, None),
        ({"classes": ("a", "b")}, {}, None),
        ({}, {"classes": ("a", "b")}, None),
        ({"classes": ("a", "b")}, {"classes": None}, None),
        ({"classes": ("a", "b")}, {"classes": ("b", "a")}, "class 0 is 'b', not 'a'"),
        ({"classes": ("a", "b")}, {"classes": ("a",)}, "class 1 is None, not 'b'"),
        ({"classes": ("a", "b")}, {"classes": ("a", "b", "c")}, "class 2 is 'c', not None"),
    ],
)
def test_classes_of_train_and_test_sets_agree(train, test, told):
    sets = [StreamedSet("unseen", "x", [], torch.zeros(1), dataset=Named(test))]
    found = pytest.raises(DataError, match=rf"val_dataloader\.unseen\.dataset: .*{told}")
    with found if told else warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_tests(Named(train), sets)


class Maps(SegmentationDataset):
    """Label maps of the toy's classes, with labels or without."""

    metainfo = toyseg.ToyScenes().metainfo

    def __init__(self, labeled):
        self.labeled = labeled
        self.data_root, self.files = "", [("x", "y")]

    def check_files(self):
        """There are none."""

    def has_labels(self):
        return self.labeled


def test_a_test_set_without_labels_is_refused(recwarn):
    """Training images without labels may be meant."""
    unlabeled, labeled = Maps(False), Maps(True)
    with pytest.raises(DataError, match=r"val_dataloader\.unseen\.dataset: every pixel of every"):
        check_tests(labeled, [StreamedSet("unseen", "x", [], torch.zeros(1), dataset=unlabeled)])
    assert not recwarn.list
    check_tests(unlabeled, [StreamedSet("unseen", "x", [], torch.zeros(1), dataset=labeled)])
    assert str(recwarn.pop().message).startswith("train_dataloader.dataset: every pixel of every")


def test_a_default_hook_without_a_type_keeps_its_own(tmp_path):
    own = {"progress": {"metric": "mIoU"}, "checkpoint": {"interval": 3, "priority": "LOW"}}
    config = Config(toyseg.settings(tmp_path))
    config["default_hooks"] = {**own, "pictures": None}
    hooks = dict(build_hooks(config))
    progress = hooks["default_hooks.progress"]
    assert type(progress).__name__ == "ProgressHook" and progress.endings == ("mIoU",)
    assert hooks["default_hooks.checkpoint"].priority == "LOW"
    assert hooks["default_hooks.checkpoint"].interval == 3
    config.default_hooks["checkpoint"]["priority"] = "LATE"
    with pytest.raises(ConfigError, match=r"hooks\.checkpoint\.priority: must be 0 to .* LOW,"):
        build_hooks(config)
    assert "default_hooks.trackers" in hooks and "default_hooks.pictures" not in hooks
    config["default_hooks"] = {"checkpoint": [1]}
    with pytest.raises(ConfigError, match=r"default_hooks.checkpoint: must be a dict .* not \[1\]"):
        build_hooks(config)


def test_nothing_is_written(tmp_path):
    build_trainer(settings(tmp_path / "work"))
    assert not (tmp_path / "work").exists()


def test_modules_that_the_config_names_are_imported_first(tmp_path, monkeypatch):
    """A worker has not read the user's file, and so has not imported them."""
    rule = "from fedseg.algorithms import FedAvg\nfrom fedseg.registry import ALGORITHMS\n"
    rule += "@ALGORITHMS.register_module()\nclass RuleOfAWorker(FedAvg):\n    pass\n"
    (tmp_path / "rule_of_a_worker.py").write_text(rule)
    monkeypatch.syspath_prepend(tmp_path)
    config = toyseg.settings(tmp_path, algorithm={"type": "RuleOfAWorker"})
    config["custom_imports"]["imports"] = ["toyseg", "rule_of_a_worker"]
    assert type(build_trainer(config).algorithm).__name__ == "RuleOfAWorker"


def test_another_process_builds_the_same_model(tmp_path):
    config = settings(tmp_path)
    own = build_trainer(config)
    (tmp_path / "config.json").write_text(json.dumps(config))
    toy = str(ROOT / "tests" / "support")
    script = SCRIPT.format(toy=toy, config=str(tmp_path / "config.json"))
    found = python(script, cwd=ROOT).split()[-1]
    assert found == hashlib.sha256(own.flat.w.numpy().tobytes()).hexdigest()


@pytest.mark.parametrize(
    ("schedule", "shares"),
    [
        ({"type": "PolyLR", "power": 0.9}, [1, 0.75**0.9, 0.5**0.9, 0.25**0.9]),
        ({"type": "PolyLR", "power": 1.0, "end": 3}, [1, 0.5, 0, 0]),
        ({"type": "LinearLR", "start_factor": 1.0, "end_factor": 0.0}, [1, 0.75, 0.5, 0.25]),
        ({"type": "ConstantLR", "factor": 0.5}, [0.5] * 4),
        ({"type": "CosineAnnealingLR", "T_max": 4}, [1, 0.5 + 0.5**1.5, 0.5, 0.5 - 0.5**1.5]),
    ],
    ids=["PolyLR", "PolyLR with an end", "LinearLR", "ConstantLR", "CosineAnnealingLR"],
)
def test_a_schedule_without_an_end_leaves_the_last_round_a_rate(schedule, shares, tmp_path):
    """``(1 - t/T)^power`` with t from 0, as in FedDrive; T is the run's length."""
    config = toyquad.run(
        tmp_path, {"type": "FedAvg"}, param_scheduler=schedule, train_cfg={"max_rounds": 4}
    )
    rates = [line["lr"] for line in toyseg.history(config)]
    assert rates == pytest.approx([0.1 * share for share in shares], abs=1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"custom_hooks": [{"type": "SWA", "cycle": 1}]},
            r"custom_hooks\[0\]: SWA goes into averaging",
        ),
        (
            {"param_scheduler": [{"type": "ReduceOnPlateauLR", "monitor": "seen/accuracy"}]},
            r"param_scheduler\[0\]\.type: .*ReduceOnPlateauLR: not every round is evaluated",
        ),
        (
            {"param_scheduler": [{"type": "WarmupLR"}]},
            r"param_scheduler(\[0\])?\.type: unknown parameter scheduler .WarmupLR.",
        ),
    ],
)
def test_what_would_be_done_by_half_is_refused(changes, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        toyseg.train(toyseg.settings(tmp_path, **changes))


@pytest.mark.parametrize(("layer", "sizes"), [(nn.BatchNorm2d, [2]), (nn.InstanceNorm2d, [2, 1])])
def test_a_model_with_batchnorm_leaves_out_a_last_batch_of_one(layer, sizes, tmp_path):
    network = {"_delete_": True, "type": "Segmentor", "loss": {"type": "CrossEntropy"}}
    network["network"] = nn.Sequential(nn.Conv2d(3, 3, 1), layer(3))
    changes = {"model": network, "train_dataloader": {"batch_size": 2}}
    config = complete_config(Config(toyseg.settings(tmp_path, **toyseg.PLAIN, **changes)))
    flat = build_vectors(build_model(config), config)
    data = build_client_data(config, flat)
    assert data.batch_sizes(data.clients.index("e")) == sizes  # of three samples
