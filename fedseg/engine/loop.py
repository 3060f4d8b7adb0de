"""The loop of a federated run: rounds of training, with evaluations between them."""

import math
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Protocol

import torch
from annotated_types import Ge, Gt, Lt
from mmengine.runner import BaseLoop
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor

from fedseg.config.arguments import Float32
from fedseg.core.aggregate import Aggregate, Outcome
from fedseg.core.client_data import ClientData, JobStream
from fedseg.core.hook import Run, TensorStore
from fedseg.core.messages import Message, Task
from fedseg.core.vectors import finite_norm
from fedseg.engine.executor import Executor
from fedseg.engine.trainer import ClientTrainer
from fedseg.engine.validation import norm_limits
from fedseg.errors import ConfigError, Interrupted, LoadingError, TrainingError, WorkersLost
from fedseg.registry import LOOPS

# fields of a round's line in the history that the loop itself fills
RESERVED_NAMES = (
    "round",
    "participants",
    "lr",
    "loss",
    "rejected",
    "bytes_down",
    "bytes_up",
    "seconds",
    "norm_delta",
    "norm_w",
    "epsilon",
    "metrics",
    "initial_metrics",
)


class Sampler(Protocol):
    """Chooses the participants of a round; :class:`fedseg.runner.sampler.ClientSampler` is one."""

    def participants(self, round_: int) -> list[int]:
        """Positions of the clients that take part in a round, ascending."""


class ClientStates(TensorStore, Protocol):
    """The clients' states by client; a write counts once its round is committed."""

    def look_up(self, key: str) -> Mapping[str, Tensor]:
        """As :meth:`get`, but nothing is read before it is used."""

    def discard(self) -> None:
        """Forget what was staged: the round failed."""


class HistoryWriter(Protocol):
    """The history, a line a round; :class:`fedseg.runs.history.History` is one."""

    def append(self, record: dict[str, Any]) -> None:
        """Add the line of a finished round."""

    def plain(self, value: Any) -> Any:
        """A value as JSON has it."""


class TrainedRun(Run, Protocol):
    """The run as its training loop sees it.

    Attributes:
        trainer: trains the clients, has their data and the rule by which updates are summed.
        data: the clients' data.
        store: the clients' states.
        client_sampler: chooses the participants.
        executor: runs the clients.
        param_schedulers: of the local learning rate; each makes a step after every round.
        val_loop: the evaluation; None: there is none.
        history: takes the line of each finished round.
    """

    trainer: ClientTrainer
    data: ClientData
    store: ClientStates
    client_sampler: Sampler
    executor: Executor
    param_schedulers: Sequence[Any]
    val_loop: BaseLoop | None
    history: HistoryWriter

    def call_hook(self, fn_name: str, **arguments: Any) -> None:
        """Call a stage of every hook that has it."""

    def check_data_files(self) -> None:
        """Raise DataError if a file of the training data is gone, or was cut."""


class RoundRecord:
    """A round's line of the history while it is assembled.

    Attributes:
        line: plain values; hooks and evaluation add to it.
        seconds: by phase.
        norms: of what accepted clients sent, by name.
    """

    def __init__(self, round_: int, lr: float) -> None:
        self.seconds = {"train": 0.0, "aggregate": 0.0, "evaluate": 0.0, "data_wait": 0.0}
        self.norms: defaultdict[str, list[float]] = defaultdict(list)
        self.line: dict[str, Any] = {
            "round": round_,
            "participants": [],
            "lr": lr,
            "loss": None,
            "rejected": [],
            "bytes_down": 0,
            "bytes_up": 0,
        }

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Add the time inside to a phase."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] += time.perf_counter() - begin

    def close(self) -> dict[str, Any]:
        """The line, with the loss of the round: the mean over the accepted clients by N_k."""
        accepted = [p for p in self.line["participants"] if p["loss"] is not None]
        samples = sum(p["samples"] for p in accepted)
        if samples:
            self.line["loss"] = sum(p["loss"] * p["samples"] for p in accepted) / samples
        self.line["seconds"] = self.seconds
        return self.line


