"""Parts of a model that stay with each client, against NumPy on a quadratic of two parts."""

import numpy as np
import pytest
import torch
import toyquad
import toyseg
from mmengine.model import BaseModel
from torch import nn
from toyquad import SIZE, START, fixed, gradient

from fedseg.core.algorithm import Algorithm
from fedseg.core.messages import Update
from fedseg.core.vectors import descend
from fedseg.errors import ConfigError
from fedseg.parts import part_names
from fedseg.registry import ALGORITHMS, MODELS
from fedseg.runner.build import build_trainer

LR, STEPS = 0.1, 5
PLAN = ("ab", "bcd", "ad", "b")
SHARED = np.array([True, True, False])  # of the three numbers; the last one is the head
DECAY = 0.3
SGD = {"type": "SGD", "lr": LR, "momentum": 0.5, "weight_decay": DECAY}
MOMENTUM = {"optim_wrapper": {"optimizer": SGD}}
BY_NAME = {"paramwise_cfg": {"custom_keys": {"head": {"lr_mult": 3.0}}}}  # a parameter each
APART = {"optim_wrapper": {"optimizer": SGD, **BY_NAME}}
RATES = LR * np.array([1, 1, 3])
CLIPPED = {"optim_wrapper": {"type": "SAMOptimWrapper", "rho": 0.3, "clip_grad": {"max_norm": 0.7}}}


@MODELS.register_module()
class TwoPartQuadratic(BaseModel):
    """ToyQuadratic's ``w`` as a body of two numbers and a head of one."""

    def __init__(self):
        super().__init__()
        self.body = nn.Module()
        self.body.w = nn.Parameter(torch.tensor(START[:2]))
        self.head = nn.Module()
        self.head.w = nn.Parameter(torch.tensor(START[2:]))

    def forward(self, inputs, data_samples=None, mode="tensor"):
        curvature, target = inputs.unbind(1)
        w = torch.cat([self.body.w, self.head.w])
        return {"loss": (curvature * (w - target) ** 2).sum(1).mean() / 2}


def run(folder, algorithm="FedAvg", plan=PLAN, personal="@head", freeze=(), **changes):
    options = algorithm if isinstance(algorithm, dict) else {"type": algorithm}
    return toyquad.run(
        folder,
        options,
        model={"type": "TwoPartQuadratic", "freeze": freeze},
        custom_imports={"imports": ["test_personal"], "allow_failed_imports": False},
        client_sampler=fixed(*plan),
        personal=personal,
        **changes,
    )


def model(config):
    """The global model, [3]."""
    state = toyseg.checkpoint(config)["state_dict"]
    return torch.cat([state["body.w"], state["head.w"]]).numpy()


def heads(config):
    states = toyseg.client_states(config)["clients"]
    return {client: state["personal.parameters"].numpy() for client, state in states.items()}


def federated(train, plan=PLAN, sizes=toyquad.USERS):
    """Rounds by hand; ``train(client, w)`` is its model [3] after a round. Returns (w, heads).

    ``sizes``: the weights of the clients.
    """
    w, local = np.array(START), {}
    for clients in plan:
        trained = {}
        for client in clients:
            begin = np.where(SHARED, w, local.get(client, w))
            trained[client] = train(client, begin)
        weights = {c: sizes[c] / sum(sizes[k] for k in clients) for c in clients}
        mean = sum(weights[c] * trained[c] for c in clients)
        local |= trained
        w = np.where(SHARED, mean, w)
    return w, {client: v[~SHARED] for client, v in local.items()}


def check(config, expected):
    w, local = expected
    np.testing.assert_allclose(model(config), w, rtol=1e-12)
    got = heads(config)
    assert got.keys() == local.keys()
    for client, head in local.items():
        np.testing.assert_allclose(got[client][: SIZE - 2], head, rtol=1e-12, err_msg=client)


def test_fedper(tmp_path):
    expected = federated(lambda client, w: toyquad.local_steps(client, w, STEPS, LR))
    config = run(tmp_path)
    check(config, expected)
    for line, clients in zip(toyseg.history(config), PLAN, strict=True):
        assert line["bytes_up"] == line["bytes_down"] == 2 * 8 * len(clients)


def test_lg_fedavg_is_the_other_way_round(tmp_path):
    config = run(tmp_path, personal="@body")
    np.testing.assert_array_equal(model(config)[:2], START[:2])
    assert model(config)[2] != START[2]
    assert toyseg.history(config)[0]["bytes_up"] == 2 * 8


@pytest.mark.parametrize("personal", [None, ()])
def test_without_a_personal_part_it_is_fedavg(tmp_path, personal):
    one = model(run(tmp_path / "a", personal=personal))
    other = toyquad.run(tmp_path / "b", {"type": "FedAvg"}, client_sampler=fixed(*PLAN))
    np.testing.assert_array_equal(one, toyquad.final(other))


