"""Open from outside: own components from any folder, exact replays, plain checkpoints, records."""

import copy
import json
import math
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
import toyseg
from mmengine.config import Config

from fedseg.config.check import complete_config
from fedseg.errors import LoadingError
from fedseg.hooks import FederatedHook
from fedseg.registry import DATASETS, HOOKS
from fedseg.runner.checkpoint import FederatedCheckpointHook, checkpoints, load_checkpoint
from fedseg.runner.experiment import load_config
from fedseg.runner.runner import FederatedRunner
from fedseg.runner.testing import evaluate_checkpoint
from fedseg.runs.config import config_digest
from fedseg.runs.schema import RESULTS_SCHEMA_VERSION, read_results

OWN_MODULE = '''
"""A user's own model, data set, partition, algorithm and hook; nothing of fedseg is changed."""

import torch
from torch import nn

from fedseg.core.algorithm import Algorithm
from fedseg.core.messages import Update
from fedseg.hooks import FederatedHook
from fedseg.registry import ALGORITHMS, DATASETS, HOOKS, MODELS, PARTITIONS


@MODELS.register_module()
class OutsideNet(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.body = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 2))

    def forward(self, x, y, mode="loss"):
        out = self.body(x)
        return {"loss": (out - y).square().mean()} if mode == "loss" else out


@DATASETS.register_module()
class OutsideData(torch.utils.data.Dataset):
    def __init__(self, size=24):
        rng = torch.Generator().manual_seed(1)
        self.x = torch.randn(size, 5, generator=rng, dtype=torch.float64)
        self.y = torch.randn(size, 2, generator=rng, dtype=torch.float64)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return {"x": self.x[index], "y": self.y[index]}


@PARTITIONS.register_module()
class OutsidePartition:
    def __call__(self, dataset):
        return {"first": range(0, 9), "second": range(9, 13), "third": range(13, 24)}


@ALGORITHMS.register_module()
class OutsideAlgorithm(Algorithm):
    """Proximal local steps; the server averages."""

    def __init__(self, mu):
        self.mu = mu

    @torch.no_grad()
    def correct(self, client):
        client.grad.add_(client.w - client.start, alpha=self.mu)

    @torch.no_grad()
    def step(self, server, aggregate):
        server.w.sub_(aggregate.mean("delta").to(server.w.dtype))


@HOOKS.register_module()
class OutsideHook(FederatedHook):
    calls = []

    def __getattribute__(self, name):
        stages = ("before_round", "before_client", "after_local_steps", "after_client",
                  "after_aggregate", "after_round")
        if name in stages:
            OutsideHook.calls.append(name)
        return super().__getattribute__(name)
'''

OWN_CONFIG = """
    custom_imports = dict(imports=["outside_things"], allow_failed_imports=False)
    model = dict(type="OutsideNet")
    dtype = "float64"
    train_dataloader = dict(
        batch_size="full", shuffle=False,
        dataset=dict(type="OutsideData"), partition=dict(type="OutsidePartition"),
    )
    client_sampler = dict(type="FixedSampler", file="{plan}")
    algorithm = dict(type="OutsideAlgorithm", mu=0.3)
    optim_wrapper = dict(optimizer=dict(type="SGD", lr=0.2, momentum=0.9, weight_decay=0.01))
    train_cfg = dict(max_rounds=5, local_epochs=3, hook_interval=1)
    custom_hooks = [dict(type="OutsideHook")]
    default_hooks = dict(
        checkpoint=dict(type="FederatedCheckpointHook", interval=100, keep_every=1), pictures=None
    )
"""
PLAN = [["first", "third"], ["second"], ["third"], ["first", "second", "third"], ["second"]]


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """A run of a config in a folder of its own; the module beside it, the plan in a file."""
    folder = tmp_path_factory.mktemp("somewhere else")
    (folder / "outside_things.py").write_text(OWN_MODULE)
    (folder / "plan.json").write_text(json.dumps(PLAN))
    text = textwrap.dedent(OWN_CONFIG).replace("{plan}", str(folder / "plan.json"))
    (folder / "own.py").write_text(text)
    path = list(sys.path)
    config = load_config(folder / "own.py", work_dir=folder / "run")
    runner = FederatedRunner.from_cfg(config)
    runner.train()
    sys.path[:] = path
    return folder, runner


