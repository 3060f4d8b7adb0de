"""The picture of splits: one scale, clients in order, nothing overprints."""

import numpy as np
import pytest
from drawn_labels import overprinted
from PIL import Image

from fedseg.report.splits import Labels, SplitView, count_split
from fedseg.report.splits_output import draw_splits, show_split


def one_class_each(classes: int, clients: int, **changes) -> SplitView:
    """Clients of one class, in turn."""
    names = changes.pop("names", [f"class {number}" for number in range(classes)])
    ids = np.repeat(np.arange(clients) % classes, 4)
    indices = {f"c{i}": np.arange(i * 4, (i + 1) * 4) for i in range(clients)}
    labels = Labels(kind="classes", ids=ids, names=names)
    return count_split("s", indices, labels, **changes)


def shares(axes) -> np.ndarray:
    return np.ma.filled(axes.collections[0].get_array(), 0)


def test_clients_are_in_order_of_their_largest_class():
    upper, *_ = draw_splits([one_class_each(10, 100)]).axes
    np.testing.assert_array_equal(shares(upper), np.eye(10).repeat(10, axis=1))
    assert upper.get_yticklabels()[0].get_text() == "class 0"


def test_picture_shows_sizes_and_names():
    ends = np.cumsum([40, 20, 10])
    clients = dict(zip("abc", np.split(np.arange(70), ends[:-1]), strict=True))
    labels = Labels(kind="classes", ids=np.zeros(70, np.int64), names=["one"])
    lower = draw_splits([count_split("s", clients, labels)]).axes[2]
    assert lower.patches[0].get_data().values.tolist() == [40, 20, 10]
    assert [text.get_text() for text in lower.get_xticklabels()] == ["a", "b", "c"]


def test_test_sets_stand_beside_the_clients_in_one_scale():
    names = ["class 0", "class 1", "class 2", "class 3"]
    tests = {
        "test": Labels(kind="classes", ids=np.arange(4), names=names),
        "unseen": Labels(kind="classes", ids=np.full(5, 3), names=names),
    }
    view = one_class_each(3, 6, tests=tests)
    upper, beside, *_ = draw_splits([view, one_class_each(4, 4)]).axes
    assert not shares(upper)[3].any()  # no client holds it
    np.testing.assert_array_equal(shares(beside).T, [[0.25] * 4, [0, 0, 0, 1]])
    assert [text.get_text() for text in beside.get_xticklabels()] == ["test", "unseen"]
    assert upper.collections[0].norm is beside.collections[0].norm


@pytest.mark.parametrize(("classes", "clients"), [(10, 100), (300, 100), (3, 1), (700, 1500)])
def test_nothing_overprints_at_any_scale(classes, clients):
    names = [f"a long class name {number}" for number in range(classes)]
    figure = draw_splits([one_class_each(classes, clients, names=names)] * 2)
    for axes in figure.axes:
        assert overprinted(axes) == []
    assert (shares(figure.axes[0]).max(axis=0) == 1).all()  # of neighbors in a cell, none is lost


def test_a_prepared_split_is_shown(tmp_path, capsys):
    clients = {"a": np.array([0, 1]), "b": np.array([2])}
    path = tmp_path / "new" / "users.png"
    show_split(clients, np.array([0, 0, 1]), ["x", "y"], path)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "samples per client 1 / 1.5 / 2" in lines and lines[-1] == str(path)
    with Image.open(path) as picture:
        assert picture.width > 1000
