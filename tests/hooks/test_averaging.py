"""SWA and WIMA: when the rate falls, when a model is collected, what is evaluated."""

import pytest
import torch
import toyseg
from mmengine.config import Config
from mmengine.logging import MMLogger

from fedseg.core.seeds import seed_for
from fedseg.errors import ConfigError
from fedseg.hooks import FederatedHook
from fedseg.hooks.averaging import SWA
from fedseg.registry import HOOKS
from fedseg.runner.testing import evaluate_checkpoint


@HOOKS.register_module()
class Recorder(FederatedHook):
    """Keeps every round's global model, what is evaluated, and the rates that clients used."""

    priority = "LOWEST"

    def __init__(self) -> None:
        self.models: list[torch.Tensor] = []
        self.evaluated: list[torch.Tensor | None] = []
        self.lrs: list[float] = []

    def before_client(self, runner, client):
        self.lrs.append(client.lr)

    def after_round(self, runner, record):
        self.models.append(runner.server.w.double().clone())
        averaged = runner.averaging.averaged_model(runner)
        self.evaluated.append(None if averaged is None else averaged[0].clone())


def run(tmp_path, averaging, rounds=8, **changes):
    config = toyseg.settings(
        tmp_path,
        **{
            **toyseg.PLAIN,
            "averaging": {**averaging, "_delete_": True},
            "val_dataloader": None,
            "val_evaluator": None,
            "client_sampler": {"clients_per_round": 1},
            "train_cfg": {"max_rounds": rounds, "local_epochs": 1},
            "custom_hooks": [{"type": "Recorder"}],
            **changes,
        },
    )
    runner = toyseg.train(config)
    recorder = next(h for h in runner.hooks if isinstance(h, Recorder))
    return config, runner, recorder


def mean(models):
    return torch.stack(models).mean(0)


def close(a, b):
    torch.testing.assert_close(a.double(), b.double(), rtol=1e-6, atol=1e-7)


def test_swa_rates_and_collection(tmp_path):
    """T = 8, start 0.5 -> round 4, c = 3: collected after rounds 6 only (9 is beyond the end)."""
    averaging = {"type": "SWA", "start": 0.5, "cycle": 3, "lr2": 0.01}
    config, runner, seen = run(tmp_path, averaging)
    t = {4: 1 / 3, 5: 2 / 3, 6: 1, 7: 1 / 3, 8: 2 / 3}
    expected = [0.1] * 3 + [(1 - t[i]) * 0.1 + t[i] * 0.01 for i in range(4, 9)]
    assert seen.lrs == pytest.approx(expected, rel=1e-12)
    assert [line["lr"] for line in toyseg.history(config)] == pytest.approx(expected, rel=1e-12)
    assert seen.evaluated[:5] == [None] * 5
    for i in (6, 7, 8):
        close(seen.evaluated[i - 1], seen.models[5])
    assert runner.averaging.count == 1
    assert runner.optim_wrapper.optimizer.param_groups[0]["lr"] == 0.1, "the rate is given back"


@pytest.mark.parametrize(
    ("start", "rounds", "first"),
    [
        (5, 8, 5),
        (0.0, 8, 1),
        (1.0, 4, 4),
        (0.75, 8, 6),
        (0.75, 6, 5),  # 4.5: the first round that is not before it
        (0.75, 2, 2),
        (0.55, 100, 55),  # 55.00000000000001
    ],
)
def test_the_first_round_of_an_average(start, rounds, first):
    assert SWA(start, cycle=1).first_round(rounds) == first


def test_swa_follows_a_scheduled_rate(tmp_path):
    """lr1 is the round's ordinary rate, which goes on falling underneath."""
    schedule = {"type": "ExponentialLR", "gamma": 0.5}
    averaging = {"type": "SWA", "start": 3, "cycle": 2, "lr2": 0.001}
    _, _, seen = run(tmp_path, averaging, 4, param_scheduler=[schedule])
    ordinary = [0.1, 0.05, 0.025, 0.0125]
    expected = [*ordinary[:2], (ordinary[2] + 0.001) / 2, 0.001]
    assert seen.lrs == pytest.approx(expected, rel=1e-9)


