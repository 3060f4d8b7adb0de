"""The executor that trains a round's clients on several workers, which are actors of Ray."""

# before what imports MMEngine's optimizers itself
import fedseg.mmengine_optim  # noqa: F401, isort: skip

import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from logging import Logger
from pathlib import Path
from typing import Any

import torch
from mmengine.hooks import Hook
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from fedseg.core.aggregate import Outcome
from fedseg.core.client_data import Job
from fedseg.core.messages import Message, Task
from fedseg.engine.executor import Executor, block_size
from fedseg.errors import LoaderKilled, UserError, WorkersLost
from fedseg.evaluation.tasks import EvalTask
from fedseg.parallel.ray_start import import_ray, start_ray
from fedseg.parallel.worker import Report, Worker, assign, cut
from fedseg.registry import EXECUTORS
from fedseg.units import format_bytes

IN_FLIGHT = 2  # calls of a worker: it begins with the next one as soon as one is done
ATTEMPTS = 3
POLL = 0.1  # seconds

# ---------------------------------------------------------------- calls of workers


@dataclass(eq=False)
class Call:
    """A call of a worker's method.

    Attributes:
        worker: number of the worker that does it.
        method: name of the method of :class:`Worker`.
        arguments: of the method.
        title: for messages.
        failures: workers that died during the call.
        result: a report, or the error that the call raised; None before it is done.
    """

    worker: int
    method: str
    arguments: tuple[Any, ...]
    title: str
    failures: int = 0
    result: Report | Exception | None = None


@dataclass(eq=False)
class RemoteWorker:
    """A worker: its actor, which is a new one after each loss, and its calls.

    Attributes:
        build: the first call of every actor.
        resources: of an actor, as Ray takes them (``num_cpus``, ``num_gpus``).
        actor: the present one.
        started: when that was created, by ``time.monotonic``.
        running: (reference to the result, call) in the order in which the actor does them.
        waiting: calls to come.
    """

    build: Call
    resources: dict[str, float]
    actor: Any = None
    started: float = 0.0
    running: deque[tuple[Any, Call]] = field(default_factory=deque)
    waiting: deque[Call] = field(default_factory=deque)

    def start(self) -> None:
        """Create an actor and let it build its trainer."""
        self.actor = new_actor(self.resources)
        self.started = time.monotonic()
        self.waiting.appendleft(self.build)
        self.submit()

    def submit(self) -> None:
        """Call the actor, as long as it has few calls.

        Of an actor that dies at once, Ray may lose the result of the call before, which is then
        blamed. So the build is alone, and a call that was blamed before.
        """
        while self.waiting and len(self.running) < IN_FLIGHT and not self.is_alone():
            call = self.waiting.popleft()
            reference = getattr(self.actor, call.method).remote(*call.arguments)
            self.running.append((reference, call))

    def restart(self) -> None:
        """Replace the actor; the new one does every call whose result is not here."""
        end_actor(self.actor)
        lost = [call for _, call in self.running if call is not self.build]
        self.running.clear()
        self.waiting.extendleft(reversed(lost))
        self.start()

    def is_building(self) -> bool:
        """True as long as the actor has not built its trainer."""
        return bool(self.running) and self.running[0][1] is self.build

    def is_alone(self) -> bool:
        """True while the actor does a call after which no other may be waiting."""
        if not self.running:
            return False
        _, call = self.running[0]
        return call is self.build or call.failures > 0


def new_actor(resources: dict[str, float]) -> Any:
    """Start an actor; a lost one is replaced by :class:`Workers`, not by Ray, which is not told
    the cause of the loss."""
    return import_ray().remote(Worker).options(max_restarts=0, **resources).remote()


def end_actor(actor: Any) -> None:
    """Kill an actor, if it is alive."""
    import_ray().kill(actor, no_restart=True)


