"""Adapters against float64 torch over rounds with partial participation, and their reductions."""

import pytest
import torch
import torch.nn.functional as F
import toyquad
import toyseg
from mmengine.config import Config
from mmengine.model import BaseModel
from torch import nn
from toyquad import fixed

from fedseg.errors import ConfigError
from fedseg.registry import MODELS
from fedseg.runner.build import build_trainer

PLAN = ("ab", "bcd", "ad", "b")
LR, STEPS, R, ALPHA = 0.1, 5, 2, 3
A, B, W = (f"body.{part}.weight" for part in ("lora_A.default", "lora_B.default", "base_layer"))
HEAD = ("head.weight", "head.bias")


@MODELS.register_module()
class AdaptedQuadratic(BaseModel):
    """toyquad's targets from its curvatures: a layer of 4 numbers, tanh, a linear head."""

    def __init__(self, conv: bool = False):
        super().__init__()
        self.conv = conv
        self.body = nn.Conv2d(1, 2, (2, 1)) if conv else nn.Linear(3, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, inputs, data_samples=None, mode="tensor"):
        x, target = inputs.unbind(1)
        x = self.body(x[:, None, :, None] if self.conv else x)
        out = self.head(torch.tanh(x).flatten(1))
        return {"loss": ((out - target) ** 2).sum(1).mean() / 2}


def changes_of(conv=False, r=R, plan=PLAN, **changes):
    return {
        "model": {"_delete_": True, "type": AdaptedQuadratic.__name__, "conv": conv}
        | {"lora": {"r": r, "alpha": ALPHA, **changes.pop("lora", {})}},
        "client_sampler": fixed(*plan),
        **changes,
    }


def run(folder, algorithm="FedAvg", **changes):
    options = algorithm if isinstance(algorithm, dict) else {"type": algorithm}
    return toyquad.run(folder, options, **changes)


def product(state):
    return state[B].flatten(1) @ state[A].flatten(1)


def weight(state, r=R):
    return state[W] + (ALPHA / r * product(state)).view_as(state[W])


def local_steps(client, start, names, r):
    users = [user for user, count in toyquad.USERS.items() for _ in range(count)]
    rows = [i for i, user in enumerate(users) if user == client]
    x, y = (torch.from_numpy(part[rows]) for part in toyquad.samples())
    state = dict(start)
    for _ in range(STEPS):
        p = {n: t.clone().requires_grad_(n in names) for n, t in state.items()}
        if p[W].dim() == 4:
            hidden = F.conv2d(x[:, None, :, None], weight(p, r), p["body.base_layer.bias"])
        else:
            hidden = F.linear(x, weight(p, r), p["body.base_layer.bias"])
        out = F.linear(torch.tanh(hidden).flatten(1), p["head.weight"], p["head.bias"])
        loss = ((out - y) ** 2).sum(1).mean() / 2
        for n, g in zip(names, torch.autograd.grad(loss, [p[n] for n in names]), strict=True):
            state[n] = state[n] - LR * g
    return state


def federated(state, rule, plan=PLAN, r=R):
    """The global state after every round; ``rule`` names the method."""
    names, own, rounds = (B, *HEAD) if rule == "ffa" else (A, B, *HEAD), {}, []
    for clients in plan:
        samples = sum(toyquad.USERS[k] for k in clients)
        trained = {}
        for k in clients:
            start = state | own.get(k, {}) if rule == "fedsa" else state
            trained[k] = local_steps(k, start, names, r)
            own[k] = {B: trained[k][B]}

        def mean(of, trained=trained, samples=samples):
            return sum(toyquad.USERS[k] / samples * of(t) for k, t in trained.items())

        new = state | {n: mean(lambda t, n=n: t[n]) for n in names}
        full = mean(product)
        if rule == "fedsa":
            new[B] = state[B]
        if rule == "fedex":
            new[W] = state[W] + ALPHA / r * (full - product(new)).view_as(state[W])
        if rule == "flex":
            u, s, v = torch.linalg.svd(full, full_matrices=False)
            new[B] = (u[:, :r] * s[:r]).view_as(state[B])
            new[A] = v[:r].reshape(state[A].shape)
        state = new
        rounds.append(state)
    return rounds, own


METHODS = {  # options of the adapters, the rest of the config
    "lora": ({}, {}),
    "ffa": ({"fixed_A": True}, {}),
    "fedsa": ({}, {"personal": "*.lora_B"}),
    "flex": ({}, {"algorithm": {"type": "FlexLoRA"}}),
    "fedex": ({}, {"algorithm": {"type": "FedExLoRA"}}),
}


