"""Parts of a user's own with a slip in them: the right numbers, or one sentence that names it."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
import toyquad
import toyseg
from mmengine.evaluator import BaseMetric

from fedseg.algorithms import FedAvg
from fedseg.core.local_loss import LocalLoss
from fedseg.core.messages import Payload, Update
from fedseg.core.server import Aggregate
from fedseg.errors import ConfigError, DataError, TrainingError
from fedseg.hooks import FederatedHook
from fedseg.registry import ALGORITHMS, HOOKS, LOCAL_LOSSES, METRICS, SAMPLERS
from fedseg.runner.sampler import ClientSampler

CONFIG = {"custom_imports": {"imports": ["toyquad", "toyseg"]}}
SLIPS = {
    "no update": (lambda delta: {"delta": delta}, "finish.. must return an Update"),
    "text": (lambda delta: Update({"delta": delta}, {"samples": "3"}), "Update.weights.samples"),
    "negative": (lambda delta: Update({"delta": delta}, {"samples": -1}), "a weight .* negative"),
    "nothing": (lambda delta: Update({"delta": delta}, {"samples": 0}), "round 1: no client takes"),
    "buffers": (lambda delta: Update({"delta": delta, "buffers": delta}), "buffers is the name of"),
    "NumPy": (lambda delta: Update({"delta": delta.numpy()}), "delta is no dense tensor"),
    "twice": (
        lambda delta: Update({"delta": delta, "x": delta}, payloads={"x": delta}),
        "x is the",
    ),
    "list": (
        lambda delta: Update({"delta": delta}, {"w": 1}, payloads={"x": [1.0]}),
        "x must be a tensor",
    ),
    "heavy": (
        lambda delta: Update({"delta": delta}, {"w": 1e308}, payloads={"x": delta}),
        "x has a",
    ),
    "below 0": (
        lambda delta: Update({"delta": delta}, {"w": -1}, payloads={"x": delta}),
        "x has a",
    ),
}
KINDS = {
    "numpy": np.arange(3),
    "NumPy's float": np.float64(1),
    "path": Path("x"),
    "sparse": torch.ones(3).to_sparse(),
    "complex": torch.ones(3, dtype=torch.complex64),
}


@ALGORITHMS.register_module()
class Slips(FedAvg):
    payloads = (Payload("x", None, "w"),)

    def __init__(self, slip: str):
        super().__init__()
        self.slip = slip

    def finish(self, client):
        return SLIPS[self.slip][0](client.delta())


@ALGORITHMS.register_module()
class Some(FedAvg):
    """Only c and d send a second vector, of their position."""

    weightings = ("samples", "uniform")
    payloads = (Payload("x", ()),)

    def finish(self, client):
        delta = client.delta()
        more = {"more": torch.full_like(delta, client.index)} if client.id in "cd" else {}
        return Update(
            {"delta": delta, **more}, payloads={"x": client.loss.clone().requires_grad_()}
        )

    def step(self, server, updates):
        super().step(server, updates)
        self.means = updates.mean("more")[0].item(), updates.uniform_mean("more")[0].item()
        assert not updates.mean("x").requires_grad


@ALGORITHMS.register_module()
class Keeps(FedAvg):
    """Puts something into a client's, the server's or a hook's state."""

    def __init__(self, what: str, where: str):
        super().__init__()
        self.what, self.where = what, where

    def finish(self, client):
        if self.where == "client":
            client.state["mine"] = KINDS[self.what]
        return super().finish(client)

    def step(self, server, updates):
        super().step(server, updates)
        if self.where == "server":
            server.state["mine"] = KINDS.get(self.what, torch.tensor(math.nan))


@ALGORITHMS.register_module()
class Sums(FedAvg):
    aggregate = type("Own", (Aggregate,), {})


@HOOKS.register_module()
class Sends(FederatedHook):
    """A payload like the model, or another one."""

    def __init__(self, name="mine", shape=None, weighting="samples"):  # wrong ones, too
        self.payloads = [Payload(name, shape, weighting, broadcast=True)]

    def after_client(self, runner, client, update):
        whole = client.w.clone()
        rows = self.payloads[0].weighting == "rows"
        update.payloads["mine"] = (whole, torch.ones_like(whole).double()) if rows else whole


