"""``results.json`` files for tests of the leaderboard, without training."""

import copy
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedseg.config.arguments import read_model
from fedseg.files import sha256
from fedseg.leaderboard.benchmarks import DATASETS, Setting, settings
from fedseg.leaderboard.comparable import ComparedRun, deciding_parts, find_reasons
from fedseg.runs.schema import (
    OWN_DIGEST,
    RESULTS_SCHEMA_VERSION,
    Results,
    ResultsFile,
    own_digest,
    with_config,
)

SETTINGS = {setting.id: setting for setting in settings()}
FIELDS = {  # of the results -> of the config
    "rounds": "config__train_cfg__max_rounds",
    "local_epochs": "config__train_cfg__local_epochs",
    "local_steps": "config__train_cfg__local_steps",
    "amp": "config__train_cfg__amp",
    "model__type": "config__model__type",
    "setting": "config__setting",
    "methods": "config__methods",
    "algorithm": "config__algorithm",
    "local_loss": "config__local_loss",
    "optim_wrapper": "config__optim_wrapper",
    "averaging": "config__averaging",
    "personal": "config__personal",
    "load_from": "config__load_from",
    "data__train__style": "config__train_dataloader__dataset__style",
    "data__train__partition": "config__train_dataloader__partition",
    "data__train__partition__alpha": "config__train_dataloader__partition__alpha",
    "data__train__steps": "config__train_dataloader__transforms",
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
        "split_checksum": "0" * 64,
        "content_sha256": None,
        **{k: v for k, v in known.items() if k == "samples"},
        **first,
        **more,
    }


def results(
    id_: str,
    metrics: Mapping[str, float],
    seed: int = 0,
    evaluations: int | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """The content of a comparable run's file, and as ``config`` that of its config.json.

    Args:
        id_: of its setting.
        metrics: ``<domain>/<metric>`` -> the last value and the mean.
        seed: of the run.
        evaluations: in the last rounds; None: as many as the setting wants.
        changes: replace fields, see :func:`changed`.
    """
    one = setting(id_)
    facts, known = DATASETS[one.dataset], one.known
    train = {"samples": facts.get("train_samples", 1000), **known.get("train", {})}
    if one.protocol.get("train_dataloader.dataset.mirror"):
        train["samples"] *= 2
    test = {"samples": facts.get("test_samples")}
    done = changes.get("completed_rounds", changes.get("rounds", one.rounds))
    window = one.window or 1
    step = window // (evaluations or min(one.evaluations, window))
    rounds = sorted(range(done, max(0, done - window), -step))
    figures = {name: [value] * len(rounds) for name, value in metrics.items()}
    losses = [1.0] * len(rounds)
    if rounds and 0 < done // 2 < rounds[0]:  # half of it in the middle of the run
        rounds, losses = [done // 2, *rounds], [2.0, *losses]
        figures = {name: [column[0] / 2, *column] for name, column in figures.items()}
    final: dict[str, dict[str, Any]] = {}
    for name, value in metrics.items():
        domain, _, metric = name.rpartition("/")
        final.setdefault(domain, {})[metric] = value
    content = {
        "schema_version": RESULTS_SCHEMA_VERSION,
        "name": f"{id_}_fedavg",
        "config_sha256": f"{seed:064d}",
        "experiment_sha256": "e" * 64,
        "versions": {"python": "3.12"},
        "device": "cpu",
        "hardware": "x86_64 AVX2",
        "threads": 1,
        "seed": seed,
        "completed_rounds": one.rounds,
        "parameters": 1000,
        "data": {
            "train": entry(
                facts["class"],
                train,
                clients=one.n_clients,
                partition_sha256=train.get("partition_sha256", ["f" * 64])[0],
            ),
            **{
                f"test:{domain}": entry(
                    facts["class"], test | known.get("test", {}).get(domain, {})
                )
                for domain in one.domains
            },
        },
        "clients_per_round": {"min": one.clients_per_round, "max": one.clients_per_round},
        "final": final,
        "curves": {
            "rounds": rounds,
            "bytes": [8000 * one.clients_per_round * r for r in rounds],
            "loss": losses,
            "figures": figures,
        },
        "communication": {
            "bytes_down": 4000 * one.clients_per_round * one.rounds,
            "bytes_up": 4000 * one.clients_per_round * one.rounds,
        },
        "rejected_updates": 0,
        "seconds": {"train": 50.0, "aggregate": 1.0, "evaluate": 9.0, "wall": 60.0},
        "config": config_of(one, seed),
    }
    content = changed(content, **changes)
    parts = deciding_parts(content["config"])
    for variant in one.variants:  # what the method of these parts changes besides
        if variant["when"] and variant["when"].items() <= parts.items():
            for key, value in variant["change"].items():
                put(content["config"], key, value)
    of_config = {name: value for name, value in changes.items() if name.startswith("config__")}
    return changed(content, **of_config)


def config_of(one: Setting, seed: int) -> dict[str, Any]:
    """The config of FedAvg in a setting."""
    config: dict[str, Any] = {
        "setting": one.configs[0],
        "randomness": {"seed": seed},
        "algorithm": {"type": "FedAvg"},
        "optim_wrapper": {"type": "OptimWrapper", "optimizer": {"type": "SGD", "lr": 0.1}},
    }
    for key, value in one.protocol.items():
        put(config, key, value)
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

    Fields of the results that the config decides are changed there. In ``data``, ``test_seen``
    means ``test:seen``.
    """
    content = copy.deepcopy(dict(content))
    for name, value in changes.items():
        path = FIELDS.get(name, name).split("__")
        if path[0] == "data":
            path[1:2] = [part.replace("test_", "test:", 1) for part in path[1:2]]
        put(content, ".".join(path), value)
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
    content = dict(content)
    config = content.pop("config")
    content["config_json_sha256"] = "0" * 64
    file = read_model(ResultsFile, content, "results.json")
    return with_config(file, config, Path("config.json"))


def reasons(id_: str, content: Mapping[str, Any]) -> list[str]:
    """The reasons against comparing a content in a setting."""
    return find_reasons(ComparedRun(parsed(content)), setting(id_))
