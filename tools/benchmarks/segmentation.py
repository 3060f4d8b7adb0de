"""Steps of a segmentation round beside a hand-written loop, waits for data, memory, and heads.

Both sides train the same network on the same batches in one process, in turns. The hand-written
loop is what one would write without any framework: forward, backward, ``torch.optim.SGD``, nothing
else.
"""

import copy
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import torch
from benchmarks.engine import (
    EngineRounds,
    build,
    fix_participants,
    local_optimizer,
    strip,
    use_data,
)
from benchmarks.timing import alternate, in_own_process, median_ratio, medians, peak
from mmengine.config import Config
from mmengine.utils import import_modules_from_strings
from torch import nn

from fedseg.core.client_data import ClientData, Job, JobStream
from fedseg.registry import MODELS
from fedseg.runner.runner import FederatedRunner

MEMORY_CLIENTS = (5, 50)
WAITING_ROUNDS = 3
RHO = 0.01
HEADS = {"FedDrive": "FedDriveBiSeNetV2Segmentor", "MMSegmentation": "BiSeNetV2Segmentor"}
INPUT = (512, 928)  # IDDA's


class RecordedData(ClientData):
    """Each client's batches from memory, so that loading is not what is timed."""

    def __init__(self, source: ClientData, clients: list[int]) -> None:
        self.clients, self.sizes = source.clients, source.sizes
        jobs = [Job(1, 0, client) for client in clients]
        source.start(jobs)
        self.recorded = {job.client: list(source.batches(job)) for job in jobs}
        source.close()

    def num_steps(self, client: int) -> int:
        return len(self.recorded[client])

    def batches(self, job: Job) -> Iterator[Any]:
        yield from self.recorded[job.client]


def hand_written(runner: FederatedRunner, batches: list[Any], amp: bool) -> Callable[[], None]:
    """A loop over the batches with a copy of the model, its parameters ordinary ones again."""
    model = copy.deepcopy(runner.model)
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()
        parameter.grad = None
    options = {k: v for k, v in runner.cfg.optim_wrapper.optimizer.items() if k != "type"}
    return training(model, options, batches, amp)


def training(
    model: nn.Module, options: dict[str, Any], batches: list[Any], amp: bool
) -> Callable[[], None]:
    """Forward, backward and ``torch.optim.SGD`` on each batch."""
    model.to(memory_format=torch.channels_last)  # as the engine's
    optimizer = torch.optim.SGD(model.parameters(), **options)
    device = next(model.parameters()).device.type

    def run() -> None:
        model.train()
        for batch in batches:
            data = model.data_preprocessor(batch, training=True)
            with torch.autocast(device, dtype=torch.bfloat16, enabled=amp):
                losses = model(**data, mode="loss")
                loss = sum(value for name, value in losses.items() if "loss" in name)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()

    return run


def segmentation(config: Config, repeats: int, clients: int, local_steps: int) -> dict[str, Any]:
    """Time the engine against the hand-written loop, and SAM against SGD; measure waits for data.

    The config is changed: so many clients take part, with 12 local steps as in FedDrive (48 images,
    2 epochs, batches of 8) or others.
    """
    strip(config, clients)
    config.train_cfg.update(local_epochs=None, local_steps=local_steps)
    runner = build(config)
    chosen, source = fix_participants(runner), runner.data
    data = RecordedData(source, chosen)
    batches = [batch for client in chosen for batch in data.recorded[client]]
    sgd = local_optimizer(runner, type="OptimWrapper")
    sam = local_optimizer(runner, type="SAMOptimWrapper", rho=RHO)
    waiting = EngineRounds(runner, sgd)
    use_data(runner, data)
    sides = {
        "hand-written loop": hand_written(runner, batches, runner.trainer.amp),
        "engine, SGD": EngineRounds(runner, sgd),
        "engine, SAM": EngineRounds(runner, sam),
    }
    seconds = alternate(sides, repeats)
    use_data(runner, source)
    return {
        "steps": len(batches),
        "seconds per step": {name: m / len(batches) for name, m in medians(seconds).items()},
        "engine / hand-written": median_ratio(seconds, "engine, SGD", "hand-written loop"),
        "SAM / SGD": median_ratio(seconds, "engine, SAM", "engine, SGD"),
        "waiting for data / training": _waiting(waiting),
    }


def _waiting(rounds: EngineRounds) -> float:
    """Share of the training that waits for the loader, the first round left out."""
    run = rounds.runner
    jobs = JobStream(run.client_sampler.participants, 1, WAITING_ROUNDS + 1)
    run.data.start(jobs)
    try:
        for _ in range(WAITING_ROUNDS + 1):
            rounds()
    finally:
        run.data.close()
    return statistics.fmean(rounds.share("data_wait", "train", WAITING_ROUNDS))


def memory(config: Config) -> dict[str, float]:
    """Peak memory (MiB) of a round with 5 and with 50 clients, each in a process of its own."""
    peaks = [in_own_process(peak_of_round, config, clients) for clients in MEMORY_CLIENTS]
    few, many = (f"{clients} clients" for clients in MEMORY_CLIENTS)
    return {few: peaks[0], many: peaks[1], "ratio": peaks[1] / peaks[0]}


def peak_of_round(config: Config, clients: int) -> float:
    """Peak memory of this process, MiB, after one round of one local step per client."""
    if config.get("custom_imports"):  # this process has not read the file
        import_modules_from_strings(**config.custom_imports)
    strip(config, clients)
    config.train_cfg.update(max_rounds=1, local_epochs=None, local_steps=1)
    config.val_dataloader = config.val_evaluator = config.val_cfg = None
    config.train_dataloader.num_workers = 0
    FederatedRunner.from_cfg(config).train()
    return peak()


def heads(batch_size: int, repeats: int, amp: bool, size: tuple[int, int] = INPUT) -> dict:
    """A training step of BiSeNetV2 with OHEM and auxiliary heads: FedDrive's, MMSegmentation's.

    Random images of 16 classes; peak memory of two steps, each network in a process of its own.
    """
    shape = (batch_size, size, amp)
    # First: a new process's peak is at least that of the one which started it.
    peaks = {name: in_own_process(peak_of_steps, kind, *shape) for name, kind in HEADS.items()}
    seconds = alternate({name: step_of(kind, *shape) for name, kind in HEADS.items()}, repeats)
    return {
        "batch size": batch_size,
        "seconds per step": medians(seconds),
        "FedDrive / MMSegmentation": median_ratio(seconds, *HEADS),
        "peak memory, MiB": peaks,
    }


def step_of(kind: str, batch_size: int, size: tuple[int, int], amp: bool) -> Callable[[], None]:
    """A training step of a new model on one batch of random images."""
    model = MODELS.build({"type": kind, "num_classes": 16})
    model.init_weights()
    batch = {
        "inputs": torch.randint(0, 256, (batch_size, 3, *size), dtype=torch.uint8),
        "data_samples": torch.randint(0, 16, (batch_size, *size), dtype=torch.uint8),
    }
    return training(model, {"lr": 0.1, "momentum": 0.9}, [batch], amp)


def peak_of_steps(kind: str, *shape: Any) -> float:
    """Peak memory of this process, MiB, after two training steps."""
    step = step_of(kind, *shape)
    step()
    step()
    return peak()
