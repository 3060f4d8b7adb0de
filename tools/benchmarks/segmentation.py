"""A segmentation round beside a hand-written loop, and its memory: ``tools/benchmark.py``.

Both sides train the same network on the same batches in one process, alternating, so that a drift
of the machine's speed hits both; medians are reported. The hand-written loop is what one would
write without any framework: forward, backward, ``torch.optim.SGD``, nothing else.
"""

import copy
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from benchmarks.pairs import compare
from torch import nn

from fedseg.core.client_data import ClientData, Job, JobStream
from fedseg.core.forward import forward, prepare_batch, total_loss
from fedseg.core.server import Aggregate
from fedseg.errors import ConfigError
from fedseg.optim import OptimWrapper, build_local_optimizer
from fedseg.runner.runner import FederatedRunner

MEMORY_CLIENTS = (5, 50)


class RecordedData(ClientData):
    """Clients' batches from memory, so that loading is not what is timed."""

    def __init__(self, source: ClientData, jobs: list[Job]) -> None:
        self.clients, self.sizes = source.clients, source.sizes
        source.start(jobs)
        self.recorded = {job: list(source.batches(job)) for job in jobs}
        source.close()

    def num_steps(self, client: int) -> int:
        return next(len(b) for job, b in self.recorded.items() if job.client == client)

    def start(self, jobs: Any) -> None:
        """Nothing to prepare."""

    def batches(self, job: Job) -> Iterator[Any]:
        yield from self.recorded[job]


def raw_round(runner: FederatedRunner, batches: list[Any], amp: bool) -> Callable[[], None]:
    """A hand-written loop over the batches with a copy of the model."""
    model = _unflattened(runner)
    options = {k: v for k, v in runner.cfg.optim_wrapper.optimizer.items() if k != "type"}
    optimizer = torch.optim.SGD(model.parameters(), **options)
    device = runner.flat.w.device.type

    def run() -> None:
        model.train()
        for batch in batches:
            data = prepare_batch(model, batch, runner.flat.w.dtype, training=True)
            with torch.autocast(device, dtype=torch.bfloat16, enabled=amp):
                loss = total_loss(forward(model, data, "loss"))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()

    return run


def _unflattened(runner: FederatedRunner) -> nn.Module:
    """A copy of the model with ordinary parameters, channels_last as the engine's."""
    model = copy.deepcopy(runner.model)
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()
        parameter.grad = None
    return model.to(memory_format=torch.channels_last)


def engine_round(
    runner: FederatedRunner, data: RecordedData, jobs: list[Job], local: OptimWrapper
) -> Callable[[], None]:
    """A round of the engine but for loading and evaluation: clients, gate, sum, server step."""
    loop = runner.train_loop
    clients = [job.client for job in jobs]

    def run() -> None:
        loop.trainer.local = local
        record: dict[str, Any] = {
            "bytes_down": 0,
            "bytes_up": 0,
            "rejected": [],
            "participants": [],
        }
        message = runner.algorithm.broadcast(runner.server)
        updates = Aggregate(runner.algorithm.weightings)
        for result in runner.executor.run(loop._tasks(1, 0, clients), message):
            loop._take(result, updates, record, 0, commit=True)
        runner.algorithm.step(runner.server, updates)
        runner.server.take_buffers(updates)
        runner.store.discard()

    return run


@contextmanager
def _recorded(runner: FederatedRunner, data: RecordedData) -> Iterator[None]:
    before = runner.data, runner.trainer.data
    runner.data = runner.trainer.data = data
    try:
        yield
    finally:
        runner.data, runner.trainer.data = before