def test_scaffolds_correction_acts_on_the_shared_part(tmp_path):
    """Its control variates are those of a problem that has the body only."""
    c, own = np.zeros(3), {client: np.zeros(3) for client in toyquad.USERS}
    w, local = np.array(START), {}
    for clients in PLAN:
        deltas, changes = [], []
        for client in clients:
            begin = np.where(SHARED, w, local.get(client, w))
            shift = np.where(SHARED, c - own[client], 0)
            end = toyquad.local_steps(client, begin, STEPS, LR, lambda w, s=shift: s)
            change = np.where(SHARED, (begin - end) / (STEPS * LR) - c, 0)
            own[client] = own[client] + change
            local[client] = end
            deltas.append(begin - end)
            changes.append(change)
        w = np.where(SHARED, w - np.mean(deltas, 0), w)
        c = c + np.sum(changes, 0) / len(toyquad.USERS)
    check(run(tmp_path, "SCAFFOLD"), (w, {k: v[~SHARED] for k, v in local.items()}))


@ALGORITHMS.register_module()
class SendsNorm(Algorithm):
    """FedAvg whose clients also send the squared norm of their update."""

    def finish(self, client):
        delta = client.delta()
        return Update({"delta": delta}, numbers={"squared_norm": float(delta.square().sum())})

    def step(self, server, aggregate):
        delta = aggregate.mean("delta")
        self.sent = aggregate.numbers["squared_norm"]
        self.summed = float(delta.square().sum())
        descend(server.w, delta)

    def metrics(self, server):
        (squared_norm,) = self.sent.values()
        return {"sent": squared_norm, "summed": self.summed}


def test_an_update_has_no_personal_part_when_the_client_measures_it(tmp_path):
    """With one participant the number is that of what the server receives."""
    config = run(tmp_path, "SendsNorm", plan="aba")
    for line in toyseg.history(config):
        assert line["sent"] == pytest.approx(line["summed"], rel=1e-12)


def test_a_proximal_term_pulls_the_personal_part_to_its_start(tmp_path):
    mu = 0.7

    def train(client, begin):
        return toyquad.local_steps(client, begin, STEPS, LR, lambda w: mu * (w - begin))

    check(run(tmp_path, {"type": "FedProx", "mu": mu}), federated(train))


def in_turn(head_steps, steps, local):
    """Train the head, then the body, each with an optimizer of its own; for ``federated``."""

    def train(client, w):
        for part, number in ((~SHARED, head_steps), (SHARED, steps - head_steps)):
            velocity = np.zeros(3)
            for _ in range(number):
                g = gradient(client, w) * part
                if local is CLIPPED:
                    g = gradient(client, w + 0.3 * g / np.linalg.norm(g)) * part
                    g = g * min(1, 0.7 / (np.linalg.norm(g) + 1e-6))
                if local in (MOMENTUM, APART):
                    g = g + DECAY * w * part + 0.5 * velocity
                velocity = g
                w = w - (RATES if local is APART else LR) * velocity
        return w

    return train


ALIKE = dict.fromkeys(toyquad.USERS, 1)


@pytest.mark.parametrize("local", [{}, MOMENTUM, APART, CLIPPED])
def test_fedrep_trains_one_part_after_the_other(tmp_path, local):
    """SAM's perturbation and the norm to clip by are those of the part that is trained."""
    config = run(tmp_path, {"type": "FedRep", "personal_share": 0.4}, **local)
    check(config, federated(in_turn(2, STEPS, local), sizes=ALIKE))


@pytest.mark.parametrize(
    ("share", "steps", "head_steps"),
    [(10 / 11, 5, 4), (0.5, 5, 2), (0.1, 5, 1), (0.5, 2, 1), (0.99, 2, 1), (10 / 11, 11, 10)],
)
def test_fedrep_trains_both_parts(tmp_path, share, steps, head_steps):
    """At least a step each, whatever the share rounds to."""
    train = {"max_rounds": 4, "local_steps": steps}
    config = run(tmp_path, {"type": "FedRep", "personal_share": share}, train_cfg=train)
    w, local = federated(in_turn(head_steps, steps, {}), sizes=ALIKE)
    check(config, (w, local))
    assert all(line["norm_delta"] > 0 for line in toyseg.history(config))
    assert all(head != START[2] for head in local.values())


@pytest.mark.parametrize("local", [{}, MOMENTUM, APART, CLIPPED])
def test_fedbabu_trains_the_body_alone(tmp_path, local):
    """Its clients count by samples, and nothing reaches the head, such as weight decay."""
    config = run(tmp_path, "FedBABU", **local)
    check(config, federated(in_turn(0, STEPS, local)))
    assert all((head[0] == START[2]) for head in heads(config).values())


