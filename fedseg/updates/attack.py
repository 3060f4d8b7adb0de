"""Attacks: clients that send bad updates, for testing robust aggregation."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from pydantic import NonNegativeInt
from torch import Tensor

from fedseg.config.arguments import Positive, Share
from fedseg.core.algorithm import Algorithm
from fedseg.core.client import Client
from fedseg.core.client_data import ClientData
from fedseg.core.flat import FlatModel
from fedseg.core.messages import Update
from fedseg.errors import ConfigError
from fedseg.registry import ATTACKS
from fedseg.updates.postprocessor import Postprocessor

ROAD = ("road", "sidewalk")
LABELS = "data_samples"
MOST_CLASSES = 2**16  # of data without names of classes


class Attack(Postprocessor):
    """Base: a seeded share of all clients attacks, the same ones in every round.

    Args:
        share: of the clients, rounded, at least one.
        seed: for choosing them.

    Attributes:
        attackers: their positions in the partition.
    """

    def __init__(self, share: Share = 0.2, seed: NonNegativeInt = 0) -> None:
        self.share = share
        self.seed = seed
        self.attackers: frozenset[int] = frozenset()

    def setup(self, flat: FlatModel, algorithm: Algorithm, data: ClientData, seed: int) -> None:
        order = np.random.default_rng(self.seed).permutation(len(data.clients))
        count = max(1, round(self.share * len(order)))
        self.attackers = frozenset(order[:count].tolist())


@ATTACKS.register_module()
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

    def process_update(self, client: Client, update: Update) -> None:
        if client.index not in self.attackers:
            return
        update.vectors = self._flip(update.vectors)
        update.payloads = self._flip(update.payloads)
        update.numbers = self._flip(update.numbers)

    def _flip(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: -self.scale * value for name, value in values.items()}


@ATTACKS.register_module()
class LabelSwap(Attack):
    """Attackers have the labels of two classes exchanged in every batch that they train on.

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
        self._first, self._second = 0, 1

    def setup(self, flat: FlatModel, algorithm: Algorithm, data: ClientData, seed: int) -> None:
        super().setup(flat, algorithm, data, seed)
        metainfo = getattr(getattr(data, "dataset", None), "metainfo", None) or {}
        self._first, self._second = self._find_ids(list(metainfo.get("classes") or ()))

    def _find_ids(self, names: list[str]) -> tuple[int, int]:
        """The ids of the two classes, among those of these names."""
        if self.classes is not None:
            classes = list(self.classes)
        elif set(ROAD) <= set(names):
            classes = list(ROAD)
        else:
            classes = [0, 1]
        allowed = range(len(names)) if names else range(MOST_CLASSES)
        ids: list[int] = []
        for entry in classes:
            if isinstance(entry, int) and entry in allowed:
                ids.append(entry)
            elif isinstance(entry, str) and entry in names:
                ids.append(names.index(entry))
        if len(classes) != 2 or len(set(ids)) != 2:
            raise ConfigError(
                f"attack.classes: must be two of {names or 'the class ids'}, not {classes}"
            )
        return ids[0], ids[1]

    def process_batch(self, client: Client, batch: Any) -> Any:
        if client.index not in self.attackers:
            return batch
        labels = batch.get(LABELS) if isinstance(batch, Mapping) else None
        if not isinstance(labels, Tensor):
            raise ConfigError(
                f"attack: LabelSwap needs batches that are a dict with a tensor {LABELS!r}, not "
                f"{type(batch).__name__}: change train_dataloader.collate_fn"
            )
        return {**batch, LABELS: swap_classes(labels, self._first, self._second)}


def swap_classes(labels: Tensor, first: int, second: int) -> Tensor:
    """Labels with two classes exchanged: ids of any shape, or probabilities [B, C]."""
    if labels.is_floating_point():
        order = list(range(labels.shape[1]))
        order[first], order[second] = second, first
        return labels[:, order]
    swapped = torch.where(labels == first, second, labels)
    return torch.where(labels == second, first, swapped)