def test_groups_keep_their_multiple_of_the_rate():
    """A cycle goes down to lr2 times the group's own factor: a frozen layer stays frozen."""
    groups = [{"params": [torch.zeros(1)], "lr": lr} for lr in (0.1, 0.0, 0.2)]
    optimizer = torch.optim.SGD(groups, lr=0.1)
    swa = SWA(start=1, cycle=2, lr2=0.01)
    assert swa.local_lrs(optimizer, 1, 4) == pytest.approx([0.055, 0, 0.11])
    assert swa.local_lrs(optimizer, 2, 4) == pytest.approx([0.01, 0, 0.02])
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    schedule.step()
    assert swa.local_lrs(optimizer, 1, 4) == pytest.approx([0.03, 0, 0.06])
    assert swa.local_lrs(optimizer, 2, 4) == pytest.approx([0.01, 0, 0.02])


@pytest.mark.parametrize(
    "averaging", [{"type": "SWA", "start": 7, "cycle": 9, "lr2": 0.1}, {"type": "WIMA", "start": 9}]
)
def test_an_average_that_never_begins_says_so(tmp_path, averaging):
    config, _, seen = run(tmp_path, averaging)
    words = "would collect its first model in round 9, after the last (8)"
    assert f"{averaging['type']} {words}" in toyseg.logs(config)
    assert seen.evaluated == [None] * 8


def test_a_late_wima_is_an_early_one_once_its_window_is_full(tmp_path):
    early, late = (
        run(tmp_path / str(start), {"type": "WIMA", "window": 3, "start": start}, 7)[2]
        for start in (1, 0.4)
    )
    assert late.evaluated[:2] == [None, None]  # 0.4 * 7 = 2.8: from round 3 on
    close(late.evaluated[3], mean(late.models[2:4]))
    for i in (4, 5, 6):
        close(late.evaluated[i], early.evaluated[i])


def test_wima_keeps_the_models_that_its_checkpoints_need(tmp_path):
    """Of a window of 2, and of the two newest checkpoints."""
    config, _, _ = run(tmp_path, {"type": "WIMA", "window": 2}, 7)
    assert toyseg.state_rows(config, "wima") == {(5, "1"), (6, "0"), (7, "1")}


@pytest.mark.parametrize("kind", [{"type": "SWA", "start": 1, "cycle": 1}, {"type": "WIMA"}])
def test_only_the_parameters_that_match(tmp_path, kind):
    every = {"default_hooks": {"checkpoint": {"interval": 1, "keep_every": 1}}}
    config, runner, seen = run(tmp_path, {**kind, "parameters": ["conv1", "bn1*"]}, 4, **every)
    average = seen.evaluated[-1]
    for slot in runner.flat.slots:
        expected = mean(seen.models) if slot.name.startswith(("conv1", "bn1")) else seen.models[-1]
        close(average[slot.span], expected[slot.span])
    assert not torch.equal(mean(seen.models).float(), average)
    states = [toyseg.checkpoint(config, i) for i in range(1, 5)]
    last, averaged = states[-1]["state_dict"], states[-1]["averaged_state_dict"]
    assert torch.equal(averaged["renamed.running_mean"], last["renamed.running_mean"])
    for name in ("bn1.running_mean", "bn1.running_var"):
        close(averaged[name], mean([state["state_dict"][name] for state in states]))


def test_parameters_that_match_nothing(tmp_path):
    with pytest.raises(ConfigError, match=r"averaging\.parameters: 'backbone' matches no"):
        run(tmp_path, {"type": "WIMA", "parameters": "backbone"}, 2)


EVALUATED = {
    "val_dataloader": {
        "seen": {"batch_size": 4, "dataset": {"type": "ToyScenes", "test_mode": True}}
    },
    "val_evaluator": {"type": "PixelAccuracy"},
    "train_dataloader": {"batch_size": 11},
}
ESTIMATED = {"type": "WIMA", "window": 4, "bn": "reestimate"}


def statistics_by_hand(runner, w):
    """Mean and variance of bn1's input over the training images, as seed 0 augments them."""
    dataset, model = runner.data.dataset, runner.model
    model.eval()
    with torch.no_grad():
        runner.flat.w.copy_(w)
        keys = [(i, seed_for(0, "statistics", i)) for i in range(len(dataset))]
        images = torch.stack([dataset[key]["inputs"] for key in keys])
        data = model.data_preprocessor({"inputs": images}, False)["inputs"]
        x = model.conv1(data)
    return x.mean((0, 2, 3)), x.var((0, 2, 3))


