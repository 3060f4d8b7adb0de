"""``results.json`` files for tests of the leaderboard, without training."""

import copy
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedseg.config.schema import read_model
from fedseg.files import sha256
from fedseg.leaderboard.benchmarks import DATASETS, MODELS, Setting, settings
from fedseg.leaderboard.comparable import Match, deciding_parts, matches
from fedseg.runs.schema import OWN_DIGEST, SELF_CONTAINED, Results, own_digest

SETTINGS = {setting.id: setting for setting in settings()}
CLASS_OF = {name: cls for cls, name in MODELS.items()}
FIELDS = {  # of the results -> of the config
    "rounds": "train_cfg.max_rounds",
    "local_epochs": "train_cfg.local_epochs",
    "model__type": "model.type",
    **{name: name for name in ("algorithm", "local_loss", "optim_wrapper", "averaging")},
    "personal": "personal",
    "load_from": "load_from",
    "data__train__style": "train_dataloader.dataset.style",
    "data__train__partition": "train_dataloader.partition",
    "data__train__partition__alpha": "train_dataloader.partition.alpha",
}


RAINY, CIFAR = "idda_rainy_heterogeneous", "cifar10_a0_c5_cnn"


def idda(unseen: float = 50.0, seen: float = 60.0, **changes: Any) -> dict[str, Any]:
    return results(RAINY, {"unseen/mIoU": unseen, "seen/mIoU": seen}, **changes)


def cifar(accuracy: float = 70.0, **changes: Any) -> dict[str, Any]:
    return results(CIFAR, {"test/accuracy": accuracy}, **changes)


def setting(id_: str) -> Setting:
    return SETTINGS[id_]


