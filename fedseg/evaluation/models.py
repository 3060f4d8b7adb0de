"""The models of a run whose clients keep parts of them: of clients, of domains, their mean."""

from collections.abc import Iterable

from torch import Tensor

from fedseg.errors import ConfigError
from fedseg.evaluation.run import EvaluatedRun

Model = tuple[Tensor, Tensor]  # parameters and float buffers, flat


class ClientModels:
    """A global model with what stays with the clients.

    Args:
        run: has the clients' states.
        w: the global parameters, flat.
        buffers: the global float buffers, flat.
    """

    def __init__(self, run: EvaluatedRun, w: Tensor, buffers: Tensor) -> None:
        self.run = run
        self.w = w
        self.buffers = buffers

    def of_clients(self, clients: Iterable[str], own_model: bool = True) -> Model | None:
        """The model with the clients' own parts; None if there are no such parts yet.

        Args:
            clients: their names; several clients' parts are averaged.
            own_model: use the whole models of clients that have one.
        """
        run = self.run
        if run.local_state is None:
            return None
        states = [(run.client_sizes[client], run.store.get(client)) for client in clients]
        return run.local_state.personal_model(self.w, self.buffers, states, own_model)

    def shared(self) -> Model:
        """The model of nobody in particular: parameters that clients keep are their mean."""
        local_state = self.run.local_state
        if local_state is None or not local_state.parameter_names:
            return self.w, self.buffers
        mean = self.mean()
        return (self.w if mean is None else mean[0]), self.buffers

    def mean(self) -> Model | None:
        """The model with the mean of what clients keep, by samples; None if none has trained.

        BatchNorm statistics are those of the union of the clients' samples.
        """
        return self.of_clients(self.run.client_sizes, own_model=False)

    def of_domain(self, name: str) -> Model:
        """The model with the local state of a domain's clients, or of one client."""
        if self.run.local_state is None:
            raise ConfigError("domain: does not apply: this run shares the whole model")
        known = self._clients_by_name()
        model = self.of_clients(known[name]) if name in known else None
        if model is None:
            shown = ", ".join(self.trained()[-20:])
            raise ConfigError(f"domain: {name!r} has no client that trained: name one of {shown}")
        return model

    def trained(self) -> list[str]:
        """Clients, then domains, that have local state."""
        known = self._clients_by_name()
        return [name for name in known if self.of_clients(known[name]) is not None]

    def _clients_by_name(self) -> dict[str, list[str]]:
        """The clients of each client and of each domain; a domain's of a name of both."""
        clients = {client: [client] for client in self.run.client_sizes}
        return {**clients, **self.run.domain_clients}
