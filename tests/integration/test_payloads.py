"""Payloads of a local loss and a hook in whole runs: means by class, traffic, resuming."""

import numpy as np
import pytest
import torch
import toyseg

from fedseg.algorithms import FedAvg
from fedseg.core.local_loss import LocalLoss
from fedseg.core.messages import Payload, Update
from fedseg.errors import ConfigError
from fedseg.hooks import FederatedHook
from fedseg.registry import ALGORITHMS, HOOKS, LOCAL_LOSSES

CLASSES = 3
SENT = {}  # (round, client) -> (sums, counts), of a run in this process


@LOCAL_LOSSES.register_module()
class ClassMeans(LocalLoss):
    """Pulls the mean logits of each class towards the server's; class 2 is never sent."""

    payloads = (
        Payload("means", ("classes", CLASSES), broadcast=True),
        Payload("sums", ("classes", CLASSES)),
        Payload("counts", ("classes",)),
    )

    def receive(self, client):
        self.known = client.payloads["means"].any(1)

    def loss(self, client):
        logits = client.model(client.batch["inputs"], mode="tensor").movedim(1, -1).flatten(0, 2)
        labels = client.batch["data_samples"].flatten()
        one_hot = labels[:, None] == torch.arange(CLASSES)
        self.counts = one_hot.sum(0).to(logits.dtype)
        self.sums = one_hot.to(logits.dtype).T @ logits
        means = self.sums / self.counts.clamp(min=1)[:, None]
        gap = (means - client.payloads["means"])[self.known & (self.counts > 0)]
        return client.model_loss() + 0.1 * gap.square().sum()

    def finish(self, client):
        sums, counts = self.sums.detach().clone(), self.counts.clone()
        sums[2], counts[2] = 0, 0
        SENT[client.round, client.id] = sums, counts
        return {"sums": sums, "counts": counts}

    def step(self, server, aggregate):
        counts = aggregate.payload("counts")[:, None]
        means = aggregate.payload("sums") / counts.clamp(min=1)
        server.state["means"] = torch.where(counts > 0, means, server.state["means"])


@ALGORITHMS.register_module()
class Fades(FedAvg):
    """The server has a rule of its own for what it broadcasts: half of it stays."""

    payloads = (Payload("number", (), broadcast=True),)

    def finish(self, client):
        return Update({"delta": client.delta()}, payloads={"number": client.w.new_ones(())})

    def step(self, server, aggregate):
        super().step(server, aggregate)
        server.state["number"] = server.state["number"] / 2 + 1
        assert aggregate.payload("number") == aggregate.num_clients


@HOOKS.register_module()
class Extremes(FederatedHook):
    """Adds the client's norm, of which the server keeps the sum."""

    payloads = (Payload("norm", (1,), broadcast=True),)

    def after_client(self, runner, client, update):
        update.payloads["norm"] = client.w.norm().reshape(1)

    def after_aggregate(self, runner, aggregate):
        runner.server.state["norm"] = aggregate.payload("norm")
        self.seen = [*getattr(self, "seen", []), aggregate.payload("norm").item()]


def settings(folder, **changes):
    loss = {"type": "ClassMeans"}
    plain = {**toyseg.PLAIN, "local_loss": loss, "custom_hooks": [{"type": "Extremes"}]}
    plain["train_cfg"] = {"val_last_rounds": 1}
    return toyseg.settings(folder, **plain | {k: v for k, v in changes.items() if v is not None})


def means_by_hand(rounds):
    means = np.zeros((CLASSES, CLASSES))
    for number in range(1, rounds + 1):
        sent = [pair for (round_, _), pair in SENT.items() if round_ == number]
        total = sum(sums.double().numpy() for sums, _ in sent)
        pixels = sum(counts.double().numpy() for _, counts in sent)
        for row in range(CLASSES):
            if pixels[row]:
                means[row] = total[row] / pixels[row]
    return means


def test_payloads_are_summed_and_charged_by_the_element(tmp_path):
    SENT.clear()
    config = settings(tmp_path)
    run = toyseg.train(toyseg.merge(config, {"algorithm": {"type": "Fades"}}))
    means = run.server.state["means"].numpy()
    np.testing.assert_allclose(means, means_by_hand(6), rtol=1e-6)
    assert np.abs(means[:2]).min() > 0 and (means[2] == 0).all(), "nobody sent class 2"
    model = 4 * (run.flat.num_parameters + run.flat.num_buffers) + 8 * run.flat.num_counters
    for line in toyseg.history(config):
        clients = len(line["participants"])
        assert line["bytes_down"] == clients * (model + 4 * CLASSES * CLASSES + 4 + 4)
        assert line["bytes_up"] == clients * (model + 4 * CLASSES * (CLASSES + 1) + 4 + 4)
    (hook,) = (hook for hook in run.hooks if isinstance(hook, Extremes))
    assert len(hook.seen) == 6 and min(hook.seen) > 0
    assert run.server.state["norm"].item() == hook.seen[-1]
    assert run.server.state["number"].item() == sum(0.5**i for i in range(6))
    plain = settings(tmp_path / "plain")
    alone = toyseg.train({**plain, "local_loss": None})
    assert not torch.equal(alone.server.w, run.server.w)


@pytest.mark.parametrize("blocks", [64, 2])
def test_a_resumed_run_has_the_same_bits(tmp_path, monkeypatch, blocks):
    monkeypatch.setattr("fedseg.engine.executor.MAX_BLOCKS", blocks)
    whole, cut = (settings(tmp_path / name) for name in ("whole", "cut"))
    toyseg.train(whole)
    toyseg.train(toyseg.merge(cut, {"train_cfg": {"max_rounds": 3}}))
    toyseg.check_resumed(whole, cut)


def test_a_name_has_one_owner(tmp_path):
    config = settings(tmp_path, custom_hooks=[{"type": "Extremes"}] * 2)
    with pytest.raises(ConfigError, match="payload 'norm' is that of Extremes, too"):
        toyseg.train(config)