def segmentation(config: Any, repeats: int, clients: int, local_steps: int) -> dict[str, Any]:
    """Time the engine against the hand-written loop, and SAM against SGD; measure data waits.

    Args:
        config: an experiment whose data is on disk.
        repeats: alternating runs; medians are reported.
        clients: participants of the round that is timed.
        local_steps: steps of each; 12 are those of FedDrive (48 images, 2 epochs, batches of 8).
    """
    config.averaging = config.batchnorm = None
    config.default_hooks = {"progress": None, "checkpoint": None, "pictures": None}
    config.client_sampler = {"type": "UniformSampler", "clients_per_round": clients}
    config.train_cfg.update(local_epochs=None, local_steps=local_steps)
    amp = bool(config.train_cfg.get("amp", False))
    runner = FederatedRunner.from_cfg(config)
    runner.build_federation()
    runner.server.round = 1
    jobs = [Job(1, 0, client) for client in runner.client_sampler.participants(1)]
    data = RecordedData(runner.data, jobs)
    batches = [batch for job in jobs for batch in data.recorded[job]]

    optimizer = dict(runner.cfg.optim_wrapper.optimizer)
    sgd = build_local_optimizer({"type": "OptimWrapper", "optimizer": optimizer}, runner.flat)
    sam = build_local_optimizer(
        {"type": "SAMOptimWrapper", "rho": 0.01, "optimizer": optimizer}, runner.flat
    )
    start = runner.server.w.clone()
    with _recorded(runner, data):
        seconds = compare(
            {
                "hand-written loop": raw_round(runner, batches, amp),
                "engine, SGD": engine_round(runner, data, jobs, sgd),
                "engine, SAM": engine_round(runner, data, jobs, sam),
            },
            repeats,
        )
    runner.server.w.copy_(start)
    runner.trainer.local = sgd
    medians = {name: statistics.median(values) / len(batches) for name, values in seconds.items()}
    pairs = list(zip(*seconds.values(), strict=True))
    return {
        "steps": len(batches),
        "seconds a step": medians,
        "engine / hand-written": statistics.median(e / r for r, e, _ in pairs),
        "SAM / SGD": statistics.median(s / e for _, e, s in pairs),
        "waiting for data / training": _waiting(runner, rounds=3),
    }


def _waiting(runner: FederatedRunner, rounds: int) -> float:
    """Share of the training time that is spent waiting for the loader, the first round left out."""
    data = runner.data
    data.start(JobStream(runner.client_sampler.participants, 1, rounds + 1))
    train = waited = 0.0
    try:
        for number in range(1, rounds + 2):
            chosen = runner.client_sampler.participants(number)
            before, begin = data.seconds_waiting, time.perf_counter()
            message = runner.algorithm.broadcast(runner.server)
            for _ in runner.executor.run(runner.train_loop._tasks(number, 0, chosen), message):
                pass
            if number > 1:
                train += time.perf_counter() - begin
                waited += data.seconds_waiting - before
    finally:
        data.close()
    return waited / train


def memory(arguments: list[str]) -> dict[str, float]:
    """Peak memory (MiB) of a round with 5 and with 50 clients, each in a process of its own."""
    peaks = {}
    for clients in MEMORY_CLIENTS:
        command = [sys.executable, *arguments, "--memory-of", str(clients)]
        child = subprocess.run(command, capture_output=True, text=True)
        if child.returncode:
            raise ConfigError(f"memory of {clients} clients: {child.stderr.strip()}")
        peaks[clients] = json.loads(child.stdout.splitlines()[-1])["peak_mib"]
    few, many = MEMORY_CLIENTS
    return {
        f"{few} clients": peaks[few],
        f"{many} clients": peaks[many],
        "ratio": peaks[many] / peaks[few],
    }


def peak_of_round(config: Any, clients: int) -> float:
    """Peak resident memory of this process, MiB, after one round of one local step a client."""
    config.averaging = config.batchnorm = None
    config.client_sampler = {"type": "UniformSampler", "clients_per_round": clients}
    config.train_cfg.update(max_rounds=1, local_epochs=None, local_steps=1)
    config.val_dataloader = config.val_evaluator = config.val_cfg = None
    config.test_dataloader = config.test_evaluator = config.test_cfg = None
    config.train_dataloader.num_workers = 0
    config.default_hooks = {"progress": None, "checkpoint": None, "pictures": None}
    runner = FederatedRunner.from_cfg(config)
    runner.train()
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 2**20
