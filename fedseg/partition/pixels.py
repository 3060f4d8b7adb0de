"""Clients that know few classes: the labels of all others are erased."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any
from warnings import warn

import numpy as np
from pydantic import NonNegativeInt, PositiveInt

from fedseg.errors import ConfigError
from fedseg.files import write_text
from fedseg.names import ERASED
from fedseg.partition.draws import generator
from fedseg.partition.natural import Clients, check_clients
from fedseg.registry import PARTITIONS


@PARTITIONS.register_module()
class ClassHeterogeneous:
    """Clients of one class each, which know no other (FedSeg, Miao et al., CVPR 2023).

    Each image goes to one class of those in it: image by image, those with the fewest classes
    first, in a random order, to the class that has the fewest images so far. The images of a class
    are cut at random into its clients, ``car_0``, ``car_1`` and so on, and the labels of all other
    classes are erased (:data:`fedseg.names.ERASED`). How an image finds its class is not published.

    The split is written into ``splits/class_heterogeneous`` below the data set's root, for people
    to read.

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
        originals = dataset.unmirrored  # a mirrored image goes with its original
        names = [os.path.relpath(f[0], dataset.data_root) for f in dataset.files[:originals]]
        split = self._draw(dataset.class_pixels()[:originals] > 0, classes, names)
        options = f"{self.classes_per_client}x{self.clients_per_class}_seed{self.seed}"
        with suppress(OSError):  # a root that cannot be written to
            path = Path(dataset.data_root, "splits", "class_heterogeneous", f"{options}.json")
            if dataset.data_root:
                write_text(path, json.dumps(split, indent=1) + "\n")
        position, number = dict(zip(names, range(originals), strict=True)), [*classes].index
        clients, known = {}, {}
        for client, held in split.items():
            held_images = {position[name] for name in held["images"]}
            clients[client] = [i for i in range(len(dataset)) if i % originals in held_images]
            known |= {i: [number(c) for c in held["classes"]] for i in clients[client]}
        fewer = len(classes) * self.clients_per_class - len(clients)
        left = originals - sum(len(held["images"]) for held in split.values())
        if fewer or left:
            warn(
                f"partition: ClassHeterogeneous: {fewer} of {fewer + len(clients)} clients have no "
                f"image, and {left} of {originals} images no class",
                stacklevel=2,
            )
        dataset.erase(known)
        return check_clients(clients, len(dataset))

    def _draw(self, present: np.ndarray, classes: list[str], names: list[str]) -> dict[str, dict]:
        """Client -> its classes and images, by name; ``present``: bool [images, classes]."""
        rng = generator(self.seed, "ClassHeterogeneous")
        order = rng.permutation(len(present))
        order = order[np.argsort(present[order].sum(1), kind="stable")]
        ring, total = rng.permutation(len(classes)).tolist(), present.sum(0)
        images: list[list[int]] = [[] for _ in classes]
        for image in order[present[order].any(1)].tolist():
            there = np.flatnonzero(present[image]).tolist()
            images[min(there, key=lambda c: (len(images[c]), total[c]))].append(image)
        split = {}
        for number, held in enumerate(images):
            at = ring.index(number)
            known = [ring[(at + i) % len(ring)] for i in range(self.classes_per_client)]
            parts = np.array_split(rng.permutation(held), self.clients_per_class)
            for part, members in enumerate(p.astype(int) for p in parts):
                if members.size:
                    split[f"{classes[number].strip()}_{part}"] = {
                        "classes": [classes[c] for c in sorted(known)],
                        "images": [names[i] for i in sorted(members)],
                    }
        return split
