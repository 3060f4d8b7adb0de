"""A whole run whose updates are combined by an aggregate of the user's own, alone or on workers."""

import forkray
import numpy as np
import pytest
import torch
import toyquad
import toyseg
from toyquad import fixed, local_steps, trace

from fedseg.algorithms import FedAvg
from fedseg.core.server import Aggregate
from fedseg.engine import executor
from fedseg.registry import ALGORITHMS

ROUNDS = ("abcd", "acd", "abd")


class Median(Aggregate):
    """The median of every entry over the clients, which a single bad update cannot move."""

    single_updates = True

    def __init__(self, weightings=("samples",)):
        super().__init__(weightings)
        self.deltas = []

    def add(self, *parts):
        super().add(*parts)
        self.deltas += [part.update.vectors["delta"].clone() for part in parts]

    def mean(self, name="delta"):
        if name != "delta":
            return super().mean(name)
        return torch.from_numpy(np.median(torch.stack(self.deltas).numpy(), axis=0))


@ALGORITHMS.register_module()
class FedMedian(FedAvg):
    aggregate = Median


@pytest.mark.parametrize("workers", [None, 2])
def test_the_median_of_the_clients(tmp_path, monkeypatch, workers):
    """Blocks of several clients would hide them from the aggregate: it gets them one by one."""
    monkeypatch.setattr(executor, "MAX_BLOCKS", 2)
    changes = {"client_sampler": fixed(*ROUNDS)}
    if workers:
        forkray.install(monkeypatch)
        changes["executor"] = {"type": "RayExecutor", "num_workers": workers}
    config = toyquad.run(tmp_path, {"type": "FedMedian"}, **changes)
    w = np.array(toyquad.START)
    for clients, after in zip(ROUNDS, trace(config)[1:], strict=True):
        w = np.median([local_steps(k, w, 5, 0.1) for k in clients], axis=0)
        np.testing.assert_allclose(after, w, rtol=1e-12)
    norms = [line["norm_delta"] for line in toyseg.history(config)]
    assert norms == pytest.approx(np.linalg.norm(np.diff(trace(config), axis=0), axis=1))
