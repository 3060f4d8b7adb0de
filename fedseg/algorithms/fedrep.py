"""FedRep and FedBABU: a client trains one part of the model while the other one stays fixed.

Collins et al., "Exploiting Shared Representations for Personalized Federated Learning", ICML 2021,
algorithm 1 (FedRep); Oh et al., "FedBABU: Toward Enhanced Representation for Federated Image
Classification", ICLR 2022.
"""

from collections.abc import Mapping
from typing import Annotated

import torch
from annotated_types import Interval

from fedseg.algorithms.fedavg import FedAvg
from fedseg.config.arguments import Float32
from fedseg.core.client import Client, LocalOptimizer
from fedseg.core.flat import FlatModel
from fedseg.core.messages import Update
from fedseg.errors import ConfigError
from fedseg.registry import ALGORITHMS


class PartTraining(FedAvg):
    """Base: local steps that train the personal part or the shared one.

    The fixed part has no gradient: SAM and clipping see the other part alone. What weight decay and
    momentum do to it is undone after every step.
    """

    def setup(self, flat: FlatModel, local: LocalOptimizer, max_rounds: int) -> None:
        if self.local_state is None or not self.local_state.parameter_names:
            raise ConfigError(
                f"personal: {type(self).__name__} needs a part that stays with the clients, such "
                "as '@head'"
            )
        named = dict(flat.model.named_parameters())
        trained = {name: parameter for name, parameter in named.items() if parameter.requires_grad}
        personal = self.local_state.parameter_names
        self._personal = [p for name, p in trained.items() if name in personal]
        self._shared = [p for name, p in trained.items() if name not in personal]
        self._personal_mask = self.local_state.parameter_mask
        self._shared_mask = ~self._personal_mask

    def train_personal(self, client: Client) -> None:
        """Train the personal part from here on."""
        self._fix(self._shared, self._personal)
        self._fixed = self._shared_mask
        self._values = client.w.clone()

    def train_shared(self, client: Client) -> None:
        """Train the shared part from here on."""
        self._fix(self._personal, self._shared)
        self._fixed = self._personal_mask
        self._values = client.w.clone()

    @staticmethod
    def _fix(fixed: list[torch.nn.Parameter], trained: list[torch.nn.Parameter]) -> None:
        for parameter in fixed:
            parameter.requires_grad_(False)
        for parameter in trained:
            parameter.requires_grad_(True)

    def after_step(self, client: Client) -> None:
        torch.where(self._fixed, self._values, client.w, out=client.w)

    def finish(self, client: Client) -> Update:
        self._fix([], self._personal + self._shared)
        return super().finish(client)


@ALGORITHMS.register_module()
class FedRep(PartTraining):
    """Each client trains its personal part first, then the shared one.

    The server takes the uniform mean of the participants' shared parts. Of K local steps
    ``min(max(1, round(personal_share K)), K - 1)`` train the personal part, so that each part has
    at least one. The second phase starts with a new optimizer.

    Args:
        personal_share: share of the local steps that train the personal part, between 0 and 1; 10
            of 11 epochs in the paper.
        server_optim: as in :class:`FedAvg`.
    """

    def __init__(
        self,
        personal_share: Annotated[Float32, Interval(gt=0, lt=1)] = 0.5,
        server_optim: Mapping | None = None,
    ) -> None:
        super().__init__(server_optim, uniform=True)
        self.personal_share = personal_share

    def setup(self, flat: FlatModel, local: LocalOptimizer, max_rounds: int) -> None:
        super().setup(flat, local, max_rounds)
        for number, client in enumerate(self.data.clients):
            if self.data.num_steps(number) < 2:
                raise ConfigError(
                    f"train_cfg: FedRep trains one part after the other, and client {client!r} has "
                    "one local step: raise local_epochs or local_steps, or lower "
                    "train_dataloader.batch_size"
                )

    def personal_steps(self, steps: int) -> int:
        """Those of a client's local steps that train the personal part."""
        return min(max(1, round(self.personal_share * steps)), steps - 1)

    def begin(self, client: Client) -> None:
        self.train_personal(client)

    def after_step(self, client: Client) -> None:
        super().after_step(client)
        if client.step + 1 == self.personal_steps(client.num_steps):
            self.train_shared(client)
            client.local.reset_state()


@ALGORITHMS.register_module()
class FedBABU(PartTraining):
    """FedAvg of the shared part; the personal part keeps its initial values.

    Args:
        server_optim, uniform: as in :class:`FedAvg`.
    """

    def begin(self, client: Client) -> None:
        self.train_shared(client)
