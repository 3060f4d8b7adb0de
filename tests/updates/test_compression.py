"""Compressed updates, against NumPy over several rounds with partial participation."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import toyquad
import toyseg
from torch import nn
from toyquad import fixed, local_steps, trace

from fedseg.core.flat import FlatModel
from fedseg.core.local_state import LocalState
from fedseg.core.seeds import generator_for
from fedseg.errors import ConfigError
from fedseg.updates.compression import Int8, SignSGD, TopK

PLAN = ("abcd", "acd", "abcd", "bd")


def largest(p, *_):
    """One of three entries."""
    return np.where(np.arange(len(p)) == np.abs(p).argmax(), p, 0)


def rounded(p, *when):
    scale = np.abs(p).max() / 127
    return scale * np.floor(p / scale + generator_for(0, "compression", *when).random(len(p)))


def sign(p, *_):
    return np.where(p < 0, -1, 1) * np.abs(p).mean()


# options, rule, whether what it loses is kept, bytes of three float64
RULES = {
    "topk": ({"type": "TopK", "share": 0.4}, largest, True, 8 + 4),
    "int8": ({"type": "Int8"}, rounded, False, 3 + 8),
    "signsgd": ({"type": "SignSGD"}, sign, True, 1 + 8),
}


@pytest.mark.parametrize("name", RULES)
def test_rules(tmp_path, name):
    options, rule, keeps, size = RULES[name]
    changes = {"client_sampler": fixed(*PLAN), "compression": options}
    config = toyquad.run(tmp_path, {"type": "FedAvg"}, **changes)
    w, kept = np.array(toyquad.START), dict.fromkeys("abcd", 0.0)
    for number, (clients, after) in enumerate(zip(PLAN, trace(config)[1:], strict=True), start=1):
        sent = {}
        for k in clients:
            p = w - local_steps(k, w, 5, 0.1) + kept[k]
            sent[k] = rule(p, number, 0, "abcd".index(k))
            kept[k] = p - sent[k] if keeps else 0.0
        w = w - np.average([*sent.values()], axis=0, weights=[toyquad.USERS[k] for k in clients])
        np.testing.assert_allclose(after, w, rtol=1e-12)
    up = [line["bytes_up"] for line in toyseg.history(config)]
    assert up == [size * len(clients) for clients in PLAN]


@pytest.mark.parametrize("algorithm", ["FedAvg", "SCAFFOLD", "MIME"])
def test_all_entries_are_no_compression(tmp_path, algorithm):
    """To the bit, and in the same bytes."""
    plain, whole = (
        toyquad.run(tmp_path / name, {"type": algorithm}, client_sampler=fixed(*PLAN), **changes)
        for name, changes in {"a": {}, "b": {"compression": {"type": "TopK", "share": 1}}}.items()
    )
    assert np.array_equal(trace(plain), trace(whole))
    up = [[line["bytes_up"] for line in toyseg.history(config)] for config in (plain, whole)]
    assert up[0] == up[1]


def test_tensors_and_personal_parts():
    """A scale for each shared tensor, but empty ones; gaps and personal ones stay zero."""
    empty = nn.ParameterList([torch.empty(0)])
    flat = FlatModel(nn.Sequential(nn.Linear(20, 5), nn.Linear(5, 3), empty))
    local_state = LocalState(flat, flat.slots[3].name)
    spans = [slot.span for slot in flat.slots[:3]]
    vector = torch.zeros_like(flat.w)
    for scale, span in enumerate(spans, start=1):
        vector[span] = torch.randn(vector[span].shape, generator=torch.Generator()) * scale
    client = SimpleNamespace(round=1, exchange=0, index=2)
    size = 100 + 5 + 15
    for step, expected in (
        (TopK(0.1), 12 * 8),
        (Int8(), size + 3 * 4),
        (SignSGD(), size // 8 + 3 * 4),
    ):
        set_up(step, flat, local_state)
        sent, num_bytes = step.compress(vector, client)
        assert num_bytes == expected
        shared = torch.cat([sent[span] for span in spans])
        assert sent.count_nonzero() == shared.count_nonzero() > 0
        if isinstance(step, Int8):
            scales = [vector[span].abs().max() / 127 for span in spans]
            for span, scale in zip(spans, scales, strict=True):
                assert (sent[span] - vector[span]).abs().max() <= scale * 1.0001
        for bad in (float("nan"), float("inf")):
            broken = vector.clone()
            broken[3] = bad
            assert not torch.isfinite(step.compress(broken, client)[0]).all()
        assert not step.compress(torch.zeros_like(vector), client)[0].any()
    int8 = set_up(Int8(), flat)
    rounds = [SimpleNamespace(round=number, exchange=0, index=0) for number in range(400)]
    mean = sum(int8.compress(vector, client)[0] for client in rounds) / len(rounds)
    assert (mean - vector).abs().max() < vector.abs().max() / 127 * 0.12


def set_up(compression, flat, local_state=None):
    algorithm = SimpleNamespace(local_state=local_state)
    compression.setup(flat, algorithm, data=None, seed=0)
    return compression


@pytest.mark.parametrize("share", [0, 1.01, float("nan")])
def test_mistakes(tmp_path, share):
    options = {"type": "TopK", "share": share}
    with pytest.raises(ConfigError, match=r"compression\.share"):
        toyquad.run(tmp_path, {"type": "FedAvg"}, compression=options)