@HOOKS.register_module()
class Meddles(FederatedHook):
    """Noise on all of an update, a figure in the record, something in the state."""

    def __init__(self, figure: str = "mine", kept: str = ""):
        self.figure, self.kept = figure, kept

    def after_client(self, runner, client, update):
        seed = torch.Generator().manual_seed(100 * client.round + client.index)
        delta = update.vectors["delta"]
        update.vectors["delta"] = delta + torch.randn(delta.shape, generator=seed).to(delta)

    def after_round(self, runner, record):
        record[self.figure] = 1.5

    def state_dict(self):
        return {"kept": KINDS.get(self.kept, (1, "x", None, torch.ones(2), {True}))}


@LOCAL_LOSSES.register_module()
class OwnLoss(LocalLoss):
    def __init__(self, what: str):
        self.what = what

    def loss(self, client):
        loss = client.model_loss()
        if self.what == "bug":
            raise KeyError("prototype")
        return {"number": 1.0, "row": loss.repeat(3), "detached": loss.detach()}.get(
            self.what, loss
        )

    def finish(self, client):
        return [1] if self.what == "finish" else None


@METRICS.register_module()
class Positions(BaseMetric):
    """Parameters of other names than MMSegmentation's."""

    default_prefix = None

    def __init__(self, value=2.0):  # any
        super().__init__()
        self.value = value

    def process(self, batch, predictions):
        self.results.append(len(predictions))

    def compute_metrics(self, results):
        return {"figure": self.value}


@SAMPLERS.register_module()
class Draws(ClientSampler):
    calls = 0

    def __init__(self, drawn: list):
        self.drawn = drawn

    def participants(self, round_):
        self.calls += 1
        return self.drawn if self.drawn != ["random"] else [self.calls % 4]


def run(folder, **changes):
    return toyquad.run(folder, changes.pop("algorithm", {"type": "FedAvg"}), **CONFIG, **changes)


@pytest.mark.parametrize("slip", SLIPS)
def test_what_finish_returns(tmp_path, slip):
    with pytest.raises((ConfigError, TrainingError), match=SLIPS[slip][1]) as caught:
        run(tmp_path, algorithm={"type": "Slips", "slip": slip})
    assert "learning rate" not in str(caught.value)


def test_a_vector_that_some_send_has_the_mean_of_these(tmp_path):
    config = toyquad.settings(tmp_path, {"type": "Some"}, **CONFIG)
    made = toyseg.train(config)
    assert made.algorithm.means == pytest.approx(((1 * 2 + 4 * 3) / 5, 2.5))


@pytest.mark.parametrize("weighting", ["samples", "rows"])
@pytest.mark.parametrize("personal", [None, "conv1"])
def test_a_payload_like_the_model_is_charged_without_gaps(tmp_path, weighting, personal):
    hook = {"type": "Sends", "weighting": weighting}
    plain = toyseg.settings(tmp_path, **toyseg.PLAIN, personal=personal, val_dataloader=None)
    alone = {**plain, "work_dir": str(tmp_path / "alone")}
    made = toyseg.train({**plain, "custom_hooks": [hook]})
    toyseg.train(alone)
    local = 0 if personal is None else int(made.flat.personal.sum())
    shared = made.flat.num_parameters - local
    for one, other in zip(toyseg.history(plain), toyseg.history(alone), strict=True):
        clients = len(one["participants"])
        assert one["bytes_down"] - other["bytes_down"] == 4 * shared * clients
        size = (4 + 8 if weighting == "rows" else 4) * shared
        assert one["bytes_up"] - other["bytes_up"] == size * clients


def test_noise_does_not_reach_the_gaps_between_parameters(tmp_path):
    """They count in norms, and a resumed run would lack them."""
    hooks = {"custom_hooks": [{"type": "Meddles"}], "optim_wrapper": {"optimizer": {"lr": 0.01}}}
    algorithm = {"type": "FedGloSS", "rho_server": 0.1, "admm": False}
    whole = run(tmp_path / "whole", algorithm=algorithm, **hooks)
    cut = toyquad.settings(tmp_path / "cut", algorithm, **CONFIG, **hooks)
    toyseg.train(toyseg.merge(cut, {"train_cfg": {"max_rounds": 1}}))
    toyseg.check_resumed(whole, cut)
    lengths = [np.linalg.norm(w) for w in toyquad.trace(whole)[1:]]
    assert [line["norm_w"] for line in toyseg.history(whole)] == pytest.approx(lengths)


