"""The stages of a federated run at which a hook may act, and what it sees of the run."""

# before what imports MMEngine's optimizers itself
import fedseg.mmengine_optim  # noqa: F401, isort: skip

from collections.abc import Sequence
from logging import Logger
from typing import Any, Protocol

from mmengine.hooks import Hook
from torch import Tensor, nn

from fedseg.core.aggregate import Aggregate, Outcome
from fedseg.core.algorithm import Algorithm
from fedseg.core.client import Client, LocalOptimizer
from fedseg.core.flat import FlatModel
from fedseg.core.messages import Payload, Update
from fedseg.core.server import Server


class TensorStore(Protocol):
    """Tensors by key that outlive a round; :class:`fedseg.runner.state_store.StateStore` is one."""

    def stage(self, key: str, round_: int, tensors: dict[str, Tensor]) -> None:
        """Write new tensors of a key, which the round's commit makes current."""

    def commit(self) -> None:
        """Make everything staged current."""

    def get(self, key: str) -> dict[str, Tensor]:
        """The current tensors of a key (do not change them in place); empty if there are none."""


class Run(Protocol):
    """The run as its hooks see it.

    In a worker process, which calls ``before_client``, ``after_local_steps`` and ``after_client``,
    there is no server, and nothing to write.

    Attributes:
        round: the present round, from 1.
        max_rounds: rounds of the run.
        model: the one network, in which clients are trained and models are evaluated in turn.
        flat: its parameters, gradients and buffers as vectors.
        server: the global model and the algorithm's vectors.
        algorithm: client rule and server rule.
        optim_wrapper: the local optimizer.
        work_dir: where the run writes.
        logger: for the user's messages.
    """

    round: int
    max_rounds: int
    model: nn.Module
    flat: FlatModel
    server: Server
    algorithm: Algorithm
    optim_wrapper: LocalOptimizer
    work_dir: str
    logger: Logger

    def evaluated_model(self) -> tuple[Tensor, Tensor]:
        """(parameters, buffers) of the averaged model if there is one, else of the global one."""

    def open_store(self, name: str) -> TensorStore:
        """A store of tensors that checkpoints save and restore."""


class FederatedHook(Hook):
    """An MMEngine hook with the stages of federated training; override what you need.

    The stages in the order of a run; those that are no methods here are MMEngine's. (A test has
    ``before_test``, ``after_test_epoch``, ``after_test`` for those of ``val``.) Before them all
    the runner calls ``bind``.

    ======================  ==============  =====================================================
    Stage                   Called by       For
    ======================  ==============  =====================================================
    ``before_run``          the runner      what needs the built run
    ``register_stores``     the runner      opening stores, before a checkpoint restores them
    ``before_train``        the loop        the first of the rounds of this process
    ``before_train_epoch``  the loop        as ``before_round``, earlier; for MMEngine's hooks
    ``before_round``        the loop        rates of the round, changes of the global model
    ``before_client``       the trainer     changing what the client starts with
    ``after_local_steps``   the trainer     watching long local training
    ``after_client``        the trainer     adding payloads to the update, or changing it
    ``after_result``        the loop        watching clients as their results come
    ``after_aggregate``     the loop        reading the payloads' sums
    ``after_round``         the loop        averages of models, entries of the history's line
    ``before_val``          the evaluation  the first of the test sets
    ``before_val_domain``   the evaluation  loading the statistics of a domain
    ``after_val_batch``     the evaluation  progress
    ``after_val_epoch``     the evaluation  ``metrics`` of all test sets
    ``after_val``           the evaluation  the end of an evaluation
    ``after_train_epoch``   the loop        saving: the round's line is in the history
    ``on_interrupt``        the loop        undoing what the round in progress has changed
    ``after_stop``          the loop        closing what is open, also after an error
    ``after_train``         the loop        the end of the rounds
    ``after_run``           the runner      what needs the results
    ======================  ==============  =====================================================

    Attributes:
        payloads: what it adds to updates in ``after_client`` and reads in ``after_aggregate``.
    """

    payloads: Sequence[Payload] = ()

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

    def after_aggregate(self, runner: Run, aggregate: Aggregate) -> None:
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
