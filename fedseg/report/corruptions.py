"""Accuracy under corruptions: CSV and picture; a contact sheet of the images themselves."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from fedseg.datasets.arrays import StoredImages
from fedseg.datasets.corrupted import CORRUPTIONS, CorruptedImages
from fedseg.errors import ConfigError, DataError
from fedseg.files import atomic_writer
from fedseg.report.drawing import COLORS, draw_percentage, new_figure, save_figure
from fedseg.report.overlays import INK, PAPER, font, save_png
from fedseg.runs.metric_names import is_number

KINDS = (("noise", 3), ("blur", 4), ("weather", 4), ("digital", 4), ("extra", 4))
"""How the paper groups the corruptions, in the official order: names and how many."""

_CELL, _GAP = 0.3, 0.35  # height of a row in inches, and of the space between kinds in rows
_ENLARGED = 3  # pixels of the contact sheet for one of the image
_BESIDE, _ABOVE, _MARGIN = 110, 66, 10  # pixels around the images of the contact sheet


@dataclass(frozen=True)
class CorruptionAccuracies:
    """Accuracy in percent by corruption and severity.

    Attributes:
        table: for each corruption, one accuracy a severity; None where there is none.
        severities: of the columns.
        clean: accuracy on the test set as it is, if known.
    """

    table: dict[str, list[float | None]]
    severities: list[int]
    clean: float | None = None

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
        order = [n for n in CORRUPTIONS if n in found]
        order += [n for n in found if n not in order]
        table = {n: [v if is_number(v) else None for v in found[n]] for n in order}
        clean = (domains.get("test") or {}).get("accuracy")
        return cls(table, severities, clean if is_number(clean) else None)

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


def write_corruptions_csv(accuracies: CorruptionAccuracies, path: Path) -> Path:
    """Write the same with full precision: a row a corruption, then the mean of all."""
    with atomic_writer(path) as file:
        writer = csv.writer(file)
        writer.writerow(["corruption", *(f"severity_{s}" for s in accuracies.severities), "mean"])
        for name, values in accuracies.table.items():
            writer.writerow([name, *values, accuracies.mean(name)])
        writer.writerow(["mean", *accuracies.means(), accuracies.overall])
    return path


def draw_corruptions(accuracies: CorruptionAccuracies, path: Path, title: str = "") -> Path:
    """Heat map of accuracy by corruption and severity; beside it bars of the highest severity.

    Args:
        accuracies: see :class:`CorruptionAccuracies`.
        path: the PNG.
        title: what was evaluated, for example the run's name.
    """
    rows = _rows(accuracies.table)
    mean_row = max(rows.values()) + 1 + _GAP
    severities = accuracies.severities
    figure = new_figure(4.9 + 0.62 * (len(severities) + 1), 1.5 + _CELL * (mean_row + 1))
    figure.suptitle(title or "accuracy under corruptions", fontsize=12, fontweight="bold")
    heat, bars = figure.subplots(1, 2, sharey=True, width_ratios=[len(severities) + 1.35, 4])
    _draw_heat(heat, accuracies, rows, mean_row)
    _draw_bars(bars, accuracies, rows, mean_row)
    heat.set_ylim(mean_row + 0.6, -0.6)
    heat.set_yticks([*rows.values(), mean_row], [*map(_words, rows), "mean"])
    heat.get_yticklabels()[-1].set_fontweight("bold")
    return save_figure(figure, path)


def contact_sheet(dataset: CorruptedImages, path: Path, index: int = 0) -> Path:
    """One image under every corruption and severity of a data set, as a PNG.

    The clean image stands first in each row, where the prepared test set has as many images as the
    corrupted one.

    Args:
        dataset: the corrupted images.
        path: the PNG.
        index: which image of a group.

    Raises:
        ConfigError: a group has no such image.
    """
    if not 0 <= index < dataset.group_size:
        raise ConfigError(f"index: must be 0 to {dataset.group_size - 1}, not {index}")
    names = list(dict.fromkeys(name for name, _ in dataset.groups))
    levels = list(dict.fromkeys(level for _, level in dataset.groups))
    numbers = np.arange(len(dataset.groups)) * dataset.group_size + index
    images = dataset.gather(numbers)[0].reshape(len(names), len(levels), *dataset.images.shape[1:])
    columns = [f"severity {level}" for level in levels]
    clean = _clean(dataset, index)
    if clean is not None:
        repeated = np.broadcast_to(clean, (len(names), 1, *clean.shape))
        images = np.concatenate([repeated, images], axis=1)
        columns = ["clean", *columns]
    half = -(-len(names) // 2) if len(names) > 8 else len(names)  # rows of one of two blocks
    height, width = (_ENLARGED * (side + max(1, side // 16)) for side in images.shape[2:4])
    block = _BESIDE + len(columns) * width
    size = -(-len(names) // half) * block + _MARGIN, _ABOVE + half * height + _MARGIN
    canvas = Image.new("RGB", size, PAPER)
    draw = ImageDraw.Draw(canvas)
    label = dataset.classes[int(dataset.labels[index])]
    draw.text((size[0] / 2, _MARGIN), f"image {index} ({label})", INK, font(18), anchor="ma")
    for number, (name, row) in enumerate(zip(names, images, strict=True)):
        left, top = number // half * block + _BESIDE, _ABOVE + number % half * height
        words = _words(name).replace(" ", "\n")
        draw.text((left - 8, top + height / 2), words, INK, font(15), anchor="rm", align="right")
        for column, (text, image) in enumerate(zip(columns, row, strict=True)):
            x = left + column * width
            if number % half == 0:
                draw.text((x + width / 2, top - 6), text, INK, font(14), anchor="md")
            large = image.repeat(_ENLARGED, 0).repeat(_ENLARGED, 1)
            canvas.paste(Image.fromarray(large.squeeze()), (x, top))
    return save_png(path, np.asarray(canvas))


def _draw_heat(
    axes: Any, accuracies: CorruptionAccuracies, rows: Mapping[str, float], mean_row: float
) -> None:
    last = len(accuracies.severities) + 0.35  # the mean stands apart
    for name, y in rows.items():
        for x, value in enumerate(accuracies.table[name]):
            draw_percentage(axes, x, y, value)
        draw_percentage(axes, last, y, accuracies.mean(name), bold=True)
    for x, value in enumerate(accuracies.means()):
        draw_percentage(axes, x, mean_row, value, bold=True)
    draw_percentage(axes, last, mean_row, accuracies.overall, bold=True)
    axes.set_xlim(-0.55, last + 0.55)
    axes.set_xticks(
        [*range(len(accuracies.severities)), last], [*map(str, accuracies.severities), "mean"]
    )
    axes.set_xlabel("severity: accuracy (%)")
    axes.xaxis.set_label_position("top")
    axes.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False)
    axes.spines[:].set_visible(False)


def _draw_bars(
    axes: Any, accuracies: CorruptionAccuracies, rows: Mapping[str, float], mean_row: float
) -> None:
    places = [*rows.values(), mean_row]
    values = [accuracies.table[name][-1] for name in rows] + [accuracies.means()[-1]]
    for y, value in zip(places, values, strict=True):
        if value is None:
            continue
        bold = y == mean_row
        axes.barh(y, value, height=0.72, color=COLORS[1] if bold else COLORS[0])
        weight = "bold" if bold else "normal"
        axes.text(value + 1, y, f"{value:.1f}", va="center", fontsize=8.5, fontweight=weight)
    if accuracies.clean is not None:
        axes.axvline(accuracies.clean, color="0.35", linestyle="--", linewidth=1.2)
        axes.text(
            accuracies.clean,
            -0.75,
            f"clean {accuracies.clean:.1f}",
            ha="center",
            va="bottom",
            fontsize=8.5,
            color="0.3",
        )
    axes.set_xlim(0, 112)
    axes.set_xticks(range(0, 101, 20))
    axes.set_xlabel(f"accuracy at severity {accuracies.severities[-1]} (%)")
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0, labelleft=False)
    axes.spines[["top", "right"]].set_visible(False)


def _clean(dataset: CorruptedImages, index: int) -> np.ndarray | None:
    """The image as it was, uint8 [H, W, C]; None if the corrupted set has other images."""
    try:
        test = StoredImages(dataset.data_root, "test")
    except DataError:
        return None
    same = len(test) == dataset.group_size and test.labels[index] == dataset.labels[index]
    return test.gather(np.array([index]))[0][0] if same else None


def _rows(table: Mapping[str, Any]) -> dict[str, float]:
    """Where each corruption's row is: kinds stand apart."""
    rows, y = {}, 0.0
    for name in table:
        rows[name] = y
        y += 1 + _GAP * _ends_kind(name, table)
    return rows


def _ends_kind(name: str, table: Mapping[str, Any]) -> bool:
    """Whether the next corruption of a table is of another kind, or there is none."""
    names = list(table)
    following = names[names.index(name) + 1 :]
    return not following or _kind(following[0]) != _kind(name)


def _kind(name: str) -> str:
    kinds = [kind for kind, count in KINDS for _ in range(count)]
    return kinds[CORRUPTIONS.index(name)] if name in CORRUPTIONS else name


def _mean(values: Sequence[float | None]) -> float | None:
    """None if a value is missing: a mean over fewer would not compare."""
    if not values or any(value is None for value in values):
        return None
    return fmean(values)


def _words(name: str) -> str:
    return name.replace("_", " ").replace("jpeg", "JPEG")