def plain_loop():
    """The same federation as plain torch; the global model after every round."""
    import outside_things

    data, clients = outside_things.OutsideData(), outside_things.OutsidePartition()(None)
    model = outside_things.OutsideNet().double()
    history = []
    for participants in PLAN:
        start = {n: t.clone() for n, t in model.state_dict().items()}
        total = sum(len(clients[c]) for c in participants)
        new = {n: torch.zeros_like(t) for n, t in start.items()}
        for client in participants:
            model.load_state_dict(start)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9, weight_decay=0.01)
            x, y = data.x[list(clients[client])], data.y[list(clients[client])]
            for _ in range(3):
                optimizer.zero_grad()
                loss = (model.body(x) - y).square().mean()
                proximal = sum((p - start[n]).square().sum() for n, p in model.named_parameters())
                (loss + 0.15 * proximal).backward()
                optimizer.step()
            for name, tensor in model.state_dict().items():
                new[name] += tensor * len(clients[client]) / total
        model.load_state_dict(new)
        history.append(new)
    return history


def test_own_components_equal_a_plain_torch_loop(outside):
    folder, _ = outside
    expected = plain_loop()
    for round_, state in enumerate(expected, start=1):
        path = folder / "run" / "checkpoints" / f"round_{round_:06d}.pth"
        got = torch.load(path, weights_only=True)["state_dict"]
        assert set(got) == set(state)
        for name, tensor in state.items():
            torch.testing.assert_close(got[name], tensor, rtol=1e-12, atol=1e-14)


def test_hooks_see_every_stage_in_order(outside):
    import outside_things

    calls = outside_things.OutsideHook.calls
    client = ["before_client", *["after_local_steps"] * 3, "after_client"]
    expected = [
        stage
        for participants in PLAN
        for stage in ["before_round", *client * len(participants), "after_aggregate", "after_round"]
    ]
    assert calls == expected


def test_a_config_without_evaluation_has_results_too(outside):
    folder, _ = outside
    results = json.loads((folder / "run" / "results.json").read_text())
    assert results["completed_rounds"] == 5 and results["final"] == {}
    assert results["clients_per_round"] == {"min": 1, "max": 3}


def test_a_history_can_be_replayed(tmp_path):
    """A run with random participants, and one that is given them from its history."""
    first = toyseg.run(tmp_path / "a", train_cfg={"max_rounds": 3})
    replay = {
        "_delete_": True,
        "type": "FixedSampler",
        "file": str(tmp_path / "a" / "run" / "history.jsonl"),
    }
    second = toyseg.run(tmp_path / "b", train_cfg={"max_rounds": 3}, client_sampler=replay)
    assert toyseg.run_differences(first, second) == []


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"interval": 1, "keep_every": 0}, [5, 6]),
        ({"interval": 1, "keep_every": 2}, [2, 4, 5, 6]),
        ({"interval": 3, "keep_every": 0}, [3, 6]),
        ({"interval": 100, "keep_every": 1}, [1, 2, 3, 4, 5, 6]),
        ({"interval": 4, "keep_every": 0, "keep_last": 5}, [4, 6]),
    ],
)
def test_which_checkpoints_are_kept(tmp_path, options, kept):
    changes = {**toyseg.PLAIN, "val_dataloader": None, "val_evaluator": None}
    toyseg.run(
        tmp_path, **changes, train_cfg={"local_epochs": 1}, default_hooks={"checkpoint": options}
    )
    folder = tmp_path / "run" / "checkpoints"
    assert sorted(int(p.stem[6:]) for p in folder.glob("round_*.pth")) == kept
    assert not list(folder.glob("*.tmp"))


