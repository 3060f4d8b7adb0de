"""Statistics of a partition worked out by hand, and the picture of them."""

from itertools import groupby

import numpy as np
import pytest
from PIL import Image

from fedseg.errors import ConfigError
from fedseg.report.drawing import COLORS
from fedseg.report.partition_charts import show_partition
from fedseg.report.partition_view import partition_statistics

LABELS = np.array([0, 0, 1, 1, 1, 1, 2, 2])
CLIENTS = {"a": np.array([0, 2, 6]), "b": np.array([4, 3]), "c": np.array([7])}


def one_class_each(classes: int, clients: int, size: int = 4):
    """Clients of one class, in turn."""
    labels = np.repeat(np.arange(clients) % classes, size)
    return {str(i): np.arange(i * size, (i + 1) * size) for i in range(clients)}, labels


def picture(clients, labels, classes, path) -> np.ndarray:
    show_partition(clients, labels, classes, path)
    return np.asarray(Image.open(path).convert("RGB")).astype(int)


def test_statistics_by_hand():
    statistics = partition_statistics(CLIENTS, LABELS, 4)
    assert statistics.counts.tolist() == [[1, 1, 1, 0], [0, 2, 0, 0], [0, 0, 1, 0]]
    assert statistics.counts.dtype == np.int64
    assert statistics.sizes.tolist() == [3, 2, 1] and statistics.unused == 2
    assert statistics.classes_per_client.tolist() == [3, 1, 1]
    # the whole: 1/4, 1/2, 1/4, 0; the clients' distances 1/6, 1/2, 3/4
    assert statistics.total_variation == pytest.approx((1 / 6 + 1 / 2 + 3 / 4) / 3)


def test_statistics_of_no_and_of_most_skew():
    clients, labels = one_class_each(10, 20)
    assert partition_statistics(clients, labels, 10).total_variation == pytest.approx(0.9)
    whole = {"all": np.arange(len(labels))}
    statistics = partition_statistics(whole, labels.astype(np.uint8), 10)
    assert statistics.total_variation == 0
    assert statistics.classes_per_client.tolist() == [10]


def test_wrong_clients():
    with pytest.raises(ConfigError, match=r"client 'b' has sample 2, .*'a'"):
        partition_statistics({"a": [1, 2], "b": [2]}, LABELS, 3)
    with pytest.raises(ConfigError, match="client"):
        partition_statistics({}, LABELS, 3)


def test_printed_statistics(tmp_path, capsys):
    clients, labels = one_class_each(10, 200, size=50)
    clients["0"] = np.append(clients["0"], clients["1"][:1])
    clients["1"] = clients["1"][3:]
    show_partition(clients, labels, list("abcdefghij"), tmp_path / "alpha [0].png")
    printed = capsys.readouterr().out
    for part in (
        "alpha [0]: 200 clients",
        "samples per client: 47 / 50 / 51",
        "classes per client: 1 / 1 / 2",
        "10 classes in all, 2 samples unused",
        "0.900",
    ):
        assert part in printed


def test_picture_is_drawn_at_any_scale(tmp_path):
    for classes, clients in ((10, 100), (100, 500), (3, 1), (700, 1500)):
        held, labels = one_class_each(classes, clients)
        names = [f"class {i}" for i in range(classes)]
        drawn = picture(held, labels, names, tmp_path / "new" / "s.png")
        assert drawn.shape[1] == 1560  # more than a pixel for each of 500 clients
        assert drawn.shape[0] < 1800


def test_picture_has_a_diagonal_of_full_cells(tmp_path):
    held, labels = one_class_each(10, 100)
    drawn = picture(held, labels, list("abcdefghij"), tmp_path / "s.png")
    full = (drawn == [8, 29, 88]).all(axis=-1)  # the end of the map: a share of 1
    full[:, 1450:] = False  # the color bar
    rows, columns = np.nonzero(full)
    # in order of the largest class, though clients take classes in turn: row follows column
    assert np.corrcoef(rows, columns)[0, 1] > 0.99
    area = (np.ptp(rows) + 1) * (np.ptp(columns) + 1)
    assert 0.08 < len(rows) / area < 0.11  # a tenth, less the lines between cells


def test_few_samples_differ_from_none_and_many(tmp_path):
    # 499 samples of class 0 and one of class 1; class 2 is at nobody's
    labels = np.array([0] * 499 + [1])
    drawn = picture({"0": np.arange(500)}, labels, ["a", "b", "c"], tmp_path / "s.png")
    column = drawn[:, 700]
    colors, areas = np.unique(column, axis=0, return_counts=True)
    flat = {tuple(c) for c, n in zip(colors.tolist(), areas, strict=True) if n > 20}
    # the share of nearly all, of nearly none, and of none; the bar of the size
    (pale,) = flat - {(8, 29, 88), (0, 114, 178), (255, 255, 255)}
    assert len(flat) == 4
    assert 150 < min(pale) < 200 and pale[1] > 225  # a yellowish green
    runs = [(color, len(list(same))) for color, same in groupby(map(tuple, column.tolist()))]
    cell = max(length for color, length in runs if color == pale)
    assert max(length for color, length in runs if color == (8, 29, 88)) == pytest.approx(
        cell, abs=2
    )


def test_picture_shows_sizes(tmp_path):
    blue = [int(COLORS[0][i : i + 2], 16) for i in (1, 3, 5)]

    def bar_heights(sizes):
        ends = np.cumsum(sizes)
        held = {
            str(k): np.arange(e - s, e) for k, (s, e) in enumerate(zip(sizes, ends, strict=True))
        }
        labels = np.zeros(ends[-1], np.int64)
        drawn = picture(held, labels, ["one"], tmp_path / "s.png")
        found = (drawn == blue).all(axis=-1).sum(axis=0)
        return found[found > 20]

    heights = bar_heights([40, 20, 10])
    assert heights.max() / heights.min() == pytest.approx(4, rel=0.1)
    assert bar_heights([20, 20, 20]).std() < 1
