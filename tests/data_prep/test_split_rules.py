"""Assignments of images to clients against hand-made cases; classes of label maps."""

import numpy as np
import pytest
from prepare_tools import presence, write_pair

from fedseg.core.seeds import generator_for
from fedseg.data_prep.paired_images import rendered_files
from fedseg.data_prep.split_rules import (
    build_cityscapes,
    build_idda,
    cut,
    fit_groups,
    rarest_class,
    read_presence,
    spread_groups,
)
from fedseg.data_prep.street_sets import CITYSCAPES, IDDA
from fedseg.datasets import IDDADataset


def test_rarest_class():
    present = np.array([[1, 1, 0], [1, 0, 1], [1, 0, 0], [1, 1, 0], [0, 0, 0]], dtype=bool)
    assert rarest_class(present).tolist() == [1, 2, 0, 1, -1]


def test_consecutive_pieces():
    assert cut("abcdefg", [3, 0, 2]) == [["a", "b", "c"], [], ["d", "e"]]


def test_spread_groups_uses_as_many_groups_as_it_can():
    groups = [[(g, i) for i in range(6)] for g in range(4)]
    clients = spread_groups(groups, 4, generator_for(0, "test"))
    assert sorted(x for c in clients for x in c) == sorted(x for g in groups for x in g)
    assert all(len(client) == 6 and len({g for g, _ in client}) == 4 for client in clients)


def test_fit_groups_keeps_images_and_sizes_and_refuses_the_impossible():
    rng = generator_for(0, "test")
    before = np.arange(48).reshape(6, 8).tolist()
    groups = [str(i // 8) for i in range(48)]
    clients = fit_groups(before, groups, [0] * 48, 1, 4, rng)
    assert [len(client) for client in clients] == [8] * 6
    assert sorted(i for client in clients for i in client) == list(range(48))
    assert max(len({groups[i] for i in client}) for client in clients) == 4
    with pytest.raises(ValueError, match="groups"):
        fit_groups([[0], [1]], ["a", "b"], [0, 0], 1, 2, rng)


def test_every_label_map_is_read_once(tmp_path):
    samples = [("1.jpg", "1.png"), ("2.jpg", "2.png")]
    write_pair(tmp_path, tmp_path, samples[0], ids=(7, 20))
    write_pair(tmp_path, tmp_path, samples[1], ids=(6, 3, 40))
    present = read_presence(tmp_path, IDDADataset)

    def classes(chosen):
        return [[IDDADataset.classes[c] for c in row.nonzero()[0]] for row in present(chosen)]

    assert classes(samples[1:]) == [["road"]]
    (tmp_path / "2.png").unlink()
    assert classes(samples) == [["road", "sky"], ["road"]]


@pytest.mark.parametrize(
    ("data_set", "build", "more"),
    [(CITYSCAPES, build_cityscapes, ()), (IDDA, build_idda, ("bus",))],
    ids=["cityscapes", "idda"],
)
def test_seed_fixes_every_split(data_set, build, more):
    def built(seed):
        content, images = presence(np.linspace(0.01, 1, 16) ** 2), rendered_files(data_set)
        return [build(images, (rule, *more), seed, content)[0].checksum for rule in data_set.rules]

    first = built(3)
    assert built(3) == first
    assert all(a != b for a, b in zip(first, built(4), strict=True))
