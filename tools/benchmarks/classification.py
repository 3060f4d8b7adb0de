"""A round of a small classifier beside loops without the engine: ``tools/benchmark.py``.

All sides train the same network on the same resident images in one process, in turns, so that a
drift of the machine's speed hits all. A round of the engine is what the training loop runs: who
takes part, broadcast, clients, gate, sum, server step, history. Evaluation and checkpoints, which
do not come with every round, are timed apart.
"""

import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.pairs import compare
from benchmarks.plain_loops import (
    FLIP,
    PADDING,
    GraphedHandWritten,
    HandWritten,
    LoaderPerClient,
    PlainFedAvg,
)
from mmengine.config import Config

from fedseg.datasets.arrays import write_images
from fedseg.errors import ConfigError
from fedseg.hooks import FederatedHook
from fedseg.loaders.resident import ResidentData
from fedseg.models.classifier import Classifier
from fedseg.optim import OptimWrapper, build_local_optimizer
from fedseg.runner.runner import FederatedRunner

ENDLESS = 10**6  # rounds of the run that the timed ones are cut from
RHO = 0.1
PRECISIONS = {"float32": False, "bfloat16": True}


class Records(FederatedHook):
    """Keeps the seconds that the engine notes for each round."""

    def __init__(self) -> None:
        self.seconds: list[dict[str, float]] = []

    def after_round(self, runner: FederatedRunner, record: dict[str, Any]) -> None:
        self.seconds.append(dict(record["seconds"]))


class EngineRound:
    """Rounds of the engine with an optimiser and precision, from the first one on.

    Args:
        runner: built for training, not started. Several of these share it: each has its own
            global model and counts its own rounds.
        local: the local optimiser.
        amp: local training in bfloat16.

    Attributes:
        outside: for each round, the share of its time that no client's training takes.
    """

    def __init__(self, runner: FederatedRunner, local: OptimWrapper, amp: bool = False) -> None:
        self.runner, self.local, self.amp = runner, local, amp
        self.w, self.buffers = runner.server.w.clone(), runner.server.buffers.clone()
        self.round = 0
        self.records = Records()
        self.outside: list[float] = []

    def __call__(self) -> None:
        """Run the next round."""
        runner, loop = self.runner, self.runner.train_loop
        runner.server.w, runner.server.buffers = self.w, self.buffers
        runner.optim_wrapper = loop.trainer.local = self.local
        loop.trainer.amp = self.amp
        loop.round = self.round
        runner._hooks = [self.records]
        begin = time.perf_counter()
        loop._run_round()
        if self.w.is_cuda:
            torch.cuda.synchronize()
        whole = time.perf_counter() - begin
        self.outside.append(1 - self.records.seconds[-1]["train"] / whole)
        self.round = loop.round

    def weights(self) -> dict[str, torch.Tensor]:
        """The global model's parameters by name."""
        return {slot.name: slot.view(self.w) for slot in self.runner.flat.slots}


def write_random_images(root: Path, clients: int, samples: int, test_images: int) -> None:
    """A prepared folder of noise: what an image shows does not change how long it takes."""
    rng = np.random.default_rng(0)
    train, test = (
        (rng.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8), np.arange(count) % 10)
        for count in (clients * samples, test_images)
    )
    write_images(root, "noise", [f"class {i}" for i in range(10)], train, test, synthetic=True)


def adapt(config: Config, clients: int, samples: int, test_images: int) -> Config:
    """Make an experiment's config one of the benchmark; random images if its data are not there.

    Args:
        config: of resident images under crop, flip and normalisation. It is changed.
        clients: participants of a round.
        samples, test_images: a client's images, and those of the test, where they are random.
    """
    config.averaging = config.batchnorm = config.custom_hooks = config.param_scheduler = None
    config.default_hooks = {"progress": None, "checkpoint": None, "pictures": None}
    config.client_sampler = {"type": "UniformSampler", "clients_per_round": clients}
    config.train_cfg.update(
        max_rounds=ENDLESS, val_interval=ENDLESS, val_last_rounds=1, local_epochs=1, amp=False
    )
    between = {n: c for n, c in config.val_dataloader.items() if not c.get("final_only")}
    config.val_dataloader = between
    config.test_dataloader = config.test_evaluator = config.test_cfg = None
    root = Path(config.get("data_root") or config.train_dataloader.dataset.data_root)
    if not (root / "dataset.json").is_file():
        root = Path(config.work_dir) / "noise"
        if not (root / "dataset.json").is_file():  # another config's in the same folder
            write_random_images(root, 2 * clients, samples, test_images)
        config.data_root = str(root)
        config.train_dataloader.partition = {
            "type": "HomogeneousPartition",
            "num_clients": 2 * clients,
        }
    return config


def _normalisation(runner: FederatedRunner) -> dict[str, Any]:
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