@pytest.mark.parametrize("personal", [None, "@head"])
def test_statistics_can_be_reestimated(tmp_path, personal):
    _, runner, seen = run(tmp_path, ESTIMATED, 4, **EVALUATED, personal=personal)
    w, buffers = runner.evaluated_model()
    mean_, var = statistics_by_hand(runner, w)
    slots = {s.name: s.view(buffers) for s in runner.flat.buffer_slots}
    # three batches of eleven: the mean is exact, the variance that within batches
    torch.testing.assert_close(slots["bn1.running_mean"], mean_, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(slots["bn1.running_var"], var, rtol=0.05, atol=0)
    assert runner.model.bn1.momentum == 0.1 and runner.model.renamed.momentum == 0.1
    assert torch.equal(buffers, runner.evaluated_model()[1]), "a pure function of the model"
    close(w, mean(seen.models))


def test_only_a_checkpoint_of_a_round_without_evaluation_lacks_the_estimate(tmp_path, monkeypatch):
    """Testing it warns; that of an evaluated round has the figures of the run, and no warning."""
    checkpoints = {"checkpoint": {"type": "FederatedCheckpointHook", "interval": 1, "keep_last": 9}}
    changes = {**EVALUATED, "default_hooks": checkpoints, "train_cfg": {"val_interval": 3}}
    changes["train_cfg"] |= {"max_rounds": 3, "val_last_rounds": 0, "local_epochs": 1}
    config, _, _ = run(tmp_path, {**ESTIMATED, "window": 2}, **changes)
    warnings = {}
    for number in (2, 3):
        told = []
        monkeypatch.setattr(MMLogger, "warning", lambda self, text, told=told: told.append(text))
        path = tmp_path / f"run/checkpoints/round_00000{number}.pth"
        test = Config({**config, "work_dir": str(tmp_path / "test")})
        domains = evaluate_checkpoint(test, path)[1]["domains"]
        warnings[number] = [text for text in told if "was not evaluated" in text]
    assert len(warnings[2]) == 1 and warnings[3] == []
    assert domains["seen"]["accuracy"] == toyseg.history(config)[-1]["metrics"]["seen/accuracy"]


def test_statistics_behind_a_personal_layer_are_not_reestimated(tmp_path):
    """Those of a layer that only clients have trained would be of its initial weights."""
    _, runner, _ = run(tmp_path, ESTIMATED, 4, **EVALUATED, personal="gate")
    assert torch.equal(runner.evaluated_model()[1], runner.averaged_model()[1])
    assert runner._estimate is None


def test_statistics_that_a_network_has_frozen_are_not_reestimated(tmp_path):
    _, runner, _ = run(tmp_path, ESTIMATED, 2, **EVALUATED, model={"type": "FrozenToySegNet"})
    _, buffers = runner.evaluated_model()
    new = {s.name: s.view(buffers) for s in runner.flat.buffer_slots}
    old = {s.name: s.view(runner.server.buffers) for s in runner.flat.buffer_slots}
    for name in ("running_mean", "running_var"):
        assert torch.equal(new[f"bn1.{name}"], old[f"bn1.{name}"])
        assert not torch.equal(new[f"renamed.{name}"], old[f"renamed.{name}"])


def test_a_tested_checkpoint_has_the_figures_of_the_run(tmp_path):
    """What tools/test.py computes from a checkpoint equals the last evaluation of training."""
    config, _, _ = run(tmp_path, {"type": "WIMA", "window": 4}, 4, **EVALUATED)
    figures = toyseg.runner(config).test(tmp_path / "run/checkpoints/round_000004.pth")
    assert figures == toyseg.history(config)[-1]["metrics"]


def test_a_damaged_average_of_a_checkpoint_is_refused():
    average = SWA(start=1, cycle=1)
    with pytest.raises(ValueError, match="must be tensors"):
        average.load_state_dict({"count": 1, "w": "text", "buffers": torch.zeros(1)})
