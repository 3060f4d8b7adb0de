"""Running sums over the updates of an exchange."""

import numpy as np
import pytest
import torch

from fedseg.core.aggregate import Aggregate
from fedseg.core.messages import ClientResult, Task, Update

BOTH = {"delta": ("samples", "uniform")}


def result(samples, delta, client=0, **update):
    task = Task(1, 0, client, "c", samples, 1, {})
    vectors = {"delta": torch.as_tensor(delta)}
    counters = torch.tensor([client])
    sent = Update(vectors, **update)
    return ClientResult(task, sent, torch.tensor([float(client)]), counters, {}, 0.0)


def test_weighted_and_uniform_sums():
    rng = np.random.default_rng(0)
    deltas, samples = rng.normal(size=(5, 7)).astype(np.float32), [3, 1, 4, 1, 50]
    aggregate = Aggregate(BOTH)
    for n, delta in zip(samples, deltas, strict=True):
        aggregate.add(result(n, delta.copy()))
    exact = deltas.astype(np.float64)
    by_samples = np.average(exact, 0, samples)
    np.testing.assert_allclose(aggregate.mean(), by_samples, rtol=1e-14)  # the first declared one
    np.testing.assert_allclose(aggregate.mean("delta", "samples"), by_samples, rtol=1e-14)
    np.testing.assert_allclose(aggregate.mean("delta", "uniform"), exact.mean(0), rtol=1e-14)
    np.testing.assert_allclose(aggregate.total("delta", "uniform"), exact.sum(0), rtol=1e-14)
    assert aggregate.num_clients == 5 and aggregate.weights["samples"] == 59


def test_sums_by_a_weight_that_updates_bring():
    aggregate = Aggregate({"delta": "per_step"})
    aggregate.add(result(9, [1.0], weights={"per_step": 0.5}))
    aggregate.add(result(1, [3.0], weights={"per_step": 1.5}))
    assert aggregate.total("delta").tolist() == [5.0]
    assert aggregate.mean("delta").tolist() == [2.5]


def test_a_block_of_clients_merges_into_the_same_sums():
    deltas = np.random.default_rng(0).normal(size=(6, 101)).astype(np.float32)
    parts = [
        result(
            samples=client + 1,
            delta=deltas[client],
            client=client,
            payloads={"counts": torch.full((2,), float(client))},
            numbers={"gap": client / 2},
        )
        for client in range(6)
    ]
    single, blocks = Aggregate(BOTH), Aggregate(BOTH)
    for part in parts:
        single.add(part)
    for first in (0, 3):
        block = Aggregate(BOTH)
        for part in parts[first : first + 3]:
            block.add(part)
        blocks.merge(block)
    for weighting in BOTH["delta"]:
        torch.testing.assert_close(
            single.mean("delta", weighting), blocks.mean("delta", weighting), rtol=1e-14, atol=0
        )
    assert single.num_clients == blocks.num_clients == 6
    assert single.weights == blocks.weights
    assert single.payload("counts").tolist() == blocks.payload("counts").tolist() == [15.0] * 2
    assert single.numbers == blocks.numbers == {"gap": {c: c / 2 for c in range(6)}}
    assert torch.equal(single.buffers(), blocks.buffers())
    assert torch.equal(single.counters(), blocks.counters())


def test_the_sums_are_copies():
    """A client's update lies in memory that the next one overwrites, a mean is the caller's."""
    aggregate = Aggregate({"delta": "samples"})
    scratch, payload = torch.ones(3), torch.ones(2)
    aggregate.add(result(1, scratch, payloads={"counts": payload}))
    block = Aggregate({"delta": "samples"})
    block.merge(aggregate)
    for tensor in (scratch, payload, aggregate.mean("delta")):
        tensor.fill_(5)
    aggregate.add(result(1, torch.ones(3)))
    assert aggregate.mean().tolist() == [1, 1, 1] and aggregate.payload("counts").tolist() == [1, 1]
    assert block.total().tolist() == [1, 1, 1]


def test_cancellation_is_exact_in_float64():
    aggregate = Aggregate({"delta": "uniform"})
    for value in (1e8, 1.0, -1e8):
        aggregate.add(result(1, [value]))
    assert float(aggregate.mean()[0] * 3) == 1.0


def test_a_vector_is_summed_as_declared_and_no_other_way():
    """What no algorithm reads costs no memory."""
    aggregate = Aggregate({"delta": "samples"})
    aggregate.add(result(1, [1.0]))
    with pytest.raises(KeyError, match=r"no sum of 'delta' by 'uniform'.*delta \(samples\)"):
        aggregate.mean("delta", "uniform")
    with pytest.raises(KeyError, match="control"):
        aggregate.mean("control")