def start(config):
    state = build_trainer(Config(config)).flat.state_dict()
    return {n: t.clone() for n, t in state.items()}


@pytest.mark.parametrize("conv", [False, True])
@pytest.mark.parametrize("rule", METHODS)
def test_methods(tmp_path, rule, conv):
    lora, more = METHODS[rule]
    changes = changes_of(conv, lora=lora, **more)
    config = run(tmp_path, **changes)
    begin = start(config)
    rounds, own = federated(begin, rule)
    for number, expected in enumerate(rounds, 1):
        found = toyseg.checkpoint(config, number)["state_dict"]
        for name in HEAD:
            torch.testing.assert_close(found[name], expected[name], rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(weight(found), weight(expected), rtol=1e-10, atol=1e-12)
        if rule != "fedex":
            assert torch.equal(found[W], begin[W])
        if rule == "ffa":
            assert torch.equal(found[A], begin[A])
    if rule == "fedsa":
        for client, state in toyseg.client_states(config)["clients"].items():
            kept = state["personal.parameters"].view(-1)
            torch.testing.assert_close(kept, own[client][B].flatten(), rtol=1e-10, atol=1e-12)
    sent = sum(begin[n].numel() for n in (*HEAD, A, B))
    sent -= {"ffa": begin[A].numel(), "fedsa": begin[B].numel()}.get(rule, 0)
    for line, clients in zip(toyseg.history(config), PLAN, strict=True):
        assert line["bytes_up"] == 8 * sent * len(clients)
        down = sent + (begin[W].numel() if rule == "fedex" else 0)
        assert line["bytes_down"] == 8 * down * len(clients)


@pytest.mark.parametrize("kind", ["FlexLoRA", "FedExLoRA"])
def test_of_one_client_and_full_rank_the_product_is_exact(tmp_path, kind):
    """The server's model is the client's, as with FedAvg, and higher ranks do no harm."""
    algorithm = {"type": kind}
    for r in (3, 5):
        plan = changes_of(r=r, plan=("d",))
        one = run(tmp_path / f"a{r}", algorithm, **plan)
        other = run(tmp_path / f"b{r}", **plan)
        found, expected = (toyseg.checkpoint(c)["state_dict"] for c in (one, other))
        torch.testing.assert_close(weight(found, r), weight(expected, r), rtol=1e-10, atol=1e-12)
        assert found[A].abs().sum(1).min() > 0  # no row that can never learn


def test_a_checkpoint_without_adapters_is_a_start(tmp_path):
    plain = changes_of(plan=("ab",))
    plain["model"].pop("lora")
    base = run(tmp_path / "a", **plain)
    path = tmp_path / "a" / "run" / "checkpoints" / "round_000001.pth"
    config = toyquad.settings(
        tmp_path / "b", {"type": "FedAvg"}, **changes_of(), load_from=str(path)
    )
    state, trained = start(config), toyseg.checkpoint(base)["state_dict"]
    assert torch.equal(state[W], trained["body.weight"]) and not state[B].any()
    assert torch.equal(state["head.bias"], trained["head.bias"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lora": {"targets": ["nothing"]}}, r"model\.lora\.targets: 'nothing' matches no"),
        ({"lora": {"targets": []}}, r"model\.lora\.targets: is empty"),
        ({"lora": {"rank": 3}}, r"model\.lora\.rank: "),
        ({"lora": {"r": 0}}, r"model\.lora\.r: "),
        ({"lora": {"fixed_A": True}, "algorithm": {"type": "FlexLoRA"}}, r"model\.lora: FlexLoRA"),
        ({"personal": "*.lora_B", "algorithm": {"type": "FlexLoRA"}}, "personal: FlexLoRA"),
        ({"robust": {"type": "Krum"}, "algorithm": {"type": "FlexLoRA"}}, "robust: FlexLoRA"),
        (
            {
                "averaging": {"type": "SWA", "cycle": 1},
                "algorithm": {"type": "FedExLoRA"},
            },
            "averaging: FedExLoRA",
        ),
    ],
)
def test_refused(tmp_path, changes, message):
    changes = dict(changes)
    algorithm = changes.pop("algorithm", {"type": "FedAvg"})
    config = toyquad.settings(tmp_path, algorithm, **changes_of(**changes))
    with pytest.raises(ConfigError, match=message):
        build_trainer(Config(config))
