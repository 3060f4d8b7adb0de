"""Clients that know few classes: the labels of all others are erased."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from warnings import warn

import numpy as np
from pydantic import NonNegativeInt, PositiveInt

from fedseg.errors import ConfigError
from fedseg.names import ERASED
from fedseg.partition.draws import generator
from fedseg.partition.natural import Clients, check_clients
from fedseg.registry import PARTITIONS


@dataclass(frozen=True)
class Holder:
    """A client of few classes."""

    classes: list[int]  # that it knows, ascending
    images: list[int]  # indices, ascending


@PARTITIONS.register_module()
class ClassHeterogeneous:
    """Clients of one class each, which know no other (FedSeg, Miao et al., CVPR 2023).

    Each image goes to one class of those in it: image by image, those with the fewest classes
    first, in a random order, to the class that has the fewest images so far. The images of a class
    are cut at random into its clients, ``car_0``, ``car_1`` and so on, and the labels of all other
    classes are erased (:data:`fedseg.names.ERASED`). How an image finds its class is not published.

    Args:
        classes_per_client: classes that a client knows; from two on the others are the next ones in
            a random order of the classes, the same for all.
        clients_per_class: clients that a class is cut into; a class with fewer images has one for
            each (a warning says so), one without images none.
        seed: of the draws.
    """

    def __init__(
        self,
        classes_per_client: PositiveInt = 1,
        clients_per_class: PositiveInt = 1,
        seed: NonNegativeInt = 0,
    ) -> None:
        self.classes_per_client, self.clients_per_class = classes_per_client, clients_per_class
        self.seed = seed

    def __call__(self, dataset: Any) -> Clients:
        """Client id -> indices into ``dataset``, int64, ascending; the labels are erased in it."""
        if not hasattr(dataset, "erase"):
            raise ConfigError(
                f"partition.type: ClassHeterogeneous needs label maps, which "
                f"{type(dataset).__name__} lacks: use DirichletPartition with alpha 0"
            )
        classes = dataset.classes
        if not self.classes_per_client <= len(classes) <= ERASED:
            raise ConfigError(
                f"partition.classes_per_client: is {self.classes_per_client}, and the data set has "
                f"{len(classes)} classes: use at most all of them, and {ERASED} classes at most"
            )
        images_with = dataset.class_pixels() > 0
        holders = self._draw(images_with, [name.strip() for name in classes])
        dataset.erase({i: holder.classes for holder in holders.values() for i in holder.images})
        missing = len(classes) * self.clients_per_class - len(holders)
        unused = len(dataset) - sum(len(holder.images) for holder in holders.values())
        if missing or unused:
            warn(
                f"partition: ClassHeterogeneous: {missing} of {missing + len(holders)} clients "
                f"have no image, and {unused} of {len(dataset)} images no class",
                stacklevel=2,
            )
        clients = {name: holder.images for name, holder in holders.items()}
        return check_clients(clients, len(dataset))

    def _draw(self, images_with: np.ndarray, names: Sequence[str]) -> dict[str, Holder]:
        """Clients by name, from which images show which class, bool [images, classes]."""
        rng = generator(self.seed, "ClassHeterogeneous")
        order = rng.permutation(len(images_with))
        order = order[np.argsort(images_with[order].sum(1), kind="stable")]
        ring = rng.permutation(len(names)).tolist()
        images_of = self._assign(images_with, order)
        holders = {}
        for number, name in enumerate(names):
            first = ring.index(number)
            known = [ring[(first + i) % len(ring)] for i in range(self.classes_per_client)]
            images = rng.permutation(np.array(images_of[number], np.int64))
            for part, members in enumerate(np.array_split(images, self.clients_per_class)):
                if members.size:
                    holders[f"{name}_{part}"] = Holder(sorted(known), sorted(members.tolist()))
        return holders

    def _assign(self, images_with: np.ndarray, order: np.ndarray) -> list[list[int]]:
        """The images of each class: each image in its turn goes to the class with the fewest."""
        total = images_with.sum(0)
        images_of: list[list[int]] = [[] for _ in total]
        for image in order.tolist():
            shown = np.flatnonzero(images_with[image]).tolist()
            if shown:
                fewest = min(shown, key=lambda number: (len(images_of[number]), total[number]))
                images_of[fewest].append(image)
        return images_of
