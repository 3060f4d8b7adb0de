"""The plan of a run, made without running it: the content of ``fedseg train --dry-run``."""

import itertools
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from fedseg.core.client_data import ClientData, Job
from fedseg.core.messages import Task, num_bytes
from fedseg.core.server import Server
from fedseg.engine.trainer import ClientTrainer
from fedseg.evaluation.sets import EvaluationSet
from fedseg.memory import restoring_threads
from fedseg.runner.runner import FederatedRunner
from fedseg.units import format_bytes, format_duration, peak_memory

TIMED_STEPS = 3
PATIENCE = 5  # seconds of local steps after which no further ones are timed


@dataclass(frozen=True)
class Plan:
    """What a run will take; seconds are estimates from this machine in its present state."""

    clients: int
    clients_per_round: float  # median over the rounds
    training_images: int
    test_images: dict[str, int]  # by test set
    rounds: int
    evaluations: int
    bytes_down: int  # of a round with as many clients
    bytes_up: int
    peak_memory: int  # bytes, of the rehearsal in this process; on CUDA of the GPU
    seconds_per_step: float
    seconds_per_test_batch: float
    seconds: float  # of the whole run in one process


@restoring_threads()  # an executor may set their number
def make_plan(runner: FederatedRunner) -> Plan:
    """Build the federation, rehearse a round with one client, time a test batch, count the rest.

    Nothing is written to the work dir's history or checkpoints. What hooks do is not timed.
    """
    runner.build_federation()
    for postprocessor in runner.trainer.postprocessors:
        postprocessor.check(runner)
    data, server = runner.data, runner.server
    most_steps = max(range(len(data.clients)), key=data.num_steps)
    rehearsal = rehearse(runner.trainer, server, most_steps)
    participants = []
    for round_ in range(1, runner.max_rounds + 1):
        participants.append(runner.client_sampler.participants(round_))
    steps = sum(_steps_of_round(runner, clients) for clients in participants)
    clients_per_round = statistics.median(map(len, participants))
    tests = runner.val_loop.sets if runner.val_loop is not None else []
    seconds_per_test_image = _time_test_image(runner, tests[0]) if tests else 0.0
    training = steps * rehearsal.step_seconds
    testing = _predictions(runner) * seconds_per_test_image
    return Plan(
        clients=len(data.clients),
        clients_per_round=clients_per_round,
        training_images=sum(data.sizes),
        test_images={test.name: len(test.samples) for test in tests},
        rounds=runner.max_rounds,
        evaluations=_evaluations(runner),
        bytes_down=round(rehearsal.down * clients_per_round),
        bytes_up=round(rehearsal.up * clients_per_round),
        peak_memory=_peak_memory(server.w.device),
        seconds_per_step=rehearsal.step_seconds,
        seconds_per_test_batch=seconds_per_test_image * tests[0].batch_size if tests else 0.0,
        seconds=training + testing,
    )


def _steps_of_round(runner: FederatedRunner, clients: list[int]) -> int:
    """Local steps of a round; a batch of a full gradient counts as one."""
    data, steps = runner.data, 0
    for exchange in runner.algorithm.exchanges:
        for client in clients:
            if exchange.train:
                steps += data.num_steps(client)
            if exchange.full_gradient:
                steps += len(data.full_sizes(client))
    return steps


def _evaluations(runner: FederatedRunner) -> int:
    """The number of evaluations of the run."""
    if runner.val_loop is None:
        return 0
    loop = runner.train_loop
    rounds = range(1, runner.max_rounds + 1)
    return int(loop.val_initial) + sum(loop.evaluates(round_) for round_ in rounds)


def _predictions(runner: FederatedRunner) -> int:
    """The number of test images that the run predicts; its last evaluation may have more sets."""
    if runner.val_loop is None:
        return 0
    last = runner.val_loop.num_predictions(runner.max_rounds)
    return (_evaluations(runner) - 1) * runner.val_loop.num_predictions(0) + last


def _time_test_image(runner: FederatedRunner, test: EvaluationSet) -> float:
    """Seconds that a test image takes: of two batches after a first one, unless that is slow."""
    server = runner.server
    for count in (1, 2):  # the first one warms up
        chosen = test.samples[: count * test.batch_size]
        begin = _now(server.w.device)
        runner.val_loop.domains.predict_samples(test, chosen, server.w, server.buffers)
        seconds = _now(server.w.device) - begin
        seconds_per_image = seconds / len(chosen)
        if seconds > PATIENCE:
            break
    return seconds_per_image