@pytest.mark.parametrize(
    ("lam", "rates", "local"), [(0.0, RATES, BY_NAME), (0.7, RATES, BY_NAME), (0.7, LR, {})]
)
def test_ditto(tmp_path, lam, rates, local):
    own, w = {}, np.array(START)
    for clients in PLAN:
        for client in clients:
            v = own.setdefault(client, w.copy())
            for _ in range(STEPS):
                v = v - rates * (gradient(client, v) + lam * (v - w))
            own[client] = v
        total = sum(toyquad.USERS[c] for c in clients)
        w = sum(toyquad.USERS[c] / total * toyquad.local_steps(c, w, STEPS, rates) for c in clients)
    config = run(tmp_path, {"type": "Ditto", "lam": lam}, personal=None, optim_wrapper=local)
    np.testing.assert_allclose(model(config), w, rtol=1e-12)
    for client, v in own.items():
        got = toyseg.client_states(config)["clients"][client]["own_model"][[0, 1, 8]]
        np.testing.assert_allclose(got, v, rtol=1e-12, err_msg=client)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"personal": "backbone"}, "personal: 'backbone' matches no parameter.*body, head"),
        ({"personal": ["@head", "@body"]}, "personal: every parameter stays"),
        ({"algorithm": {"type": "FedRep"}, "personal": None}, "personal: FedRep needs a part"),
        ({"algorithm": {"type": "FedBABU"}, "personal": None}, "personal: FedBABU needs a part"),
        (
            {"algorithm": {"type": "FedRep"}, "train_cfg": {"local_steps": 1}},
            "train_cfg: FedRep trains one part .* client 'a' has one local step: raise",
        ),
        ({"algorithm": {"type": "MIME"}}, "personal: it keeps .* MIME has a gradient"),
        ({"personal": 3}, "personal: "),
    ],
)
def test_mistakes(tmp_path, changes, message):
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        run(tmp_path, **{"algorithm": "FedAvg", **changes})


def test_frozen_parameters_stay_for_everybody(tmp_path):
    config = run(tmp_path, personal=None, freeze=["head"])
    w, _ = federated(lambda c, w: np.where(SHARED, toyquad.local_steps(c, w, STEPS, LR), w))
    np.testing.assert_allclose(model(config), w, rtol=1e-12)
    assert toyseg.history(config)[0]["bytes_up"] == 2 * 2 * 8


# ---------------------------------------------------------------- with BatchNorm

STREETS = {
    **toyseg.PLAIN,
    "client_sampler": fixed("ac", "abc", "bf", "af"),
    "train_cfg": {"max_rounds": 4, "local_epochs": 1},
}


def test_silobn_a_personal_head_and_a_frozen_layer_are_one_run(tmp_path):
    """The frozen BatchNorm collects nothing, SiloBN keeps the other one, the head stays as well."""
    parts = {"personal": [*toyseg.SILOBN, "conv2"], "model": {"freeze": ["conv1", "bn1"]}}
    config = toyseg.settings(tmp_path, **toyseg.merge(STREETS, parts))
    fresh = build_trainer(config).flat.state_dict()
    runner = toyseg.train(config)
    final = toyseg.checkpoint(config)["state_dict"]
    constant = {n for n in final if n.startswith(("conv1.", "bn1."))}
    local = {n for n in final if n.startswith("conv2.") or "renamed.running" in n}
    for name in constant | local:
        assert torch.equal(final[name], fresh[name]), name
    assert not torch.equal(final["renamed.weight"], fresh["renamed.weight"])
    assert runner.local_state.norm_layers == ["renamed"]
    sizes = {n: p.numel() for n, p in toyseg.ToySegNet().named_parameters()}
    shared = sum(n for name, n in sizes.items() if name not in constant | local)
    assert [line["bytes_up"] for line in toyseg.history(config)] == [
        len(line["participants"]) * 4 * shared for line in toyseg.history(config)
    ]
    metrics = toyseg.history(config)[-1]["metrics"]
    assert {"seen/accuracy", "seen_by_domain/accuracy"} <= set(metrics)


@pytest.mark.parametrize(
    "patterns", ["@head", "conv2", ["conv2.*"], ["conv2.weight", "conv2.bias"]]
)
def test_patterns_name_tensors_and_modules(patterns):
    net = toyseg.ToySegNet()
    net.tied = nn.Linear(6, 6)
    net.tied.weight = net.gate.weight  # one tensor by either name
    tied = {"gate.weight", "tied.weight"}
    assert part_names(net, "tied", "personal") == tied | {"tied.bias"}
    assert part_names(net, "gate", "personal") == tied | {"gate.bias"}
    assert part_names(toyseg.ToySegNet(), patterns, "personal") == {"conv2.weight", "conv2.bias"}
