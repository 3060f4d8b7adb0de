"""The plan of a run, made without running it: the content of ``train.py --dry-run``."""

import itertools
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from fedseg.core.client_data import ClientData, Job
from fedseg.core.messages import Task
from fedseg.core.server import Server
from fedseg.engine.trainer import ClientTrainer
from fedseg.memory import threads
from fedseg.runner.runner import FederatedRunner
from fedseg.units import format_bytes, format_duration, peak_memory

TIMED_STEPS = 3
PATIENCE = 5  # seconds of steps or test images after which no further ones are timed
BYTES = (
    "traffic down per round",
    "traffic up per round",
    "client state when all have trained",
    "peak memory so far",
    "memory of a worker",
    "peak GPU memory so far",
)


@threads()  # an executor may set their number
def make_plan(runner: FederatedRunner) -> dict[str, Any]:
    """Build the federation, rehearse a round with one client, time test batches, count the rest.

    Nothing is written to the work dir's history or checkpoints. Seconds are estimates from this
    machine in its present state; memory, traffic and client state are in bytes.
    """
    runner.build_federation()
    for postprocessor in runner.trainer.postprocessors:
        postprocessor.check(runner)
    data, loop, algorithm, server = runner.data, runner.train_loop, runner.algorithm, runner.server
    rounds = range(1, runner.max_rounds + 1)
    participants = [runner.client_sampler.participants(r) for r in rounds]
    steps = [sum(data.num_steps(c) for c in chosen) for chosen in participants]
    evaluations = loop.val_initial + sum(loop.evaluates(r) for r in rounds)
    evaluations = evaluations if runner.val_loop is not None else 0
    longest = max(next(filter(None, participants), [0]), key=data.num_steps)
    console = Console(stderr=True)
    told = f"rehearsing up to {TIMED_STEPS + 1} local steps of client {data.clients[longest]!r}"
    console.print(told, markup=False)
    rehearsal = rehearse(runner.trainer, server, longest)
    val_seconds, final_seconds = _time_evaluation(runner, console) if evaluations else (0.0, 0.0)
    exchanges = algorithm.exchanges
    trained = sum(exchange.train for exchange in exchanges)
    full_gradients = sum(exchange.full_gradient for exchange in exchanges)
    training = rehearsal.step_seconds * sum(steps) * trained
    if full_gradients:
        batches = sum(len(data.full_sizes(c)) for chosen in participants for c in chosen)
        training += rehearsal.full_seconds * batches * full_gradients
    gpu_memory, workers = {}, {}
    if server.w.is_cuda:
        gpu_memory["peak GPU memory so far"] = torch.cuda.max_memory_allocated(server.w.device)
    if hasattr(runner.executor, "plan"):
        costs = [[data.num_steps(c) for c in chosen] for chosen in participants]
        workers = runner.executor.plan(costs, peak_memory() or 0)
    hooks = sum(h.seconds_in_all(runner) for h in runner.hooks if hasattr(h, "seconds_in_all"))
    return {
        "clients": len(data.clients),
        "samples": sum(data.sizes),
        "samples per client": _spread(data.sizes),
        "clients per round": _spread([len(chosen) for chosen in participants]),
        "local steps per client": _spread([data.num_steps(c) for c in range(len(data.clients))]),
        "local steps per round": _spread(steps),
        "forward-backward passes per step": runner.optim_wrapper.passes * exchanges[-1].gradients,
        "rounds": runner.max_rounds,
        "evaluations": evaluations,
        "test samples": {s.name: len(s.samples) for s in getattr(runner.val_loop, "sets", [])},
        "parameters": runner.flat.num_parameters,
        "traffic down per round": _spread([rehearsal.down * len(c) for c in participants]),
        "traffic up per round": _spread([rehearsal.up * len(c) for c in participants]),
        "client state when all have trained": rehearsal.state * len(data.clients),
        "peak memory so far": peak_memory() or 0,
        **gpu_memory,
        **workers,
        "seconds per local step": rehearsal.step_seconds,
        **({"seconds per full-gradient batch": rehearsal.full_seconds} if full_gradients else {}),
        "seconds per evaluation": val_seconds,
        **({"seconds of the evaluation at the end": final_seconds} if final_seconds else {}),
        **({"seconds of hooks in all rounds": hooks} if hooks else {}),
        "estimated seconds": training + evaluations * val_seconds + final_seconds + hooks,
    }


