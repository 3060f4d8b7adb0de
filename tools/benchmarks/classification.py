"""A round of a small classifier beside loops without the engine.

All sides train the same network on the same resident images in one process, in turns. A round of
the engine is what the training loop runs: sampling, broadcast, clients, validation, sum, server
step, history. Evaluation, which does not come with every round, is timed apart.
"""

import statistics
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.engine import EngineRounds, build, device_name, local_optimizer, strip
from benchmarks.hand_written import FLIP, PADDING, HandWritten, LoaderPerClient, PlainFedAvg
from benchmarks.timing import alternate, clocked, median_ratio, medians
from mmengine.config import Config
from torch import Tensor

from fedseg.datasets.arrays import write_images
from fedseg.errors import ConfigError
from fedseg.loaders.resident import ResidentData
from fedseg.models.classifier import Classifier
from fedseg.runner.runner import FederatedRunner

RHO = 0.1
PRECISIONS = {"float32": False, "bfloat16": True}
LOADER = "DataLoader for each client, float32"
Side = EngineRounds | PlainFedAvg


def write_random_images(root: Path, clients: int, samples: int, test_images: int) -> None:
    """A prepared folder of noise: what an image shows does not change how long it takes."""
    rng = np.random.default_rng(0)
    train, test = (
        (rng.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8), np.arange(count) % 10)
        for count in (clients * samples, test_images)
    )
    write_images(root, "noise", [f"class {i}" for i in range(10)], train, test, synthetic=True)


def adapt(config: Config, clients: int, samples: int, test_images: int) -> Config:
    """Make an experiment's config one of the benchmark; it is changed.

    Where its data are not there, they are random: so many samples per client and test images.
    """
    strip(config, clients)
    config.train_cfg.update(local_epochs=1, amp=False)
    between = {n: c for n, c in config.val_dataloader.items() if not c.get("final_only")}
    config.val_dataloader = between
    root = Path(config.get("data_root") or config.train_dataloader.dataset.data_root)
    if not (root / "dataset.json").is_file():
        root, clients = Path(config.work_dir) / "noise", 2 * clients
        if not (root / "dataset.json").is_file():  # another config's in the same folder
            write_random_images(root, clients, samples, test_images)
        config.data_root = str(root)
        partition = {"type": "HomogeneousPartition", "num_clients": clients}
        config.train_dataloader.partition = partition
    return config


def _normalization(runner: FederatedRunner) -> dict[str, Any]:
    """Mean and std, if the augmentation is the one that the loops write out."""
    steps = getattr(getattr(runner.data, "pipeline", None), "steps", [])
    names = [type(step).__name__ for step in steps]
    shape = tuple(runner.data.dataset.images.shape[1:]) if names else ()
    if (
        not isinstance(runner.data, ResidentData)
        or not isinstance(runner.model, Classifier)
        or names != ["RandomCrop", "RandomFlip", "Normalize"]
        or (steps[0].padding, steps[0].size, steps[1].prob) != (PADDING, None, FLIP)
        or shape[0] != shape[1]
        or np.prod(shape) % 8
        or runner.data.batch_size == "full"
    ):
        raise ConfigError(
            "train_dataloader: the benchmark needs square ResidentData images of a Classifier "
            f"with RandomCrop(padding={PADDING}), RandomFlip(prob={FLIP}) and Normalize"
        )
    return {"mean": steps[2].mean, "std": steps[2].std}


def make_sides(runner: FederatedRunner, amp: bool) -> dict[str, Side]:
    """What is timed, by name; a name ends with its precision."""
    options = dict(runner.cfg.optim_wrapper.optimizer)
    if options.get("type") != "SGD":
        raise ConfigError("optim_wrapper.optimizer.type: the benchmark needs SGD")
    arguments = {
        "model": runner.model,
        "data": runner.data,
        "optimizer": {k: v for k, v in options.items() if k not in ("type", "fused")},
        "participants": runner.client_sampler.participants,
        **_normalization(runner),
    }
    fedavg = local_optimizer(runner, type="OptimWrapper")
    fedsam = local_optimizer(runner, type="SAMOptimWrapper", rho=RHO)
    sides: dict[str, Side] = {}
    for precision, used in list(PRECISIONS.items())[: 1 + amp]:
        sides[f"hand-written, {precision}"] = HandWritten(**arguments, amp=used)
        sides[f"FedAvg, {precision}"] = EngineRounds(runner, fedavg, used)
        sides[f"FedSAM, {precision}"] = EngineRounds(runner, fedsam, used)
    return {**sides, LOADER: LoaderPerClient(**arguments)}


def largest_difference(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    """Between weights of the same names."""
    return max(float((w - b[name]).abs().max()) for name, w in a.items())


def check_first_round(sides: dict[str, Side]) -> dict[str, float]:
    """Run a round of FedAvg by hand and by the engine: the largest difference of the weights.

    Raises:
        RuntimeError: they do not do the same work, so that times would mean nothing.
    """
    found = {}
    for precision in (p for p in PRECISIONS if f"FedAvg, {p}" in sides):
        engine, loop = sides[f"FedAvg, {precision}"], sides[f"hand-written, {precision}"]
        start = {name: w.clone() for name, w in engine.weights().items()}
        engine()
        loop()
        moved = largest_difference(engine.weights(), start)
        found[precision] = gap = largest_difference(engine.weights(), loop.weights())
        if not gap < 0.1 * moved:
            raise RuntimeError(f"{precision}: the loop is {gap} away from the engine's weights")
    return found


def classification(config: Config, repeats: int, amp: bool) -> dict[str, Any]:
    """Time rounds of the engine and of the loops, in turns; with ``amp`` in bfloat16 too.

    Returns:
        What was measured, by name; seconds, shares and ratios are medians over the repeats.
    """
    runner = build(config)
    sides = make_sides(runner, amp)
    differences = check_first_round(sides)
    seconds = alternate(sides, repeats)
    chosen = runner.client_sampler.participants(1)
    measured: dict[str, Any] = {
        "device": device_name(runner),
        "clients per round": len(chosen),
        "steps per round": sum(runner.data.num_steps(client) for client in chosen),
        "seconds per round": medians(seconds),
    }
    precisions = {p: amp for p, amp in PRECISIONS.items() if f"FedAvg, {p}" in sides}
    for title, one, other in (
        ("engine / hand-written", "FedAvg, {}", "hand-written, {}"),
        ("FedSAM / FedAvg", "FedSAM, {}", "FedAvg, {}"),
        (f"{LOADER} / engine", LOADER, "FedAvg, {}"),
    ):
        measured[title] = {
            p: median_ratio(seconds, one.format(p), other.format(p)) for p in precisions
        }
    measured["outside of clients' training / round"] = {
        name: 1 - statistics.median(side.share("train", "whole", repeats))
        for name, side in sides.items()
        if isinstance(side, EngineRounds)
    }
    measured["largest difference of weights after a round, engine - hand-written"] = differences
    images = sum(len(test.dataset) for test in runner.val_loop.sets)
    evaluations = measured[f"seconds per evaluation of {images:,} images"] = {}
    for precision, used in precisions.items():
        runner.cfg.train_cfg["amp"] = used
        _, *times = (clocked(runner.val_loop.run) for _ in range(repeats + 1))
        evaluations[precision] = statistics.median(times)
    return measured
