"""``results.json``: the evidence of a finished run."""

import json
import platform
import statistics
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

import torch
from mmengine.config import Config

import fedseg
from fedseg.core.hook import Run
from fedseg.datasets.arrays import ImageArrays, content_checksum
from fedseg.datasets.synthetic import is_synthetic
from fedseg.files import sha256, write_text
from fedseg.metric_names import nest
from fedseg.registry import DATASETS
from fedseg.runs.config_copy import CONFIG_FILE
from fedseg.runs.from_json import digest
from fedseg.runs.history import plain, timeless
from fedseg.runs.protocol import described, protocol_of, style_of
from fedseg.runs.schema import FILE_NAME, OWN_DIGEST, RESULTS_SCHEMA_VERSION, own_digest

PACKAGES = (
    *("torch", "torchvision", "numpy", "onedl-mmengine", "onedl-mmcv", "onedl-mmsegmentation"),
    *("albumentations", "opencv-python-headless", "timm"),
)
# where and how long a run happens does not change what it is, nor do names of its parts
NOT_IDENTITY = (
    *("work_dir", "resume", "experiment_name", "log_level", "visualizer", "launcher"),
    *("setting", "methods"),
)
# nor do these tell one seed of an experiment from another, as keys of the config or anywhere in it
NOT_METHOD = (*NOT_IDENTITY, "randomness", "executor", "default_hooks", "state_store", "device")
NOT_METHOD_ANYWHERE = (
    *("data_root", "num_workers", "prefetch_factor", "val_interval", "hook_interval"),
)
COMPONENTS = ("algorithm", "local_loss", "optim_wrapper", "averaging", "batchnorm")
LARGEST_CONTENT = 2**29  # bytes of images whose checksum is computed after a run


class FinishedRun(Run, Protocol):
    """What results are written from, besides what hooks see."""

    cfg: Config
    name: str
    seed: int
    seconds: float
    environments: list[dict[str, Any]]
    hooks: list[Any]


def config_digest(config: Config) -> str:
    """SHA-256 of a config's content, without what does not change the experiment."""
    content = {k: v for k, v in config.to_dict().items() if k not in NOT_IDENTITY}
    if "executor" in content:  # whoever trains the clients; it was part of older digests
        content["executor"] = {"type": "InProcessExecutor"}
    return digest(content)


def experiment_digest(config: Config) -> str:
    """SHA-256 of what the seeds of one experiment share: no seed, no paths, no loader settings."""
    content = {k: v for k, v in config.to_dict().items() if k not in NOT_METHOD}
    return digest(_method_only(content))


def _method_only(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _method_only(v) for k, v in value.items() if k not in NOT_METHOD_ANYWHERE}
    if isinstance(value, list | tuple):
        return [_method_only(v) for v in value]
    return value


def hardware(device: torch.device) -> str:
    """Name of the GPU, or instruction set of the CPU; metrics can depend on it."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"


def package_versions() -> dict[str, str]:
    """Versions of Python, fedseg and the packages that metrics depend on."""
    versions = {"python": platform.python_version(), "fedseg": fedseg.__version__}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def environment(device: torch.device) -> dict[str, Any]:
    """What the last digits of a computation depend on, besides the run's own config."""
    return {
        "threads": torch.get_num_threads(),
        "device": str(device),
        "hardware": hardware(device),
        **package_versions(),
    }


def window_statistics(
    history: list[dict[str, Any]], max_rounds: int, window: int = 100
) -> dict[str, Any]:
    """Mean and standard deviation of every metric over the evaluations of the last rounds.

    The deviation is that of the population of evaluations (not divided by n-1); 0 for one
    evaluation.
    """
    chosen = [r["metrics"] for r in history if "metrics" in r and r["round"] > max_rounds - window]
    names = sorted({name for metrics in chosen for name in metrics})
    values = {n: [m[n] for m in chosen if isinstance(m.get(n), int | float)] for n in names}
    return {
        "rounds": min(window, max_rounds),
        "evaluations": len(chosen),
        "mean": {n: statistics.fmean(v) for n, v in values.items() if v},
        "std": {n: statistics.pstdev(v) for n, v in values.items() if v},
    }