def _spread(values: list[int]) -> dict[str, float]:
    return {"min": min(values), "median": statistics.median(values), "max": max(values)}


class _FewBatches(ClientData):
    """The first batches of every job; notes how long each keeps its taker busy."""

    def __init__(self, source: ClientData, count: int, device: torch.device) -> None:
        self.source, self.count, self.device = source, count, device
        self.clients, self.sizes, self.fits_model = source.clients, source.sizes, source.fits_model
        self.seconds: dict[bool, list[float]] = {True: [], False: []}  # by Job.full

    def num_steps(self, client: int) -> int:
        return min(self.count, self.source.num_steps(client))

    def full_sizes(self, client: int) -> list[int]:
        return self.source.full_sizes(client)[: self.count]

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def batches(self, job: Job) -> Iterator[Any]:
        moments = []
        self.source.start([job])
        try:
            for batch in itertools.islice(self.source.batches(job), self.count):
                moments.append(self._now())
                if moments[-1] - moments[0] > PATIENCE:
                    break
                yield batch
            else:
                moments.append(self._now())
        finally:
            self.source.close()
        durations = [b - a for a, b in itertools.pairwise(moments)]
        self.seconds[job.full] += durations[1:] or durations  # the first one warms up


@dataclass(frozen=True)
class Rehearsal:
    """Costs of one client in a round: bytes down, up and of its state, seconds of a batch."""

    down: int
    up: int
    state: int
    step_seconds: float
    full_seconds: float


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
            name, samples = few.clients[client], few.sizes[client]
            task = Task(1, number, client, name, samples, few.num_steps(client), {})
            message = algorithm.broadcast(server)
            result = trainer.train(task, message)
            down += server.traffic(message.size, not message.w_is_known)
            sent = result.update.size(server.w.shape)
            up += server.traffic(sent, exchange.train)
            if number < len(algorithm.exchanges) - 1:  # the last one would change the server
                aggregate = algorithm.new_aggregate()
                aggregate.add(result)
                algorithm.step(server, aggregate)
    finally:
        trainer.data, trainer.call_hook = before
        server.scratch.clear()
    state = sum(tensor.numel() * tensor.element_size() for tensor in result.state.values())
    seconds = {full: statistics.median(few.seconds[full] or [0.0]) for full in few.seconds}
    return Rehearsal(down, up, state, seconds[False], seconds[True])


def _time_evaluation(runner: FederatedRunner, console: Console) -> tuple[float, float]:
    """Seconds of an evaluation, and of the sets that are evaluated only at the end."""
    each = final = 0.0
    w, buffers = runner.server.w, runner.server.buffers
    for test in runner.val_loop.sets:
        console.print(f"timing a batch of {test.name} ({len(test.samples)} images)", markup=False)
        time_batches = partial(runner.val_loop.domains.time_batches, test, w, buffers)
        times = time_batches(1)
        if times * test.batch_size < PATIENCE / 2:  # the first one warms up
            times = time_batches(2)
        seconds = times * runner.val_loop.domains.num_predictions([test], final=False)
        if test.final_only:
            final += seconds
        else:
            each += seconds
    return each, final


def print_plan(plan: dict[str, Any]) -> None:
    """Show a plan as a table."""
    table = Table(title="plan", show_header=False)
    for name, value in plan.items():
        table.add_row(name.replace("estimated seconds", "estimated time"), _text(name, value))
    Console().print(table)


def _text(name: str, value: Any) -> str:
    if isinstance(value, dict):
        if set(value) == {"min", "median", "max"}:
            if value["min"] == value["max"]:
                return _text(name, value["min"])
            return " / ".join(_text(name, value[k]) for k in ("min", "median", "max"))
        return ", ".join(f"{k} {v:,}" for k, v in value.items()) or "none"
    if name in BYTES:
        return format_bytes(value)
    if name == "estimated seconds":
        return format_duration(value)
    return f"{value:.3f}" if isinstance(value, float) and value % 1 else f"{value:,.0f}"
