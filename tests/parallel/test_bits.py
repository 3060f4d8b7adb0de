"""One process and any number of workers give the same bits, whoever dies on the way."""

import os
import signal
from pathlib import Path

import forkray
import pytest
import toycls
import toyseg

from fedseg.algorithms import FedAvg
from fedseg.engine import executor
from fedseg.errors import Interrupted
from fedseg.parallel import executor as parallel_executor
from fedseg.parallel import worker
from fedseg.registry import ALGORITHMS

SGD = {"_delete_": True, "type": "OptimWrapper", "optimizer": {"type": "SGD", "lr": 0.05}}
DYN = {"_delete_": True, "type": "FedDyn", "beta": 10.0}
RUNS = {
    "FedASAM, SWA, SiloBN": {},
    "SCAFFOLD": {"algorithm": {"_delete_": True, "type": "SCAFFOLD"}, "optim_wrapper": SGD},
    "FedGloSS": {
        "algorithm": {"_delete_": True, "type": "FedGloSS", "rho_server": 0.1, "beta": 10.0},
        "param_scheduler": [{"type": "ExponentialLR", "gamma": 0.9}],
    },
    "MIME": {
        "algorithm": {"_delete_": True, "type": "MIME", "momentum": 0.9},
        "optim_wrapper": SGD,
    },
    "NaiveFedGloSS": {
        "algorithm": {"_delete_": True, "type": "NaiveFedGloSS", "rho_server": 0.1, "beta": 10.0}
    },
    "FedBN": {"personal": toyseg.FEDBN},
    "SiloBN, a personal head, a frozen layer": {
        "personal": [*toyseg.SILOBN, "@head"],
        "model": {"freeze": "conv1"},
    },
    "FedEx-LoRA": {
        "algorithm": {"_delete_": True, "type": "FedExLoRA"},
        "averaging": None,
        "model": {"lora": {"r": 2}},
    },
    "Ditto": {"algorithm": {"_delete_": True, "type": "Ditto"}},
    "an attack after a hook": {
        "attack": {"type": "SignFlip"},
        "custom_hooks": [{"type": "PoisonHook", "clients": "all", "value": 1}],
    },
    "FedDGGA": {"algorithm": {"_delete_": True, "type": "FedDGGA"}},
    "FedRep": {"algorithm": {"_delete_": True, "type": "FedRep"}, "personal": "@head"},
    "FedDyn on disk, blocks": {"algorithm": DYN, "state_store": {"keep": "disk"}},
    "FedDyn in memory, SWA with new statistics": {
        "algorithm": DYN,
        "personal": None,
        "averaging": {"bn": "reestimate"},
    },
}
SMALL = {"train_cfg": {"max_rounds": 4, "val_last_rounds": 0}}


@pytest.fixture(autouse=True)
def ray(monkeypatch):
    forkray.install(monkeypatch)


@ALGORITHMS.register_module()
class FewBytes(FedAvg):
    """Says of an update that it takes as many bytes as the code of the client's letter."""

    def finish(self, client):
        update = super().finish(client)
        update.num_bytes = ord(client.id)
        return update


def parallel(workers, **options):
    return {"type": "RayExecutor", "num_workers": workers, "cpus_per_worker": 1, **options}


@pytest.mark.parametrize(
    ("name", "numbers"), [(name, (3 - n % 2,) if n else (1, 2, 3)) for n, name in enumerate(RUNS)]
)
def test_workers(tmp_path, monkeypatch, name, numbers):
    if numbers == (2,):
        monkeypatch.setattr(worker, "CALLS", 1)  # a call has several blocks
    if "blocks" in name:
        monkeypatch.setattr(executor, "MAX_BLOCKS", 3)
    changes = toyseg.merge(SMALL, {"client_sampler": {"clients_per_round": 5}, **RUNS[name]})
    alone, *others = (
        toyseg.settings(tmp_path / str(n), **changes, **({"executor": parallel(n)} if n else {}))
        for n in (0, *numbers)
    )
    toyseg.check_alike(alone, *others)
    for shared in others:
        assert "restarts" not in toyseg.history(shared)[-1]
        assert toyseg.history(shared)[-1]["seconds"]["busy"] > 0
    assert forkray.Actor.alive == []


@pytest.mark.parametrize("pays", [False, True])
@pytest.mark.parametrize("name", ["SCAFFOLD", "FedBN", "MIME"])
def test_auto_takes_workers_where_they_pay(tmp_path, monkeypatch, name, pays):
    monkeypatch.setattr(parallel_executor, "HOP", -1.0 if pays else 1e9)
    monkeypatch.setattr(parallel_executor, "_cores", lambda: 2)
    changes = toyseg.merge(SMALL, {"client_sampler": {"clients_per_round": 5}, **RUNS[name]})
    shared = toyseg.settings(tmp_path / "auto", **changes, executor=parallel("auto"))
    toyseg.check_alike(toyseg.settings(tmp_path / "alone", **changes), shared)
    busy = ["busy" in line["seconds"] for line in toyseg.history(shared)]
    assert busy == [False, pays, pays, pays]
    where = "on workers" if pays else "in this process"
    assert f"training continues {where}" in toyseg.logs(shared)


