"""The running sums and the server's buffers."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fedseg.core.flat import FlatModel
from fedseg.core.messages import ClientResult, Size, Task, Update
from fedseg.core.server import Aggregate, Server


def result(samples, delta, buffers=(), counters=None, weights=None, **vectors):
    task = Task(1, 0, 0, "c", samples, 1, {})
    update = Update({"delta": torch.as_tensor(delta), **vectors}, weights or {})
    return ClientResult(task, update, torch.tensor(buffers), counters or {}, {}, 0.0)


def test_weighted_and_uniform_sums():
    rng = np.random.default_rng(0)
    deltas, samples = rng.normal(size=(5, 7)).astype(np.float32), [3, 1, 4, 1, 50]
    updates = Aggregate(("samples", "uniform"))
    for n, delta in zip(samples, deltas, strict=True):
        updates.add(result(n, delta.copy()))
    exact = deltas.astype(np.float64)
    np.testing.assert_allclose(updates.mean(), np.average(exact, 0, samples), rtol=1e-14)
    np.testing.assert_allclose(updates.uniform_mean(), exact.mean(0), rtol=1e-14)
    np.testing.assert_allclose(updates.weighted_sum("delta", "uniform"), exact.sum(0), rtol=1e-14)
    assert updates.num_clients == 5 and updates.weights["samples"] == 59


def test_what_is_added_together_has_the_bits_of_one_after_the_other():
    deltas = np.random.default_rng(0).normal(size=(6, 70_001)).astype(np.float32)
    parts = [result(n, delta) for n, delta in zip([3, 1, 4, 1, 50, 9], deltas, strict=True)]
    block, single, together = Aggregate(), Aggregate(), Aggregate()
    block.add(*parts[4:])
    for part in (*parts[:4], block):
        single.add(part)
    together.add(*parts[:4], block)
    assert single.num_clients == together.num_clients == 6
    assert torch.equal(single.mean(), together.mean())


def test_the_sum_is_a_copy():
    """A client's update lies in memory that the next one overwrites."""
    updates = Aggregate()
    scratch = torch.ones(3)
    updates.add(result(1, scratch))
    scratch.fill_(5)
    assert updates.mean().tolist() == [1, 1, 1]


def test_numbers_are_kept_by_client():
    """Of single updates as of a block, and each is 8 bytes on the wire."""
    parts = [result(1, [1.0]) for _ in range(3)]
    for client, part in enumerate(parts):
        part.task = replace(part.task, client=client)
        part.update.numbers = {"norm": 0.5 * client} if client != 1 else {}
    block, updates = Aggregate(), Aggregate()
    block.add(*parts[1:])
    updates.add(parts[0], block)
    assert updates.numbers["norm"] == {0: 0.0, 2: 1.0} and updates.numbers["other"] == {}
    shape = torch.Size([1])
    assert parts[2].update.size(shape).more_bytes - parts[1].update.size(shape).more_bytes == 8


def test_cancellation_is_exact_in_float64():
    updates = Aggregate()
    for value in (1e8, 1.0, -1e8):
        updates.add(result(1, [value]))
    assert float(updates.mean()[0] * 3) == 1.0


def test_a_sum_that_is_not_kept_is_named():
    updates = Aggregate()
    updates.add(result(1, [1.0]))
    with pytest.raises(KeyError, match=r"no uniform sum of 'delta'.*delta \(samples\)"):
        updates.uniform_mean()
    with pytest.raises(KeyError, match="control"):
        updates.mean("control")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(2, 3)
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("shift", torch.zeros(2))


def make_server():
    flat = FlatModel(Net())
    return flat, Server(flat, 4, ("sigma",))


def test_the_servers_vectors_are_its_own():
    flat, server = make_server()
    before = server.w.clone()
    flat.w.add_(1)
    flat.buffers.add_(1)
    flat.counters["norm.num_batches_tracked"].add_(1)
    assert torch.equal(server.w, before)
    assert server.counters["norm.num_batches_tracked"] == 0
    assert server.state["sigma"].dtype == torch.float64 and not server.state["sigma"].any()


def test_buffers_and_counters_are_averaged_by_samples():
    flat, server = make_server()
    updates = Aggregate()
    for n, value, count in ((1, 2.0, 10), (3, 6.0, 21)):
        buffers = torch.full_like(flat.buffers, value).tolist()
        counters = {"norm.num_batches_tracked": torch.tensor(count)}
        updates.add(result(n, torch.zeros_like(flat.w), buffers, counters, {"samples": 1}))
    server.take_buffers(updates)
    assert (server.buffers == 5).all()
    assert server.counters["norm.num_batches_tracked"] == 18  # 18.25
    assert server.counters["norm.num_batches_tracked"].dtype == torch.int64


def test_local_buffers_are_left_alone_and_cost_nothing():
    flat, server = make_server()
    # fc 9 and norm 6 parameters; mean 3, var 3, shift 2 floats; one counter of 8 bytes
    assert server.traffic(Size(1)) == 4 * (15 + 8) + 8
    assert server.traffic(Size(2)) == 4 * (2 * 15 + 8) + 8
    assert server.traffic(Size(2, 7)) == 7 + 4 * 8 + 8
    assert server.traffic(Size(2, 7), buffers=False) == 7
    mask = torch.zeros_like(flat.buffers, dtype=torch.bool)
    for slot in flat.buffer_slots:
        if slot.name.startswith("norm"):
            mask[slot.span] = True
    server.keep_local(mask, ["norm.num_batches_tracked"], torch.zeros_like(flat.w).bool())
    assert server.traffic(Size(1)) == 4 * (15 + 2)
    initial = server.buffers.clone()
    updates = Aggregate()
    counters = {"norm.num_batches_tracked": torch.tensor(5)}
    updates.add(result(1, torch.zeros_like(flat.w), [7.0] * flat.buffers.numel(), counters))
    server.take_buffers(updates)
    assert torch.equal(server.buffers[mask], initial[mask]) and (server.buffers[~mask] == 7).all()
    assert server.counters["norm.num_batches_tracked"] == 0


def test_a_message_starts_where_it_is_told():
    _, server = make_server()
    message = server.message(server.w + 1, {"control": server.w})
    assert torch.equal(message.w, server.w + 1) and set(message.extras) == {"control"}
    assert message.buffers is server.buffers