@pytest.mark.parametrize("what", KINDS)
@pytest.mark.parametrize("where", ["client", "server", "hook"])
def test_what_no_checkpoint_could_bring_back_is_not_kept(tmp_path, what, where):
    hooks = {"custom_hooks": [{"type": "Meddles", "kept": what}]} if where == "hook" else {}
    if where == "client" and isinstance(KINDS[what], torch.Tensor):
        return
    algorithm = {"type": "Keeps", "what": what, "where": where}
    with pytest.raises((ConfigError, DataError), match=r"no tensor|of Tensor|no checkpoint can"):
        run(tmp_path, algorithm=algorithm, **hooks)
    assert not list(tmp_path.glob("run/checkpoints/*.pth"))


def test_a_state_of_the_server_that_is_not_finite_is_told_at_once(tmp_path):
    with pytest.raises(DataError, match="round 1: server: state: mine: is not finite"):
        run(tmp_path, algorithm={"type": "Keeps", "what": "NaN", "where": "server"})


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"robust": {"type": "CoordinateMedian"}, "algorithm": {"type": "Sums"}}, "Sums has a sum"),
        *(
            ({"custom_hooks": [{"type": "Meddles", "figure": name}]}, f"hook changes '{name}'")
            for name in ("loss", "metrics")
        ),
        *(
            ({"custom_hooks": [{"type": "Sends", **declared}]}, told)
            for declared, told in (
                ({"shape": [-1]}, r"Sends: Payload\('mine'\)\.shape\[0\]: must be .* not -1"),
                ({"shape": ["class"]}, r"shape\[0\]: must be .*'classes'.* not 'class'"),
                ({"shape": 3}, "shape: must be a list, not 3"),
                ({"weighting": None}, "weighting: must be a string"),
                ({"name": "optim.momentum"}, "is that of server optimizers, too"),
            )
        ),
        (
            {
                "algorithm": {"type": "SCAFFOLD"},
                "custom_hooks": [{"type": "Sends", "name": "control"}],
            },
            "'control' is that of SCAFFOLD, too",
        ),
        *(
            ({"local_loss": {"type": "OwnLoss", "what": what}}, told)
            for what, told in (
                (
                    "number",
                    "local_loss: OwnLoss: its loss must be a 0-d tensor with a graph, not 1.0",
                ),
                ("row", "must be a 0-d tensor"),
                ("detached", "must be a 0-d tensor"),
                (
                    "bug",
                    "local_loss: OwnLoss: ToyQuadratic fails on a batch: KeyError: 'prototype'",
                ),
                ("finish", "a dict of payloads or None"),
            )
        ),
        *(
            (
                {"client_sampler": {"_delete_": True, "type": "Draws", "drawn": drawn}},
                "below 4, asc",
            )
            for drawn in ([1, 1], [2, 0], [-1, 0], [0, 4], ["a"], [0.0], ["random"])
        ),
    ],
)
def test_a_slip_is_named(tmp_path, changes, told):
    with pytest.raises(ConfigError, match=told):
        run(tmp_path, **changes)


def test_nobody_drawn(tmp_path):
    with pytest.raises(TrainingError, match="round 1: no client takes part"):
        run(tmp_path, client_sampler={"_delete_": True, "type": "Draws", "drawn": []})


@pytest.mark.parametrize("value", [2.0, [1.0, 2.0], "x", True])
def test_a_metric_takes_its_arguments_by_position_and_gives_numbers(tmp_path, value):
    metric = {"val_evaluator": {"type": "Positions", "value": value}}
    if value == 2.0:
        config = toyseg.run(tmp_path, **toyseg.PLAIN, **metric)
        assert toyseg.history(config)[-1]["metrics"]["seen/figure"] == 2.0
        return
    with pytest.raises(ConfigError, match=r"Positions gives .* as 'figure': give a"):
        toyseg.run(tmp_path, **toyseg.PLAIN, **metric)
