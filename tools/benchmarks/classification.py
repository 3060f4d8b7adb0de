"""A round of a small classifier beside a loop without the engine.

All sides train the same network on the same resident images in one process, in turns. A round of
the engine is what the training loop runs: sampling, broadcast, clients, validation, sum, server
step, history. Evaluation, which does not come with every round, is timed apart.
"""

import statistics
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from benchmarks.engine import CONFIGS, EngineRounds, build, describe, local_optimizer, strip
from benchmarks.hand_written import FLIP, PADDING, HandWritten
from benchmarks.timing import alternate, clocked, median_ratio, medians
from mmengine.config import Config
from torch import Tensor

from fedseg.datasets.arrays import write_images
from fedseg.errors import ConfigError
from fedseg.loaders.resident import ResidentData
from fedseg.models.classifier import Classifier
from fedseg.runner.experiment import load_config, naming
from fedseg.runner.runner import FederatedRunner

RHO = 0.1
PRECISIONS = {"float32": False, "bfloat16": True}
SETTING = CONFIGS / "settings" / "cifar10_a005.py"
Side = EngineRounds | HandWritten


def adapt(config: Config, clients: int, samples: int, test_images: int) -> Config:
    """Make an experiment's config one of the benchmark; it is changed.

    Where its data are not there, they are noise: so many samples per client and test images.
    """
    strip(config, clients)
    config.train_cfg.update(local_epochs=1, amp=False)
    between = {n: c for n, c in config.val_dataloader.items() if not c.get("final_only")}
    config.val_dataloader = between
    root = Path(config.get("data_root") or config.train_dataloader.dataset.data_root)
    if not (root / "dataset.json").is_file():
        root, clients = Path(config.work_dir) / "noise", 2 * clients
        if not (root / "dataset.json").is_file():  # another config's in the same folder
            write_noise(root, clients * samples, test_images)
        config.data_root = str(root)
        partition = {"type": "HomogeneousPartition", "num_clients": clients}
        config.train_dataloader.partition = partition
    return config


def write_noise(root: Path, train: int, test: int) -> None:
    """A prepared folder of random images: what they show does not change how long they take."""
    rng = np.random.default_rng(0)
    sets = [
        (rng.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8), np.arange(n) % 10)
        for n in (train, test)
    ]
    write_images(root, "noise", [f"class {i}" for i in range(10)], *sets, synthetic=True)


def make_sides(runner: FederatedRunner, amp: bool) -> dict[str, Side]:
    """The timed sides by name; a name ends with its precision."""
    optimizer = dict(runner.cfg.optim_wrapper.optimizer)
    if optimizer.pop("type") != "SGD":
        raise ConfigError("optim_wrapper.optimizer.type: the benchmark needs SGD")
    optimizer.pop("fused", None)
    arguments = {
        "model": runner.model,
        "data": runner.data,
        "optimizer": optimizer,
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
    return sides


def _normalization(runner: FederatedRunner) -> dict[str, Any]:
    """Mean and std, if the augmentation is the one that the loop writes out."""
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


def largest_difference(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    """Between weights of the same names."""
    return max(float((w - b[name]).abs().max()) for name, w in a.items())


def check_first_round(sides: dict[str, Side], precision: str) -> float:
    """Run a round of FedAvg by hand and by the engine: the largest difference of the weights.

    Raises:
        RuntimeError: they do not do the same work, so that times would mean nothing.
    """
    engine, loop = sides[f"FedAvg, {precision}"], sides[f"hand-written, {precision}"]
    start = {name: w.clone() for name, w in engine.weights().items()}
    engine()
    loop()
    gap = largest_difference(engine.weights(), loop.w)
    if not gap < 0.1 * largest_difference(engine.weights(), start):
        raise RuntimeError(f"{precision}: the loop is {gap} away from the engine's weights")
    return gap


def classification(
    folder: Path,
    config: Annotated[Path, "an experiment with small images"] = SETTING,
    clients: Annotated[int, "per round"] = 5,
    samples: Annotated[int, "images per client, noise if the data set is not there"] = 500,
    test_images: Annotated[int, "noise likewise"] = 10_000,
    repeats: Annotated[int, "alternating runs"] = 5,
    amp: Annotated[bool, "bfloat16 in addition to float32"] = False,
    cfg_options: Annotated[list[str], "KEY=VALUE"] = [],  # noqa: B006
) -> dict[str, Any]:
    """Rounds of the engine and of a hand-written loop, in turns; medians over the repeats."""
    cfg = load_config(config, work_dir=folder, options=cfg_options)
    with naming(cfg):
        return measure(adapt(cfg, clients, samples, test_images), repeats, amp)


def measure(config: Config, repeats: int, amp: bool) -> dict[str, Any]:
    """Time the rounds of an adapted config."""
    runner = build(config)
    sides = make_sides(runner, amp)
    precisions = {p: used for p, used in PRECISIONS.items() if f"FedAvg, {p}" in sides}
    differences = {precision: check_first_round(sides, precision) for precision in precisions}
    seconds = alternate(sides, repeats)
    measured: dict[str, Any] = {
        **describe(runner, runner.client_sampler.participants(1)),
        "seconds per round": medians(seconds),
    }
    for title, one, other in (
        ("engine / hand-written", "FedAvg, {}", "hand-written, {}"),
        ("FedSAM / FedAvg", "FedSAM, {}", "FedAvg, {}"),
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
