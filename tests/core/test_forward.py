"""Batches on their way through a model."""

from collections import namedtuple

import pytest
import torch
from torch import nn

from fedseg.core.forward import forward
from fedseg.errors import ConfigError
from fedseg.memory import map_tensors

Pair = namedtuple("Pair", "inputs data_samples")


def test_structures_keep_their_types():
    one = torch.ones(1)
    batch = {"a": Pair(one, [one, 3]), "b": (one, "text")}
    mapped = map_tensors(lambda t: t + 1, batch)
    assert mapped == {"a": Pair(one + 1, [one + 1, 3]), "b": (one + 1, "text")}
    assert type(mapped["a"]) is Pair


def test_a_batch_that_is_no_dict_is_refused():
    with pytest.raises(ConfigError, match="batch: must be a dict, not list: let the data set"):
        forward(nn.Identity(), [torch.ones(1), torch.ones(1)], "loss")
