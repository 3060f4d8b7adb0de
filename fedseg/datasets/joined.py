"""Several segmentation data sets as one."""

import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from annotated_types import MinLen

from fedseg.datasets.segmentation import SegmentationDataset
from fedseg.errors import ConfigError
from fedseg.files import digest
from fedseg.registry import DATASETS, build


@DATASETS.register_module()
class JoinedDataset(SegmentationDataset):
    """Data sets of the same classes as one: a user is ``<part>/<user>``, a domain is the part.

    Other arguments: see :class:`~fedseg.datasets.segmentation.SegmentationDataset`.

    Args:
        parts: name -> config of a data set of this suite, without pipeline and style.
        data_root: the folder that the roots of the parts are relative to.
    """

    tool = ""  # those of the parts

    def __init__(
        self,
        parts: Annotated[Mapping[str, Mapping[str, Any]], MinLen(1)],
        data_root: str = "",
        pipeline: Sequence[Mapping[str, Any]] = (),
        style: Mapping[str, Any] | None = None,
        mirror: bool = False,
        test_mode: bool = False,
    ) -> None:
        self.data_root = data_root
        self.joined = {name: self._build(name, part) for name, part in parts.items()}
        first = next(iter(self.joined.values()))
        self.classes = first.classes
        self.palette = first.palette
        self.users = []
        self.domains = []
        self.files = []
        self.positions = []
        self._places: list[tuple[SegmentationDataset, int]] = []  # part and index of a sample
        for name, part in self.joined.items():
            if part.classes != self.classes:
                fault = f"must have the classes of the first part, not {', '.join(part.classes)}"
                raise ConfigError(f"dataset.parts.{name}: {fault}.")
            self.users += [f"{name}/{user}" for user in part.users]
            self.domains += [name] * len(part)
            self.files += part.files
            self.positions += part.positions
            self._places += [(part, index) for index in range(len(part))]
        checksums = [[name, part.split_checksum] for name, part in self.joined.items()]
        self.split_checksum = digest(checksums)
        self._set_up(pipeline, style, mirror, test_mode)

    def _build(self, name: str, part: Mapping[str, Any]) -> SegmentationDataset:
        """Build a part below the common root."""
        options = {**part, "data_root": os.path.join(self.data_root, part.get("data_root") or "")}
        injected = {"pipeline": (), "style": None, "mirror": False, "test_mode": False}
        return build(DATASETS, options, f"dataset.parts.{name}", injected, base=SegmentationDataset)

    def check_files(self) -> None:
        """Raise DataError if an image or label of a part is not there."""
        for part in self.joined.values():
            part.check_files()

    def read(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        part, position = self._places[index % self.unmirrored]
        return part.read(position)

    def train_ids_of(self, index: int) -> np.ndarray:
        part, position = self._places[index % self.unmirrored]
        return part.train_ids_of(position)
