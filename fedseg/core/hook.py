"""The stages of a federated run at which a hook may act."""

from typing import TYPE_CHECKING, Any

from mmengine.hooks import Hook

if TYPE_CHECKING:
    from fedseg.core.client import Client
    from fedseg.core.messages import ClientResult, Update
    from fedseg.core.server import Aggregate
    from fedseg.runner.runner import FederatedRunner


class FederatedHook(Hook):
    """An MMEngine hook with the stages of federated training; override what you need.

    MMEngine's own stages are called too, where they have a meaning: ``before_run``,
    ``before_train``, ``before_train_epoch`` and ``after_train_epoch`` (a round), ``before_val``,
    ``after_val_epoch(metrics)``, ``after_val``, ``after_train``, ``after_run``.
    """

    def before_round(self, runner: "FederatedRunner") -> None:
        """Before the broadcast of round ``runner.round`` (from 1)."""

    def before_client(self, runner: "FederatedRunner", client: "Client") -> None:
        """The client has loaded the global model and its state, before its first local step."""

    def after_local_steps(self, runner: "FederatedRunner", client: "Client") -> None:
        """Every ``train_cfg.hook_interval`` local steps."""

    def after_client(self, runner: "FederatedRunner", client: "Client", update: "Update") -> None:
        """The client has finished; ``update.vectors`` may be changed before they are checked."""

    def after_result(self, runner: "FederatedRunner", result: "ClientResult") -> None:
        """The server has taken a client's result, or rejected it; its loss is a plain number."""

    def after_aggregate(self, runner: "FederatedRunner", updates: "Aggregate") -> None:
        """The updates of an exchange are summed, before the server's step."""

    def after_round(self, runner: "FederatedRunner", record: dict[str, Any]) -> None:
        """``runner.server.w`` is the new global model; ``record`` becomes the history's line."""

    def on_interrupt(self, runner: "FederatedRunner") -> None:
        """The run stops early: undo what a round in progress changed, save what must be saved."""

    def after_stop(self, runner: "FederatedRunner") -> None:
        """The rounds are over, whether they were finished, interrupted or ended by an error."""

    def register_stores(self, runner: "FederatedRunner") -> None:
        """Register state stores of this hook's own with ``runner.register_store``."""

    def before_val_domain(self, runner: "FederatedRunner", domain: str) -> None:
        """Before a domain is evaluated."""

    def after_val_batch(self, runner: "FederatedRunner", figures: str, samples: int) -> None:
        """So many more images were predicted for the figures named ``<figures>/...``."""

    def results(self, runner: "FederatedRunner", history: list[dict[str, Any]]) -> dict[str, Any]:
        """What this hook adds to ``results.json``, by name."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint must keep of this hook: tensors and plain Python values."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that :meth:`state_dict` gave."""
