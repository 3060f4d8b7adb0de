"""Records of what is published about a data set. Nothing slow is imported."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Place = tuple[str, ...]  # a split's folder below <root>/splits: (distribution,), or with a setting


@dataclass(frozen=True)
class ReleasedFiles:
    """Split files that a paper has released."""

    archive_names: bool  # names are the archive's own, not img_<index>_label_<label>.png
    left_out: Mapping[str, int]  # images of the archive that are not listed, at most


@dataclass(frozen=True)
class ImageSet:
    """Small labeled images."""

    name: str  # for example "CIFAR10"
    shape: tuple[int, int, int]  # height, width and channels of an image
    classes: tuple[str, ...]  # in order of the labels
    dataset: str  # class of fedseg.datasets that reads the prepared folder
    setting: str  # of configs/settings, that trains on it
    coarse_labels: tuple[int, ...] | None = None  # the superclass of each class
    released: ReleasedFiles | None = None


@dataclass(frozen=True)
class Selection:
    """A published selection of photographs by user; None: not known, not compared."""

    name: str
    users: int
    train: int
    test: int | None
    classes: int
    md5: Mapping[str, str] = field(default_factory=dict)  # of the annotations, where published


@dataclass(frozen=True)
class PairedSet:
    """Photographs with label maps: how many must be on disk, and how they are split."""

    name: str  # for example "idda"
    dataset: str  # class of fedseg.datasets
    folders: Mapping[str, Mapping[str, int]]  # {split} of a path, or "" -> images of each domain
    contents: str  # what is on disk, for messages
    source: str  # where to get it, for messages
    rules: Mapping[str, str] = field(default_factory=dict)  # distribution -> who holds what
    settings: Sequence[str] = ()  # what is unseen, where there is a choice
    test_users: tuple[str, ...] = ()  # that published splits must have
    published_size: tuple[int, int] | None = None  # width and height in pixels
    size: tuple[int, int] | None = None  # of rendered images
    rendered_name: str = ""  # {name} of rendered images, from domain and number; "": there are none
    first_number: int = 0
    batch_size: int = 0  # of the settings, which drop a client's smaller batches; 0: they do not
    copies: int = 1  # of each training image in an epoch: 2 if there is a mirrored one
    clients_per_round: int = 5  # of the settings

    @property
    def count(self) -> int:
        """The number of published images."""
        return sum(sum(counts.values()) for counts in self.folders.values())