def entry(dataset: str, known: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A data set as a run records it, with the published checksums."""
    first = {name: known[name][0] for name in ("split_checksum", "content_sha256") if name in known}
    return {
        "dataset": dataset,
        "synthetic": False,
        "split": None,
        "split_checksum": "0" * 64,
        "content_sha256": None,
        "generated": [],
        "steps": [],
        "style": None,
        **{k: v for k, v in known.items() if k == "samples"},
        **first,
        **more,
    }


def results(
    id_: str, metrics: Mapping[str, float], seed: int = 0, **changes: Any
) -> dict[str, Any]:
    """The content of a comparable run's file.

    Args:
        id_: of its setting.
        metrics: ``<domain>/<metric>`` -> the last value and the mean.
        seed: of the run.
        changes: replace fields; ``data__train__clients=5`` a nested one.
    """
    one = setting(id_)
    facts, known = DATASETS[one.dataset], one.known
    config = config_of(one, seed, **changes)
    train = {"samples": facts.get("train_samples", 1000), **known.get("train", {})}
    if one.protocol.get("train_dataloader.dataset.mirror"):
        train["samples"] *= 2
    test = {"samples": facts.get("test_samples")}
    rounds = [changes.get("completed_rounds", one.rounds)]
    rounds = [rounds[0] // 2, *rounds] if rounds[0] > 1 else rounds
    final: dict[str, dict[str, Any]] = {}
    for name, value in metrics.items():
        domain, _, metric = name.rpartition("/")
        final.setdefault(domain, {})[metric] = value
    content = {
        "schema_version": SELF_CONTAINED,
        "name": f"{id_}_fedavg",
        "config_sha256": f"{seed:064d}",
        "experiment_sha256": "e" * 64,
        "versions": {"python": "3.12"},
        "device": "cpu",
        "hardware": "x86_64 AVX2",
        "threads": 1,
        "seed": seed,
        "rounds": one.rounds,
        "completed_rounds": one.rounds,
        "final_round": one.rounds,
        "model": {"type": CLASS_OF[one.model], "network": None, "options": {}, "parameters": 1000},
        "algorithm": {"type": "FedAvg"},
        "local_loss": None,
        "optim_wrapper": {"type": "OptimWrapper", "optimizer": {"type": "SGD", "lr": 0.1}},
        "averaging": None,
        "amp": False,
        "data": {
            "train": entry(
                facts["class"],
                train,
                split=config["train_dataloader"]["dataset"]["split"],
                clients=one.n_clients,
                partition=config["train_dataloader"]["partition"],
                partition_sha256=train.get("partition_sha256", ["f" * 64])[0],
                batch_size=8,
            ),
            **{
                f"test:{domain}": entry(
                    facts["class"], test | known.get("test", {}).get(domain, {})
                )
                for domain in one.domains
            },
        },
        "clients_per_round": {"min": one.clients_per_round, "max": one.clients_per_round},
        "local_epochs": one.local_epochs,
        "local_steps": None,
        "final": final,
        "last_rounds": {
            "rounds": one.window or 1,
            "evaluations": one.evaluations if one.window else 1,
            "mean": dict(metrics),
            "std": dict.fromkeys(metrics, 0.5),
        },
        "curves": {
            "rounds": rounds,
            "bytes": [8000 * one.clients_per_round * r for r in rounds],
            "loss": [2.0, 1.0][-len(rounds) :],
            "figures": {n: [value / 2, value][-len(rounds) :] for n, value in metrics.items()},
        },
        "communication": {
            "bytes_down": 4000 * one.clients_per_round * one.rounds,
            "bytes_up": 4000 * one.clients_per_round * one.rounds,
        },
        "rejected_updates": 0,
        "seconds": {"train": 50.0, "aggregate": 1.0, "evaluate": 9.0, "wall": 60.0},
    }
    fields = {k: v for k, v in changes.items() if not k.startswith("config__")}
    return {**changed(content, **fields), "config": config}


def config_of(one: Setting, seed: int = 0, **changes: Any) -> dict[str, Any]:
    """The config of FedAvg in a setting.

    ``changes`` are those of the results where the config has them too, and
    ``config__train_cfg__max_rounds``.
    """
    config: dict[str, Any] = {"randomness": {"seed": seed}, "algorithm": {"type": "FedAvg"}}
    for key, value in one.protocol.items():
        put(config, key, value)
    for name, value in changes.items():
        if name in FIELDS:
            put(config, FIELDS[name], value)
    parts = deciding_parts(config)
    for variant in one.variants:  # what the method of these parts changes besides
        if variant["when"] and variant["when"].items() <= parts.items():
            for key, value in variant["change"].items():
                put(config, key, value)
    for name, value in changes.items():
        if name.startswith("config__"):
            put(config, name.removeprefix("config__").replace("__", "."), value)
    return config


def put(config: dict[str, Any], key: str, value: Any) -> None:
    """Set a key with dots; ``...`` removes it."""
    *path, last = key.split(".")
    for part in path:
        config = config.setdefault(part, {})
    if value is ...:
        del config[last]
    else:
        config[last] = copy.deepcopy(value)


def changed(content: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """A copy with fields replaced: two underscores go into a field, ``...`` removes it.

    In ``data``, ``test_seen`` means ``test:seen``.
    """
    content = copy.deepcopy(dict(content))
    for name, value in changes.items():
        path = name.split("__")
        if path[0] == "data":
            path[1:2] = [part.replace("test_", "test:", 1) for part in path[1:2]]
        place = content
        for part in path[:-1]:
            place = place[part]
        if value is ...:
            del place[path[-1]]
        else:
            place[path[-1]] = value
    return content


def synthetic(content: Mapping[str, Any]) -> dict[str, Any]:
    """The same of rendered images."""
    content = copy.deepcopy(dict(content))
    for one in content["data"].values():
        one["synthetic"] = True
    return content


def write(folder: Path, content: Mapping[str, Any], changed_at: float | None = None) -> Path:
    """Write a run's folder; returns it. Its own checksum is made right."""
    folder.mkdir(parents=True, exist_ok=True)
    path, content = folder / "results.json", dict(content)
    if (config := content.pop("config", None)) is not None:
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        content["config_json_sha256"] = sha256(folder / "config.json")
    signed = {OWN_DIGEST: own_digest(content)}
    path.write_text(json.dumps({**content, **signed}), encoding="utf-8")
    if changed_at is not None:
        os.utime(path, (changed_at, changed_at))
    return folder


def parsed(content: Mapping[str, Any]) -> Results:
    """A content as the reader gives it."""
    return read_model(Results, content, "results.json")


def match(id_: str, content: Mapping[str, Any]) -> Match:
    return matches(parsed(content), [setting(id_)])[0]