def rounds(runner: FederatedRunner, amp: bool) -> dict[str, EngineRound | PlainFedAvg]:
    """What is timed, by name; a name ends with its precision."""
    options = dict(runner.cfg.optim_wrapper.optimizer)
    sgd = {k: v for k, v in options.items() if k not in ("type", "fused")}
    if options.get("type") != "SGD":
        raise ConfigError("optim_wrapper.optimizer.type: the benchmark needs SGD")
    arguments = {
        "model": runner.model,
        "data": runner.data,
        "optimizer": sgd,
        "participants": runner.client_sampler.participants,
        **_normalisation(runner),
    }
    fedavg = build_local_optimizer({"type": "OptimWrapper", "optimizer": options}, runner.flat)
    fedsam = build_local_optimizer(
        {"type": "SAMOptimWrapper", "rho": RHO, "optimizer": options}, runner.flat
    )
    sides: dict[str, EngineRound | PlainFedAvg] = {}
    for precision, used in list(PRECISIONS.items())[: 1 + amp]:
        sides[f"hand-written, {precision}"] = HandWritten(**arguments, amp=used)
        if runner.flat.w.is_cuda:
            sides[f"hand-written CUDA graph, {precision}"] = GraphedHandWritten(
                **arguments, amp=used
            )
        sides[f"FedAvg, {precision}"] = EngineRound(runner, fedavg, used)
        sides[f"FedSAM, {precision}"] = EngineRound(runner, fedsam, used)
    sides["DataLoader a client, float32"] = LoaderPerClient(**arguments)
    return sides


def build(config: Config) -> FederatedRunner:
    """The runner of an adapted config, ready for rounds."""
    runner = FederatedRunner.from_cfg(config)
    runner.build_federation()
    runner.begin = time.perf_counter()
    return runner


def largest_difference(a: EngineRound | PlainFedAvg, b: EngineRound | PlainFedAvg) -> float:
    """Between the weights of two sides."""
    other = b.weights()
    return max(float((w - other[name]).abs().max()) for name, w in a.weights().items())


def classification(config: Config, repeats: int, amp: bool) -> dict[str, Any]:
    """Time rounds of the engine and of the loops, in turns; medians.

    Args:
        config: from :func:`adapt`.
        repeats: timed rounds of each side, after one that is not timed.
        amp: time bfloat16 too.

    Returns:
        Figures by name; shares and ratios are medians over the turns.
    """
    runner = build(config)
    sides = rounds(runner, amp)
    start = {n: slot.view(runner.server.w).clone() for n, slot in _slots(runner).items()}
    differences = _first_round(sides, start)
    seconds = compare(sides, repeats)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    chosen = runner.client_sampler.participants(1)
    steps = sum(runner.data.num_steps(client) for client in chosen)
    device = runner.flat.w.device
    figures: dict[str, Any] = {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "clients a round": len(chosen),
        "steps a round": steps,
        "seconds a round": medians,
        "milliseconds a step": {name: 1000 * m / steps for name, m in medians.items()},
    }
    if runner.flat.w.is_cuda:
        figures["rounds a second"] = {name: 1 / m for name, m in medians.items()}
    ratios = {
        "engine / hand-written": ("FedAvg", "hand-written"),
        "engine / hand-written CUDA graph": ("FedAvg", "hand-written CUDA graph"),
        "FedSAM / FedAvg": ("FedSAM", "FedAvg"),
    }
    for title, (one, other) in ratios.items():
        found = {
            precision: _ratio(seconds, f"{one}, {precision}", f"{other}, {precision}")
            for precision in PRECISIONS
            if f"{other}, {precision}" in seconds
        }
        if found:
            figures[title] = found
    figures["DataLoader a client, float32 / engine"] = {
        precision: _ratio(seconds, "DataLoader a client, float32", f"FedAvg, {precision}")
        for precision in PRECISIONS
        if f"FedAvg, {precision}" in seconds
    }
    figures["outside of clients' training / round"] = {
        name: statistics.median(side.outside[-repeats:])
        for name, side in sides.items()
        if isinstance(side, EngineRound)
    }
    figures["largest difference of weights after a round, engine - hand-written"] = differences
    images = sum(len(test.dataset) for test in runner.val_loop.sets)
    figures[f"seconds an evaluation of {images:,} images"] = {
        precision: _evaluation(runner, used, repeats)
        for precision, used in list(PRECISIONS.items())[: 1 + amp]
    }
    figures["seconds a checkpoint"] = _checkpoint(runner, repeats)
    return figures


def _slots(runner: FederatedRunner) -> dict[str, Any]:
    return {slot.name: slot for slot in runner.flat.slots}


def _first_round(
    sides: dict[str, EngineRound | PlainFedAvg], start: dict[str, torch.Tensor]
) -> dict[str, float]:
    """Run a round of FedAvg by hand and by the engine: how far the two ends lie apart.

    Raises:
        RuntimeError: they do not do the same work, so that times would mean nothing.
    """
    found = {}
    for precision in PRECISIONS:
        engine = sides.get(f"FedAvg, {precision}")
        if engine is None:
            continue
        engine()
        moved = max(float((w - start[n]).abs().max()) for n, w in engine.weights().items())
        for name in ("hand-written", "hand-written CUDA graph"):
            side = sides.get(f"{name}, {precision}")
            if side is None:
                continue
            side()
            found[f"{name}, {precision}"] = gap = largest_difference(engine, side)
            if not gap < 0.1 * moved:
                raise RuntimeError(f"{name}, {precision}: is {gap} away from the engine's weights")
    return found


def _ratio(seconds: dict[str, list[float]], one: str, other: str) -> float:
    return statistics.median(a / b for a, b in zip(seconds[one], seconds[other], strict=True))


def _evaluation(runner: FederatedRunner, amp: bool, repeats: int) -> float:
    runner.cfg.train_cfg["amp"] = amp
    times = []
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        runner.val_loop.run()
        times.append(time.perf_counter() - begin)
    runner.cfg.train_cfg["amp"] = False
    return statistics.median(times[1:])


def _checkpoint(runner: FederatedRunner, repeats: int) -> float:
    times = []
    for number in range(repeats + 1):
        begin = time.perf_counter()
        runner.save(number)
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])
