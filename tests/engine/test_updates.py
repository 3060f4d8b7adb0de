"""Updates are validated before they count."""

import math

import pytest
import torch
from torch import nn

from fedseg.core.arithmetic import finite_norm
from fedseg.core.flat import FlatModel
from fedseg.core.messages import ClientResult, Task, Update
from fedseg.core.server import Server
from fedseg.engine.updates import longest_norms, validate_update
from fedseg.errors import ConfigError

NAN, INF = float("nan"), float("inf")
# change of a sound update -> what it is rejected for
DEFECTS = {
    "none": ({}, None),
    "one more vector": ({"extra": torch.ones(6)}, None),
    "longer": ({"delta": torch.ones(7)}, "delta has shape (7,)"),
    "two-dimensional": ({"delta": torch.ones(6, 1)}, "delta has shape (6, 1)"),
    "double": ({"delta": torch.ones(6).double()}, "delta has dtype torch.float64"),
    "integers": ({"delta": torch.ones(6, dtype=torch.long)}, "delta has dtype torch.int64"),
    "NaN": ({"delta": torch.tensor([0, 0, NAN, 0, 0, 0])}, "delta is not finite"),
    "infinite": ({"delta": torch.tensor([0, 0, INF, 0, 0, 0])}, "delta is not finite"),
    "both infinities": ({"delta": torch.tensor([0, -INF, INF, 0, 0, 0])}, "delta is not finite"),
    "extra NaN": ({"extra": torch.tensor([0, 0, NAN, 0, 0, 0])}, "extra is not finite"),
    "short extra": ({"extra": torch.ones(2)}, "extra has shape (2,)"),
    "missing": ({"delta": None, "other": torch.ones(6)}, "delta is missing"),
}


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr("fedseg.core.flat.ALIGNMENT_BYTES", 4)
    return Server(FlatModel(nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(2))), 3)


def result(vectors, buffers, state=None):
    task = Task(1, 0, 0, "c", 5, 1, {})
    return ClientResult(task, Update(vectors), buffers, {}, state or {}, 0.0)


def test_defects(server):
    assert server.w.numel() == 6 and server.buffers.numel() == 4
    for name, (changes, reason) in DEFECTS.items():
        vectors = {k: v for k, v in {"delta": torch.ones(6), **changes}.items() if v is not None}
        found = validate_update(result(vectors, torch.ones(4)), server, trained=True)
        assert found is None if reason is None else found.startswith(reason), name


def test_buffers_and_client_states_are_checked_too(server):
    sound = {"delta": torch.ones(6)}
    bad = torch.tensor([0, NAN, 0, 0])
    assert validate_update(result(sound, bad), server, True) == "buffers is not finite"
    state = {"dual": torch.full((6,), NAN), "bn": torch.tensor([NAN])}
    found = validate_update(result(sound, torch.ones(4), state), server, True)
    assert found == "state dual is not finite"  # what is not like w is the policy's own


def test_a_client_that_did_no_local_steps_needs_no_delta(server):
    sent = result({"gradient": torch.ones(6)}, torch.ones(4))
    assert validate_update(sent, server, trained=False) is None
    assert validate_update(sent, server, trained=True) == "delta is missing"


@pytest.mark.parametrize("weight", [NAN, INF, torch.tensor(NAN)])
def test_a_weight_of_the_algorithms_own_is_finite(server, weight):
    sent = result({"delta": torch.ones(6)}, torch.ones(4))
    sent.update.weights = {"per_loss": 0.5}
    assert validate_update(sent, server, True) is None
    sent.update.weights = {"per_loss": weight}
    assert validate_update(sent, server, True).startswith("a weight is not finite: {'per_loss'")


def test_numbers_are_finite_and_plain(server):
    sent = result({"delta": torch.ones(6)}, torch.ones(4))
    sent.update.numbers = {"gap": -0.5}
    assert validate_update(sent, server, True) is None
    sent.update.numbers = {"gap": NAN}
    assert validate_update(sent, server, True) == "a number is not finite: {'gap': nan}"
    sent.update.numbers = {"gap": torch.tensor(0.5)}
    with pytest.raises(ConfigError, match=r"Update\.numbers\.gap"):
        validate_update(sent, server, True)


@pytest.mark.parametrize("size", [-1, 2.5, True])
def test_a_size_on_the_wire_is_a_number_of_bytes(server, size):
    sent = result({"delta": torch.ones(6)}, torch.ones(4))
    sent.update.num_bytes = size
    with pytest.raises(ConfigError, match=r"Update\.num_bytes"):
        validate_update(sent, server, trained=True)


def test_a_model_without_buffers_passes():
    server = Server(FlatModel(nn.Linear(2, 1)), 1)
    sent = result({"delta": torch.zeros_like(server.w)}, torch.zeros(0))
    assert validate_update(sent, server, trained=True) is None


def test_what_is_sent_may_be_so_long_and_no_longer(server):
    """By name, and whatever has no limit of its own by that of the rest; states are one's own."""
    server.longest = {"": 30.0, "delta": 3.0}
    vectors = {"delta": torch.ones(6), "extra": torch.full((6,), 12.0)}
    state = {"dual": torch.full((6,), 1e30)}
    sent = result(vectors, torch.full((4,), 14.0), state)
    assert validate_update(sent, server, True) is None
    assert sent.norms == pytest.approx({"delta": 6**0.5, "extra": 12 * 6**0.5, "buffers": 28})
    for name in (*vectors, "buffers"):
        parts = {**vectors, "buffers": torch.full((4,), 14.0)}
        parts[name] = 1.3 * parts[name]
        reason = validate_update(result(parts, parts.pop("buffers")), server, True)
        assert reason.startswith(f"{name} has norm")


def test_limits_follow_the_last_round():
    limits = longest_norms({"delta": 0.5, "control": 0.001, "buffers": 0.0}, 20.0, 100.0)
    assert limits == {"": 2e5, "delta": 50.0, "control": 20.0, "buffers": 20.0}
    assert longest_norms({}, 20.0, 100.0) == {"": 2e5, "delta": 2000.0}
    assert longest_norms({"delta": 0.0}, 20.0, math.inf) == {}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_norm_is_finite_if_the_elements_are(dtype):
    largest = torch.finfo(dtype).max
    for value, count in ((3.0, 4), (0.0, 3), (1.0, 0), (largest / 1e4, 100), (-1e30, 1)):
        vector = torch.full((count,), value, dtype=dtype)
        assert finite_norm(vector) == pytest.approx(abs(value) * count**0.5)
    for value in (NAN, INF, -INF):
        assert finite_norm(torch.tensor([1, value, 2], dtype=dtype)) is None
    assert finite_norm(torch.tensor([1, INF, -INF, 1e30], dtype=dtype)) is None
