"""Accuracy under corruptions as a picture; a contact sheet of the images themselves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from fedseg.datasets.corrupted import CORRUPTIONS, CorruptedImages
from fedseg.errors import DataError
from fedseg.report.drawing import draw_percentages, new_figure, save_figure
from fedseg.runs.metric_names import is_number


@dataclass(frozen=True)
class CorruptionAccuracies:
    """Accuracy in percent by corruption and severity.

    Attributes:
        table: for each corruption, one accuracy a severity; None where there is none.
        severities: of the columns.
    """

    table: dict[str, list[float | None]]
    severities: list[int]

    @classmethod
    def find(cls, domains: Mapping[str, Mapping[str, Any]]) -> "CorruptionAccuracies | None":
        """Look for them in the metrics by domain of a run or test.

        Returns:
            None if no corrupted set was evaluated.

        Raises:
            DataError: a corruption has another number of accuracies than there are severities.
        """
        entry = next((e for e in domains.values() if e.get("corruptions")), None)
        if entry is None:
            return None
        found = entry["corruptions"]
        longest = max(map(len, found.values()))
        severities = list(entry.get("severities") or range(1, longest + 1))
        for name, values in found.items():
            if len(values) != len(severities):
                raise DataError(
                    f"corruptions.{name}: has {len(values)} accuracies for {len(severities)} "
                    "severities; evaluate again with tools/test.py"
                )
        order = [
            *(n for n in CORRUPTIONS if n in found),
            *(n for n in found if n not in CORRUPTIONS),
        ]
        table = {n: [v if is_number(v) else None for v in found[n]] for n in order}
        return cls(table, severities)

    def mean(self, corruption: str) -> float | None:
        """Over the severities of one corruption."""
        return _mean(self.table[corruption])

    def means(self) -> list[float | None]:
        """Over the corruptions, one a severity."""
        return [_mean(column) for column in zip(*self.table.values(), strict=True)]

    @property
    def overall(self) -> float | None:
        """Over all corruptions and severities."""
        return _mean([value for values in self.table.values() for value in values])


def _mean(values: Sequence[float | None]) -> float | None:
    """None if a value is missing: a mean over fewer would not compare."""
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None


def draw_corruptions(accuracies: CorruptionAccuracies, path: Path, title: str = "") -> Path:
    """Heat map of accuracy by corruption and severity, with the means, under a title; a PNG."""
    rows = {_words(n): [*values, accuracies.mean(n)] for n, values in accuracies.table.items()}
    rows["mean"] = [*accuracies.means(), accuracies.overall]
    columns = [*(f"severity {severity}" for severity in accuracies.severities), "mean"]
    return draw_percentages(rows, columns, path, f"{title}\naccuracy (%)".strip())


def contact_sheet(dataset: CorruptedImages, path: Path) -> Path:
    """The first test image under every corruption (rows) and severity (columns), as a PNG."""
    names = list(dict.fromkeys(name for name, _ in dataset.groups))
    levels = list(dict.fromkeys(level for _, level in dataset.groups))
    figure = new_figure(2 + 0.8 * len(levels), 0.6 + 0.8 * len(names))
    axes = figure.add_subplot()
    extent = (0, len(levels), len(names), 0)
    sheet = tiles(dataset, len(names))
    axes.imshow(sheet, cmap="gray", extent=extent, interpolation="nearest")
    axes.set_xticks(np.arange(len(levels)) + 0.5, [f"severity {level}" for level in levels])
    axes.set_yticks(np.arange(len(names)) + 0.5, map(_words, names))
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    return save_figure(figure, path)


def tiles(dataset: CorruptedImages, rows: int) -> np.ndarray:
    """The first image of every group beside each other, uint8 [rows * H, columns * W, C]."""
    numbers = np.arange(len(dataset.groups)) * dataset.group_size
    images = dataset.gather(numbers)[0]
    count, height, width, channels = images.shape
    grid = images.reshape(rows, count // rows, height, width, channels)
    return grid.swapaxes(1, 2).reshape(rows * height, -1, channels)


def _words(name: str) -> str:
    return name.replace("_", " ").replace("jpeg", "JPEG")