def test_bytes_that_an_update_names(tmp_path):
    few = {"_delete_": True, "type": "FewBytes"}
    counted = []
    for number, executor_ in enumerate((None, parallel(2))):
        changes = {**SMALL, "algorithm": few, "personal": None, "optim_wrapper": SGD}
        changes |= {"executor": executor_} if executor_ else {}
        config = toyseg.run(tmp_path / str(number), **changes)
        lines = toyseg.history(config)
        buffers = set()
        for line in lines:
            sent = line["bytes_up"] - sum(ord(one["client"]) for one in line["participants"])
            buffers.add(sent / len(line["participants"]))
        assert len(buffers) == 1 and 0 <= buffers.pop() < 1000
        counted.append([line["bytes_up"] for line in lines])
    assert counted[0] == counted[1]


def test_moon_on_resident_images_with_corrupted_test_images(tmp_path):
    root = toycls.write_data(tmp_path / "data")
    sets = {"test": {"batch_size": 4}, "corrupted": {"batch_size": 7, "final_only": False}}
    changes = {
        "local_loss": {"type": "MOON"},
        "val_dataloader": sets,
        "val_cfg": {"evaluate_global": True},
        "train_cfg": {"max_rounds": 4},
    }
    alone = toycls.settings(tmp_path / "alone", root, **changes)
    two = toycls.settings(tmp_path / "two", root, **changes)
    toyseg.check_alike(alone, {**two, "executor": parallel(2)})
    assert "client_accuracy" in toyseg.history(alone)[-1]


class KillWorkers:
    """As a hook of the driver: a worker dies in every round, while the first client is taken."""

    priority = 50

    def after_result(self, runner, result):
        if result.task.client == runner.client_sampler.participants(runner.round)[0]:
            forkray.kill_one(runner.round)


@pytest.mark.parametrize("name", ["FedASAM, SWA, SiloBN", "FedDyn on disk, blocks"])
def test_a_worker_dies_in_every_round(tmp_path, name):
    changes = toyseg.merge(SMALL, {"client_sampler": {"clients_per_round": 6}, **RUNS[name]})
    changes["train_dataloader"] = {"num_workers": 1}
    alone = toyseg.run(tmp_path / "alone", **changes)
    shared = toyseg.settings(tmp_path / "shared", **changes, executor=parallel(2))
    runner = toyseg.runner(shared)
    runner._hooks.append(KillWorkers())
    runner.train()
    assert toyseg.run_differences(alone, shared) == []
    lost = [line.get("restarts", []) for line in toyseg.history(shared)]
    assert sum(map(len, lost)) >= 3 and all("killed" in r for reasons in lost for r in reasons)
    assert forkray.Actor.alive == []


class SendSignals:
    """As a hook of the driver: told to save as the second round begins, to stop as the third."""

    priority = 50

    def before_round(self, runner):
        number = {2: signal.SIGUSR1, 3: signal.SIGTERM}.get(runner.round)
        if number is not None:
            os.kill(os.getpid(), number)


@pytest.mark.parametrize(
    "name", ["FedASAM, SWA, SiloBN", "SiloBN, a personal head, a frozen layer", "FedEx-LoRA"]
)
def test_saved_stopped_and_resumed_with_another_number_of_workers(tmp_path, name):
    small = toyseg.merge(SMALL, RUNS[name])
    alone = toyseg.run(tmp_path / "alone", **small)
    rare = toyseg.merge(small, {"default_hooks": {"checkpoint": {"interval": 100}}})
    shared = toyseg.settings(tmp_path / "shared", **rare, executor=parallel(2))
    stopped = toyseg.runner(shared)
    stopped._hooks.append(SendSignals())
    with pytest.raises(Interrupted, match="rounds 1 to 2 are saved"):
        stopped.train()
    assert toyseg.checkpoint(shared, 1)["round"] == 1
    assert forkray.Actor.alive == []
    shared["executor"] = parallel(3)
    toyseg.check_resumed(alone, shared)


@pytest.mark.parametrize(
    ("personal", "partition"),
    [(None, {"holdout": 0.3}), (toyseg.SILOBN, {"holdout": 0.3}), (toyseg.SILOBN, {})],
)
def test_clients_own_test_images(tmp_path, personal, partition):
    """Trained, and after local steps that each client does once more, on some worker."""
    changes = {**SMALL, "personal": personal, "val_evaluator": {"type": "IoUMetric"}}
    views = {"views": ["by_domain", "fine_tuned"], "spread": True}
    more = {"train_dataloader": {"partition": partition}, "val_cfg": views}
    changes = toyseg.merge(changes, more)
    files = []
    for number in (1, 2):
        config = toyseg.settings(tmp_path / str(number), **changes)
        toyseg.train(config | ({"executor": parallel(2)} if number == 2 else {}))
        files.append((Path(config["work_dir"]) / "clients.json").read_bytes())
    assert files[0] == files[1]
    assert b'"mIoU"' in files[0] and b"_fine_tuned" in files[0]
