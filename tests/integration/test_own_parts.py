"""Parts of a user's own with a slip in them: the right numbers, or one sentence that names it."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
import toyquad
import toyseg
from mmengine.evaluator import BaseMetric
from torch.nn.parameter import UninitializedBuffer

from fedseg.algorithms import FedAvg
from fedseg.core.local_loss import LocalLoss
from fedseg.core.local_state import shared_slots
from fedseg.core.messages import Payload, Update
from fedseg.errors import ConfigError, TrainingError, UserError
from fedseg.hooks import FederatedHook
from fedseg.registry import AGGREGATES, ALGORITHMS, HOOKS, LOCAL_LOSSES, METRICS, MODELS, SAMPLERS
from fedseg.runner.sampler import ClientSampler
from fedseg.updates.robust import RobustRule

KEPT = {  # what no checkpoint could bring back
    "numpy": np.arange(3),
    "number": np.float64(1),
    "path": Path("x"),
    "sparse": torch.ones(3).to_sparse(),
    "complex": torch.ones(3, dtype=torch.complex64),
    "NaN": torch.tensor(math.nan),
}
SENT = {  # by finish, given the delta, and what the user is told
    "dict": (lambda d: {"delta": d}, r"finish\(\) must return an Update"),
    "text": (lambda d: Update({"delta": d}, {"samples": "3"}), "its weight samples is 3, not"),
    "minus": (lambda d: Update({"delta": d}, {"samples": -1}), "its weight samples is -1, not"),
    "zero": (lambda d: Update({"delta": d}, {"samples": 0}), "round 1: no client takes part"),
    "buffers": (lambda d: Update({"delta": d, "buffers": d}), "'buffers' is the name of Batch"),
    "NumPy": (lambda d: Update({"delta": d.numpy()}), "must be a dense tensor, not ndarray"),
    "sparse": (lambda d: Update({"delta": d.to_sparse()}), "must be a dense tensor"),
    "twice": (lambda d: Update({"delta": d}, payloads={"delta": d}), "name of a vector and of"),
    "list": (lambda d: Update({"delta": d}, payloads={"x": [1.0]}), "must be a dense tensor"),
    "flat": (
        lambda d: Update({"delta": d}, payloads={"r": torch.ones(6).to(d)}),
        r"payload 'r': must have shape \[3, 2\], not \[6\]",
    ),
    "NaN": (lambda d: Update({"delta": d}, payloads={"x": d * math.nan}), "x is not finite"),
    "number": (lambda d: Update({"delta": d}, numbers={"n": d[0]}), "use .item()"),
    "undeclared": (lambda d: Update({"delta": d, "y": d}), "weightings: lacks 'y'"),
    "unknown": (
        lambda d: Update({"delta": d}, payloads={"others": d}),
        "'others' is not a declared payload; declared: x, r",
    ),
}


@ALGORITHMS.register_module()
class Own(FedAvg):
    server_vectors = ("mine",)
    weightings = {"delta": "samples", "more": ("samples", "uniform")}
    payloads = (Payload("x", None), Payload("r", (3, 2)))

    def __init__(self, sends: str = "", keeps: str = "", where: str = ""):
        super().__init__()
        self.sends, self.kept, self.where = sends, KEPT.get(keeps), where

    def finish(self, client):
        client.state["mask"] = client.w > 0  # like w, but none of its vectors
        if self.where == "client":
            client.state["mine"] = self.kept
        if self.sends:
            return SENT[self.sends][0](client.delta())
        more = {"more": torch.full_like(client.w, client.index)} if client.id in "cd" else {}
        loss = {"x": client.w.clone().requires_grad_()}
        return Update({"delta": client.delta(), **more}, payloads=loss)

    def step(self, server, aggregate):
        super().step(server, aggregate)
        self.means = [aggregate.mean("more", by)[0].item() for by in ("samples", "uniform")]
        assert not aggregate.payload("x").requires_grad
        if self.where == "server":
            server.state["mine"] = self.kept


@ALGORITHMS.register_module()
class Careless(FedAvg):
    """Does what no step sees, or what reaches more than its own client."""

    def __init__(self, client: str = "", server: str = ""):
        super().__init__()
        self.on_client, self.on_server = client, server

    def correct(self, client):
        exec(self.on_client)

    def step(self, server, aggregate):
        super().step(server, aggregate)
        exec(self.on_server)


@AGGREGATES.register_module()
class Rows(RobustRule):
    def combine(self, vectors, deltas):
        return vectors


@ALGORITHMS.register_module()
class Sums(FedAvg):
    needs_every_update = True


@HOOKS.register_module()
class Sends(FederatedHook):
    def __init__(self, name="mine", shape=None):  # wrong ones, too
        self.payloads = [Payload(name, shape, broadcast=True)]

    def after_client(self, runner, client, update):
        update.payloads["mine"] = client.w.clone()


@HOOKS.register_module()
class MeddlesWithMore(FederatedHook):
    """Noise on all of an update, a figure in the record, something in the state."""

    def __init__(self, figure: str = "mine", keeps: str = ""):
        self.figure, self.kept = figure, KEPT.get(keeps, (1, "x", None, torch.ones(2), {True}))

    def after_client(self, runner, client, update):
        seed = torch.Generator().manual_seed(100 * client.round + client.index)
        delta = update.vectors["delta"]
        update.vectors["delta"] = delta + torch.randn(delta.shape, generator=seed).to(delta)

    def after_round(self, runner, record):
        record[self.figure] = 1.5

    def state_dict(self):
        return {"kept": self.kept}

    def results(self, runner, history):
        """Nothing, as of a function that was to be written later."""


@LOCAL_LOSSES.register_module()
class OwnLoss(LocalLoss):
    def __init__(self, what: str):
        self.what = what

    def loss(self, client):
        if self.what == "bug":
            raise KeyError("prototype")
        loss = client.model_loss()
        return {"number": 1.0, "row": loss.repeat(3), "detached": loss.detach()}.get(
            self.what, loss
        )

    def finish(self, client):
        return [1] if self.what == "finish" else None


BUFFERS = {
    "float": (lambda: torch.zeros(2), "kept was moved .*in place, as self.buffer.copy_"),
    "integer": (lambda: torch.tensor(0), "kept was moved .*in place, as self.buffer.copy_"),
    "complex": (lambda: torch.ones(2) * 1j, "kept is complex.*view_as_real"),
    "lazy": (UninitializedBuffer, r"kept is lazy.*nn\.Linear"),
}


@MODELS.register_module()
class Assigns(toyquad.ToyQuadratic):
    """A buffer that every pass replaces: what no client's start could reset."""

    def __init__(self, what: str):
        super().__init__()
        self.register_buffer("kept", BUFFERS[what][0]())

    def forward(self, *args, **options):
        self.kept = self.kept + 1
        return super().forward(*args, **options)


