"""Images with label maps, listed by a split file: the base of every segmentation data set here."""

import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import cv2
import numpy as np
import torch
from torch.utils.data import Dataset

from fedseg.datasets.images import read_image, read_label
from fedseg.datasets.style import build_style
from fedseg.datasets.transforms import Pipeline
from fedseg.errors import ConfigError, DataError

IGNORE = 255
CHECKS = ("quick", "full", "none")


class SegmentationDataset(Dataset):
    """Samples of a split: image, label map, user and domain.

    ``dataset[i]`` or ``dataset[i, seed]`` is ``dict(inputs=..., data_samples=...)``: ``inputs``
    uint8 [3, H, W] RGB, ``data_samples`` uint8 [H', W'] train ids, 255 = ignore. H', W' are H, W
    unless ``test_mode``. ``seed`` fixes every random draw of the sample (style and pipeline), in
    whatever process it is made; ``dataset[i]`` is seed 0.

    A subclass is a description: the attributes below, and how paths of the data set are made.

    Args:
        data_root: the folder with images, labels and splits.
        split: a folder of split files (see :mod:`fedseg.partition.split_files`), relative to
            ``data_root`` or absolute.
        users: only these users of the split, a name or a list; None takes all.
        pipeline: steps after reading, see :class:`fedseg.datasets.transforms.Pipeline`.
        style: a style transfer before the pipeline, for example
            ``dict(type='LABStyle', p=0.5)``; see :mod:`fedseg.datasets.style`.
        test_mode: image and label may leave the pipeline in different sizes.
        check: ``'quick'`` makes sure that every file is there, ``'full'`` also reads every pair,
            ``'none'`` trusts the split. Each pair is checked again when it is read, in any case.

    Attributes:
        users: per sample, the user that holds it.
        domains: per sample, its domain.
        files: per sample, (image path, label path).
        metainfo: ``classes``, ``palette`` ([r, g, b] a class) and ``ignore_index``.
        split_checksum: SHA-256 of the whole split, all users.

    Raises:
        ConfigError: an argument is wrong.
        DataError: the root, the split or files are missing; or, when a pair is read, it is damaged.
    """

    seeded: ClassVar[bool] = True

    classes: ClassVar[tuple[str, ...]]
    palette: ClassVar[list[list[int]]]
    image_root: ClassVar[str] = ""
    label_root: ClassVar[str] = ""
    # Raw id in a label file -> train id. An id that is not listed is an error, unless
    # ``ignore_unlisted``.
    label_ids: ClassVar[Mapping[int, int]]
    ignore_unlisted: ClassVar[bool] = False
    prepare_tool: ClassVar[str] = "tools/prepare_*.py"

    def __init__(
        self,
        data_root: str,
        split: str,
        users: str | Sequence[str] | None = None,
        pipeline: Sequence[Mapping[str, Any]] = (),
        style: Mapping[str, Any] | None = None,
        test_mode: bool = False,
        check: str = "quick",
    ) -> None:
        if check not in CHECKS:
            raise ConfigError(f"dataset.check: {check!r} is none of {', '.join(CHECKS)}")
        if test_mode and style is not None:
            raise ConfigError("dataset.style: style transfer is for training, not with test_mode")
        self.data_root = os.fspath(data_root)
        self.split = os.path.join(self.data_root, os.fspath(split))
        self.test_mode = test_mode
        self.metainfo = {
            "classes": self.classes,
            "palette": self.palette,
            "ignore_index": IGNORE,
        }
        self.pipeline = Pipeline(pipeline)
        self._read_split(users)
        if check != "none":
            self._check_pairs()
            self._check_files()
        self._train_ids, self._unknown = self._label_tables()
        self.style = build_style(style, [image for image, _ in self.files], self.domains)
        if check == "full":
            self.check_contents()

    def label_of(self, image: str) -> str:
        """The label path (below ``label_root``) that belongs to an image path of the split."""
        raise NotImplementedError

    def domain_of(self, image: str) -> str:
        """The domain of an image path of the split."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, key: int | tuple[int, int]) -> dict[str, torch.Tensor]:
        index, seed = key if isinstance(key, tuple) else (key, 0)
        image, label = self.read(index)
        if self.style is not None:
            image = self.style(image, self.domains[index], seed)
        image, label = self.pipeline(image, label, seed)
        if not self.test_mode and image.shape[:2] != label.shape:
            raise ConfigError(
                f"dataset.pipeline: gives an image of {_size(image)} with a label of "
                f"{_size(label)}; only with test_mode=True may they differ"
            )
        return {
            "inputs": torch.from_numpy(np.stack(cv2.split(image))),
            "data_samples": torch.from_numpy(np.ascontiguousarray(label)),
        }

    def read(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """One checked pair as on disk: image uint8 [H, W, 3] RGB, label uint8 [H, W] of train ids.

        Raises:
            DataError: a file is damaged, the sizes differ, or the label holds an unknown id.
        """
        image_path, label_path = self.files[index]
        image, raw = read_image(image_path), read_label(label_path)
        if image.shape[:2] != raw.shape:
            raise DataError(
                f"{label_path}: the label is {_size(raw)} but its image {image_path} is "
                f"{_size(image)}: they must be of equal size, restore the original files"
            )
        if self._unknown is not None and cv2.countNonZero(cv2.LUT(raw, self._unknown)):
            unknown = sorted({int(i) for i in np.unique(raw)} - set(self.label_ids))
            raise DataError(
                f"{label_path}: holds label ids {unknown} that {type(self).__name__} does not "
                f"know (known: {_ranges(self.label_ids)}): is it a label map of this data set?"
            )
        return image, cv2.LUT(raw, self._train_ids)

    def check_contents(self) -> None:
        """Read every pair.

        Raises:
            DataError: tells how many pairs are damaged and what is wrong with the first ones.
        """

        def fault(index: int) -> str | None:
            try:
                self.read(index)
            except DataError as error:
                return str(error)
            return None

        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            faults = [text for text in pool.map(fault, range(len(self))) if text]
        if faults:
            raise DataError(
                f"{self.data_root}: {len(faults)} of {len(self)} pairs of {self.split} are "
                f"damaged:\n{_first(faults)}"
            )

    def _read_split(self, wanted: str | Sequence[str] | None) -> None:
        from fedseg.partition.split_files import read_split

        if not os.path.isdir(self.data_root):
            raise DataError(
                f"{self.data_root}: the data root does not exist: make it with "
                f"{self.prepare_tool}, or set dataset.data_root"
            )
        if not os.path.isdir(self.split):
            raise DataError(
                f"{self.split}: the split folder does not exist: write it with "
                f"{self.prepare_tool}, or set dataset.split"
            )
        split = read_split(self.split)
        self.split_checksum = split.checksum
        users = [wanted] if isinstance(wanted, str) else wanted
        if users is None:
            users = list(split.users)
        for user in users:
            if user not in split.users:
                names = list(split.users)
                shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" * (len(names) > 8))
                raise ConfigError(
                    f"dataset.users: {self.split} has no user {user!r}; it has {shown}"
                )
        samples = [(user, x, y) for user in users for x, y in split.users[user]]
        if not samples:
            raise ConfigError("dataset.users: the list is empty; None takes every user")
        self.users = [user for user, _, _ in samples]
        self._paths = [(x, y) for _, x, y in samples]
        self.domains = [self._layout(self.domain_of, x) for _, x, _ in samples]
        self.files = [
            (
                os.path.join(self.data_root, self.image_root, x),
                os.path.join(self.data_root, self.label_root, y),
            )
            for _, x, y in samples
        ]

    def _layout(self, part: Callable[[str], str], image: str) -> str:
        try:
            return part(image)
        except (IndexError, ValueError) as error:
            raise DataError(
                f"{self.split}: image path {image!r} is not of {type(self).__name__}'s layout: "
                f"write the split again with {self.prepare_tool}"
            ) from error

    def _check_pairs(self) -> None:
        for user, (image, label) in zip(self.users, self._paths, strict=True):
            expected = self._layout(self.label_of, image)
            if label != expected:
                raise DataError(
                    f"{self.split}: user {user!r}: image {image} is paired with {label}, but its "
                    f"label is {expected}: write the split again with "
                    f"{self.prepare_tool}"
                )

    def _check_files(self) -> None:
        # One listing a folder: asking the file system about each file is slow on network disks.
        folders: dict[str, list[str]] = defaultdict(list)
        for path in {path for pair in self.files for path in pair}:
            folder, name = os.path.split(path)
            folders[folder].append(name)
        missing: list[str] = []
        for folder, names in folders.items():
            try:
                with os.scandir(folder) as entries:
                    present = {entry.name for entry in entries}
            except OSError:
                present = set()
            missing += [os.path.join(folder, name) for name in names if name not in present]
        if missing:
            raise DataError(
                f"{self.data_root}: {len(missing)} of {2 * len(self)} files of {self.split} are "
                f"missing; {self.prepare_tool} tells which and how to get them:\n"
                f"{_first(sorted(missing))}"
            )

    def _label_tables(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Train id of every raw id, and which raw ids are unknown (None: no id is)."""
        train_ids = np.full(256, IGNORE, np.uint8)
        unknown = np.ones(256, np.uint8)
        for raw, train in self.label_ids.items():
            train_ids[raw], unknown[raw] = train, 0
        return train_ids, None if self.ignore_unlisted else unknown


def _size(array: np.ndarray) -> str:
    return f"{array.shape[1]}x{array.shape[0]}"


def _first(lines: Sequence[str], count: int = 5) -> str:
    shown = [f"  {line}" for line in lines[:count]]
    if len(lines) > count:
        shown.append(f"  and {len(lines) - count} more")
    return "\n".join(shown)


def _ranges(ids: Mapping[int, int]) -> str:
    """Sorted ids with runs joined: ``0-33, 255``."""
    runs: list[list[int]] = []
    for i in sorted(ids):
        if runs and i == runs[-1][1] + 1:
            runs[-1][1] = i
        else:
            runs.append([i, i])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
