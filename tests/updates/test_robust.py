"""Robust sums, against NumPy over several rounds with partial participation."""

import numpy as np
import pytest
import torch
import toyquad
import toyseg
from toyquad import fixed, local_steps, trace

from fedseg.algorithms import FedAvg
from fedseg.core.aggregate import Aggregate
from fedseg.core.messages import ClientResult, Payload, Task, Update
from fedseg.engine import executor
from fedseg.errors import ConfigError
from fedseg.registry import ALGORITHMS
from fedseg.updates.robust import CoordinateMedian, Krum, RobustAggregate, TrimmedMean

PLAN = ("abcd", "acd", "abcd", "bd")


def median(deltas):
    return np.median(deltas, axis=0)


def trimmed(deltas):
    cut = int(0.3 * len(deltas))
    return np.mean(np.sort(deltas, axis=0)[cut : len(deltas) - cut], axis=0)


def krum(deltas):
    """The client whose nearest N - f - 2 others are nearest, f a quarter of them."""
    scores = []
    for own, delta in enumerate(deltas):
        others = [np.sum((delta - d) ** 2) for k, d in enumerate(deltas) if k != own]
        nearest = max(1, len(deltas) - int(0.25 * len(deltas)) - 2)
        scores.append(sum(sorted(others)[:nearest]))
    return deltas[int(np.argmin(scores))]


RULES = {
    "median": ({"type": "CoordinateMedian"}, median),
    "trimmed mean": ({"type": "TrimmedMean", "share": 0.3}, trimmed),
    "no trimming": ({"type": "TrimmedMean", "share": 0.0}, lambda deltas: np.mean(deltas, axis=0)),
    "krum": ({"type": "Krum", "share": 0.25}, krum),
    "the user's own": ({"type": "FedMedian"}, median),
}


class Median(Aggregate):
    """An aggregate of the user's own: the median of every entry over the clients."""

    def __init__(self, weightings):
        super().__init__(weightings)
        self.deltas = []

    def add(self, result):
        super().add(result)
        self.deltas.append(result.update.vectors["delta"].clone())

    def mean(self, name="delta", weighting=None):
        return torch.from_numpy(np.median(torch.stack(self.deltas).numpy(), axis=0))


@ALGORITHMS.register_module()
class FedMedian(FedAvg):
    needs_every_update = True

    def new_aggregate(self):
        return Median(self.weightings)


@pytest.mark.parametrize("name", RULES)
def test_rules(tmp_path, monkeypatch, name):
    """Clients in blocks would be summed before the rule sees them: it gets them one by one."""
    monkeypatch.setattr(executor, "MAX_BLOCKS", 2)
    options, rule = RULES[name]
    changes = {"client_sampler": fixed(*PLAN)}
    if name == "the user's own":
        config = toyquad.run(tmp_path, options, **changes)
    else:
        config = toyquad.run(tmp_path, {"type": "FedAvg"}, robust=options, **changes)
    w = np.array(toyquad.START)
    for clients, after in zip(PLAN, trace(config)[1:], strict=True):
        w = w - rule([w - local_steps(k, w, 5, 0.1) for k in clients])
        np.testing.assert_allclose(after, w, rtol=1e-12)
    norms = [line["norm_delta"] for line in toyseg.history(config)]
    assert norms == pytest.approx(np.linalg.norm(np.diff(trace(config), axis=0), axis=1))


