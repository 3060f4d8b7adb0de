"""Base of the steps between a client's update and the server's step."""

from typing import Any, ClassVar

from fedseg.core.aggregate import Aggregate
from fedseg.core.algorithm import AggregationRule, Algorithm
from fedseg.core.client import Client
from fedseg.core.client_data import ClientData
from fedseg.core.flat import FlatModel
from fedseg.core.messages import Update
from fedseg.core.server import Server


class Postprocessor:
    """A step of what happens to an update on its way; this one leaves everything as it is.

    A run has a list of them: attack, compression, privacy. They act where the clients are trained
    (``process_batch``, ``process_update``) and on the server (``process_aggregate``).

    Attributes:
        aggregation_rule: how updates must be summed for it; None: in any way.
    """

    aggregation_rule: ClassVar[AggregationRule | None] = None

    def setup(self, flat: FlatModel, algorithm: Algorithm, data: ClientData, seed: int) -> None:
        """Called once before training.

        Args:
            flat: the model. algorithm: of the run. data: the clients' data. seed: the run's.

        Raises:
            ConfigError: the step does not apply to one of them.
        """

    def check(self, run: Any) -> None:
        """Called once before the first round, on the server, with the whole run.

        Raises:
            ConfigError: the step does not apply to the run.
        """

    def process_batch(self, client: Client, batch: Any) -> Any:
        """The batch that the client trains on, instead of ``batch``, which is not changed."""
        return batch

    def process_update(self, client: Client, update: Update) -> None:
        """Change what the client sends; its tensors may be the client's, so replace them."""

    def process_aggregate(self, server: Server, aggregate: Aggregate) -> None:
        """Change the sums of an exchange before the server's step."""

    def metrics(self, round_: int) -> dict[str, float | None]:
        """Figures of a finished round for the history, by name."""
        return {}

    def results(self, rounds: int) -> dict[str, Any]:
        """Entries of ``results.json`` after so many rounds, by name."""
        return {}
