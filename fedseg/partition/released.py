"""CIFAR's clients as in the split files released with the ECCV 2022 and FedGloSS papers."""

from pathlib import Path
from typing import Any

from pydantic import NonNegativeFloat, PositiveInt

from fedseg.errors import DataError
from fedseg.files import read_json
from fedseg.partition.natural import Clients, FixedPartition
from fedseg.registry import PARTITIONS

FOLDER = Path("splits", "released")  # below the root of the images
NOTE = "split.json"


def released_file(alpha: float) -> str:
    """The name of the file with the clients of a concentration."""
    return f"alpha{alpha:g}.json"


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
        self.alpha, self.num_clients = alpha, num_clients

    def __call__(self, dataset: Any) -> Clients:
        """Client id -> indices into ``dataset``, int64, in the order of the released file."""
        folder = Path(getattr(dataset, "data_root", None) or "") / FOLDER
        file, fix = folder / released_file(self.alpha), "fedseg prepare cifar --from DIR"
        if not file.is_file():
            raise DataError(
                f"{file}: is missing: write it from the released split files with {fix}"
            )
        note = read_json(folder / NOTE, f"run {fix} again")
        if not isinstance(note, dict) or note.get("images_sha256") != dataset.split_checksum:
            raise DataError(f"{file}: was written for other images: run {fix} again")
        clients = FixedPartition(file=file)(dataset)
        if len(clients) != self.num_clients:
            raise DataError(
                f"{file}: holds {len(clients)} clients, not {self.num_clients}: set "
                "partition.num_clients"
            )
        return clients