@METRICS.register_module()
class Positions(BaseMetric):
    """Its parameters have other names than MMSegmentation's."""

    default_prefix = None

    def __init__(self, value):  # any
        super().__init__()
        self.value = value

    def process(self, batch, predictions):
        self.results.append(len(predictions))

    def compute_metrics(self, results):
        return {"figure": self.value}


@SAMPLERS.register_module()
class Draws(ClientSampler):
    def __init__(self, drawn: list | None):
        self.drawn = drawn

    def draw(self, round_):
        return self.drawn


def settings(folder, algorithm=None, **changes):
    imports = {"custom_imports": {"imports": ["toyquad", "toyseg"]}}
    return toyquad.settings(folder, algorithm or {"type": "FedAvg"}, **imports, **changes)


@pytest.mark.parametrize("sends", SENT)
def test_what_finish_returns(tmp_path, sends):
    with pytest.raises((ConfigError, TrainingError), match=SENT[sends][1]) as caught:
        toyseg.train(settings(tmp_path, {"type": "Own", "sends": sends}))
    assert ("learning rate" in str(caught.value)) == ("is not finite" in str(caught.value))


def test_a_vector_that_some_send_has_the_mean_of_these(tmp_path):
    """Clients c and d send their positions, 2 and 3; they have 1 and 4 samples."""
    made = toyseg.train(settings(tmp_path, {"type": "Own"}))
    assert made.algorithm.means == pytest.approx(((1 * 2 + 4 * 3) / 5, 2.5))


@pytest.mark.parametrize("personal", [None, "conv1"])
def test_a_payload_like_the_model_is_charged_without_gaps(tmp_path, personal):
    changes = {**toyseg.PLAIN, "personal": personal, "val_dataloader": None}
    alone = toyseg.run(tmp_path / "alone", **changes)
    config = toyseg.settings(tmp_path, **changes, custom_hooks=[{"type": "Sends"}])
    runner = toyseg.train(config)
    shared = sum(slot.numel for slot in shared_slots(runner.flat, runner.local_state))
    for one, other in zip(toyseg.history(config), toyseg.history(alone), strict=True):
        size = shared * len(one["participants"])
        assert one["bytes_down"] - other["bytes_down"] == 4 * size
        assert one["bytes_up"] - other["bytes_up"] == 4 * size


