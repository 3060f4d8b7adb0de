"""The loops of a federated run: rounds of training, evaluation by domain."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from mmengine.runner import BaseLoop

from fedseg.checks import check_bool, check_int
from fedseg.core.arithmetic import is_finite
from fedseg.core.client_data import JobStream
from fedseg.core.messages import ClientResult, Task
from fedseg.core.server import Aggregate, accumulation_dtype
from fedseg.engine.trainer import ClientTrainer
from fedseg.engine.updates import validate_update
from fedseg.errors import ConfigError, Interrupted, TrainingError
from fedseg.registry import LOOPS

if TYPE_CHECKING:
    from fedseg.runner.runner import FederatedRunner


@LOOPS.register_module()
class FederatedTrainLoop(BaseLoop):
    """Rounds: plan, broadcast, local training, gate, aggregate, server step, hooks, evaluation.

    Args:
        runner, dataloader: given by the runner.
        max_rounds: rounds of the run, T.
        local_epochs: passes over a client's samples in a round, E.
        local_steps: instead, a fixed number of steps a round.
        val_interval: rounds between evaluations; the last round is always evaluated.
        val_last_rounds: length of the window at the end in which it is evaluated more often, and
            over which the reported figure is the mean.
        val_last_interval: rounds between evaluations in that window.
        amp: local training and evaluation in bfloat16 under autocast (no scaler), CPU or GPU.
        hook_interval: local steps between two calls of the hooks' ``after_local_steps``.
        cuda_graph: replay local steps from CUDA graphs: ``"auto"`` where it is possible, ``True``
            the same with a warning where there is no GPU, ``False`` never.
    """

    def __init__(
        self,
        runner: "FederatedRunner",
        dataloader: Mapping[str, Any],
        max_rounds: int,
        local_epochs: int = 1,
        local_steps: int | None = None,
        val_interval: int = 50,
        val_last_rounds: int = 100,
        val_last_interval: int = 5,
        amp: bool = False,
        hook_interval: int = 50,
        cuda_graph: bool | str = "auto",
    ) -> None:
        self._runner = runner
        for name, value in (
            ("max_rounds", max_rounds),
            ("val_interval", val_interval),
            ("val_last_interval", val_last_interval),
            ("hook_interval", hook_interval),
        ):
            check_int(f"train_cfg.{name}", value)
        check_int("train_cfg.val_last_rounds", val_last_rounds, least=0)
        check_bool("train_cfg.amp", amp)
        if not (isinstance(cuda_graph, bool) or cuda_graph == "auto"):
            raise ConfigError(
                f"train_cfg.cuda_graph: must be True, False or 'auto', not {cuda_graph!r}"
            )
        self.max_rounds = max_rounds
        self.val_interval = val_interval
        self.val_last_rounds = val_last_rounds
        self.val_last_interval = val_last_interval
        self.round = 0
        self.pending: dict[str, Any] | None = None
        self.trainer = ClientTrainer(
            runner.flat,
            runner.algorithm,
            runner.optim_wrapper,
            runner.data,
            seed=runner.seed,
            local_loss=runner.local_loss,
            amp=amp,
            call_hook=runner.call_hook,
            check=runner.interrupt.check,
            hook_interval=hook_interval,
            make_step=runner.make_step(cuda_graph),
        )
        runner.executor.bind(self.trainer)

    # MMEngine reads these where it speaks of epochs: a round is the epoch
    @property
    def max_epochs(self) -> int:
        return self.max_rounds

    @property
    def epoch(self) -> int:
        return self.round

    @property
    def iter(self) -> int:
        return self.round

    @property
    def max_iters(self) -> int:
        return self.max_rounds

    def evaluates(self, round_: int) -> bool:
        """Whether a round ends with an evaluation."""
        if round_ == self.max_rounds or round_ % self.val_interval == 0:
            return True
        in_window = round_ > self.max_rounds - self.val_last_rounds
        return in_window and round_ % self.val_last_interval == 0

    def run(self) -> None:
        """Train to ``max_rounds``; on Ctrl-C save what is finished and raise ``Interrupted``."""
        runner = self.runner
        try:
            runner.call_hook("before_train")
            if self.pending is not None:
                self._finish_round(self.pending)
            runner.data.start(
                JobStream(
                    runner.client_sampler.participants,
                    self.round + 1,
                    self.max_rounds,
                    runner.algorithm.passes(),
                )
            )
            while self.round < self.max_rounds:
                self._run_round()
        except Interrupted:
            runner.store.discard()
            runner.call_hook("on_interrupt")
            raise
        finally:
            runner.call_hook("after_stop")
            runner.data.close()
            runner.executor.close()
        runner.call_hook("after_train")

    def _run_round(self) -> None:
        runner, server, algorithm = self.runner, self.runner.server, self.runner.algorithm
        number = self.round + 1
        runner.round = server.round = number
        server.scratch.clear()
        participants = runner.client_sampler.participants(number)
        runner.optim_wrapper.start_round(number)
        runner.call_hook("before_train_epoch")
        runner.call_hook("before_round")

        record: dict[str, Any] = {
            "round": number,
            "participants": [],
            "lr": runner.optim_wrapper.optimizer.param_groups[0]["lr"],
            "loss": None,
            "rejected": [],
            "bytes_down": 0,
            "bytes_up": 0,
        }
        seconds = {"train": 0.0, "aggregate": 0.0, "evaluate": 0.0, "data_wait": 0.0}
        waited = runner.data.seconds_waiting
        for exchange in range(algorithm.exchanges):
            server.exchange = exchange
            last = exchange == algorithm.exchanges - 1
            message = algorithm.broadcast(server)
            down = server.traffic(message.num_vectors, buffers=not message.known)
            updates = Aggregate(algorithm.weightings)
            begin = time.perf_counter()
            results = iter(
                runner.executor.run(self._tasks(number, exchange, participants), message)
            )
            while True:
                result = next(results, None)
                seconds["train"] += time.perf_counter() - begin
                begin = time.perf_counter()
                if result is None:
                    break
                self._take(result, updates, record, down, commit=last)
                runner.call_hook("after_result", result=result)
                seconds["aggregate"] += time.perf_counter() - begin
                begin = time.perf_counter()
            self._require_updates(updates, record, participants)
            runner.call_hook("after_aggregate", updates=updates)
            algorithm.step(server, updates)
            if last:
                server.take_buffers(updates)
                record["norm_delta"] = float(updates.mean("delta").norm())
            seconds["aggregate"] += time.perf_counter() - begin
        accumulation = accumulation_dtype(server.w.device)
        record["norm_w"] = float(torch.linalg.vector_norm(server.w, dtype=accumulation))
        self._require_finite(record)
        for name, value in algorithm.diagnostics(server).items():
            record.setdefault(name, value)  # the round's own figures keep their names
        runner.store.commit(number)
        self.round = number
        accepted = [p for p in record["participants"] if p["loss"] is not None]
        samples = sum(p["samples"] for p in accepted)
        if samples:
            record["loss"] = sum(p["loss"] * p["samples"] for p in accepted) / samples
        seconds["data_wait"] = runner.data.seconds_waiting - waited
        record["seconds"] = seconds
        runner.call_hook("after_round", record=record)
        for scheduler in runner.param_schedulers or []:
            scheduler.step()
        self.pending = record
        self._finish_round(record)

    def _tasks(self, round_: int, exchange: int, participants: list[int]) -> list[Task]:
        data = self.runner.data
        return [
            Task(
                round=round_,
                exchange=exchange,
                client=client,
                name=data.clients[client],
                num_samples=data.sizes[client],
                num_steps=data.num_steps(client),
                state=self.runner.store.look_up(data.clients[client]),
            )
            for client in participants
        ]

    def _take(
        self,
        result: ClientResult,
        updates: Aggregate,
        record: dict[str, Any],
        down: int,
        commit: bool,
    ) -> None:
        """Check an update; add it to the sum and stage its client's state, or reject it.

        Args:
            down: bytes that the client has received.
            commit: whether this is the last exchange of the round.
        """
        runner, task = self.runner, result.task
        trained = runner.algorithm.trains(task.exchange)
        record["bytes_down"] += down
        record["bytes_up"] += runner.server.traffic(len(result.update.vectors), trained)
        expected = {"buffers": runner.server.buffers}
        if trained:
            expected["delta"] = runner.server.w
        reason = validate_update(
            {**result.update.vectors, "buffers": result.buffers, **result.state_vectors()},
            expected,
            runner.server.w,
        )
        if reason is not None:
            record["rejected"].append(
                {"client": task.name, "exchange": task.exchange, "reason": reason}
            )
            runner.logger.warning(
                f"round {task.round}: the update of client {task.name!r} is rejected: {reason}"
            )
        else:
            updates.add(result)
        if commit:
            record["participants"].append(
                {
                    "client": task.name,
                    "samples": task.num_samples,
                    "steps": task.num_steps,
                    "loss": result.loss if reason is None else None,
                }
            )
            if reason is None and result.state:
                runner.store.stage(task.name, result.state)

    def _require_updates(
        self, updates: Aggregate, record: dict[str, Any], participants: list[int]
    ) -> None:
        if updates.num_clients:
            return
        reasons = "; ".join(f"{r['client']}: {r['reason']}" for r in record["rejected"][:5])
        raise TrainingError(
            f"round {record['round']}: all {len(participants)} updates were rejected ({reasons}), "
            f"algorithm {type(self.runner.algorithm).__name__}. "
            f"{self.runner.latest_checkpoint_message()} "
            "Lower the local learning rate or set optim_wrapper.clip_grad"
        )

    def _require_finite(self, record: dict[str, Any]) -> None:
        if is_finite(self.runner.server.w):
            return
        raise TrainingError(
            f"round {record['round']}: the global model is not finite after "
            f"{type(self.runner.algorithm).__name__}'s server step. "
            f"{self.runner.latest_checkpoint_message()} "
            "Lower the learning rates or set optim_wrapper.clip_grad"
        )

    def _finish_round(self, record: dict[str, Any]) -> None:
        """Evaluate if it is time, write the history's line, checkpoint."""
        runner = self.runner
        runner.round = self.round
        if runner.val_loop is not None and self.evaluates(self.round):
            begin = time.perf_counter()
            record["metrics"] = runner.val_loop.run()
            record["seconds"]["evaluate"] = time.perf_counter() - begin
        self.pending = None
        runner.finish_round(record)
        runner.call_hook("after_train_epoch")
