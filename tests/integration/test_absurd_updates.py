"""Updates that are finite and absurd, the models that they would make, and their checkpoints."""

import numpy as np
import pytest
import toyquad
import toyseg
from toyquad import fixed, trace

from fedseg.errors import TrainingError
from fedseg.hooks import FederatedHook
from fedseg.registry import HOOKS

IMPORTS = {"custom_imports": {"imports": ["toyquad", "toyseg"]}}
FEDAVG = {"type": "FedAvg"}
SCAFFOLD = {"type": "SCAFFOLD"}
FEDACG = {"type": "FedACG", "lam": 0.9, "beta": 0.1}
FEDCM = {"type": "FedCM", "alpha": 0.2}
ADABEST = {"type": "AdaBest", "mu": 0.3, "beta": 0.8}


def poison(clients, round_=None, value=1e30):
    hook = {"type": "PoisonHook", "clients": clients, "round_": round_, "value": value}
    return {"custom_hooks": [hook], **IMPORTS}


@HOOKS.register_module()
class Replace(FederatedHook):
    """Fills one of the things that client b sends with a value."""

    def __init__(self, name: str, value: float) -> None:
        self.name, self.value = name, value

    def after_client(self, runner, client, update):
        if client.id == "b" and runner.round == 2:
            sent = {**update.vectors, "buffers": client.buffers}
            sent[self.name].fill_(self.value)


def reasons(config):
    rejected = [(line["round"], r) for line in toyseg.history(config) for r in line["rejected"]]
    return [(round_, r["client"], r["reason"].split(" has ")[0]) for round_, r in rejected]


@pytest.mark.parametrize(
    ("algorithm", "round_", "value"),
    [
        *((SCAFFOLD, round_, value) for round_ in (1, 3) for value in (1e5, 1e30)),
        *((one, 2, "nan") for one in (SCAFFOLD, FEDACG, FEDCM, ADABEST)),
    ],
)
def test_a_client_with_a_bad_update_is_as_if_it_had_not_been_there(
    tmp_path, algorithm, round_, value
):
    rounds = ["ab", "bcd", "abd", "bd"]
    changes = poison(["b"], round_, value)
    one = toyquad.run(tmp_path / "a", algorithm, client_sampler=fixed(*rounds), **changes)
    rounds[round_ - 1] = rounds[round_ - 1].replace("b", "")
    other = toyquad.run(tmp_path / "b", algorithm, client_sampler=fixed(*rounds))
    np.testing.assert_array_equal(trace(one), trace(other))
    assert reasons(one) == [(round_, "b", "delta is not finite" if value == "nan" else "delta")]
    states = (toyseg.client_states(config)["clients"] for config in (one, other))
    assert toyseg.differences(*states) == []
    assert toyseg.checkpoint(one)["server"]["norms"] == toyseg.checkpoint(other)["server"]["norms"]


@pytest.mark.parametrize("name", ["delta", "control", "buffers"])
def test_everything_that_is_sent_is_measured(tmp_path, name):
    changes = {"personal": None, "averaging": None, "algorithm": SCAFFOLD}
    changes["optim_wrapper"] = toyseg.PLAIN["optim_wrapper"]
    config = toyseg.run(
        tmp_path,
        **changes,
        client_sampler=fixed("abc", "abc", "abc"),
        train_cfg={"max_rounds": 3},
        custom_hooks=[{"type": "Replace", "name": name, "value": 1e20}],
    )
    assert reasons(config) == [(2, "b", name)]
    assert toyseg.history(config)[-1]["norm_w"] < 100


def test_the_limits_go_on_after_a_resume(tmp_path):
    """300 times the median of the round before is too long; the model alone would let it pass."""
    limit = {"train_cfg": {"max_norm_ratio": 30.0}}
    rounds = fixed("abcd", "abcd", "abc")
    tiny = {"optim_wrapper": {"optimizer": {"lr": 1e-4}}}
    whole = toyquad.run(tmp_path / "a", FEDAVG, client_sampler=rounds, **limit, **tiny)
    medians = toyseg.checkpoint(whole, 2)["server"]["norms"]
    assert set(medians) == {"delta", "buffers"} and 0 < medians["delta"] < 0.01
    length = max(2 * np.linalg.norm(toyquad.START), 300 * medians["delta"])
    changes = {**poison(["b"], 3, length), **tiny}
    config = toyquad.settings(tmp_path / "b", FEDAVG, client_sampler=rounds, **limit, **changes)
    config["train_cfg"]["max_rounds"] = 2
    toyseg.train(config)
    config["train_cfg"]["max_rounds"] = 3
    toyseg.train(config, resume=True)
    assert reasons(config) == [(3, "b", "delta")]


def test_clients_may_differ_and_the_guard_can_be_off(tmp_path):
    """A thousandth and a hundred times the others are theirs to send; without a ratio, anything."""
    rounds = fixed("abcd", "abcd")
    changes = {**poison(["b"], 2, 100.0), "optim_wrapper": {"optimizer": {"lr": 0.01}}}
    config = toyquad.run(tmp_path / "a", FEDAVG, client_sampler=rounds, **changes)
    assert reasons(config) == [] and np.abs(trace(config)[-1]).max() > 20
    changes = {**poison(["b"], 2), "train_cfg": {"max_norm_ratio": None}}
    config = toyquad.run(tmp_path / "b", FEDAVG, client_sampler=rounds, **changes)
    assert reasons(config) == [] and np.abs(trace(config)[-1]).max() > 1e28


@pytest.mark.parametrize(
    ("lr", "told"), [(1e8, r"goes from norm .*FedAvg"), (1e308, r"is not finite.*server step")]
)
def test_a_global_model_that_leaps_is_not_committed(tmp_path, lr, told):
    far = {"type": "FedAvg", "server_optim": {"type": "SGD", "lr": lr}}
    with pytest.raises(TrainingError, match=f"round 1: the global model {told}"):
        toyquad.run(tmp_path, far, dtype="float32" if lr > 1e300 else "float64")
    assert not (tmp_path / "run" / "history.jsonl").exists()
    assert not list((tmp_path / "run" / "checkpoints").glob("*.pth"))


@HOOKS.register_module()
class Meddles(FederatedHook):
    """Fills the server's weights or statistics with a value in a stage of round 2."""

    def __init__(self, stage, name, value):
        self.stage, self.name, self.value = stage, name, float(value)

    def _fill(self, runner, stage):
        if runner.round == 2 and stage == self.stage:
            getattr(runner.server, self.name).fill_(self.value)

    def before_round(self, runner):
        self._fill(runner, "before_round")

    def after_round(self, runner, record):
        self._fill(runner, "after_round")


@pytest.mark.parametrize(("stage", "round_"), [("before_round", 2), ("after_round", 3)])
@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("w", "nan", "is not finite"),
        ("w", 1e20, "goes from norm"),
        ("buffers", "inf", "is not finite"),
    ],
)
def test_a_model_that_a_hook_spoils_is_not_sent(tmp_path, stage, round_, name, value, told):
    hook = {"type": "Meddles", "stage": stage, "name": name, "value": value}
    config = toyseg.settings(tmp_path, **toyseg.PLAIN, custom_hooks=[hook], val_dataloader=None)
    with pytest.raises(TrainingError, match=f"round {round_}: the global model {told}.* a hook"):
        toyseg.train(config)