def by_domain(metrics: dict[str, Any], details: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """``{"unseen/mIoU": x}`` as ``{"unseen": {"mIoU": x, ...details}}``."""
    domains = nest(metrics)
    for domain, more in details.items():
        domains.setdefault(domain, {}).update(more)
    return domains


def curves(history: list[dict[str, Any]]) -> dict[str, Any]:
    """The fields of :class:`fedseg.runs.schema.Curves`, from a history."""
    rounds, totals, losses, metrics = [], [], [], []
    total, recent = 0, []
    for record in history:
        total += record["bytes_down"] + record["bytes_up"]
        if record.get("loss") is not None:
            recent.append(record["loss"])
        if "metrics" in record:
            rounds.append(record["round"])
            totals.append(total)
            losses.append(statistics.fmean(recent) if recent else None)
            metrics.append(record["metrics"])
            recent = []
    names = dict.fromkeys(name for found in metrics for name in found)
    return {
        "rounds": rounds,
        "bytes": totals,
        "loss": losses,
        "figures": {name: [found.get(name) for found in metrics] for name in names},
    }


def _configured_entry(loader: Mapping[str, Any]) -> dict[str, Any]:
    """What the config of a loader says of its data set: the split, and how images are prepared."""
    config = loader["dataset"] if isinstance(loader.get("dataset"), Mapping) else {}
    steps = loader.get("transforms") or config.get("pipeline") or []
    return {
        "split": config.get("split"),
        "steps": described(list(steps)),
        "style": style_of(config),
    }


def dataset_entry(dataset: Any, loader: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of a data set, and how its loader prepares images."""
    root = getattr(dataset, "data_root", None)
    entry = {
        "dataset": type(dataset).__name__,
        "samples": len(dataset),
        "synthetic": bool(root) and is_synthetic(root, strict=True),
        "split_checksum": getattr(dataset, "split_checksum", None),
        "content_sha256": None,
        "generated": list(getattr(dataset, "generated", ())),
        **_configured_entry(loader),
    }
    if isinstance(dataset, ImageArrays) and dataset.images.nbytes <= LARGEST_CONTENT:
        entry["content_sha256"] = content_checksum(dataset.images, dataset.labels)
    return entry


def configured_train_entry(loader: Mapping[str, Any]) -> dict[str, Any]:
    """What the config alone says of the training set."""
    own = loader["dataset"]
    kind = own.get("type") if isinstance(own, Mapping) else type(own)
    kind = DATASETS.module_dict.get(kind, kind) if isinstance(kind, str) else kind
    return {
        "dataset": getattr(kind, "__name__", kind),
        **_configured_entry(loader),
        "partition": recipe_of(loader["partition"]),
        "batch_size": loader["batch_size"],
    }


def train_entry(data: Any, loader: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of the training set and its clients."""
    return {
        **configured_train_entry(loader),
        **dataset_entry(data.dataset, loader),
        "clients": len(data.clients),
        "partition_sha256": data.checksum(),
    }


def recipe_of(config: Any) -> dict[str, Any]:
    """Type and options of a component, without lists and parts (of clients, of a network)."""
    if not isinstance(config, Mapping):
        return {"type": type(config).__name__}
    scalars = (str, int, float, bool)
    return {k: v for k, v in config.items() if v is None or isinstance(v, scalars)}


def configured(cfg: Config) -> dict[str, Any]:
    """The fields of ``results.json`` that a complete config alone decides."""
    train = cfg.train_cfg
    steps = train.get("local_steps")
    begin = cfg.get("load_from")
    return {
        "setting": cfg.get("setting"),
        "methods": cfg.get("methods"),
        "load_from": None if begin is None else str(begin),
        "config_sha256": config_digest(cfg),
        "experiment_sha256": experiment_digest(cfg),
        "seed": cfg.randomness.seed,
        "rounds": train.max_rounds,
        "model": {
            "type": cfg.model["type"],
            "network": (cfg.model.get("network") or {}).get("type"),
            "options": {k: v for k, v in recipe_of(cfg.model).items() if k != "type"},
        },
        **{name: cfg[name].to_dict() if cfg.get(name) else None for name in COMPONENTS},
        "amp": bool(train.get("amp", False)),
        "protocol": protocol_of(cfg),
        "local_epochs": (train.get("local_epochs") or 1) if steps is None else None,
        "local_steps": steps,
    }


def summarized(history: list[dict[str, Any]], max_rounds: int, window: int) -> dict[str, Any]:
    """The fields of ``results.json`` that its history alone decides.

    ``window``: rounds at the end over which metrics are averaged.
    """
    participants = [len(r["participants"]) for r in history] or [0]
    evaluated = [r["round"] for r in history if "metrics" in r]
    return {
        "clients_per_round": {"min": min(participants), "max": max(participants)},
        "final_round": evaluated[-1] if evaluated else None,
        "last_rounds": window_statistics(history, max_rounds, window),
        "curves": curves(history),
        "communication": {
            name: sum(r[name] for r in history) for name in ("bytes_down", "bytes_up")
        },
        "rejected_updates": sum(len(r["rejected"]) for r in history),
    }


def write_results(runner: FinishedRun) -> dict[str, Any]:
    """Write ``results.json`` into the work dir, atomically; returns its content."""
    cfg, data, done = runner.cfg, runner.data, runner.train_loop.round
    runner.history.verify(done, runner.history.checksums)  # it may be touched while a run runs
    history = runner.history.read()
    final = next((r["metrics"] for r in reversed(history) if "metrics" in r), {})
    loop = runner.val_loop
    details, sets = ({}, []) if loop is None else (loop.details, loop.sets)
    seconds = {k: sum(r["seconds"][k] for r in history) for k in ("train", "aggregate", "evaluate")}
    says = configured(cfg)
    results = {
        "schema_version": RESULTS_SCHEMA_VERSION,
        "name": runner.name,
        **says,
        "config_json_sha256": sha256(Path(runner.work_dir) / CONFIG_FILE),
        "versions": package_versions(),
        "device": str(runner.flat.w.device),
        "hardware": hardware(runner.flat.w.device),
        "completed_rounds": done,
        "model": {**says["model"], "parameters": runner.flat.num_parameters},
        "data": {
            "train": train_entry(data, cfg.train_dataloader),
            **{
                f"test:{s.name}": dataset_entry(s.dataset, cfg.val_dataloader[s.name]) for s in sets
            },
        },
        "final": by_domain(final, details),
        **summarized(history, runner.max_rounds, runner.train_loop.val_last_rounds),
        "seconds": {**seconds, "wall": runner.seconds},
        "threads": torch.get_num_threads(),
        "environments": runner.environments,
        "history_sha256": digest(timeless(history)),
    }
    for hook in runner.hooks:
        if hasattr(hook, "results"):
            results |= hook.results(runner, history)
    results[OWN_DIGEST] = own_digest(results)
    write_text(Path(runner.work_dir) / FILE_NAME, json.dumps(plain(results), indent=2) + "\n")
    return results
