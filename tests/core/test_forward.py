"""Batches on their way through a model."""

from collections import namedtuple

import torch

from fedseg.memory import map_tensors

Pair = namedtuple("Pair", "inputs data_samples")


def test_structures_keep_their_types():
    one = torch.ones(1)
    batch = {"a": Pair(one, [one, 3]), "b": (one, "text")}
    mapped = map_tensors(lambda t: t + 1, batch)
    assert mapped == {"a": Pair(one + 1, [one + 1, 3]), "b": (one + 1, "text")}
    assert type(mapped["a"]) is Pair