@LOOPS.register_module()
class FederatedTrainLoop(BaseLoop):
    """Rounds of a federated run, and when they are evaluated.

    Args:
        runner, dataloader: given by the runner.
        max_rounds: rounds of the run, T.
        val_interval: rounds between evaluations; the last round is always evaluated.
        val_last_rounds: length of the window at the end in which it is evaluated more often, and
            over which the reported metric is the mean.
        val_last_interval: rounds between evaluations in that window.
        val_initial: whether the model is evaluated before the first round, too.
        val_shares: shares of the rounds, such as 0.5, that end further windows of this length.
        max_norm_ratio: how many times the last round's median norm a client's update may have, and
            the last model's norm the new one; None: any that is finite.

    Attributes:
        finished_rounds: number of the last finished round.
        pending: the line of a round that is trained but not evaluated yet, else None.
    """

    def __init__(
        self,
        runner: TrainedRun,
        dataloader: Any,
        max_rounds: PositiveInt,
        val_interval: PositiveInt = 50,
        val_last_rounds: NonNegativeInt = 100,
        val_last_interval: PositiveInt = 5,
        val_initial: bool = False,
        max_norm_ratio: Annotated[Float32, Ge(1)] | None = 1000.0,
        val_shares: Sequence[Annotated[float, Gt(0), Lt(1)]] = (),
    ) -> None:
        # not BaseLoop.__init__, which builds a data loader: clients have their own data
        self._runner = runner
        self.max_rounds = max_rounds
        self.max_norm_ratio = math.inf if max_norm_ratio is None else max_norm_ratio
        self.val_interval = val_interval
        self.val_last_rounds = val_last_rounds
        self.val_last_interval = val_last_interval
        self.val_initial = val_initial
        self._window_ends = [round(share * max_rounds) for share in (*val_shares, 1)]
        self.finished_rounds = 0
        self.pending: dict[str, Any] | None = None
        self._previous_rates: Sequence[float] = [math.inf]  # of the round before; not 0 at first
        # What may grow against what, at most by max_norm_ratio, where a norm below 1 counts as 1:
        # a model before it is sent, against the last round's; one after the server step, and the
        # first round's updates, against the model with which the round began, before hooks.
        self._norm_at_start = 1.0  # with which the present round began, at least 1
        self._norm_after_last: float | None = None  # of the last round; None: trained elsewhere

    # MMEngine reads these where it speaks of epochs and iterations: both are rounds here
    max_epochs = max_iters = property(lambda self: self.max_rounds)
    epoch = iter = property(lambda self: self.finished_rounds)

    def state_dict(self) -> dict[str, Any]:
        return {"round": self.finished_rounds, "pending": self._runner.history.plain(self.pending)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.finished_rounds = state["round"]
        self.pending = state["pending"]

    def evaluates(self, round_: int) -> bool:
        """True if a round ends with an evaluation."""
        if round_ == self.max_rounds or round_ % self.val_interval == 0:
            return True
        in_window = any(0 <= end - round_ < self.val_last_rounds for end in self._window_ends)
        return in_window and round_ % self.val_last_interval == 0

    def run(self) -> None:
        """Train to ``max_rounds``; an interruption first saves the finished rounds."""
        run = self.runner
        try:
            run.call_hook("before_train")
            for postprocessor in run.trainer.postprocessors:
                postprocessor.check(run)
            if self.pending is not None:
                self._finish_round(self.pending)
            jobs = JobStream(
                participants=run.client_sampler.participants,
                first=self.finished_rounds + 1,
                last=self.max_rounds,
                exchanges=run.algorithm.exchanges,
            )
            run.executor.start(jobs)
            while self.finished_rounds < self.max_rounds:
                self.train_round(self.finished_rounds + 1)
        except (Interrupted, LoadingError, WorkersLost):
            self._forget_round()
            run.interrupt.check()  # a signal to the whole group may be why
            raise
        finally:
            run.call_hook("after_stop")
            run.data.close()
            run.executor.close()
        run.call_hook("after_train")

    def train_round(self, round_: int) -> None:
        """Train a round, numbered from 1, in its seven steps."""
        run = self.runner
        initial = None
        if round_ == 1 and self.val_initial and run.val_loop is not None:
            initial = run.val_loop.run()
        record = self._begin_round(round_)
        waiting_before = run.data.seconds_waiting
        if initial is not None:
            record.line["initial_metrics"] = initial
        # 1. Choose the participants: a pure function of seed and round
        participants = run.client_sampler.participants(round_)
        for exchange in range(len(run.algorithm.exchanges)):
            # 2. to 4. Broadcast, train, aggregate
            aggregate = self._train_clients(exchange, participants, record)
            # 5. Step: noise if the run is private; the server rule gives the new global model
            self._step(aggregate, record)
        self._finish_training(record)
        record.seconds["data_wait"] = run.data.seconds_waiting - waiting_before
        # 6. Commit: the round's client states become the current ones
        line = self._commit(record)
        try:
            self._call_after_round(line)
        finally:  # a stop in there keeps the round, and the next one has its rate
            for scheduler in run.param_schedulers:
                scheduler.step()
        # 7. Evaluate every domain if it is time, write the history's line, checkpoint
        self._finish_round(line)

    def rehearse_round(self, round_: int, clients: Sequence[int] | None = None) -> None:
        """Train the clients of a round to look at them in ``after_result``.

        It ends with their last update, as one that was interrupted: nothing of it counts.

        Args:
            round_: its number, from 1.
            clients: who trains in the last exchange, by position; None: the participants.
        """
        record = self._begin_round(round_)
        participants = self.runner.client_sampler.participants(round_)
        last = len(self.runner.algorithm.exchanges) - 1
        for exchange in range(last):
            self._step(self._train_clients(exchange, participants, record), record)
        self._train_clients(last, participants if clients is None else clients, record)
        self._forget_round()

    def _train_clients(
        self, exchange: int, clients: Sequence[int], record: RoundRecord
    ) -> Aggregate:
        """Train clients in an exchange of the round, and sum their updates."""
        run = self.runner
        run.server.exchange = exchange
        # 2. Broadcast: the model to start from, and the algorithm's extras
        message = run.algorithm.broadcast(run.server)
        # 3. Train: every participant does its local steps
        outcomes = run.executor.run([self._task(client) for client in clients], message)
        # 4. Aggregate: add checked updates, or sums of blocks of them, to the running sums
        return self._aggregate(outcomes, message, record)

    def _forget_round(self) -> None:
        """Drop the clients' new states; hooks undo what they did for the round."""
        self.runner.store.discard()
        self.runner.call_hook("on_interrupt")

    def _task(self, client: int) -> Task:
        """The work of a client in the present exchange."""
        run = self.runner
        name = run.data.clients[client]
        return Task(
            round=run.round,
            exchange=run.server.exchange,
            client=client,
            name=name,
            num_samples=run.data.sizes[client],
            num_steps=run.data.num_steps(client),
            state=run.store.look_up(name),
        )

    def _begin_round(self, round_: int) -> RoundRecord:
        """Set what depends on the round, call the hooks before it, and check what they left."""
        run = self.runner
        run.round = round_
        run.server.start_round(round_)
        self._set_norm_limits()
        run.optim_wrapper.start_round(round_)
        run.call_hook("before_train_epoch")
        run.call_hook("before_round")
        run.check_data_files()
        self._check_model_after_hooks()
        return RoundRecord(round_, self._read_rate())

    def _set_norm_limits(self) -> None:
        """Note the norm with which the round begins, and how long the updates may be."""
        server = self.runner.server
        norm = finite_norm(server.w)
        self._norm_at_start = 1.0 if norm is None else max(1.0, norm)
        server.norm_limits = norm_limits(
            server.median_norms, self._norm_at_start, self.max_norm_ratio
        )

    def _check_model_after_hooks(self) -> None:
        """Check the global model, which hooks may have changed."""
        previous_norm = self._norm_after_last
        if previous_norm is None:
            previous_norm = self._norm_at_start
        self._check_model(
            previous_norm=previous_norm,
            stage="before it is sent",
            advice="Look for a hook that changes it",
        )

    def _read_rate(self) -> float:
        """The round's local learning rate, of the first group; warn if all are 0 from now on."""
        run = self.runner
        rates = [group["lr"] for group in run.optim_wrapper.optimizer.param_groups]
        if not any(rates) and any(self._previous_rates):
            run.logger.warning(
                f"from round {run.round} on the learning rate is 0 (param_scheduler)"
            )
        self._previous_rates = rates
        return rates[0]

    def _aggregate(
        self, outcomes: Iterator[Outcome], message: Message, record: RoundRecord
    ) -> Aggregate:
        """Sum the updates of an exchange as they come, and note each in the record."""
        run = self.runner
        down = run.server.traffic(message.size, buffers=not message.w_is_known)
        aggregate = run.trainer.aggregation_rule.new_aggregate(run.algorithm)
        while True:
            with record.timed("train"):
                outcome = next(outcomes, None)
            if outcome is None:
                break
            with record.timed("aggregate"):
                if outcome.result is not None:
                    aggregate.add(outcome.result)
                if outcome.block is not None:
                    aggregate.merge(outcome.block)
                self._note(outcome, record, down)
                run.call_hook("after_result", result=outcome)
        # whatever the algorithm's weightings: buffers are averaged by samples
        has_weight = aggregate.num_clients > 0 and aggregate.weights["samples"] > 0
        if not has_weight and not run.trainer.aggregation_rule.may_be_empty:
            raise TrainingError(f"round {run.round}: {_why_empty(record.line['rejected'])}")
        return aggregate

    def _note(self, outcome: Outcome, record: RoundRecord, down: int) -> None:
        """Note a client's traffic, and its norms or why it is rejected."""
        run = self.runner
        task = outcome.task
        exchange = run.algorithm.exchanges[task.exchange]
        accepted = outcome.reason is None
        record.line["bytes_down"] += down
        record.line["bytes_up"] += run.server.traffic(outcome.size, buffers=exchange.train)
        if accepted:
            for name, norm in outcome.norms.items():
                record.norms[name].append(norm)
        else:
            record.line["rejected"].append(
                {"client": task.name, "exchange": task.exchange, "reason": outcome.reason}
            )
            run.logger.warning(
                f"round {task.round}: the update of client {task.name!r} is rejected: "
                f"{outcome.reason}"
            )
        if self._is_last(task.exchange):
            self._note_participant(outcome, record)

    def _note_participant(self, outcome: Outcome, record: RoundRecord) -> None:
        """Note a client of the round's last exchange; stage its state if it is accepted."""
        task = outcome.task
        accepted = outcome.reason is None
        record.line["participants"].append(
            {
                "client": task.name,
                "samples": task.num_samples,
                "steps": task.num_steps,
                "loss": outcome.loss if accepted else None,
            }
        )
        if accepted and outcome.state:
            self.runner.store.stage(task.name, task.round, outcome.state)

    def _step(self, aggregate: Aggregate, record: RoundRecord) -> None:
        """Make the server's step; that of a round's last exchange takes the buffers, too."""
        run = self.runner
        server = run.server
        with record.timed("aggregate"):
            run.call_hook("after_aggregate", aggregate=aggregate)
            for postprocessor in run.trainer.postprocessors:
                postprocessor.process_aggregate(server, aggregate)
            run.algorithm.step(server, aggregate)
            if self._is_last(server.exchange):
                run.trainer.local_loss.step(server, aggregate)
                server.take_buffers(aggregate)
                record.line["norm_delta"] = float(aggregate.mean("delta").norm())

    def _finish_training(self, record: RoundRecord) -> None:
        """Check the new global model; note its norm, and the algorithm's figures."""
        run = self.runner
        server = run.server
        norm = self._check_model(
            previous_norm=self._norm_at_start,
            stage=f"after the server step of {type(run.algorithm).__name__}",
            advice="Lower the learning rates or set optim_wrapper.clip_grad",
        )
        self._norm_after_last = max(1.0, norm)
        record.line["norm_w"] = norm
        metrics = run.algorithm.metrics(server)
        for name in metrics:
            if name in RESERVED_NAMES:
                raise _reserved(f"{type(run.algorithm).__name__}.metrics", name)
        record.line |= metrics
        for postprocessor in run.trainer.postprocessors:
            record.line |= postprocessor.metrics(run.round)

    def _is_last(self, exchange: int) -> bool:
        """True for the exchange that ends a round."""
        return exchange == len(self.runner.algorithm.exchanges) - 1

    def _check_model(self, previous_norm: float, stage: str, advice: str) -> float:
        """Zero the gaps of the global model, check that a round can lead to it, return its norm.

        Args:
            previous_norm: of the model before.
            stage: of the round, for the message.
            advice: what to do about it, for the message.

        Raises:
            ConfigError: ``server.w`` was replaced by a tensor of another kind.
            TrainingError: it is not finite, or ``max_norm_ratio`` times longer than before.
        """
        server = self.runner.server
        flat = self.runner.flat
        if getattr(server.w, "dtype", None) != flat.w.dtype or server.w.shape != flat.w.shape:
            raise ConfigError(f"server.w: must be {flat.w.dtype} {[*flat.w.shape]}: use copy_(...)")
        server.w.index_fill_(0, flat.gaps, 0)  # a hook or a server rule may have reached them
        norm = float(torch.linalg.vector_norm(server.w, dtype=torch.float64))
        model = f"round {self.runner.round}: the global model"
        if not math.isfinite(norm) or finite_norm(server.buffers) is None:
            raise TrainingError(f"{model} is not finite {stage}. {advice}")
        if norm > self.max_norm_ratio * previous_norm:
            raise TrainingError(
                f"{model} goes from norm {previous_norm:.3g} to {norm:.3g} {stage}. {advice}"
            )
        return norm

    def _commit(self, record: RoundRecord) -> dict[str, Any]:
        """Make the round count; returns its line, which lacks the evaluation."""
        run = self.runner
        run.store.commit()
        run.server.median_norms = {
            name: statistics.median(norms) for name, norms in record.norms.items()
        }
        self.finished_rounds = run.round
        line = record.close()
        self.pending = line
        return line

    def _call_after_round(self, line: dict[str, Any]) -> None:
        """Let hooks add to the round's line; ConfigError if one changes what it has already."""
        line_before = dict(line)
        self.runner.call_hook("after_round", record=line)
        for name in (*RESERVED_NAMES, *line_before):
            if line.get(name) is not line_before.get(name):
                raise _reserved("after_round of a hook", name)

    def _finish_round(self, line: dict[str, Any]) -> None:
        """Evaluate the model if it is time, and write the line of the last trained round."""
        run = self.runner
        run.round = self.finished_rounds
        if run.val_loop is not None and self.evaluates(self.finished_rounds):
            begin = time.perf_counter()
            line["metrics"] = run.val_loop.run()
            line["seconds"]["evaluate"] = time.perf_counter() - begin
        self.pending = None
        run.history.append(line)
        run.call_hook("after_train_epoch")


def _reserved(source: str, name: str) -> ConfigError:
    """The error for a figure of an algorithm or a hook whose name is taken."""
    return ConfigError(f"{source}: {name!r} is taken in the history: choose another name")


def _why_empty(rejected: Sequence[dict[str, Any]]) -> str:
    """Why no update of a round counts."""
    if not rejected:
        return "no client takes part, or none whose update has a weight"
    reasons = "; ".join(f"{entry['client']}: {entry['reason']}" for entry in rejected[:5])
    message = f"all {len(rejected)} updates were rejected ({reasons})"
    if "is not finite" in reasons or "max_norm_ratio" in reasons:
        message += ". Lower the local learning rate or set optim_wrapper.clip_grad"
    return message