def test_a_share_is_that_of_the_participants():
    """29 of 100 are cut at each end, whatever 0.29 * 100 is as a float product."""
    values = torch.arange(100.0, dtype=torch.float64)[:, None] ** 3
    trimmed_mean = TrimmedMean(share=0.29).combine(values, values)
    assert trimmed_mean.item() == pytest.approx(values[29:71].mean().item(), rel=1e-14)
    drawn = torch.randn(100, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    distances = (drawn - drawn.T).square().sort(dim=1).values
    scores = {bad: distances[:, 1 : 1 + 100 - bad - 2].sum(dim=1) for bad in (28, 29)}
    chosen = {bad: drawn[score.argmin()].item() for bad, score in scores.items()}
    assert Krum(share=0.29).combine(drawn, drawn).item() == chosen[29] != chosen[28]


@pytest.mark.parametrize(
    "algorithm",
    [{"type": "SCAFFOLD"}, {"type": "MIME", "momentum": 0.6}, {"type": "FedDyn", "beta": 5.0}],
    ids=lambda algorithm: algorithm["type"],
)
def test_an_algorithm_of_uniform_means_is_the_same_without_trimming(tmp_path, algorithm):
    """Its sums over the clients are those of the rule, times their number."""
    changes = {"client_sampler": fixed(*PLAN)}
    plain = toyquad.run(tmp_path / "a", algorithm, **changes)
    robust = {"robust": {"type": "TrimmedMean", "share": 0.0}}
    other = toyquad.run(tmp_path / "b", algorithm, **changes, **robust)
    np.testing.assert_allclose(trace(plain), trace(other), rtol=1e-12)


def robust_aggregate(rule, sent):
    """The aggregate of what clients sent, each with a payload of its number in 2 x 2 entries."""
    aggregate = RobustAggregate(rule, {"delta": ("samples", "uniform")})
    for client, value in enumerate(sent):
        payloads = {"counts": torch.full((2, 2), float(value))}
        update = Update({"delta": torch.full((3,), float(value))}, payloads=payloads)
        task = Task(1, 0, client, "a", 2, 1, {})
        aggregate.add(ClientResult(task, update, torch.ones(1), torch.ones(1).long(), {}, 0.0))
    return aggregate


@pytest.mark.parametrize("kind", [CoordinateMedian, TrimmedMean, Krum])
def test_a_mean_is_the_callers_to_change(kind):
    aggregate = robust_aggregate(kind(), range(5))
    expected = aggregate.mean("delta")
    aggregate.mean("delta").mul_(7)
    aggregate.buffers().mul_(7)
    assert torch.equal(aggregate.mean("delta"), expected)
    assert torch.equal(aggregate.buffers(), torch.ones(1))


def test_payloads_are_combined_by_the_rule_too():
    """An attacker's counts do not get through where its update does not."""
    aggregate = robust_aggregate(CoordinateMedian(), [1, 2, 1e9])
    assert torch.equal(aggregate.payload("counts"), torch.full((2, 2), 3 * 2.0).double())
    assert torch.equal(aggregate.total("delta", "samples"), torch.full((3,), 6 * 2.0).double())
    aggregate = robust_aggregate(Krum(0.3), [1, 2, 2, 1e9])
    assert torch.equal(aggregate.payload("counts"), torch.full((2, 2), 4 * 2.0).double())


@ALGORITHMS.register_module()
class SendsMore(FedAvg):
    """Sends its trained model and its mean as payloads, and what ``more`` says."""

    payloads = (Payload("model", (3,), broadcast=True), Payload("level", ()))

    def __init__(self, more="nothing", server_optim=None):
        super().__init__(server_optim)
        self.more = more

    def finish(self, client):
        update = super().finish(client)
        model = client.w[:3].clone()
        update.payloads = {"model": model, "level": model.mean()}
        if self.more == "numbers":
            update.numbers = {"level": float(model.mean())}
        if self.more == "less" and client.index == 0:
            del update.payloads["model"]
        return update

    def step(self, server, aggregate):
        server.state["model"] = aggregate.payload("model") / aggregate.num_clients
        server.state["levels"] = aggregate.payload("level") / aggregate.num_clients
        super().step(server, aggregate)


@pytest.mark.parametrize("name", ["median", "trimmed mean", "krum"])
def test_payloads_are_combined_by_the_rule(tmp_path, name):
    """Those of Krum are the chosen client's."""
    options, rule = RULES[name]
    config = toyquad.run(
        tmp_path, {"type": "SendsMore"}, robust=options, client_sampler=fixed(*PLAN)
    )
    w = np.array(toyquad.START)
    for round_, clients in enumerate(PLAN, start=1):
        models = np.stack([local_steps(k, w, 5, 0.1) for k in clients])
        if name == "krum":
            (chosen,) = np.flatnonzero((rule([w - m for m in models]) == w - models).all(1))
            model, level = models[chosen], models[chosen].mean()
        else:
            model, level = rule(models), rule(models.mean(1))
        state = toyseg.checkpoint(config, round_)["server"]["state"]
        np.testing.assert_allclose(state["model"], model, rtol=1e-12)
        np.testing.assert_allclose(state["levels"], level, rtol=1e-12)
        w = w - rule([w - m for m in models])


def test_statistics_and_counters_are_combined_by_the_rule():
    aggregate = RobustAggregate(CoordinateMedian(), {"delta": "samples"})
    for number, value in enumerate([1, 5, 1_000_000]):
        part = ClientResult(
            Task(1, 0, number, "a", 2, 1, {}),
            Update({"delta": torch.ones(3)}),
            buffers=torch.tensor([float(value)]),
            counters=torch.tensor([value]),
            state={},
            loss=0.0,
        )
        aggregate.add(part)
    assert aggregate.buffers().item() == 5
    assert aggregate.counters().item() == 5


@pytest.mark.parametrize(
    ("algorithm", "words"),
    [
        ({"type": "FedCM", "alpha": 0.5}, r"FedCM sums updates by weights .*\(per_step\)"),
        ({"type": "FedDGGA"}, r"FedDGGA sums updates by weights .*\(shares\)"),
        ({"type": "SendsMore", "more": "numbers"}, "level: no rule bounds numbers"),
        ({"type": "SendsMore", "more": "less"}, "model: 1 of 4 participants do not send it"),
    ],
)
def test_what_a_rule_cannot_treat_is_refused(tmp_path, algorithm, words):
    with pytest.raises(ConfigError, match=f"robust: {words}"):
        toyquad.run(tmp_path, algorithm, robust={"type": "CoordinateMedian"})


def test_krum_of_too_few_warns_once(tmp_path):
    """Of two participants in every round."""
    config = toyquad.run(
        tmp_path, {"type": "FedAvg"}, client_sampler=fixed("ab", "cd"), robust={"type": "Krum"}
    )
    assert toyseg.logs(config).count("it needs 3") == 1
    assert len(toyseg.history(config)) == 2


def test_mistakes(tmp_path):
    for robust, message in (
        ({"type": "Krum", "share": 0.5}, r"robust\.share"),
        ({"type": "Median"}, r"robust\.type"),
    ):
        with pytest.raises(ConfigError, match=message):
            toyquad.run(tmp_path, {"type": "FedAvg"}, robust=robust)
