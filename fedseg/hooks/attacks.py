"""Attacks: clients that send bad updates, for testing robust aggregation."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from pydantic import NonNegativeInt
from torch import Tensor

from fedseg.config.schema import Positive, Share
from fedseg.core.client import Client
from fedseg.core.hook import FederatedHook, Run
from fedseg.core.local_loss import LocalLoss
from fedseg.core.messages import Update
from fedseg.errors import ConfigError
from fedseg.registry import HOOKS

ROAD = ("road", "sidewalk")


class Attack(FederatedHook):
    """A seeded share of all clients attacks, always the same ones.

    Args:
        share: of the clients, rounded, at least one.
        seed: for choosing them.
    """

    priority = "VERY_LOW"  # after hooks that change what a client sends

    def __init__(self, share: Share = 0.2, seed: NonNegativeInt = 0) -> None:
        self.share, self.seed = share, seed

    def attacks(self, runner: Run, client: Client) -> bool:
        """True if the client is one of the attackers."""
        clients = len(runner.data.clients)
        order = np.random.default_rng(self.seed).permutation(clients)
        return client.index in order[: max(1, round(self.share * clients))]


@HOOKS.register_module()
class SignFlip(Attack):
    """Attackers send the negative of their update, of its payloads and numbers, too.

    BatchNorm's statistics are a state, no update, and are sent as they are.

    Args:
        share, seed: see :class:`Attack`.
        scale: factor of its length.
    """

    def __init__(self, share: Share = 0.2, seed: NonNegativeInt = 0, scale: Positive = 1.0) -> None:
        super().__init__(share, seed)
        self.scale = scale

    def after_client(self, runner: Run, client: Client, update: Update) -> None:
        if not self.attacks(runner, client):
            return
        update.vectors = {n: -self.scale * vector for n, vector in update.vectors.items()}
        update.payloads = {n: -self.scale * payload for n, payload in update.payloads.items()}
        update.numbers = {n: -self.scale * number for n, number in update.numbers.items()}


@HOOKS.register_module()
class LabelSwap(Attack):
    """Attackers train with the labels of two classes exchanged.

    Args:
        share, seed: see :class:`Attack`.
        classes: names or ids of two classes; None: road and sidewalk, or the first two of a data
            set without them.
    """

    def __init__(
        self,
        share: Share = 0.2,
        seed: NonNegativeInt = 0,
        classes: Sequence[str | int] | None = None,
    ) -> None:
        super().__init__(share, seed)
        self.classes = classes
        self._handle: Any = None

    def before_train(self, runner: Any) -> None:
        kind = type(runner.trainer.local_loss)
        if kind is not LocalLoss:  # many take the labels of a batch themselves
            raise ConfigError(
                f"custom_hooks: LabelSwap swaps the labels that the model is given, and not those "
                f"of local_loss {kind.__name__}: leave one out"
            )

    def before_client(self, runner: Run, client: Client) -> None:
        if self.attacks(runner, client):
            first, second = self._ids(runner)

            def swap(_: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
                return args, {
                    **kwargs,
                    "data_samples": _swap(kwargs["data_samples"], first, second),
                }

            self._handle = client.model.register_forward_pre_hook(swap, with_kwargs=True)

    def after_client(self, runner: Run, client: Client, update: Update) -> None:
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def _ids(self, runner: Run) -> tuple[int, int]:
        meta: Mapping[str, Any] = getattr(runner.data.dataset, "metainfo", None) or {}
        names = list(meta.get("classes") or ())
        chosen = self.classes or (ROAD if set(ROAD) <= set(names) else (0, 1))
        try:
            first, second = (names.index(c) if isinstance(c, str) else c for c in chosen)
        except ValueError as error:
            raise ConfigError(
                f"custom_hooks: LabelSwap.classes must be two of {names or 'the class ids'}, not "
                f"{list(chosen)}"
            ) from error
        return first, second


def _swap(labels: Tensor, first: int, second: int) -> Tensor:
    """Labels with two classes exchanged: ids of any shape, or probabilities [B, C]."""
    if labels.is_floating_point():
        order = list(range(labels.shape[1]))
        order[first], order[second] = second, first
        return labels[:, order]
    swapped = torch.where(labels == first, second, labels)
    return torch.where(labels == second, first, swapped)
