"""Partitions that draw nothing: by users or domains, from indices, or from released files."""

import warnings
from collections.abc import Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from annotated_types import MinLen
from pydantic import NonNegativeFloat, PositiveInt, RootModel

from fedseg.checks import is_number, shown
from fedseg.config.arguments import STRICT, check_value, read_model
from fedseg.core.seeds import generator_for
from fedseg.errors import ConfigError, DataError
from fedseg.files import read_json
from fedseg.names import NAME_RULE, is_name
from fedseg.registry import PARTITIONS, build

Clients = dict[str, np.ndarray]
RELEASED = Path("splits", "released")  # below the root of the images
RELEASED_NOTE = "split.json"
FIELD = "train_dataloader.partition"  # for messages
OPTION_KEYS = (
    "holdout",
    "unlabelled",
)  # of a partition's config, that are no arguments of its class
NOTE = ".note.json"  # ends the name of the file beside a split, which says how it was made


@PARTITIONS.register_module()
class NaturalPartition:
    """One client for each value of an attribute of the data set, in order of first appearance.

    Args:
        key: the attribute, one value per sample: ``"users"`` (the split file's user ids) or
            ``"domains"``.
    """

    def __init__(self, key: str = "users") -> None:
        self.key = key

    def __call__(self, dataset: Any) -> Clients:
        """Client id -> indices into ``dataset``, int64, ascending."""
        values = getattr(dataset, self.key, None)
        if not isinstance(values, Sized) or len(values) != len(dataset):
            raise ConfigError(
                f"partition.key: {type(dataset).__name__} has no {self.key!r} for each of its "
                f"{len(dataset)} samples: use another key, SinglePartition or FixedPartition"
            )
        groups: dict[str, list[int]] = {}
        for index, value in enumerate(values):
            groups.setdefault(str(value), []).append(index)
        return check_clients(groups, len(dataset))


@PARTITIONS.register_module()
class SinglePartition:
    """One client that holds every sample: centralized training.

    Args:
        client: its id.
    """

    def __init__(self, client: str = "all") -> None:
        self.client = client

    def __call__(self, dataset: Any) -> Clients:
        """``{client: 0..len(dataset)-1}``."""
        return check_clients({self.client: range(len(dataset))}, len(dataset))


class ClientFile(RootModel[dict[str, list[int]]]):
    """The content of a file of clients: client id -> indices."""

    model_config = STRICT


@PARTITIONS.register_module()
class FixedPartition:
    """Clients given by their indices; samples that no client lists are not used.

    Args:
        clients: client id -> indices into the data set, in client order.
        file: instead, a JSON file with that object.
    """

    def __init__(
        self,
        clients: Mapping[str, Sequence[int]] | None = None,
        file: Annotated[str, MinLen(1)] | Path | None = None,
    ) -> None:
        if (clients is None) == (file is None):
            raise ValueError("needs either clients or file")
        self.where = "partition.clients" if file is None else str(file)
        self.clients = clients
        if file is not None:
            self.clients = read_model(ClientFile, read_json(file), file).root
        self.images_sha256: str | None = None  # of the images that the file was made of
        if file is not None:
            with suppress(DataError, AttributeError):  # no note is there, or somebody else's
                self.images_sha256 = read_json(Path(file).with_suffix(NOTE)).get("images_sha256")

    def __call__(self, dataset: Any) -> Clients:
        """Client id -> indices into ``dataset``, int64, in the order given."""
        expected = self.images_sha256
        checksum = getattr(dataset, "split_checksum", None)
        if expected is not None and checksum not in (None, expected):
            raise DataError(
                f"{self.where}: was created for other images, or for these in another order, "
                "according to the note beside it: create it again, or prepare the images in its "
                "order (fedseg prepare cifar --order)"
            )
        clients = check_clients(self.clients, len(dataset), self.where)
        unused = len(dataset) - sum(map(len, clients.values()))
        if unused:
            warnings.warn(f"{self.where}: {unused} samples belong to no client", stacklevel=2)
        return clients


@PARTITIONS.register_module()
class ReleasedPartition:
    """The released clients, from the files that ``fedseg prepare cifar --from`` writes.

    They were drawn as :class:`fedseg.partition.DirichletPartition` describes, by a draw that is not
    published.

    Args:
        alpha: the concentration, which names the file below the root of the images.
        num_clients: how many clients the file must hold.
    """

    def __init__(self, alpha: NonNegativeFloat, num_clients: PositiveInt = 100) -> None:
        self.alpha = alpha
        self.num_clients = num_clients

    def __call__(self, dataset: Any) -> Clients:
        """Client id -> indices into ``dataset``, int64, in the order of the released file."""
        folder = Path(getattr(dataset, "data_root", None) or "") / RELEASED
        file, fix = folder / released_file(self.alpha), "fedseg prepare cifar --from DIR"
        if not file.is_file():
            raise DataError(
                f"{file}: is missing: write it from the released split files with {fix}"
            )
        note = read_json(folder / RELEASED_NOTE, f"run {fix} again")
        if not isinstance(note, dict) or note.get("images_sha256") != dataset.split_checksum:
            raise DataError(f"{file}: was written for other images: run {fix} again")
        clients = FixedPartition(file=file)(dataset)
        if len(clients) != self.num_clients:
            raise DataError(
                f"{file}: has {len(clients)} clients, not {self.num_clients}: set "
                "partition.num_clients"
            )
        return clients


