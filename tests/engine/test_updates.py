"""Updates are validated before they count."""

import pytest
import torch
from torch import nn

from fedseg.core.flat import FlatModel
from fedseg.core.messages import ClientResult, Task, Update
from fedseg.core.server import Server
from fedseg.engine.updates import validate_update

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
    return ClientResult(task, Update(vectors), buffers, {}, state or {}, 0.0, 0.1)


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


def test_a_model_without_buffers_passes():
    server = Server(FlatModel(nn.Linear(2, 1)), 1)
    sent = result({"delta": torch.zeros_like(server.w)}, torch.zeros(0))
    assert validate_update(sent, server, trained=True) is None
