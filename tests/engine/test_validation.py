"""Updates are checked before they count."""

import math

import pytest
import torch
from torch import nn

from fedseg.algorithms import FedAvg
from fedseg.core.flat import FlatModel
from fedseg.core.messages import ClientResult, Exchange, Payload, Task, Update
from fedseg.core.server import Server
from fedseg.core.vectors import finite_norm
from fedseg.engine.validation import (
    check_contract,
    find_update_fault,
    measure_norms,
    norm_limits,
)
from fedseg.errors import ConfigError

NAN, INF = float("nan"), float("inf")


class TwoSums(FedAvg):
    weightings = {"delta": "samples", "control": ("uniform", "per_step")}


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr("fedseg.core.flat.ALIGNMENT_BYTES", 4)
    return Server(FlatModel(nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(2))), 3)


def result(update, buffers=None, state=None):
    task = Task(1, 0, 0, "c", 5, 1, {})
    buffers = torch.ones(4) if buffers is None else buffers
    counters = torch.ones(1, dtype=torch.int64)
    return ClientResult(task, update, buffers, counters, state or {}, 0.0)


def sound(**changes):
    vectors = {"delta": torch.ones(6), "control": torch.ones(6)}
    options = {"weights": {"per_step": 0.5}, "payloads": {"counts": torch.ones(2)}}
    return Update(**{"vectors": vectors, **options, **changes})


BROKEN_CONTRACTS = {
    "no delta": (sound(vectors={}), "'delta'"),
    "undeclared": (sound(vectors={"delta": torch.ones(6), "x": torch.ones(6)}), "lacks 'x'"),
    "longer": (sound(vectors={"delta": torch.ones(7)}), r"'delta': must have shape \[6\]"),
    "two-dimensional": (sound(vectors={"delta": torch.ones(6, 1)}), r"not \[6, 1\]"),
    "double": (sound(vectors={"delta": torch.ones(6).double()}), "must be torch.float32"),
    "no tensor": (sound(vectors={"delta": [1.0] * 6}), "must be a dense tensor, not list"),
    "no weight": (sound(weights={}), "Update.weights lacks 'per_step'"),
    "unknown payload": (sound(payloads={"y": torch.ones(2)}), "'y' is not a declared payload"),
    "other payload": (sound(payloads={"counts": torch.ones(3)}), r"'counts': must have shape"),
}


@pytest.mark.parametrize("case", BROKEN_CONTRACTS)
def test_the_first_update_must_be_what_the_algorithm_declares(server, case):
    update, message = BROKEN_CONTRACTS[case]
    payloads = {"counts": Payload("counts", (2,))}
    check_contract(result(sound()), server, TwoSums(), payloads)
    with pytest.raises(ConfigError, match=message):
        check_contract(result(update), server, TwoSums(), payloads)


def test_a_client_that_did_no_local_steps_needs_no_delta(server):
    class Gradients(TwoSums):
        exchanges = (Exchange(train=False), Exchange())

    sent = Update({"control": torch.ones(6)}, weights={"per_step": 1.0})
    check_contract(result(sent), server, Gradients(), {})
    with pytest.raises(ConfigError, match="'delta'"):
        check_contract(result(sent), server, TwoSums(), {})


def fault_of(sent, server):
    return find_update_fault(sent, measure_norms(sent), server.norm_limits)


def with_value(value):
    return torch.tensor([0, 0, value, 0, 0, 0])


FAULTS = {
    "none": (sound(), None),
    "NaN": (sound(vectors={"delta": with_value(NAN)}), "delta is not finite"),
    "infinite": (sound(vectors={"delta": with_value(-INF)}), "delta is not finite"),
    "control": (sound(vectors={"control": with_value(NAN)}), "control is not finite"),
    "payload": (sound(payloads={"counts": torch.tensor([1, INF])}), "counts is not finite"),
    "number": (sound(numbers={"gap": NAN}), "gap is not finite"),
    "weight": (sound(weights={"per_step": NAN}), "its weight per_step is nan"),
    "infinite weight": (sound(weights={"per_step": INF}), "its weight per_step is inf"),
    "negative weight": (sound(weights={"per_step": -1.0}), "its weight per_step is -1.0"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_an_update_that_is_not_finite_is_rejected(server, case):
    update, reason = FAULTS[case]
    found = fault_of(result(update), server)
    assert found is None if reason is None else found.startswith(reason)


def test_buffers_and_client_states_are_checked_too(server):
    bad = torch.tensor([0, NAN, 0, 0])
    assert fault_of(result(sound(), bad), server) == "buffers is not finite"
    state = {"round": torch.tensor(3), "dual": torch.full((6,), NAN)}
    assert fault_of(result(sound(), None, state), server) == "state dual is not finite"


def test_a_model_without_buffers_passes():
    server = Server(FlatModel(nn.Linear(2, 1)), 1)
    sent = result(Update({"delta": torch.zeros_like(server.w)}), torch.zeros(0))
    assert fault_of(sent, server) is None


def test_what_is_sent_may_be_so_long_and_no_longer(server):
    """By name, and whatever has no limit of its own by that of the rest; states are one's own."""
    server.norm_limits = {"": 30.0, "delta": 3.0}
    vectors = {"delta": torch.ones(6), "extra": torch.full((6,), 12.0)}
    state = {"dual": torch.full((6,), 1e30)}
    sent = result(Update(vectors), torch.full((4,), 14.0), state)
    assert fault_of(sent, server) is None
    assert measure_norms(sent) == pytest.approx(
        {"delta": 6**0.5, "extra": 12 * 6**0.5, "buffers": 28}
    )
    for name in (*vectors, "buffers"):
        parts = {**vectors, "buffers": torch.full((4,), 14.0)}
        parts[name] = 1.3 * parts[name]
        buffers = parts.pop("buffers")
        assert fault_of(result(Update(parts), buffers), server).startswith(f"{name} has norm")


def test_limits_follow_the_last_round():
    limits = norm_limits({"delta": 0.5, "control": 0.001, "buffers": 0.0}, 20.0, 100.0)
    assert limits == {"": 2e5, "delta": 50.0, "control": 20.0, "buffers": 20.0}
    assert norm_limits({}, 20.0, 100.0) == {"": 2e5, "delta": 2000.0}
    assert norm_limits({"delta": 0.0}, 20.0, math.inf) == {}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_norm_is_finite_if_the_elements_are(dtype):
    largest = torch.finfo(dtype).max
    for value, count in ((3.0, 4), (0.0, 3), (1.0, 0), (largest / 1e4, 100), (-1e30, 1)):
        vector = torch.full((count,), value, dtype=dtype)
        assert finite_norm(vector) == pytest.approx(abs(value) * count**0.5)
    for value in (NAN, INF, -INF):
        assert finite_norm(torch.tensor([1, value, 2], dtype=dtype)) is None
    assert finite_norm(torch.tensor([1, INF, -INF, 1e30], dtype=dtype)) is None
