"""The stages of a federated run at which a hook may act, and what it sees of the run."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from logging import Logger
from typing import Any, Protocol

from mmengine.hooks import Hook
from torch import Tensor, nn

from fedseg.core.aggregate import Aggregate
from fedseg.core.algorithm import Algorithm
from fedseg.core.client import Client, LocalOptimizer
from fedseg.core.client_data import ClientData
from fedseg.core.flat import FlatModel
from fedseg.core.messages import Outcome, Payload, Update
from fedseg.core.server import Server


class Run(Protocol):
    """The run as its hooks, loops and evaluators see it.

    Attributes:
        model, flat: the network, and its parameters, gradients and buffers as vectors.
        server: the global model and the algorithm's vectors.
        algorithm, data, optim_wrapper: the parts of the local training.
        store: the clients' states. client_sampler, executor, param_schedulers: as configured.
        train_loop, val_loop: the loops; ``val_loop`` is None in a run without evaluation.
        history: takes the line of each finished round.
        round: the present round, from 1. max_rounds: rounds of the run.
        work_dir: where the run writes. logger: for the user's messages.
    """

    model: nn.Module
    flat: FlatModel
    server: Server
    algorithm: Algorithm
    data: ClientData
    optim_wrapper: LocalOptimizer
    store: Any
    client_sampler: Any
    executor: Any
    param_schedulers: list[Any]
    train_loop: Any
    val_loop: Any
    history: Any
    round: int
    max_rounds: int
    work_dir: str
    logger: Logger

    def call_hook(self, fn_name: str, **kwargs: Any) -> None:
        """Call a stage of every hook that has it."""

    def autocast(self) -> AbstractContextManager:
        """The context of every forward pass."""

    def evaluated_model(self) -> tuple[Tensor, Tensor]:
        """(parameters, buffers) of the averaged model if there is one, else of the global one."""

    def open_store(self, name: str, keep: str) -> Any:
        """A :class:`fedseg.runner.state_store.StateStore` that checkpoints save and restore."""


class FederatedHook(Hook):
    """An MMEngine hook with the stages of federated training; override what you need.

    MMEngine's own stages are also called, where they apply: ``before_run``,
    ``before_train``, ``before_train_epoch`` and ``after_train_epoch`` (a round), ``before_val``,
    ``after_val_epoch(metrics)``, ``after_val``, ``after_train``, ``after_run``.
    """

    payloads: Sequence[Payload] = ()  # to be added in after_client, and read in after_aggregate

    def bind(self, flat: FlatModel) -> None:
        """Called once with the model's vectors; raises ConfigError if the hook does not apply."""

    def before_round(self, runner: Run) -> None:
        """Before the broadcast of round ``runner.round`` (from 1)."""

    def before_client(self, runner: Run, client: Client) -> None:
        """The client has loaded the global model and its state, before its first local step."""

    def after_local_steps(self, runner: Run, client: Client) -> None:
        """Every ``train_cfg.hook_interval`` local steps."""

    def after_client(self, runner: Run, client: Client, update: Update) -> None:
        """The client has finished; ``update`` may be changed, before attack, compression, clip."""

    def after_result(self, runner: Run, result: Outcome) -> None:
        """The server has taken a client's result, or rejected it; its loss is a plain number."""

    def after_aggregate(self, runner: Run, sums: Aggregate) -> None:
        """The updates of an exchange are summed, before noise and the server's step."""

    def after_round(self, runner: Run, record: dict[str, Any]) -> None:
        """``runner.server.w`` is the new global model; ``record`` becomes the history's line."""

    def on_interrupt(self, runner: Run) -> None:
        """The run stops early: undo what a round in progress changed, save what must be saved."""

    def after_stop(self, runner: Run) -> None:
        """The rounds are over: finished, interrupted or ended by an error."""

    def register_stores(self, runner: Run) -> None:
        """Open this hook's own stores with ``runner.open_store``."""

    def before_val_domain(self, runner: Run, domain: str) -> None:
        """Before a domain is evaluated."""

    def after_val_batch(self, runner: Run, prefix: str, samples: int) -> None:
        """A test batch of so many images was predicted, for the metrics ``<prefix>/...``."""

    def results(self, runner: Run, history: list[dict[str, Any]]) -> dict[str, Any]:
        """Entries of this hook in ``results.json``, by name."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """This hook's state for a checkpoint: tensors and plain Python values."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state from :meth:`state_dict`."""
