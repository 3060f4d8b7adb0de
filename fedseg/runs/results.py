"""``results.json``: the evidence of a finished run."""

import json
import platform
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

import torch
from mmengine.config import Config

import fedseg
from fedseg.core.client_data import ClientData
from fedseg.core.hook import Run
from fedseg.datasets.arrays import ImageArrays, content_checksum, is_rendered
from fedseg.errors import DataError
from fedseg.files import digest, sha256, write_text
from fedseg.metric_names import nest
from fedseg.runs.config import CONFIG_FILE, config_digest, experiment_digest
from fedseg.runs.history import History, plain, summarize, timeless
from fedseg.runs.schema import (
    FILE_NAME,
    OWN_DIGEST,
    RESULTS_SCHEMA_VERSION,
    own_digest,
    read_results_file,
)

PACKAGES = (
    *("torch", "torchvision", "numpy", "onedl-mmengine", "onedl-mmcv", "onedl-mmsegmentation"),
    *("albumentations", "opencv-python-headless", "timm"),
)
LARGEST_CONTENT = 2**29  # bytes of images whose checksum is computed after a run


class FinishedRun(Run, Protocol):
    """A runner whose results are written."""

    cfg: Config
    data: ClientData
    history: History
    train_loop: Any
    val_loop: Any
    name: str
    seed: int
    seconds: float
    environments: list[dict[str, Any]]
    initial_sha256: str | None
    hooks: list[Any]
    trainer: Any


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
    """Threads, device, hardware and versions, on which the last digits of a computation depend.

    On CUDA also whether products are rounded to TF32, and whether its kernels are deterministic.
    """
    facts = {
        "threads": torch.get_num_threads(),
        "device": str(device),
        "hardware": hardware(device),
    }
    if device.type == "cuda":
        facts["tf32_matmul"] = torch.get_float32_matmul_precision() != "highest"
        facts["tf32_convolution"] = torch.backends.cudnn.allow_tf32
        facts["deterministic"] = torch.are_deterministic_algorithms_enabled()
    return {**facts, **package_versions()}


def dataset_facts(dataset: Any) -> dict[str, Any]:
    """The fields of :class:`fedseg.runs.schema.DataFacts` that every data set has."""
    facts = {
        "dataset": type(dataset).__name__,
        "samples": len(dataset),
        "synthetic": is_rendered(dataset),
        "split_checksum": getattr(dataset, "split_checksum", None),
        "content_sha256": None,
        "unofficial": getattr(dataset, "unofficial", False),
    }
    if isinstance(dataset, ImageArrays) and dataset.images.nbytes <= LARGEST_CONTENT:
        facts["content_sha256"] = content_checksum(dataset.images, dataset.labels)
    return facts


def train_facts(data: Any) -> dict[str, Any]:
    """The fields of :class:`fedseg.runs.schema.DataFacts` of a training set with its clients."""
    facts = dataset_facts(data.dataset)
    facts["samples"] = sum(data.sizes)
    facts["clients"] = len(data.clients)
    facts["partition_sha256"] = data.checksum()
    return facts


def test_facts(test: Any) -> dict[str, Any]:
    """The fields of :class:`fedseg.runs.schema.DataFacts` of a test set."""
    facts = dataset_facts(test.dataset)
    facts["samples"] = len(test.samples)
    return facts


def write_results(runner: FinishedRun) -> dict[str, Any]:
    """Write ``results.json`` into the work dir, atomically; returns its content."""
    runner.history.check()  # others may write it
    history = runner.history.read()
    summary, loop = summarize(history), runner.val_loop
    final = next((r["metrics"] for r in reversed(history) if "metrics" in r), {})
    sets = [] if loop is None else loop.sets
    path, history_sha256 = Path(runner.work_dir) / FILE_NAME, digest(timeless(history))
    results = {
        "schema_version": RESULTS_SCHEMA_VERSION,
        "name": runner.name,
        "seed": runner.seed,
        "year": _year(path, history_sha256),
        "config_sha256": config_digest(runner.cfg),
        "experiment_sha256": experiment_digest(runner.cfg),
        "config_json_sha256": sha256(Path(runner.work_dir) / CONFIG_FILE),
        "versions": package_versions(),
        "device": str(runner.flat.w.device),
        "hardware": hardware(runner.flat.w.device),
        "threads": torch.get_num_threads(),
        "environments": runner.environments,
        "parameters": runner.flat.num_parameters,
        "initial_sha256": runner.initial_sha256,
        "data": {
            "train": train_facts(runner.data),
            **{f"test:{test.name}": test_facts(test) for test in sets},
        },
        **summary,
        "seconds": {**summary["seconds"], "wall": runner.seconds},
        "final": nest(final, {} if loop is None else loop.details),
        "history_sha256": history_sha256,
    }
    for part in (*runner.hooks, loop):
        if hasattr(part, "results"):
            results |= part.results(runner, history) or {}  # of a hook that returns nothing
    for postprocessor in runner.trainer.postprocessors:
        results |= postprocessor.results(len(history))
    results = plain(results)
    results[OWN_DIGEST] = own_digest(results)
    write_text(path, json.dumps(results, indent=2) + "\n")
    return results


def _year(path: Path, history_sha256: str) -> int | None:
    """The year in which the last round was finished.

    That is now, unless results of the same rounds are there already and are only written again.
    """
    try:
        earlier = read_results_file(path)
    except DataError:  # there are none, or they are damaged
        return date.today().year
    same_rounds = earlier.history_sha256 == history_sha256
    return earlier.year if same_rounds else date.today().year
