"""The run as the evaluation sees it."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from fedseg.core.client import Trainer
from fedseg.core.client_data import ClientData
from fedseg.core.hook import Run, TensorStore
from fedseg.core.local_state import LocalState


class EvaluatedRun(Run, Protocol):
    """The run as the evaluation sees it.

    Attributes:
        trainer: trains the clients whose fine-tuned models are evaluated.
        data: the clients' data.
        store: the clients' states, with their personal parts.
        local_state: what stays with each client; None: nothing.
        averaging: the average of models; None: the global model is evaluated.
        client_sizes: client -> its samples.
        held_out: client -> its samples for tests.
        domain_clients: domain -> its training clients.
        interrupt: its ``check`` raises to stop early.
        train_loop: the rounds.
    """

    trainer: Trainer
    data: ClientData
    store: TensorStore
    local_state: LocalState | None
    averaging: Any
    client_sizes: Mapping[str, int]
    held_out: Mapping[str, np.ndarray]
    domain_clients: Mapping[str, list[str]]
    interrupt: Any
    train_loop: Any

    def call_hook(self, fn_name: str, **arguments: Any) -> None:
        """Call a stage of every hook that has it."""

    def autocast(self) -> AbstractContextManager:
        """The context of every forward pass."""
