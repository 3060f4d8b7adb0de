"""Images with label maps, listed by a split file: the base of every segmentation data set here."""

import copy
import os
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Self

import cv2
import numpy as np
import torch
from torch.utils.data import Dataset

from fedseg.datasets import images
from fedseg.datasets.file_lists import check_exist
from fedseg.datasets.style import build_style
from fedseg.datasets.transforms import IGNORE, Pipeline
from fedseg.errors import ConfigError, DataError
from fedseg.names import ERASED, PREPARED_BY, made_by
from fedseg.partition.split_files import read_split

READERS = 4  # threads that read label maps


class SegmentationDataset(Dataset):
    """Samples of a split: image, label map, user and domain.

    ``dataset[i]`` or ``dataset[i, seed]`` is ``dict(inputs=..., data_samples=...)``: ``inputs``
    uint8 [3, H, W] RGB, ``data_samples`` uint8 [H', W'] train ids, 255 = ignore, 254 = erased (see
    ``erase``). H', W' are H, W unless ``test_mode``. ``seed`` fixes every random draw of the sample
    (style and pipeline), in whatever process it is made; ``dataset[i]`` is seed 0.

    A subclass describes a data set by the class attributes below, or overrides ``label_of`` and
    ``domain_of`` where a pattern does not do.

    Args:
        data_root: the folder with images, labels and splits.
        split: a folder of split files (see :mod:`fedseg.partition.split_files`), relative to
            ``data_root`` or absolute.
        users: only these users of the split, a name or a list; None takes all.
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
    image_root: ClassVar[str] = ""
    label_root: ClassVar[str] = ""
    image_pattern: ClassVar[str]  # regular expression of an image path, with a group "domain"
    label_pattern: ClassVar[str]  # the label path, by the groups of image_pattern: r"\1.png"
    # Raw id in a label file -> train id. An id that is not listed is an error. Without it raw
    # ids are train ids, and 255 is ignored; if
    # ``reduce_zero_label``, 0 is ignored too and the classes begin at 1.
    label_ids: Mapping[int, int]
    reduce_zero_label: ClassVar[bool] = False
    tool = "fedseg.partition.write_split"
    split = ""
    known: Mapping[int, Collection[int]] | None = None

    def __init__(
        self,
        data_root: str,
        split: str,
        users: str | Sequence[str] | None = None,
        pipeline: Sequence[Mapping[str, Any]] = (),
        style: Mapping[str, Any] | None = None,
        mirror: bool = False,
        test_mode: bool = False,
    ) -> None:
        self.data_root = os.fspath(data_root)
        self.split = os.path.join(self.data_root, os.fspath(split))
        self._read_split(users)
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
        self._check_ids()
        self._train_ids = np.full(256, IGNORE, np.uint8)  # of every raw id
        self._train_ids[list(self.label_ids)] = list(self.label_ids.values())
        self._unknown = np.ones(256, np.uint8)
        self._unknown[list(self.label_ids)] = 0
        paths = [image for image, _ in self.files]
        kind = SegmentationDataset  # of what may lend styles
        self.style = build_style(style, paths, self.domains, self.condition_of, kind)
        self.unmirrored = len(self.files)
        if mirror:
            self.users, self.domains, self.files = 2 * self.users, 2 * self.domains, 2 * self.files

    def _check_ids(self) -> None:
        """Complete ``label_ids``; ConfigError if these are no ids of the classes."""
        name, first = type(self).__name__, int(self.reduce_zero_label)
        if not 0 < len({*self.classes}) == len(self.classes) <= IGNORE - first:
            must = f"must be 1 to {IGNORE - first} names, each once"
            raise ConfigError(f"{name}.classes: {must}, not {[*self.classes]}")
        if not hasattr(self, "label_ids"):
            self.label_ids = {i + first: i for i in range(len(self.classes))}
            self.label_ids |= dict.fromkeys([IGNORE, *range(first)], IGNORE)
        elif first:
            raise ConfigError(f"{name}.label_ids: lists ids of files: set reduce_zero_label=False")
        for raw, train in self.label_ids.items():
            if raw not in range(256) or train not in (IGNORE, *range(len(self.classes))):
                told = f"and classes 0 to {len(self.classes) - 1}, or {IGNORE} to ignore"
                fault = f"has {raw!r}: {train!r}, but ids are 0 to 255, {told}"
                raise ConfigError(f"{name}.label_ids: {fault}")
        right = all(len(color) == 3 and {*color} <= {*range(256)} for color in self.palette)
        if not right or not len(self.classes) <= len(self.palette) <= 256:
            must = "must have a list [r, g, b] of 0 to 255 for each class"
            raise ConfigError(f"{name}.palette: {must}")

    def label_of(self, image: str) -> str:
        """The label path (below ``label_root``) that belongs to an image path of the split."""
        return self._match(image).expand(self.label_pattern)

    @classmethod
    def domain_of(cls, image: str) -> str:
        """The domain of an image path of the split."""
        return cls._match(image)["domain"]

    @classmethod
    def _match(cls, image: str) -> re.Match[str]:
        match = re.fullmatch(cls.image_pattern, image)
        if not match:
            raise ValueError(f"{image!r} is no image path of {cls.__name__}")
        return match

    def condition_of(self, domain: str) -> str:
        """The group of domains that ``exclude="condition"`` leaves out; the domain itself here."""
        return domain

    def _keep_domains(self, wanted: str | Sequence[str] | None) -> None:
        """Keep the samples of some domains, before anything else knows how many there are."""
        there = sorted({*self.domains})
        wanted = {wanted} if isinstance(wanted, str) else {*(there if wanted is None else wanted)}
        if not wanted or (unknown := sorted(wanted - {*there})):
            raise ConfigError(
                f"dataset.domains: has {unknown if wanted else 'none'}, but the images' domains "
                f"are {', '.join(there[:8])}{', ...' * (len(there) > 8)}"
            )
        kept = [n for n, domain in enumerate(self.domains) if domain in wanted]
        for name in ("files", "users", "domains", "positions"):
            setattr(self, name, [getattr(self, name)[n] for n in kept])

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
            kept = [*known, IGNORE] if known else []  # void is a label too
            table[kept] = kept
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
            "inputs": torch.from_numpy(np.stack(cv2.split(image))),
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
        image, raw = images.read_image(image_path), self.read_label(label_path)
        if image.shape[:2] != raw.shape:
            raise DataError(
                f"{label_path}: is {list(raw.shape)}, but its image {image_path} is "
                f"{list(image.shape[:2])} [H, W] as displayed: restore the original files."
            )
        if cv2.countNonZero(cv2.LUT(raw, self._unknown)):
            unknown = sorted(set(np.unique(raw).tolist()) - set(self.label_ids))
            fault = f"{type(self).__name__} has no label ids {unknown}"
            raise DataError(f"{label_path}: {fault}: is it a label map of this data set?")
        return image, cv2.LUT(raw, self._train_ids)

    def has_labels(self) -> bool:
        """Whether any pixel has a class; reads label maps up to the first that has one."""
        return any((self._train_ids_of(index) != IGNORE).any() for index in range(len(self)))

    def class_pixels(self) -> np.ndarray:
        """Pixels of each class in each sample, int64 [N, classes], from every label map."""
        with ThreadPoolExecutor(READERS) as pool:
            counts = np.stack([*pool.map(self._count, range(self.unmirrored))])
        return counts[np.arange(len(self)) % self.unmirrored]

    def _count(self, index: int) -> np.ndarray:
        return np.bincount(self._train_ids_of(index).ravel(), minlength=256)[: len(self.classes)]

    def _train_ids_of(self, index: int) -> np.ndarray:
        return cv2.LUT(self.read_label(self.files[index][1]), self._train_ids)

    def read_label(self, path: str) -> np.ndarray:
        """Read the raw ids of a label file, uint8 [H, W]; a subclass may read another format."""
        return images.read_label(path)

    def _read_split(self, wanted: str | Sequence[str] | None) -> None:
        for field, folder in (("data_root", self.data_root), ("split", self.split)):
            if not os.path.isdir(folder):
                fault = "is no folder" if os.path.exists(folder) else "does not exist"
                fix = f"make it with {made_by(self.tool, self.data_root)}, or set dataset.{field}"
                raise DataError(f"{folder}: {fault}: {fix}")
        split = read_split(self.split)
        self.split_checksum = split.checksum
        names = list(split.users)
        users = names if wanted is None else [wanted] if isinstance(wanted, str) else wanted
        for user, count in Counter(users).items():
            if user not in split.users or count > 1:
                fault = f"names {count} times" if count > 1 else "must name users of the split, not"
                raise ConfigError(
                    f"dataset.users: {fault} {user!r}; {self.split} has {', '.join(names[:8])}"
                    + ", ..." * (len(names) > 8)
                )
        if not users:
            raise ConfigError("dataset.users: is empty: None takes every user")
        samples = [(user, *sample) for user in users for sample in split.users[user]]
        self.users = [user for user, _, _ in samples]
        self.positions = [n for user in users for n in range(len(split.users[user]))]
        self.listed = {x: y for _, x, y in samples}
        try:
            self.domains = [self.domain_of(x) for _, x, _ in samples]
            labels = [self.label_of(x) for _, x, _ in samples]
        except (IndexError, ValueError) as error:
            raise DataError(
                f"{self.split}: its image paths are not of {type(self).__name__}'s layout: write "
                f"the split again with {self.tool}"
            ) from error
        for (user, x, y), label in zip(samples, labels, strict=True):
            if y != label:
                raise DataError(
                    f"{self.split}: user {user!r}: the label of {x} is {label}, not {y}: write the "
                    f"split again with {self.tool}"
                )
        image_root = os.path.join(self.data_root, self.image_root)
        label_root = os.path.join(self.data_root, self.label_root)
        self.files = [
            (os.path.join(image_root, x), os.path.join(label_root, y)) for _, x, y in samples
        ]
        self.check_files()

    def check_files(self) -> None:
        """Raise DataError if an image or label of the split is not there."""
        paths = [path for pair in self.files for path in pair]
        fix = f"put them there, or write the split again with {self.tool}"
        check_exist(paths, self.data_root, fix)
