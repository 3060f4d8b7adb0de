"""The executor that trains a round's clients on several workers."""

import os
import statistics
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Literal

import torch
from mmengine.hooks import Hook
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from fedseg.core.aggregate import Outcome
from fedseg.core.client_data import Job
from fedseg.core.messages import Message, Task
from fedseg.engine.executor import Executor, InProcessExecutor, block_size
from fedseg.evaluation.domains import EvalTask
from fedseg.files import write_text
from fedseg.parallel.cluster import connected, import_ray
from fedseg.parallel.pool import Pool, Work
from fedseg.parallel.worker import Report, assign, cut, cut_calls, speed_up
from fedseg.registry import EXECUTORS

# what a worker costs this process: seconds a call, and bytes of a model a second (measured)
HOP, BANDWIDTH = 0.004, 2e9


@EXECUTORS.register_module()
class RayExecutor(Executor):
    """Trains clients on workers, which are actors of Ray; also evaluates there.

    The bits are those of one process with as many threads as a worker has.

    Args:
        num_workers: how many; ``"auto"``: as many as the GPUs have room for, without them one for
            every ``cpus_per_worker`` cores. Without a GPU and an address, ``"auto"`` trains the
            first round in this process and goes on there if workers would take longer.
        cpus_per_worker: cores and threads of each. Bits depend on threads, so that this does not
            follow from the number of workers.
        gpus_per_worker: of each, may be a fraction; None: 1 where there is a GPU for every worker,
            equal parts where there are fewer GPUs than workers; 0: none.
        address: of a Ray cluster to join, for example ``"auto"``; None: Ray starts on this machine.
        restart_timeout: seconds without any worker after which the run stops.
    """

    def __init__(
        self,
        num_workers: PositiveInt | Literal["auto"] = "auto",
        cpus_per_worker: PositiveInt = 1,
        gpus_per_worker: NonNegativeFloat | None = None,
        address: str | None = None,
        restart_timeout: PositiveFloat = 300.0,
    ) -> None:
        self._asked = num_workers, gpus_per_worker
        self.address, self.cpus, self.restart_timeout = address, cpus_per_worker, restart_timeout
        self.pool: Pool | None = None
        self._connection = ExitStack()  # to Ray
        self._here = InProcessExecutor()
        self._trial: list[float] | None = None  # seconds of clients that this process trains
        self._first: int | None = None  # round that it trains
        self.evaluate = None  # as long as there are no workers, the evaluation is the driver's

    def bind(self, run: Any) -> None:
        super().bind(run)
        self._here.bind(run)
        self._run = run
        torch.set_num_threads(self.cpus)  # what is left to this process has the same bits, too
        self._resources(torch.cuda.device_count(), _cores())
        # workers that see it, with this text, read and write states where they are
        self._mark = run.store.folder.absolute() / ".seen", uuid.uuid4().hex
        self._hook = _Account(self)
        run.register_hook(self._hook)

    def _resources(self, gpus: float, cores: float) -> None:
        """Settle how many workers there are and what each has."""
        workers, per_worker = self._asked
        if workers == "auto":
            uses_gpus = gpus and per_worker != 0
            fitting = gpus / (per_worker or 1.0) if uses_gpus else cores / self.cpus
            workers = max(1, int(fitting))
        self.num_workers = workers
        self.gpus = min(1.0, gpus / workers) if per_worker is None else per_worker

    def plan(self, costs: list[list[int]], memory: int) -> dict[str, Any]:
        """Facts for ``--dry-run``.

        Args:
            costs: local steps of each round's clients. memory: of a worker, bytes.
        """
        blocks = [[sum(b) for b in cut(c, block_size(len(c), self.trainer))] for c in costs]
        speed_ups = [speed_up(costs, self.num_workers) for costs in blocks]
        return {
            "workers": self.num_workers,
            "threads of a worker": self.cpus,
            **({"GPUs of a worker": self.gpus} if self.gpus else {}),
            "memory of a worker": memory,
            "expected speed-up": sum(speed_ups) / len(speed_ups),
        }

    def start(self, jobs: Iterable[Job]) -> None:
        """Start the workers; each knows its jobs itself."""
        if self._asked[0] == "auto" and not self.gpus and self.address is None:
            import_ray()  # a lack of it is told now
            self._trial = []
            self._here.start(jobs)
        else:
            self._start_workers()

    def _start_workers(self) -> None:
        run, workers = self._run, self.num_workers
        connection = connected(self.address, workers * self.cpus, workers * self.gpus)
        self._ray = self._connection.enter_context(connection)
        if self.address is not None:
            cluster = self._ray.cluster_resources()
            self._resources(cluster.get("GPU", 0.0), cluster.get("CPU", 0.0))
        if run.store.keep == "disk":
            write_text(*self._mark)
        place = os.getcwd(), [os.path.abspath(path) for path in sys.path], self._mark
        config, checksum = run.cfg.to_dict(), run.data.checksum()
        self.pool = Pool(
            self.num_workers,
            {"num_cpus": self.cpus, "num_gpus": self.gpus},
            lambda number: (config, place, (number, self.num_workers), self.cpus, checksum),
            logger=run.logger,
            check=run.interrupt.check,
            restart_timeout=self.restart_timeout,
        )
        self.evaluate = self._evaluate

    def run(self, tasks: list[Task], message: Message) -> Iterator[Outcome]:
        if not tasks:
            return
        self._first = self._first or tasks[0].round
        if self._trial and tasks[0].round > self._first:
            if self._pays(tasks, statistics.median(self._trial)):
                self.trainer.data.close()
                self._start_workers()
            self._trial = None
        if self.pool is not None:
            yield from self._run_on_workers(tasks, message)
            return
        begin = time.perf_counter()
        for outcome in self._here.run(tasks, message):
            if self._trial is not None:
                self._trial.append(time.perf_counter() - begin)
            yield outcome
            begin = time.perf_counter()

    def _pays(self, tasks: Sequence[Task], seconds: float) -> bool:
        """True if workers save more of a client's seconds than its messages cost."""
        w, size = self.trainer.flat.w, block_size(len(tasks), self.trainer)
        calls = cut_calls(tasks, size, w, self.num_workers)
        costs = [sum(task.num_steps for task in call) for call in calls]
        saved = seconds * (1 - 1 / speed_up(costs, self.num_workers))
        lost = HOP * len(calls) / len(tasks) + w.numel() * w.element_size() / BANDWIDTH
        self._run.logger.info(
            f"executor: a client takes {seconds:.2g} s, of which {self.num_workers} workers would "
            f"save {saved:.2g} s and cost {lost:.2g} s: training continues "
            f"{'on workers' if saved > lost else 'in this process'}"
        )
        return saved > lost

    def _run_on_workers(self, tasks: list[Task], message: Message) -> Iterator[Outcome]:
        run = self._run
        # MMEngine's schedulers ask whether the optimizer has stepped; here the workers' have
        self.trainer.local._global_step = 0
        groups = [
            {name: value for name, value in group.items() if name != "params"}
            for group in self.trainer.local.optimizer.param_groups
        ]
        size = block_size(len(tasks), self.trainer)
        order = self._ray.put((message, groups, size))
        calls = cut_calls(tasks, size, self.trainer.flat.w, self.num_workers)
        costs = [sum(task.num_steps for task in call) for call in calls]
        worker = {p: w for w, share in enumerate(assign(costs, self.num_workers)) for p in share}

        def arguments(call: Sequence[Task], sees: bool) -> tuple[Any, ...]:
            run.store.shared = sees
            return list(call), order

        works = [
            Work(worker[i], "train", partial(arguments, call), _title(call), costs[i])
            for i, call in enumerate(calls)
        ]
        for reports in self.pool.run(works):
            outcomes: list[Outcome] = []
            for report in reports:
                self.trainer.data.seconds_waiting += report.waiting / self.num_workers
                self._hook.note(report, [outcome.task for outcome in report.value])
                outcomes += report.value
            yield from outcomes

    def _evaluate(self, name: str, parts: Iterable[EvalTask]) -> Iterator[tuple[int, list[Any]]]:
        """(images, what metrics counted) of slices of all parts, in order, dealt to all workers."""
        sizes: list[int] = []

        def works() -> Iterator[Work]:
            for part in parts:
                payloads = self._run.server.message(part.w).payloads
                model = self._ray.put((part.w, part.buffers, payloads))
                per_worker = -(-len(part.plan) // self.num_workers)
                first = 0
                if part.tuning:  # once, by one worker in turn
                    per_worker, first = len(part.plan), len(sizes) % self.num_workers
                for number, batches in enumerate(cut(part.plan, per_worker), first):
                    slice_ = replace(part, plan=list(batches), w=None, buffers=None)
                    images = [i for batch in batches for i in batch]
                    counted = part.counted
                    sizes.append(
                        len(images) if counted is None else sum(i in counted for i in images)
                    )
                    title, arguments = f"an evaluation of {name}", (name, slice_, model)
                    yield Work(number, "count", lambda _, a=arguments: a, title, len(images))

        reports = self.pool.run(works(), ahead=2 * self.num_workers)
        for position, report in enumerate(chain.from_iterable(reports)):
            self._hook.note(report)
            yield sizes[position], report.value

    @property
    def status(self) -> str:
        """For the progress display."""
        if self.pool is None:
            return ""
        return f"{self.pool.in_flight} of {self.num_workers} workers busy{self._hook.speed()}"

    def close(self) -> None:
        self.evaluate = None
        if self.pool is not None:
            self.pool.close()
            self.pool = None
        self._connection.close()
        self._mark[0].unlink(missing_ok=True)


class _Account(Hook):
    """Adds to a round's history how busy the workers were, and how many were lost.

    Attributes:
        busy: seconds of all workers. images: that they trained on. begin: of the round.
    """

    def __init__(self, executor: RayExecutor) -> None:
        self._executor = executor
        self.before_round()

    def before_round(self, runner: Any = None) -> None:
        self.busy, self.images, self.begin = 0.0, 0, time.perf_counter()

    def note(self, report: Report, tasks: Iterable[Task] = ()) -> None:
        """Something is done."""
        self.busy += report.seconds
        data = self._executor.trainer.data
        if hasattr(data, "batch_sizes"):
            for task in tasks:
                sizes = data.batch_sizes(task.client)
                self.images += round(task.num_steps * sum(sizes) / len(sizes))

    def speed(self) -> str:
        """Images a second in this round, for the progress display."""
        seconds = time.perf_counter() - self.begin
        return f", {self.images / seconds:,.0f} images/s" if self.images else ""

    def after_round(self, runner: Any, record: dict[str, Any]) -> None:
        if self._executor.pool is not None:
            record["seconds"]["busy"] = self.busy / self._executor.num_workers
        self.after_val_epoch(runner)

    def after_val_epoch(self, runner: Any, metrics: Any = None) -> None:
        pool, line = self._executor.pool, runner.train_loop.pending
        if pool is not None and pool.restarts and line is not None:  # None before the first round
            line["restarts"] = line.get("restarts", []) + pool.restarts
            pool.restarts = []


def _title(tasks: Sequence[Task]) -> str:
    names = ", ".join(repr(task.name) for task in tasks[:3])
    more = f" and {len(tasks) - 3} more" if len(tasks) > 3 else ""
    return f"client{'s' * (len(tasks) > 1)} {names}{more} of round {tasks[0].round}"


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
