"""Charts of a run beside its curves: IoU by class, accuracy for each client."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedseg.checks import is_number
from fedseg.metric_names import domain_label
from fedseg.report.drawing import SHADES, draw_percentages, new_figure, readable_labels


def draw_iou_by_class(
    domains: Mapping[str, Mapping[str, Any]],
    palette: Sequence[Sequence[int]] | None = None,
    title: str = "",
) -> Figure | None:
    """Heat map of IoU by class (rows) and domain (columns), mIoU below; None without any IoU."""
    columns = [d for d in domains if domains[d].get("IoU")]
    if not columns:
        return None
    names = dict.fromkeys(name for d in columns for name in domains[d]["IoU"])
    rows = {name: [domains[d]["IoU"].get(name) for d in columns] for name in names}
    rows = {name: [v if is_number(v) else None for v in row] for name, row in rows.items()}
    rows["mIoU"] = [domains[d].get("mIoU") for d in columns]
    labels = [domain_label(d, columns).replace(" ", "\n", 1) for d in columns]
    return draw_percentages(rows, labels, f"{title}\nIoU by class (%)".strip(), palette)


def draw_confusion(entry: Mapping[str, Any], title: str = "") -> Figure:
    """Heat map of a confusion matrix: of each class's pixels (rows) the share that is predicted so.

    ``entry``: of a domain in ``confusion`` of ``test_results.json``. Classes that neither truth nor
    prediction has are left out.
    """
    pixels = np.array(entry["pixels"], dtype=float)
    kept = np.flatnonzero(pixels.sum(0) + pixels.sum(1))
    names = [entry["classes"][c] for c in kept]
    pixels = pixels[np.ix_(kept, kept)]
    total = pixels.sum(1, keepdims=True)
    shares = np.divide(100 * pixels, total, out=np.full_like(pixels, np.nan), where=total > 0)
    figure = new_figure(2.5 + 0.5 * len(kept), 1.8 + 0.42 * len(kept))
    axes = figure.add_subplot()
    axes.imshow(shares, cmap=SHADES, vmin=0, vmax=100, aspect="auto")
    for (y, x), value in np.ndenumerate(shares):
        if value >= 0.5:
            style = {"ha": "center", "va": "center", "fontsize": 8}
            axes.text(x, y, f"{value:.0f}", color="white" if value > 58 else "0.1", **style)
    axes.set_xticks(range(len(kept)), names, rotation=45, ha="right")
    axes.set_yticks(range(len(kept)), names)
    axes.set(xlabel="predicted", ylabel="truth", title=f"{title} (% of the true class)".strip())
    return figure


def draw_client_accuracy(
    entry: Mapping[str, Any], series: Mapping[int, Sequence[float | None]], title: str = ""
) -> Figure:
    """Heat map of the accuracy for each client (rows) over the evaluated rounds (columns).

    Clients are sorted by the class that they hold most of: what the model forgets from one round
    to another shows as bands that go dark.

    Args:
        entry: ``client_accuracy`` of a run's results.
        series: evaluated round -> accuracy in percent by client, from the history.
        title: name of the run.
    """
    rounds, classes = np.asarray(list(series)), np.asarray(entry["main_class"])
    values = np.array(list(series.values()), dtype=float).T  # None is NaN
    order = np.argsort(classes, kind="stable")
    height = min(2 + 0.05 * max(len(classes), 20), 8)
    figure = new_figure(9.5, height)
    axes = figure.add_subplot()
    style = {"aspect": "auto", "interpolation": "nearest", "cmap": "cividis"}
    image = axes.imshow(values[order], vmin=0, vmax=100, **style)
    ticks = np.unique(np.linspace(0, len(rounds) - 1, min(len(rounds), 8)).round().astype(int))
    axes.set_xticks(ticks, rounds[ticks])
    axes.set_xlabel("round (evaluated ones, evenly spaced here)")
    axes.set_ylabel(f"{len(classes)} clients, by their main class")
    axes.set_yticks([])
    ends = np.flatnonzero(np.diff(classes[order])) + 0.5
    if len(ends) < 30:
        axes.hlines(ends, -0.5, len(rounds) - 0.5, "white", linewidth=0.7)
        middles = (np.r_[-0.5, ends] + np.r_[ends, len(classes) - 0.5]) / 2
        names = [entry["classes"][number] for number in np.unique(classes)]
        named = readable_labels(middles, len(classes), height - 1)
        axes.set_yticks(middles[named], [names[number] for number in named])
        axes.tick_params(axis="y", length=0)
    figure.colorbar(image, ax=axes, pad=0.01).set_label("accuracy (%)")
    kind = "test images in each client's class mix"
    if entry.get("images") == "train":
        kind = "each client's own training images"
    axes.set_title(f"{title + ': ' if title else ''}accuracy on {kind}", fontsize=11)
    return figure
