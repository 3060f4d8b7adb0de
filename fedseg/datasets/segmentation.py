"""Images with label maps, listed by a split file: the base of every segmentation data set here."""

import copy
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Self

import cv2
import numpy as np
import torch
from torch.utils.data import Dataset

from fedseg.datasets.file_lists import check_exist
from fedseg.datasets.images import read_image
from fedseg.datasets.images import read_label as read_ids
from fedseg.datasets.style import build_style
from fedseg.datasets.templates import fields_of, fill
from fedseg.datasets.transforms import IGNORE, Pipeline
from fedseg.errors import ConfigError, DataError
from fedseg.files import digest
from fedseg.names import ERASED, NAME_RULE, PREPARED_BY, is_name, made_by
from fedseg.partition.split_files import read_split

READERS = 4  # threads that read label maps
ALL = "all"  # the domain of images without one
UNKNOWN = 256  # in a table of raw ids: not an id of the data set


class SegmentationDataset(Dataset):
    """Samples of a split: image, label map, user and domain.

    ``dataset[i]`` or ``dataset[i, seed]`` is ``dict(inputs=..., data_samples=...)``: ``inputs``
    uint8 [3, H, W] RGB, ``data_samples`` uint8 [H', W'] train ids, 255 = ignore, 254 = erased (see
    ``erase``). H', W' are H, W unless ``test_mode``. ``seed`` fixes every random draw of the sample
    (style and pipeline), in whatever process it is made; ``dataset[i]`` is seed 0.

    A subclass describes a data set by the class attributes below, in a file of its own such as
    ``acdc.py``; it overrides :meth:`read_label` where label maps have another format.

    Args:
        data_root: the folder with images, labels and splits.
        split: a folder of split files (see :mod:`fedseg.partition.split_files`), relative to
            ``data_root`` or absolute; or a list of several, whose samples are taken together.
        users: only these users of the split, a name or a list; None takes all.
        domains: only images of these domains, a name or a list; None takes all.
        pipeline: steps after reading, see :class:`fedseg.datasets.transforms.Pipeline`.
        mirror: take every image a second time, mirrored from left to right: twice the samples.
        style: a style transfer before the pipeline, for example
            ``dict(type='LABStyle', p=0.5)``; see :mod:`fedseg.datasets.style`.
        test_mode: image and label may leave the pipeline in different sizes.

    Attributes:
        users: per sample, the user that holds it.
        domains: per sample, its domain.
        files: per sample, (image path, label path).
        metainfo: ``classes``, ``palette`` ([r, g, b] per class) and ``ignore_index``.
        split_checksum: SHA-256 of the whole split, all users.
        known: sample -> the classes whose labels it and its mirrored one keep, if others are
            erased.
        unmirrored: number of samples that are no mirrored ones; these follow in the same order.
    """

    seeded: ClassVar[bool] = True

    classes: ClassVar[tuple[str, ...]] = ()
    palette: ClassVar[list[list[int]]] = []
    # folders below data_root that the paths of images and label maps in splits are relative to
    image_root: ClassVar[str] = ""
    label_root: ClassVar[str] = ""
    # template of an image's path, see fedseg.datasets.templates; without {domain} all images are
    # of the domain "all"
    image_path: str
    label_path: str  # template of its label map's path, with fields of ``image_path``
    # raw id in a label file -> class, default: the order of the classes; 255 is ignored
    label_ids: Mapping[int, str]
    # raw ids below it that have no class are ignored, others are errors; 0: up to the last class's
    num_ids: int = 0

    # what ``fedseg prepare`` needs besides
    published: ClassVar[Mapping[str, int]] = {}  # {split} of a path -> labelled images; "": all
    test_splits: ClassVar[tuple[str, ...]] = ()  # {split} of the test images
    test_list: ClassVar[str] = ""  # or a file that names them
    test_share: ClassVar[float] = 0.0  # or a share of each domain, at random
    clients: ClassVar[int | None] = None  # number of clients; None: a client is a domain
    alpha: ClassVar[float | None] = None  # of their mixes of pixels by Dirichlet; None: at random

    tool = "fedseg.partition.write_split"
    split = ""
    known: Mapping[int, Collection[int]] | None = None

    def __init__(
        self,
        data_root: str,
        split: str | Sequence[str],
        users: str | Sequence[str] | None = None,
        domains: str | Sequence[str] | None = None,
        pipeline: Sequence[Mapping[str, Any]] = (),
        style: Mapping[str, Any] | None = None,
        mirror: bool = False,
        test_mode: bool = False,
    ) -> None:
        self.data_root = os.fspath(data_root)
        folders = [split] if isinstance(split, str | os.PathLike) else split
        self.split = " and ".join(os.path.join(self.data_root, folder) for folder in folders)
        self._read_splits([os.path.join(self.data_root, folder) for folder in folders], users)
        self._keep_domains(domains)
        self._set_up(pipeline, style, mirror, test_mode)

    def __init_subclass__(cls) -> None:
        cls.tool = PREPARED_BY.get(cls.__name__, cls.tool)

    def _set_up(
        self,
        pipeline: Sequence[Mapping[str, Any]],
        style: Mapping[str, Any] | None,
        mirror: bool,
        test_mode: bool,
    ) -> None:
        """Prepare to read samples that are listed already."""
        if test_mode and style is not None:
            raise ValueError("style transfer is for training, not with test_mode")
        self.test_mode = test_mode
        self.metainfo = {"classes": self.classes, "palette": self.palette, "ignore_index": IGNORE}
        self.pipeline = Pipeline(pipeline)
        self._check_palette()
        ids = class_of_ids(self)
        self._train_ids = np.minimum(ids, IGNORE).astype(np.uint8)  # of every raw id
        self._unknown = (ids == UNKNOWN).astype(np.uint8)
        paths = [image for image, _ in self.files]
        kind = SegmentationDataset  # of what may lend styles
        self.style = build_style(style, paths, self.domains, self.condition_of, kind)
        self.unmirrored = len(self.files)
        if mirror:
            self.users = 2 * self.users
            self.domains = 2 * self.domains
            self.files = 2 * self.files

    def _check_palette(self) -> None:
        """Raise ConfigError unless every class has a color."""
        right = all(len(color) == 3 and {*color} <= {*range(256)} for color in self.palette)
        if not right or not len(self.classes) <= len(self.palette) <= 256:
            name, must = type(self).__name__, "must have a list [r, g, b] of 0 to 255"
            raise ConfigError(f"{name}.palette: {must} for each class")

    def condition_of(self, domain: str) -> str:
        """The group of domains that ``exclude="condition"`` leaves out; the domain itself here."""
        return domain

    def _keep_domains(self, wanted: str | Sequence[str] | None) -> None:
        """Keep the samples of some domains, before anything else knows how many there are."""
        if wanted is None:
            return
        known = sorted({*self.domains})
        wanted = {wanted} if isinstance(wanted, str) else {*wanted}
        if not wanted or not wanted <= {*known}:
            must = f"must be domains of the images ({', '.join(known)})"
            raise ConfigError(f"dataset.domains: {must}, not {sorted(wanted)}.")
        images = [n for n, domain in enumerate(self.domains) if domain in wanted]
        self.files = [self.files[n] for n in images]
        self.users = [self.users[n] for n in images]
        self.domains = [self.domains[n] for n in images]
        self.positions = [self.positions[n] for n in images]

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, key: int | tuple[int, int]) -> dict[str, torch.Tensor]:
        index, seed = key if isinstance(key, tuple) else (key, 0)
        image, label = self.read(index)
        if self.style is not None:
            position = self.positions[index % self.unmirrored]
            image = self.style(image, self.domains[index], seed, position)
        known = self.known_classes(index)
        if known is not None:
            table = np.full(256, ERASED, np.uint8)
            labels = [*known, IGNORE] if known else []  # void is a label too
            table[labels] = labels
            label = cv2.LUT(label, table)
        if index >= self.unmirrored:
            image, label = cv2.flip(image, 1), cv2.flip(label, 1)
        image, label = self.pipeline(image, label, seed)
        if not self.test_mode and image.shape[:2] != label.shape:
            raise ConfigError(
                f"dataset.pipeline: gives an image [H, W] of {list(image.shape[:2])} with a label "
                f"of {list(label.shape)}; only with test_mode=True may they differ"
            )
        return {
            "inputs": torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1))),
            "data_samples": torch.from_numpy(np.ascontiguousarray(label)),
        }

    def originals(self) -> Self:
        """The data set without its mirrored samples, which a partition divides."""
        if self.unmirrored == len(self):
            return self
        originals = copy.copy(self)
        originals.users = self.users[: self.unmirrored]
        originals.domains = self.domains[: self.unmirrored]
        originals.files = self.files[: self.unmirrored]
        return originals

    def erase(self, known: Mapping[int, Collection[int]] | None) -> None:
        """Erase, in original samples by their index, the labels of all classes but these.

        Their mirrored samples lose the same labels; with None every sample keeps its labels.
        """
        self.known = known

    def known_classes(self, index: int) -> Collection[int] | None:
        """The classes whose labels a sample keeps; None if it keeps all."""
        return None if self.known is None else self.known.get(index % self.unmirrored)

    def read(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """One pair as on disk: image uint8 [H, W, 3] RGB, label uint8 [H, W] of train ids."""
        image_path, label_path = self.files[index]
        image, raw = read_image(image_path), self.read_label(label_path)
        if image.shape[:2] != raw.shape:
            raise DataError(
                f"{label_path}: is {list(raw.shape)}, but its image {image_path} is "
                f"{list(image.shape[:2])} [H, W] as displayed: restore the original files."
            )
        if cv2.countNonZero(cv2.LUT(raw, self._unknown)):
            unknown = np.unique(raw[self._unknown[raw] > 0]).tolist()
            raise DataError(
                f"{label_path}: has ids {unknown}, which {type(self).__name__} does not know: give "
                "them a class in label_ids, or ignore them by a larger num_ids."
            )
        return image, cv2.LUT(raw, self._train_ids)

    def has_labels(self) -> bool:
        """Whether any pixel has a class; reads label maps up to the first that has one."""
        return any((self.train_ids_of(index) != IGNORE).any() for index in range(len(self)))

    def class_pixels(self) -> np.ndarray:
        """Pixels of each class in each sample, int64 [N, classes], from every label map."""
        with ThreadPoolExecutor(READERS) as pool:
            counts = np.stack([*pool.map(self._count, range(self.unmirrored))])
        return counts[np.arange(len(self)) % self.unmirrored]

    def _count(self, index: int) -> np.ndarray:
        return np.bincount(self.train_ids_of(index).ravel(), minlength=256)[: len(self.classes)]

    def train_ids_of(self, index: int) -> np.ndarray:
        """Read the label map of a sample as train ids, uint8 [H, W]."""
        return cv2.LUT(self.read_label(self.files[index][1]), self._train_ids)

    @staticmethod
    def read_label(path: str) -> np.ndarray:
        """Read the raw ids of a label file, uint8 [H, W]; a subclass may read another format."""
        return read_ids(path)

    def _read_splits(self, folders: Sequence[str], wanted: str | Sequence[str] | None) -> None:
        """List the samples of the wanted users of the splits."""
        self._check_folders(folders)
        splits = [read_split(folder) for folder in folders]
        checksums = [split.checksum for split in splits]
        self.split_checksum = checksums[0] if len(splits) == 1 else digest(checksums)
        samples_by_user: dict[str, list[tuple[str, str]]] = {}
        for split in splits:
            for user, samples in split.users.items():
                samples_by_user.setdefault(user, []).extend(samples)
        image_root = os.path.join(self.data_root, self.image_root)
        label_root = os.path.join(self.data_root, self.label_root)
        self.users = []
        self.positions = []
        self.domains = []
        self.files = []
        for user in self._choose_users(wanted, samples_by_user):
            for position, (image, label) in enumerate(samples_by_user[user]):
                self.users.append(user)
                self.positions.append(position)
                self.domains.append(self._domain_of(user, image, label))
                self.files.append(
                    (os.path.join(image_root, image), os.path.join(label_root, label))
                )

    def _check_folders(self, folders: Sequence[str]) -> None:
        """Raise DataError if the folder of the data or of a split is not there."""
        places = [("data_root", self.data_root), *(("split", folder) for folder in folders)]
        for field, folder in places:
            if not os.path.isdir(folder):
                fault = "is no folder" if os.path.exists(folder) else "does not exist"
                fix = f"make it with {made_by(self.tool, self.data_root)}, or set dataset.{field}"
                raise DataError(f"{folder}: {fault}: {fix}")

    def _choose_users(
        self, wanted: str | Sequence[str] | None, known_users: Collection[str]
    ) -> Sequence[str]:
        """The users of ``dataset.users``; ConfigError if one is unknown or is named twice."""
        users = [*known_users] if wanted is None else wanted
        if isinstance(users, str):
            users = [users]
        for user, count in Counter(users).items():
            if user not in known_users:
                known = ", ".join([*known_users][:8])
                must = f"must name users of {self.split} ({known}, ...)"
                raise ConfigError(f"dataset.users: {must}, not {user!r}.")
            if count > 1:
                raise ConfigError(f"dataset.users: names {count} times {user!r}: name it once.")
        if not users:
            raise ConfigError("dataset.users: is empty: None takes every user")
        return users

    def _domain_of(self, user: str, image: str, label: str) -> str:
        """The domain of a sample of the split; DataError if its paths do not fit the templates."""
        fields = fields_of(self.image_path, image)
        if fields is None:
            raise DataError(
                f"{self.split}: user {user!r}: {image} is not of {type(self).__name__}'s layout "
                f"{self.image_path}: write the split again with {self.tool}"
            )
        expected = fill(self.label_path, fields)
        if label != expected:
            raise DataError(
                f"{self.split}: user {user!r}: the label of {image} is {expected}, not {label}: "
                f"write the split again with {self.tool}"
            )
        domain = fields.get("domain", ALL)
        if not is_name(domain):
            raise DataError(f"{image}: its domain must have {NAME_RULE}, not {domain!r}.")
        return domain

    def check_files(self) -> None:
        """Raise DataError if an image or label of the split is not there."""
        paths = [path for pair in self.files for path in pair]
        fix = f"put them there, or write the split again with {self.tool}"
        check_exist(paths, self.data_root, fix)


def class_of_ids(kind: SegmentationDataset | type[SegmentationDataset]) -> np.ndarray:
    """Index the class of every raw id, int64 [256]; 255: ignored, 256: not an id of the data set.

    Raises:
        ConfigError: classes or label ids of the data set are none.
    """
    name = kind.__name__ if isinstance(kind, type) else type(kind).__name__
    classes = [*kind.classes]
    if not 0 < len({*classes}) == len(classes) <= IGNORE:
        raise ConfigError(f"{name}.classes: must be 1 to {IGNORE} names, each once, not {classes}")
    label_ids = getattr(kind, "label_ids", dict(enumerate(classes)))
    for raw, label in label_ids.items():
        if raw not in range(IGNORE) or label not in classes:
            must = "must be raw ids 0 to 254 with names of classes"
            raise ConfigError(f"{name}.label_ids: {must}, not {raw!r}: {label!r}")
    table = np.full(256, UNKNOWN)
    table[: kind.num_ids or max(label_ids) + 1] = IGNORE
    table[IGNORE] = IGNORE
    for raw, label in label_ids.items():
        table[raw] = classes.index(label)
    return table