class Workers:
    """Workers that are replaced when they die; what they had not finished is done again.

    Args:
        workers: number ``i`` has the build call of worker ``i``.
        logger: told of lost workers.
        check: called while waiting; raises to stop.
        restart_timeout: seconds in which a worker must have started.

    Attributes:
        restarts: the reasons why workers were replaced so far.
        memory: highest peak of a worker, bytes.
    """

    def __init__(
        self,
        workers: list[RemoteWorker],
        logger: Logger,
        check: Callable[[], None],
        restart_timeout: float,
    ) -> None:
        self.workers = workers
        self.logger = logger
        self.check = check
        self.restart_timeout = restart_timeout
        self.restarts: list[str] = []
        self.memory = 0
        for worker in workers:
            worker.start()

    @property
    def busy(self) -> int:
        """How many workers are busy."""
        return sum(bool(worker.running) for worker in self.workers)

    def run(self, calls: Iterable[Call], ahead: int) -> Iterator[Report]:
        """Do all calls; yield their reports in the order of the calls.

        Args:
            calls: each names its worker, which does its own in this order.
            ahead: take so many from ``calls`` at a time.

        Raises:
            UserError: the first one, in the order of the calls, that a worker raised.
            WorkersLost: workers died of one call again and again, or did not start in time.
        """
        calls = iter(calls)
        pending: deque[Call] = deque()
        try:
            while True:
                for call in islice(calls, ahead - len(pending)):
                    pending.append(call)
                    self.workers[call.worker].waiting.append(call)
                if not pending:
                    return
                self._collect(timeout=0)  # no worker waits for whoever takes the reports
                while pending[0].result is None:
                    self._collect(POLL)
                result = pending.popleft().result
                if isinstance(result, Exception):
                    raise result
                yield result
        finally:
            for worker in self.workers:
                worker.waiting.clear()

    def _collect(self, timeout: float) -> None:
        """Take a result, if one comes in time, and give idle workers their next calls."""
        self.check()
        for worker in self.workers:
            worker.submit()
        # an actor's results are taken in the order of its calls: what is lost is always the rest
        first = {worker.running[0][0]: worker for worker in self.workers if worker.running}
        if not first:
            return
        ready, _ = import_ray().wait(list(first), timeout=timeout)
        for reference in ready:
            self._take(first[reference])
            first[reference].submit()
        if timeout and not ready:
            self._check_starts()

    def _take(self, worker: RemoteWorker) -> None:
        """Take the result of a worker's first call, or replace the worker, which died."""
        ray = import_ray()
        reference, call = worker.running[0]
        try:
            result = ray.get(reference)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, LoaderKilled):
                self._replace(worker, error.cause)
                return
            result = error.cause if isinstance(error.cause, UserError) else error
        except ray.exceptions.RayError as error:
            self._replace(worker, error)
            return
        worker.running.popleft()
        if call is worker.build:
            if isinstance(result, Exception):
                raise result
            call.failures = 0
            return
        call.result = result
        if isinstance(result, Report):
            self.memory = max(self.memory, result.memory)

    def _replace(self, worker: RemoteWorker, error: Exception) -> None:
        time.sleep(POLL)  # a signal to the whole group may be why
        self.check()
        reason = describe(error)
        _, call = worker.running[0]
        call.failures += 1
        self.restarts.append(reason)
        self.logger.warning(
            f"worker {call.worker} was lost during {call.title} and is replaced: {reason}"
        )
        if call.failures >= ATTEMPTS:
            used = f"; workers have used up to {format_bytes(self.memory)}" if self.memory else ""
            raise WorkersLost(
                f"executor: {call.title} has killed {ATTEMPTS} workers, the last one so: {reason}"
                f"{used}. If memory ran out, use fewer workers (--workers) or smaller batches"
            )
        worker.restart()

    def _check_starts(self) -> None:
        for worker in self.workers:
            late = time.monotonic() - worker.started > self.restart_timeout
            if not late or not worker.is_building():
                continue
            needed = ", ".join(f"{name}={value:g}" for name, value in worker.resources.items())
            cluster = import_ray().cluster_resources()
            raise WorkersLost(
                f"executor: a worker has not started within {self.restart_timeout:g} s (each "
                f"needs {needed}; the cluster has CPU {cluster.get('CPU', 0):g}, GPU "
                f"{cluster.get('GPU', 0):g}): lower these, start machines, or raise "
                "executor.restart_timeout"
            )

    def close(self) -> None:
        """End all workers."""
        for worker in self.workers:
            end_actor(worker.actor)