def test_a_metric_without_a_value_is_never_the_best(tmp_path):
    runner = toyseg.runner(toyseg.settings(tmp_path, train_cfg={"max_rounds": 100}))
    runner.build_federation()
    hook = FederatedCheckpointHook(interval=100, save_best="seen/mIoU")
    for round_, value in enumerate((math.nan, 50.0, math.nan, 50.0, math.inf, 60.0), start=1):
        runner.round = runner.train_loop.finished_rounds = round_
        hook.after_val_epoch(runner, metrics={"seen/mIoU": value})
        hook.after_train_epoch(runner)
    assert [round_ for round_, _ in checkpoints(runner.checkpoint_folder)] == [2, 6]


@DATASETS.register_module()
class ArrayScenes(toyseg.ToyScenes):
    """Says in arrays what others say in lists."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.users, self.domains = np.array(self.users), list(np.array(self.domains))
        classes = np.array(["x", "y", "z"])
        self.metainfo = {"classes": classes, "palette": np.zeros((3, 3), np.uint8)}


@HOOKS.register_module()
class ArrayHook(FederatedHook):
    """Leaves numbers of NumPy's in the record."""

    def after_round(self, runner, record):
        record["mine"] = {"one": np.float32(0.5), "more": np.arange(2)}


def test_what_a_users_classes_say_in_arrays_is_plain_in_a_checkpoint(tmp_path):
    """And means the same: domains with clients of their own, and a record that waits."""
    changes = {"train_cfg": {"max_rounds": 2, "val_interval": 1}}
    lists = toyseg.settings(tmp_path / "lists", **changes)
    named = {"dataset": {"type": "ArrayScenes"}}
    loaders = {"train_dataloader": named, "val_dataloader": {"seen": named, "unseen": named}}
    hooks = {"custom_hooks": [{"type": "ArrayHook"}]}
    arrays = toyseg.settings(tmp_path / "arrays", **changes, **loaders, **hooks)
    toyseg.train(lists)
    fail = {"type": "FailHook", "at": "before_val", "round_": 1}
    with pytest.raises(LoadingError):
        toyseg.train({**arrays, "custom_hooks": [*hooks["custom_hooks"], fail]})
    waiting = load_checkpoint(Path(arrays["work_dir"], "checkpoints/round_000001.pth"))
    assert waiting["loop"]["pending"]["mine"] == {"one": 0.5, "more": [0, 1]}
    assert waiting["meta"]["dataset_meta"]["palette"] == [[0, 0, 0]] * 3
    toyseg.train(arrays, resume=True)
    one, other = (toyseg.history(run) for run in (lists, arrays))
    assert other[0]["mine"] == {"one": 0.5, "more": [0, 1]}
    assert [line["metrics"] for line in one] == [line["metrics"] for line in other]
    assert "seen_by_domain/accuracy" in one[0]["metrics"]


def test_a_checkpoint_loads_in_a_plain_model(tmp_path):
    config = toyseg.settings(tmp_path, model={"norm": True})
    runner = toyseg.train(config)
    content = toyseg.checkpoint(config)
    for key in ("state_dict", "averaged_state_dict"):
        model = toyseg.ToySegNet()
        model.load_state_dict(content[key], strict=True)
        assert all(t.is_contiguous() for t in content[key].values())
    for name, tensor in content["averaged_state_dict"].items():
        assert torch.equal(runner.model.state_dict()[name], tensor), "train() leaves the average"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    config = toyseg.run(tmp_path_factory.mktemp("finished"))
    return config


