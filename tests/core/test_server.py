"""The server's vectors, buffers and traffic."""

import torch
from torch import nn

from fedseg.core.aggregate import Aggregate
from fedseg.core.flat import FlatModel
from fedseg.core.local_state import LocalState
from fedseg.core.messages import ClientResult, Size, Task, Update
from fedseg.core.server import Server


def result(samples, delta, buffers, counters, weights=None):
    task = Task(1, 0, 0, "c", samples, 1, {})
    update = Update({"delta": delta}, weights or {})
    return ClientResult(task, update, torch.tensor(buffers), counters, {}, 0.0)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(2, 3)
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("shift", torch.zeros(2))


def make_server(personal=None):
    flat = FlatModel(Net())
    local_state = None if personal is None else LocalState(flat, personal)
    return flat, Server(flat, 4, ("sigma",), local_state)


def test_the_servers_vectors_are_its_own():
    flat, server = make_server()
    before = server.w.clone()
    flat.w.add_(1)
    flat.buffers.add_(1)
    flat.counters.add_(1)
    assert torch.equal(server.w, before)
    assert not server.counters.any()
    assert server.state["sigma"].dtype == torch.float64 and not server.state["sigma"].any()


def test_buffers_and_counters_are_averaged_by_samples():
    flat, server = make_server()
    aggregate = Aggregate({"delta": "samples"})
    for n, value, count in ((1, 2.0, 10), (3, 6.0, 21)):
        buffers = torch.full_like(flat.buffers, value).tolist()
        counters = torch.full_like(flat.counters, count)
        aggregate.add(result(n, torch.zeros_like(flat.w), buffers, counters, {"samples": 1}))
    server.take_buffers(aggregate)
    assert (server.buffers == 5).all()
    assert (server.counters == 18).all()  # 18.25
    assert server.counters.dtype == torch.int64


def test_local_buffers_are_left_alone_and_cost_nothing():
    flat, server = make_server()
    # fc 9 and norm 6 parameters; mean 3, var 3, shift 2 floats; one counter of 8 bytes
    assert server.traffic(Size(1)) == 4 * (15 + 8) + 8
    assert server.traffic(Size(2)) == 4 * (2 * 15 + 8) + 8
    assert server.traffic(Size(2, 7)) == 7 + 4 * 8 + 8
    assert server.traffic(Size(2, 7), buffers=False) == 7
    flat, server = make_server("@batchnorm.statistics")
    mask = server.local_state.buffer_mask
    assert server.traffic(Size(1)) == 4 * (15 + 2)
    initial = server.buffers.clone()
    aggregate = Aggregate({"delta": "samples"})
    counters = torch.full_like(flat.counters, 5)
    aggregate.add(result(1, torch.zeros_like(flat.w), [7.0] * flat.buffers.numel(), counters))
    server.take_buffers(aggregate)
    assert torch.equal(server.buffers[mask], initial[mask]) and (server.buffers[~mask] == 7).all()
    assert not server.counters[server.local_state.counter_positions].any()


def test_a_message_starts_where_it_is_told():
    _, server = make_server()
    message = server.message(server.w + 1, control=server.w)
    assert torch.equal(message.w, server.w + 1) and set(message.extras) == {"control"}
    assert message.buffers is server.buffers
