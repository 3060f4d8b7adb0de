"""Statistics of a partition worked out by hand, and the picture of them."""

import numpy as np
import pytest
from PIL import Image

from fedseg.errors import ConfigError
from fedseg.report.partition_charts import draw_side_by_side, draw_view, show_partition
from fedseg.report.partition_view import View, partition_statistics

LABELS = np.array([0, 0, 1, 1, 1, 1, 2, 2])
CLIENTS = {"a": np.array([0, 2, 6]), "b": np.array([4, 3]), "c": np.array([7])}


def one_class_each(classes: int, clients: int, size: int = 4):
    """Clients of one class, in turn."""
    labels = np.repeat(np.arange(clients) % classes, size)
    return {str(i): np.arange(i * size, (i + 1) * size) for i in range(clients)}, labels


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


def drawn(clients, labels, classes):
    """The axes of a partition's picture: its heat map, sizes and scale."""
    statistics = partition_statistics(clients, labels, len(classes))
    return draw_view(View("s", "s", clients, statistics, "class", tuple(classes))).axes


def shares(axes) -> np.ndarray:
    return np.ma.filled(axes.images[0].get_array(), 0)


@pytest.mark.parametrize(("classes", "clients"), [(10, 100), (100, 500), (3, 1), (700, 1500)])
def test_picture_is_drawn_at_any_scale(tmp_path, classes, clients, capsys):
    held, labels = one_class_each(classes, clients)
    names = [f"class {i}" for i in range(classes)]
    show_partition(held, labels, names, tmp_path / "new" / "s.png")
    with Image.open(tmp_path / "new" / "s.png") as picture:
        assert picture.width == 1560 and picture.height < 1800
    upper = drawn(held, labels, names)[0]
    assert (shares(upper).max(axis=0) == 1).all()  # of neighbors in a cell, none is lost
    assert upper.images[0].get_extent() == [0, clients, classes, 0]


def test_clients_are_in_order_of_their_largest_class():
    held, labels = one_class_each(10, 100)
    upper, *_ = drawn(held, labels, list("abcdefghij"))
    np.testing.assert_array_equal(shares(upper), np.eye(10).repeat(10, axis=1))
    assert [t.get_text() for t in upper.get_yticklabels()] == list("abcdefghij")


def test_picture_shows_sizes():
    ends = np.cumsum([40, 20, 10])
    held = {str(k): part for k, part in enumerate(np.split(np.arange(70), ends[:-1]))}
    lower = drawn(held, np.zeros(70, np.int64), ["one"])[1]
    assert lower.patches[0].get_data().values.tolist() == [40, 20, 10]
    assert [t.get_text() for t in lower.get_xticklabels()] == ["0", "1", "2"]


def test_test_sets_stand_beside_the_clients():
    statistics = partition_statistics(CLIENTS, LABELS, 4)
    counts = {"test": np.array([1, 1, 1, 1]), "unseen": np.array([0, 0, 0, 5])}
    view = View("s", "s", CLIENTS, statistics, "class", tuple("abcd"), {}, counts)
    upper, beside, _, below, _ = draw_view(view).axes
    assert not shares(upper)[3].any()  # no client holds it
    np.testing.assert_array_equal(shares(beside).T, [[0.25] * 4, [0, 0, 0, 1]])
    assert [text.get_text() for text in below.texts] == ["test", "unseen"]
    assert upper.images[0].norm.vmax == beside.images[0].norm.vmax == 1


def test_splits_side_by_side_have_one_scale():
    views = []
    for clients in (CLIENTS, {"0": np.arange(8)}):
        statistics = partition_statistics(clients, LABELS, 3)
        views.append(View("s", "s", clients, statistics, "class", tuple("abc")))
    sizes_only = partition_statistics({"0": np.arange(8)}, LABELS * 0, 1)
    views.append(View("n", "n", {"0": np.arange(8)}, sizes_only))
    axes = draw_side_by_side(views).axes
    maps = [one for one in axes[:3] if one.images]
    assert [one.images[0].norm.vmax for one in maps] == [1, 1]
    assert "classes are not known" in [text.get_text() for text in axes[2].texts]
    assert axes[3].patches[0].get_data().values.tolist() == [1, 2, 3][::-1]  # samples by client
    assert axes[0].get_title() == "s\nclasses per client: 1 / 1 / 3"