def test_history_has_every_field(finished):
    lines = toyseg.history(finished)
    assert [line["round"] for line in lines] == [1, 2, 3, 4, 5, 6]
    for line in lines:
        assert len(line["participants"]) == 3
        for participant in line["participants"]:
            size = toyseg.USERS[participant["client"]]
            assert participant["samples"] == size
            steps = 2 * len([n for n in range(0, size, 3) if size - n > 1])
            assert participant["steps"] == steps
            assert 0 < participant["loss"] < 5
        weighted = sum(p["loss"] * p["samples"] for p in line["participants"])
        samples = sum(p["samples"] for p in line["participants"])
        assert line["loss"] == pytest.approx(weighted / samples)
        assert line["lr"] == 0.1 and line["rejected"] == []
        assert line["bytes_down"] == line["bytes_up"] == 3 * 4 * 255 > 0
        assert {"train", "aggregate", "evaluate"} <= set(line["seconds"])
        assert line["norm_delta"] > 0 and line["norm_w"] > 0
        assert ("metrics" in line) == (line["round"] in (3, 6))
    norm = np.sqrt(
        sum(
            float(t.double().square().sum())
            for n, t in toyseg.checkpoint(finished)["state_dict"].items()
            if "running" not in n and "num_batches" not in n
        )
    )
    assert lines[-1]["norm_w"] == pytest.approx(norm, rel=1e-6)


def test_results_have_every_field(finished):
    path = Path(finished["work_dir"]) / "results.json"
    results = json.loads(path.read_text())
    assert results["schema_version"] == RESULTS_SCHEMA_VERSION
    assert len(results["config_sha256"]) == 64
    assert {"python", "torch", "numpy", "fedseg"} <= set(results["versions"])
    assert results["seed"] == 0 and results["completed_rounds"] == 6
    assert len(results["data"]["train"]["partition_sha256"]) == 64
    assert set(results["final"]) == {"unseen", "seen", "seen_by_domain"}
    assert (
        results["final"]["seen"]["accuracy"]
        == (toyseg.history(finished)[-1]["metrics"]["seen/accuracy"])
    )
    last = read_results(path).last_rounds
    assert set(last.mean) == set(last.std) == set(toyseg.history(finished)[-1]["metrics"])
    assert last.evaluations == 1
    lines = toyseg.history(finished)
    assert results["communication"] == {
        "bytes_down": sum(line["bytes_down"] for line in lines),
        "bytes_up": sum(line["bytes_up"] for line in lines),
    }
    assert results["seconds"]["wall"] > results["seconds"]["train"] > 0


def test_the_configs_hash_is_of_what_matters(tmp_path, finished):
    def digest(**changes):
        return config_digest(complete_config(Config(toyseg.settings(tmp_path, **changes))))

    assert digest() == digest(work_dir="elsewhere", log_level="INFO", resume=True)
    assert digest() == digest(executor={"type": "RayExecutor", "num_workers": 3})
    assert digest() != digest(randomness={"seed": 1})
    assert digest() != digest(optim_wrapper={"rho": 0.2})


def test_a_metric_with_a_prefix_is_trained_tested_and_verified(tmp_path):
    """Its values and its IoU by class are together, beside those of the metric without one."""
    iou = {"type": "IoUMetric", "num_classes": 3}
    metrics = [iou, {**iou, "prefix": "other"}]
    config = toyseg.run(
        tmp_path, val_evaluator=metrics, test_evaluator=metrics, train_cfg={"max_rounds": 1}
    )
    folder = Path(config["work_dir"])
    final = json.loads((folder / "results.json").read_text())["final"]
    assert final["seen/other"] == final["seen"] and len(final["seen"]["IoU"]) == 3
    path = folder / "checkpoints/round_000001.pth"
    tested = evaluate_checkpoint(Config(copy.deepcopy(config)), path)[1]["domains"]
    assert tested["seen/other"] == tested["seen"]
    assert tested["seen"]["mIoU"] == final["seen"]["mIoU"] and tested["seen"]["images"] == 33