def describe(error: Exception) -> str:
    """Describe why a worker died, in a line."""
    text = " ".join(str(error).split())
    detail = re.search(r"Worker exit detail: (.*)", text)
    if detail:
        text = detail[1]
    return text.partition(" Some common causes")[0][:400] or type(error).__name__


# ---------------------------------------------------------------- the executor


@EXECUTORS.register_module()
class RayExecutor(Executor):
    """Trains clients on workers, which are actors of Ray; also evaluates there.

    The bits are those of one process with as many threads as a worker has.

    Args:
        num_workers: how many.
        cpus_per_worker: cores and threads of each. Bits depend on threads, so that this does not
            follow from the number of workers.
        gpus_per_worker: of each, may be a fraction; None: 1 where there is a GPU for every worker,
            equal parts where there are fewer GPUs than workers; 0: none.
        address: of a Ray cluster to join, for example ``"auto"``; None: Ray starts on this machine.
        restart_timeout: seconds in which a worker must start, or the run stops.
    """

    def __init__(
        self,
        num_workers: PositiveInt,
        cpus_per_worker: PositiveInt = 1,
        gpus_per_worker: NonNegativeFloat | None = None,
        address: str | None = None,
        restart_timeout: PositiveFloat = 300.0,
    ) -> None:
        self.num_workers = num_workers
        self.cpus = cpus_per_worker
        self.gpus_per_worker = gpus_per_worker
        self.address = address
        self.restart_timeout = restart_timeout
        self.workers: Workers | None = None
        self.evaluate = None  # before the workers start, the driver evaluates
        self._started_ray = False

    def bind(self, run: Any) -> None:
        super().bind(run)
        self._run = run
        torch.set_num_threads(self.cpus)  # what is left to this process has the same bits, too
        self._account = _Account(self)
        run.register_hook(self._account)

    def gpus(self, available: float) -> float:
        """GPUs of a worker, where so many are available."""
        if self.gpus_per_worker is None:
            return min(1.0, available / self.num_workers)
        return self.gpus_per_worker

    def start(self, jobs: Iterable[Job]) -> None:
        """Start the workers; each knows its jobs itself."""
        run = self._run
        gpus = self.gpus(torch.cuda.device_count())
        self._started_ray = start_ray(
            self.address, self.num_workers * self.cpus, self.num_workers * gpus
        )
        if self.address is not None:
            gpus = self.gpus(import_ray().cluster_resources().get("GPU", 0.0))
        paths = [str(Path(path).absolute()) for path in sys.path]
        workers = []
        for number in range(self.num_workers):
            arguments = (
                run.cfg.to_dict(),
                (str(Path.cwd()), paths),
                (number, self.num_workers),
                self.cpus,
                run.data.checksum(),
            )
            build = Call(number, "build", arguments, title="its start")
            workers.append(RemoteWorker(build, {"num_cpus": self.cpus, "num_gpus": gpus}))
        self.workers = Workers(workers, run.logger, run.interrupt.check, self.restart_timeout)
        self.evaluate = self._evaluate

    def run(self, tasks: list[Task], message: Message) -> Iterator[Outcome]:
        if not tasks:
            return
        # MMEngine's schedulers ask whether the optimizer has stepped; here the workers' have
        self.trainer.local._global_step = 0
        groups = []
        for group in self.trainer.local.optimizer.param_groups:
            groups.append({name: value for name, value in group.items() if name != "params"})
        order = self._put((message, groups))
        blocks = cut(tasks, block_size(len(tasks), self.trainer))
        costs = [sum(task.num_steps for task in block) for block in blocks]
        worker_of = {}
        for worker, share in enumerate(assign(costs, self.num_workers)):
            worker_of.update(dict.fromkeys(share, worker))
        calls = [
            Call(worker_of[number], "train", (list(block), order), _title(block))
            for number, block in enumerate(blocks)
        ]
        for report in self.workers.run(calls, ahead=len(calls)):
            self.trainer.data.seconds_waiting += report.waiting / self.num_workers
            self._account.add(report, [outcome.task for outcome in report.value])
            yield from report.value

    def _put(self, value: Any) -> Any:
        """Give a value to the workers; returns Ray's reference to it.

        Ray ends this process at once if its store is gone, as it is soon after a signal to the
        whole group.
        """
        self._run.interrupt.check()
        return import_ray().put(value)

    def _evaluate(self, name: str, parts: Iterable[EvalTask]) -> Iterator[tuple[int, list[Any]]]:
        """Deal slices of all parts to all workers.

        Yields:
            The number of images of a slice, and what the metrics counted in it, in order.
        """
        sizes: deque[int] = deque()
        calls = self._evaluation_calls(name, parts, sizes)
        for report in self.workers.run(calls, ahead=2 * self.num_workers):
            self._account.add(report)
            yield sizes.popleft(), report.value

    def _evaluation_calls(
        self, name: str, parts: Iterable[EvalTask], sizes: deque[int]
    ) -> Iterator[Call]:
        """Yield the calls that evaluate all parts; append each call's number of images."""
        turn = 0
        for part in parts:
            payloads = self._run.server.message(part.w).payloads
            model = self._put((part.w, part.buffers, payloads))
            slices = cut(part.plan, -(-len(part.plan) // self.num_workers))
            first = 0
            if part.tuning:  # once, by one worker in turn
                slices = [tuple(part.plan)]
                first = turn % self.num_workers
            for number, batches in enumerate(slices, first):
                turn += 1
                sizes.append(_images_that_count(part, batches))
                task = replace(part, plan=list(batches), w=None, buffers=None)
                yield Call(number, "count", (name, task, model), f"an evaluation of {name}")

    @property
    def status(self) -> str:
        """For the progress display."""
        if self.workers is None:
            return ""
        return f"{self.workers.busy} of {self.num_workers} workers busy{self._account.speed()}"

    def close(self) -> None:
        self.evaluate = None
        if self.workers is not None:
            self.workers.close()
            self.workers = None
        if self._started_ray:
            import_ray().shutdown()
            self._started_ray = False


class _Account(Hook):
    """Adds to a round's history how busy the workers were, and why some were lost.

    Attributes:
        busy: seconds of all workers.
        images: that they trained on.
        begin: of the round.
    """

    def __init__(self, executor: RayExecutor) -> None:
        self._executor = executor
        self.before_round()

    def before_round(self, runner: Any = None) -> None:
        self.busy = 0.0
        self.images = 0
        self.begin = time.perf_counter()

    def add(self, report: Report, tasks: Iterable[Task] = ()) -> None:
        """Add a finished call, and the clients that were trained in it."""
        self.busy += report.seconds
        data = self._executor.trainer.data
        if not hasattr(data, "batch_sizes"):
            return
        for task in tasks:
            sizes = data.batch_sizes(task.client)
            self.images += round(task.num_steps * sum(sizes) / len(sizes))

    def speed(self) -> str:
        """Images a second in this round, for the progress display."""
        seconds = time.perf_counter() - self.begin
        return f", {self.images / seconds:,.0f} images/s" if self.images else ""

    def after_round(self, runner: Any, record: dict[str, Any]) -> None:
        if self._executor.workers is not None:
            record["seconds"]["busy"] = self.busy / self._executor.num_workers
        self.after_val_epoch(runner)

    def after_val_epoch(self, runner: Any, metrics: Any = None) -> None:
        workers = self._executor.workers
        line = runner.train_loop.pending  # None before the first round
        if workers is not None and workers.restarts and line is not None:
            line["restarts"] = line.get("restarts", []) + workers.restarts
            workers.restarts = []


def _images_that_count(part: EvalTask, batches: Sequence[list[int]]) -> int:
    images = [image for batch in batches for image in batch]
    if part.counted is None:
        return len(images)
    return sum(image in part.counted for image in images)


def _title(tasks: Sequence[Task]) -> str:
    names = ", ".join(repr(task.name) for task in tasks[:3])
    if len(tasks) > 3:
        names += f" and {len(tasks) - 3} more"
    clients = "clients" if len(tasks) > 1 else "client"
    return f"{clients} {names} of round {tasks[0].round}"
