"""The models that clients train in the round after a checkpoint."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from mmengine.logging import MMLogger
from torch import Tensor

from fedseg.config.components import LOCAL_TRAINING
from fedseg.core.aggregate import Outcome
from fedseg.core.client_data import client_jobs
from fedseg.core.hook import FederatedHook, Run
from fedseg.core.server import Server
from fedseg.curvature.run_data import RunData
from fedseg.curvature.surface import Point
from fedseg.engine.executor import InProcessExecutor
from fedseg.engine.loop import FederatedTrainLoop
from fedseg.errors import ConfigError, DataError
from fedseg.files import own_path
from fedseg.hooks.averaging import ModelAverage
from fedseg.memory import map_tensors
from fedseg.registry import HOOKS, LOOPS, build
from fedseg.runner.build import build_schedulers
from fedseg.runner.checkpoint import load_checkpoint, run_folder
from fedseg.runner.state_store import StateStore


def train_models(
    run: RunData, checkpoint: Path, clients: Collection[str] | None = None
) -> list[Point]:
    """Train clients in the round after a checkpoint, as its run would, and return their models.

    A table of "the last round's participants" takes the checkpoint of the round before. The
    averaged model plays no part in training.

    Args:
        run: the checkpoint's.
        checkpoint: its file.
        clients: their names; None: the participants of the round. Others begin with the states that
            they have as well.

    Returns:
        The models in client order, by the clients' names.
    """
    positions = None
    if clients is not None:
        unknown = sorted({*clients} - {*run.data.clients})
        if unknown:
            raise ConfigError(f"--client: the run has no client {', '.join(map(repr, unknown))}")
        positions = [n for n, name in enumerate(run.data.clients) if name in clients]
    if run.hooks:
        raise ConfigError(
            f"custom_hooks: {', '.join(map(str, run.hooks))} may change how clients train, and "
            "hooks are left out here, so the participants' models are not available"
        )
    return RestoredRun(run, checkpoint).train(positions)


class RestoredRun:
    """A run as it was at a checkpoint, to train the next round without leaving a trace.

    What its loop needs of it is :class:`fedseg.engine.loop.TrainedRun`.
    """

    val_loop = None
    param_schedulers = ()

    def __init__(self, run: RunData, checkpoint: Path) -> None:
        trainer = run.trainer
        self.round = 0
        self.max_rounds = run.config.train_cfg.max_rounds
        self.trainer = trainer
        self.algorithm = trainer.algorithm
        self.optim_wrapper = trainer.local
        self.flat = run.flat
        self.model = run.flat.model
        self.data = run.data
        self.client_sampler = run.sampler
        self.logger = MMLogger.get_current_instance()
        self.executor = InProcessExecutor()
        self.executor.bind(self)
        self._restore(run, checkpoint)
        self._collector = ModelCollector()
        self._hooks: list[Any] = [self._collector]
        if run.config.get("averaging") is not None:  # it may set the rates of a round
            options = {k: v for k, v in run.config.averaging.items() if k != "priority"}
            self._hooks.append(build(HOOKS, options, "averaging", base=ModelAverage))
        options = {k: v for k, v in run.config.train_cfg.items() if k not in LOCAL_TRAINING}
        parts = {"runner": self, "dataloader": None}
        self._loop: FederatedTrainLoop = build(LOOPS, options, "train_cfg", parts)

    def _restore(self, run: RunData, checkpoint: Path) -> None:
        """Take global model, server, clients' states and local rate from a checkpoint."""
        payload = load_checkpoint(checkpoint)
        if "server" not in payload:
            raise DataError(f"{checkpoint}: has no training state, such as one that was shared")
        self.flat.load_state_dict(payload["state_dict"])
        num_clients = len(self.data.clients)
        vectors = self.algorithm.server_vectors
        self.server = Server(self.flat, num_clients, vectors, run.local_state)
        self.server.keep(self.trainer.payloads.values())
        device = self.server.w.device
        self.server.load_state_dict(map_tensors(lambda t: t.to(device), payload["server"]))
        store = StateStore(own_path(run_folder(checkpoint), "state/clients.sqlite"))
        journal = store.path.with_name(f"{store.path.name}-journal")
        if journal.exists():  # reading would undo the round, in a folder that is not ours
            raise DataError(f"{journal}: the run is in a round, or was killed in one: resume it")
        store.load_state_dict(payload["stores"]["clients"])
        self.store = ReadStates(store)
        if build_schedulers(run.config, self.optim_wrapper):
            self.optim_wrapper.load_state_dict(payload["optim_wrapper"])
        self._last_round: int = payload["round"]

    def train(self, clients: list[int] | None = None) -> list[Point]:
        """The models that clients, by their positions, train in the next round; see above."""
        number = self._last_round + 1
        participants = self.client_sampler.participants(number)
        exchanges = self.algorithm.exchanges
        jobs = []
        for position, exchange in enumerate(exchanges):
            if clients is not None and position == len(exchanges) - 1:
                participants = clients
            for client in participants:
                jobs.extend(client_jobs(exchange, number, position, client))
        try:
            self.executor.start(jobs)
            self._loop.rehearse_round(number, clients)
        finally:
            self.data.close()
        return self._collector.models

    def call_hook(self, fn_name: str, **arguments: Any) -> None:
        """Call a stage of the average and of what collects the models."""
        for hook in self._hooks:
            getattr(hook, fn_name)(self, **arguments)

    def check_data_files(self) -> None:
        """Nothing: the loader names a file that is gone."""


class ReadStates:
    """The clients' states of a run, without writing to its file."""

    def __init__(self, store: StateStore) -> None:
        self._store = store

    def look_up(self, key: str) -> Mapping[str, Tensor]:
        """The committed tensors of a key."""
        return self._store.look_up(key)

    def stage(self, key: str, round_: int, tensors: Mapping[str, Tensor]) -> None:
        """Nothing: the round does not count."""

    def discard(self) -> None:
        """Nothing: no state was staged."""


class ModelCollector(FederatedHook):
    """Keeps the models that clients train in the last exchange of a round."""

    def __init__(self) -> None:
        self.models: list[Point] = []

    def after_result(self, runner: Run, result: Outcome) -> None:
        if result.task.exchange == len(runner.algorithm.exchanges) - 1:
            w = runner.flat.w.clone()
            self.models.append(Point(result.task.name, w, runner.flat.buffers.clone()))
