"""Which labels of an axis lie over each other in the drawn picture."""

from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg


def overprinted(axes: Axes) -> list[tuple[str, str]]:
    """Neighbors among the labels of both axes that share a part of the picture."""
    canvas = FigureCanvasAgg(axes.figure)
    canvas.draw()
    pairs = []
    for axis in (axes.xaxis, axes.yaxis):
        labels = [label for label in axis.get_ticklabels() if label.get_text()]
        for label, following in pairwise(labels):
            boxes = [text.get_window_extent(canvas.get_renderer()) for text in (label, following)]
            if boxes[0].overlaps(boxes[1]):
                pairs.append((label.get_text(), following.get_text()))
    return pairs