def released_file(alpha: float) -> str:
    """The name of the file with the clients of a concentration."""
    return f"alpha{alpha:g}.json"


def check_clients(
    clients: Mapping[str, Sequence[int]], size: int, where: str = "partition"
) -> Clients:
    """Indices as int64 arrays, checked against a data set of ``size`` samples: no sample twice."""
    if not clients:
        raise ConfigError(f"{where}: there is no client: is the data set empty?")
    holder = np.full(size, -1, dtype=np.int64)
    names = [str(client) for client in clients]
    checked: Clients = {}
    for position, (client, samples) in enumerate(zip(names, clients.values(), strict=True)):
        indices, mistake = np.asarray(samples), None
        if not is_name(client):
            mistake = f"must have a name of {NAME_RULE}"
        elif client in checked:
            mistake = "occurs twice: ids are compared as text"
        elif indices.size == 0:
            mistake = "has no sample: remove it"
        elif indices.ndim != 1 or not np.issubdtype(indices.dtype, np.integer):
            mistake = "must have a plain list of integers"
        elif (outside := indices[(indices < 0) | (indices >= size)]).size:
            mistake = f"has index {outside[0]}, but the data set has indices 0 to {size - 1}"
        elif np.unique(indices).size < indices.size:
            mistake = "has a sample twice: list each once"
        elif (taken := indices[holder[indices] >= 0]).size:
            other = names[holder[taken[0]]]
            mistake = f"has sample {taken[0]}, which belongs to client {other!r}: it has one client"
        if mistake is not None:
            raise ConfigError(f"{where}: client {client!r} {mistake}")
        checked[client] = indices.astype(np.int64)
        holder[indices] = position
    return checked


@dataclass(frozen=True)
class DivisionOptions:
    """Options of ``train_dataloader.partition`` that every type of partition has.

    Attributes:
        holdout: share of each client's samples that is kept from training; None: nothing is.
        seed: the partition's own option, with which the share is drawn.
        unlabelled: whether all labels of label maps are erased, void too.
    """

    holdout: float | None = None
    seed: int = 0
    unlabelled: bool = False


def divide(recipe: Any, dataset: Any) -> tuple[Clients, Clients]:
    """Every client's training samples, and those that ``holdout`` keeps from its training.

    A share ``holdout`` of each client's samples, drawn with the partition's seed (0 if it has
    none), is held out: at least one of two or more, and never the last one. ``unlabelled``: all
    labels of label maps are erased, void too. Of a mirrored data set the originals are divided and
    held out; the mirrored ones of training samples follow these, and no others are used.

    Args:
        recipe: a partition or its config, with the options above whatever its type.
        dataset: the data set.
    """
    options = DivisionOptions()
    if isinstance(recipe, Mapping):
        options = _read_options(recipe, dataset)
        recipe = {key: value for key, value in recipe.items() if key not in OPTION_KEYS}
    originals = dataset.originals() if hasattr(dataset, "originals") else dataset
    partition = build(PARTITIONS, recipe, FIELD, keys=OPTION_KEYS)
    clients = check_clients(partition(originals), len(originals))
    if options.unlabelled:
        originals.erase({index: () for index in range(len(originals))})
    held_out: Clients = {}
    if options.holdout is not None:
        clients, held_out = _hold_out(clients, options.holdout, options.seed)
    if originals is not dataset:
        dataset.erase(originals.known)
        clients = _add_mirrored(clients, len(originals))
    return clients, held_out


def _read_options(config: Mapping[str, Any], dataset: Any) -> DivisionOptions:
    """Read and check the options of a partition's config that do not depend on its type."""
    unlabelled = config.get("unlabelled", False)
    check_value(f"{FIELD}.unlabelled", unlabelled, bool)
    if unlabelled and not hasattr(dataset, "erase"):
        raise ConfigError(
            f"{FIELD}.unlabelled: is for label maps, which {type(dataset).__name__} lacks: set it "
            "to False"
        )
    share = config.get("holdout")
    if share is not None and (not is_number(share) or not 0 < share < 1):
        raise ConfigError(f"{FIELD}.holdout: must be above 0 and below 1, not {shown(share)}")
    return DivisionOptions(holdout=share, seed=config.get("seed") or 0, unlabelled=unlabelled)


def _add_mirrored(clients: Clients, originals: int) -> Clients:
    """The clients with mirrored samples, too, which follow so many ``originals`` in their order."""
    with_mirrored: Clients = {}
    for client, indices in clients.items():
        with_mirrored[client] = np.concatenate([indices, indices + originals])
    return with_mirrored


def _hold_out(clients: Clients, share: float, seed: int) -> tuple[Clients, Clients]:
    """Training samples and held-out samples of each client; one with a single sample keeps it."""
    training: Clients = {}
    held_out: Clients = {}
    for position, (client, indices) in enumerate(clients.items()):
        size = min(max(1, round(share * len(indices))), len(indices) - 1)
        if size == 0:
            training[client] = indices
            continue
        drawn = generator_for(seed, "holdout", position).permutation(len(indices))
        held_out[client] = indices[np.sort(drawn[:size])]
        training[client] = indices[np.sort(drawn[size:])]
    return training, held_out