def test_noise_does_not_reach_the_gaps_between_parameters(tmp_path):
    """They count in norms, and a resumed run would lack them."""
    algorithm = {"type": "FedGloSS", "rho_server": 0.1, "admm": False}
    whole, cut = (
        settings(tmp_path / name, algorithm, custom_hooks=[{"type": "MeddlesWithMore"}])
        for name in ("whole", "cut")
    )
    toyseg.train(whole)
    toyseg.train(toyseg.merge(cut, {"train_cfg": {"max_rounds": 1}}))
    toyseg.check_resumed(whole, cut)
    lengths = [np.linalg.norm(w) for w in toyquad.trace(whole)[1:]]
    assert [line["norm_w"] for line in toyseg.history(whole)] == pytest.approx(lengths)


def kept(where, what):
    told = r"client\.state\['mine'\]: must be a tensor, not"
    if where != "client":
        told = "mine: is (a .*, no tensor|not finite)|, which no checkpoint can bring back"
    return {"algorithm": {"type": "Own", "keeps": what, "where": where}}, told


def hook(told, algorithm=None, **options):
    return {"custom_hooks": [options], "algorithm": algorithm}, told


def loss(what, told="OwnLoss: its loss must be a 0-d tensor with a graph"):
    return {"local_loss": {"type": "OwnLoss", "what": what}}, told


def draw(drawn, told="below 4, ascending, not"):
    return {"client_sampler": {"_delete_": True, "type": "Draws", "drawn": drawn}}, told


def careless(told, **code):
    return {"algorithm": {"type": "Careless", **code}}, told


SLIPS = [
    *(kept("client", what) for what in ("numpy", "number", "path")),
    *(kept("server", what) for what in KEPT),
    *(hook("no checkpoint can", type="MeddlesWithMore", keeps=w) for w in KEPT if w != "NaN"),
    *(
        hook(f"a hook: '{name}' is taken", type="MeddlesWithMore", figure=name)
        for name in ("loss", "metrics")
    ),
    hook(r"Sends: Payload\('mine'\)\.shape\[0\]: must be .* not -1", type="Sends", shape=[-1]),
    hook(r"shape\[0\]: must be .*'classes'.* not 'class'", type="Sends", shape=["class"]),
    hook("shape: must be a valid tuple, not 3", type="Sends", shape=3),
    hook("is that of server optimizers, too", type="Sends", name="optim.momentum"),
    hook("'mine' is that of Own, too", {"type": "Own"}, type="Sends"),
    ({"algorithm": {"type": "Sums"}, "robust": {"type": "CoordinateMedian"}}, "Sums has its own"),
    *map(loss, ("number", "row", "detached")),
    loss("bug", "local_loss: OwnLoss: ToyQuadratic fails on a batch: KeyError: 'prototype'"),
    loss("finish", "a dict of payloads or None"),
    *map(draw, ([1, 1], [2, 0], [-1], [4], ["a"], [0.0], None)),
    draw([], told="round 1: no client takes part"),
    *(({"model": {"type": "Assigns", "what": w}}, told) for w, (_, told) in BUFFERS.items()),
    careless(r"was replaced: use client\.grad\.copy_", client="client.grad = 0 * client.grad"),
    careless(r"was replaced: use client\.grad\.copy_", client="client.w = client.w + 1"),
    careless("moved out", client="for p in client.model.parameters(): p.data = p.data.clone()"),
    careless("changed in place, for all clients: change a", client="client.start.mul_(0.5)"),
    careless(r"server\.w: must be torch\.float\d\d \[", server="server.w = server.w.half()"),
    ({"robust": {"type": "Rows"}}, r"Rows\.combine must return a tensor \[\d+\], not \[4, "),
    hook(r"hooks\[0\]\.priority: must be 0 to 100 or", type="MeddlesWithMore", priority="FIRST"),
]


@pytest.mark.parametrize(("changes", "told"), SLIPS)
def test_a_slip_is_named(tmp_path, changes, told):
    with pytest.raises(UserError, match=told):
        toyseg.train(settings(tmp_path, **changes))
    assert not list(tmp_path.glob("run/checkpoints/*.pth"))


@pytest.mark.parametrize("value", [2.0, 2, [1.0, 2.0], "x", True])
def test_a_metric_takes_its_arguments_by_position_and_gives_numbers(tmp_path, value):
    config = toyseg.settings(tmp_path, val_evaluator={"type": "Positions", "value": value})
    if value == 2.0:
        toyseg.train(config)
        assert repr(toyseg.history(config)[-1]["metrics"]["seen/figure"]) == "2.0"
        return
    with pytest.raises(ConfigError, match=r"Positions gives .* as 'figure': give a number"):
        toyseg.train(config)