def _peak_memory(device: torch.device) -> int:
    """Bytes of memory used at most: of the GPU, or of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return peak_memory() or 0


def _now(device: torch.device) -> float:
    """The time in seconds, once a GPU has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


class _FewBatches(ClientData):
    """The first batches of every job; notes how long each keeps its taker busy."""

    def __init__(self, source: ClientData, count: int, device: torch.device) -> None:
        self.source = source
        self.count = count
        self.device = device
        self.clients = source.clients
        self.sizes = source.sizes
        self.fits_model = source.fits_model
        self.seconds: list[float] = []

    def num_steps(self, client: int) -> int:
        return min(self.count, self.source.num_steps(client))

    def full_sizes(self, client: int) -> list[int]:
        return self.source.full_sizes(client)[: self.count]

    def batches(self, job: Job) -> Iterator[Any]:
        moments = []
        self.source.start([job])
        try:
            for batch in itertools.islice(self.source.batches(job), self.count):
                moments.append(_now(self.device))
                if moments[-1] - moments[0] > PATIENCE:
                    break
                yield batch
            else:
                moments.append(_now(self.device))
        finally:
            self.source.close()
        if not job.full:
            durations = [end - begin for begin, end in itertools.pairwise(moments)]
            self.seconds += durations[1:] or durations  # the first one warms up


@dataclass(frozen=True)
class Rehearsal:
    """What one client takes in a round."""

    down: int  # bytes that it receives
    up: int  # bytes that it sends
    state: int  # bytes that it keeps until its next round
    step_seconds: float  # of a local step


def rehearse(trainer: ClientTrainer, server: Server, client: int) -> Rehearsal:
    """Go through a round with one client and a few of its batches; the server stays as it is.

    What is sent is counted in real messages and updates, so that it is right for every algorithm
    and the run's compression. No hook is called.
    """
    algorithm = trainer.algorithm
    few = _FewBatches(trainer.data, TIMED_STEPS + 1, server.w.device)
    before = trainer.data, trainer.call_hook

    trainer.data = few
    trainer.call_hook = lambda *_, **__: None
    server.round = 1
    trainer.local.start_round(1)
    down = up = 0
    try:
        for number, exchange in enumerate(algorithm.exchanges):
            server.exchange = number
            task = Task(
                round=1,
                exchange=number,
                client=client,
                name=few.clients[client],
                num_samples=few.sizes[client],
                num_steps=few.num_steps(client),
                state={},
            )
            message = algorithm.broadcast(server)
            result = trainer.train(task, message)
            down += server.traffic(message.size, not message.w_is_known)
            up += server.traffic(result.update.size(server.w.shape), exchange.train)
            if number < len(algorithm.exchanges) - 1:  # the last one would change the server
                aggregate = algorithm.new_aggregate()
                aggregate.add(result)
                algorithm.step(server, aggregate)
    finally:
        trainer.data, trainer.call_hook = before
        server.scratch.clear()
    return Rehearsal(
        down=down,
        up=up,
        state=num_bytes(result.state.values()),
        step_seconds=statistics.median(few.seconds or [0.0]),
    )


def print_plan(plan: Plan) -> None:
    """Show a plan as a table."""
    tests = [f"{name} {count:,}" for name, count in plan.test_images.items()]
    rows = {
        "clients": f"{plan.clients:,}",
        "clients per round": f"{plan.clients_per_round:,g}",
        "training images": f"{plan.training_images:,}",
        "test images": ", ".join(tests) or "none",
        "rounds": f"{plan.rounds:,}",
        "evaluations": f"{plan.evaluations:,}",
        "traffic down per round": format_bytes(plan.bytes_down),
        "traffic up per round": format_bytes(plan.bytes_up),
        "peak memory so far": format_bytes(plan.peak_memory),
        "seconds per local step": f"{plan.seconds_per_step:.3f}",
        "seconds per test batch": f"{plan.seconds_per_test_batch:.3f}",
        "estimated time": format_duration(plan.seconds),
    }
    table = Table(title="plan", show_header=False)
    for name, text in rows.items():
        table.add_row(name, text)
    Console().print(table)
