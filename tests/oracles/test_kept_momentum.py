"""Momentum that outlives rounds and clients, against a transcription; interrupted and resumed."""

import copy

import pytest
import toyalgorithms
import toyseg
from harness import LOCAL, federation, relative_error, run_engine
from transcriptions import FedAvg, weights

from fedseg.errors import ConfigError, LoadingError

KEPT = {"type": "KeptMomentum"}
FAIL = {"type": "FailHook", "at": "after_round", "round_": 2}
FEDAVG = {"type": "FedAvg"}


class ByThreads(FedAvg):
    """FedAvg where thread i trains the round's i-th client, with the one optimizer that it has."""

    def train_all(self, w_start):
        order, models = list(self.fed.batches), {}
        for thread, client in enumerate(sorted(self.sampled, key=order.index)):
            w_k, buffer = w_start.copy(), self.threads.get(thread, self.zeros())
            for _ in range(self.local.epochs):
                for batch in self.fed.batches[client]:
                    buffer = self.local.momentum * buffer + self.fed.gradient(w_k, batch)
                    buffer = buffer + self.local.weight_decay * w_k
                    w_k = w_k - self.local.lr * buffer
            models[client], self.threads[thread] = w_k, buffer
        return models


def test_against_the_transcription(tmp_path):
    trace = run_engine(tmp_path, FEDAVG, hooks=[KEPT])
    expected = ByThreads(federation(), LOCAL, threads={}).run()
    assert relative_error(trace.weights, weights(expected)) < 1e-9
    fresh = FedAvg(federation(), LOCAL).run()
    assert relative_error(trace.weights, weights(fresh)) > 1e-3


def test_resumes_bit_for_bit(tmp_path):
    """Interrupted in the third round, after its first client has left a momentum behind."""
    sgd = {"type": "SGD", "lr": 0.05, "momentum": 0.9, "nesterov": True}
    changes = {"optim_wrapper": {"optimizer": sgd}, "custom_hooks": [KEPT]}
    whole = toyalgorithms.run(tmp_path / "whole", FEDAVG, **changes)
    broken = {**whole, "work_dir": str(tmp_path / "broken" / "run")}
    assert toyalgorithms.train_stopped(broken, 21) == [2], "in the second client of round 3"
    assert toyseg.run_differences(broken, whole) == []
    plain = toyalgorithms.run(tmp_path / "plain", FEDAVG, **{**changes, "custom_hooks": []})
    one, other = (toyseg.checkpoint(run)["state_dict"] for run in (whole, plain))
    assert toyseg.differences(one, other)


def test_a_rejected_client_leaves_the_momentum_as_it_was(tmp_path):
    client = federation().participants[1][1]
    poison = {"type": "PoisonHook", "clients": [client], "round_": 2, "value": 1e30}
    trace = run_engine(tmp_path, FEDAVG, hooks=[KEPT, poison])
    assert [entry["client"] for entry in trace.history[1]["rejected"]] == [client]
    names = [entry["client"] for entry in trace.history[1]["participants"]]
    kept = [
        toyseg.checkpoint({"work_dir": tmp_path / "run"}, r)["stores"]["momentum"] for r in (1, 2)
    ]
    for position, name in enumerate(names):
        before, after = (stores.get(str(position)) for stores in kept)
        assert (before == after) == (name == client)


def test_an_update_that_counts_after_a_rejected_one_leaves_its_momentum(tmp_path):
    """Of two exchanges the second is the round's: its state is kept, whatever the first one was."""
    run = toyalgorithms.run(
        tmp_path,
        {"type": "NaiveFedGloSS", "rho_server": 0.05, "beta": 10.0},
        custom_hooks=[KEPT, {"type": "PoisonHook", "clients": ["a"], "exchange": 0}],
        optim_wrapper={"optimizer": {"momentum": 0.9}},
        train_cfg={"max_rounds": 1},
    )
    (line,) = toyseg.history(run)
    assert [(r["client"], r["exchange"]) for r in line["rejected"]] == [("a", 0)]
    states = toyseg.client_states(run)
    assert states["clients"].keys() == {"a", "b"} and states["momentum"].keys() == {"0", "1"}


def test_a_round_that_a_hook_stopped_has_left_its_momentum(tmp_path):
    """The round counts, and the resumed run does not train it again."""
    momentum = {"optim_wrapper": {"optimizer": {"momentum": 0.9}}}
    whole = toyalgorithms.run(tmp_path / "whole", FEDAVG, **momentum, custom_hooks=[KEPT])
    broken = {**copy.deepcopy(whole), "work_dir": str(tmp_path / "broken" / "run")}
    with pytest.raises(LoadingError):
        toyseg.train({**broken, "custom_hooks": [FAIL, KEPT]})
    toyseg.check_resumed(whole, broken)


def test_needs_momentum(tmp_path):
    with pytest.raises(ConfigError, match=r"optim_wrapper\.optimizer"):
        toyalgorithms.run(tmp_path, FEDAVG, custom_hooks=[KEPT])


def test_momentum_that_an_algorithm_counts_on_starting_afresh(tmp_path):
    scaffold = {"type": "SCAFFOLD", "count_momentum": True}
    with pytest.raises(ConfigError, match=r"KeptMomentum contradicts algorithm\.count_momentum"):
        run_engine(tmp_path, scaffold, hooks=[KEPT])
