"""What MOON, FedAlign, GradAug and stochastic depth have in common: SAM, algorithms, resuming."""

import minibatch
import pytest
import torch
import toycls
import toyseg
from toyalgorithms import train_stopped

from fedseg.errors import ConfigError
from fedseg.local_losses import MOON, FedAlign, GradAug, LocalLoss

PREVIOUS = "moon_previous"
LOSSES = {
    "MOON": {"type": "MOON"},
    "FedAlign": {"type": "FedAlign", "relative": True},
    "GradAug": {"type": "GradAug", "width": 0.5, "resolutions": [8, 7]},
    "stochastic depth": None,
}
TYPES = {"MOON": MOON, "FedAlign": FedAlign, "GradAug": GradAug, "stochastic depth": LocalLoss}
SEGMENTOR = {"_delete_": True, "type": "Segmentor", "network": torch.nn.Conv2d(3, 3, 1)}
SEGMENTOR |= {"num_classes": None, "loss": {"type": "CrossEntropy"}}
ALL = pytest.mark.parametrize("name", LOSSES)
PLAIN = {
    "_delete_": True,
    "type": "OptimWrapper",
    "optimizer": {"type": "SGD", "lr": 0.05, "momentum": 0.9, "weight_decay": 1e-3},
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return toycls.write_data(tmp_path_factory.mktemp("data"))


def model(name):
    kept = {"stochastic_depth": 0.5} if name == "stochastic depth" else {}
    return {"_delete_": True, "type": "ToyResNet", "projection": [6, 5], **kept}


def settings(folder, root, name, loss, **changes):
    """A run of two clients for three rounds with BatchNorm, ASAM and mixup."""
    base = {
        "custom_imports": {"imports": ["toyseg", "toycls", "minibatch"]},
        "model": model(name),
        "local_loss": loss,
        "averaging": None,
        "client_sampler": toyseg.fixed("ab", "ab", "ab"),
        "train_cfg": {"max_rounds": 3, "local_epochs": 1, "val_interval": 3, "val_last_rounds": 1},
    }
    return toycls.settings(folder, root, **toyseg.merge(base, changes))


# ---------------------------------------------------------------- one step


@ALL
def test_sam_s_second_gradient_is_the_loss_s_own(name):
    """At ``w + rho g / ||g||``, with the same draws: dropout, sub-networks, depth."""
    loss = TYPES[name](**{k: v for k, v in (LOSSES[name] or {}).items() if k != "type"})
    sam = {"type": "SAMOptimWrapper", "rho": 0.3, "optimizer": {"type": "SGD", "lr": 0.1}}
    network = minibatch.scrambled(
        minibatch.ToyResNet(stochastic_depth=0.5 if name == "stochastic depth" else None)
    )
    client = minibatch.local_client(network, loss, optim_wrapper=sam)
    client.state[PREVIOUS] = client.start + 0.1
    client.w.mul_(0.9)
    w = client.w.clone()
    torch.manual_seed(5)
    client.local.gradient(client)
    found, after = client.grad.clone(), torch.get_rng_state()
    assert torch.equal(client.w, w)

    client.batch = client.batch  # nothing is left of the passes before
    torch.manual_seed(5)
    first = minibatch.gradient(client)
    client.batch = client.batch
    client.w.add_(first, alpha=0.3 / first.norm().item())
    torch.manual_seed(5)
    torch.testing.assert_close(found, minibatch.gradient(client), rtol=1e-9, atol=1e-12)
    assert torch.equal(after, torch.get_rng_state())
    assert minibatch.relative_error(found, first) > 1e-3


@pytest.mark.parametrize("name", ["MOON", "FedAlign", "GradAug"])
def test_bfloat16_is_near(name):
    options = {k: v for k, v in LOSSES[name].items() if k != "type"}
    gradients = []
    for amp in (False, True):
        network = minibatch.scrambled(minibatch.ToyResNet(widths=(8, 8, 16))).float()
        client = minibatch.local_client(network, TYPES[name](**options), amp=amp)
        client.state[PREVIOUS] = client.start + 0.1
        client.w.mul_(0.9)
        torch.manual_seed(5)
        gradients.append(minibatch.gradient(client))
        assert client.loss.dtype == torch.float32
    one, two = gradients
    assert torch.dot(one, two) > 0.95 * one.norm() * two.norm()


# ---------------------------------------------------------------- runs


ZERO = {
    "MOON": {"type": "MOON", "mu": 0},
    "FedAlign": {"type": "FedAlign", "mu": 0},
    "GradAug": {"type": "GradAug", "mu": 0},
}


@pytest.mark.parametrize("name", [*ZERO, "stochastic depth"])
def test_without_weight_it_is_fedavg_bit_for_bit(tmp_path, root, name):
    changes = {"optim_wrapper": PLAIN, "train_cfg": {"max_rounds": 2}}
    if name == "stochastic depth":
        changes["model"] = {**model(name), "stochastic_depth": 1.0}
    one = settings(tmp_path / "one", root, "plain", None, **{**changes, "model": model("plain")})
    two = settings(tmp_path / "two", root, name, ZERO.get(name), **changes)
    toyseg.check_alike(one, two)
    assert all(PREVIOUS not in s for s in toyseg.client_states(two).get("clients", {}).values())


@ALL
def test_resumed_bit_for_bit(tmp_path, root, name):
    """Stopped within a client, twice; MOON's previous models come back with the checkpoint."""
    whole, stopped = (settings(tmp_path / f, root, name, LOSSES[name]) for f in ("one", "two"))
    toyseg.train(whole)
    assert train_stopped(stopped, 6, 5) == [1, 2]
    assert toyseg.run_differences(whole, stopped) == []


def test_moons_state_stands_beside_an_algorithms(tmp_path, root):
    dyn = {"algorithm": {"_delete_": True, "type": "FedDyn", "beta": 10.0}}
    config = settings(tmp_path, root, "MOON", LOSSES["MOON"], **dyn)
    toyseg.train(config)
    states = toyseg.client_states(config)["clients"].values()
    assert all(set(state) == {PREVIOUS, "sigma"} for state in states)


def test_moon_keeps_each_client_s_last_model(tmp_path, root):
    """Its first participation is FedAvg's; what it keeps is what it sent."""
    config, plain = (
        settings(
            tmp_path / str(bool(loss)),
            root,
            "MOON",
            loss,
            client_sampler={"participants": [["a", "b"], ["c", "b"]]},
            optim_wrapper=PLAIN,
            train_cfg={"max_rounds": 2},
        )
        for loss in (LOSSES["MOON"], None)
    )
    runner, _ = (toyseg.train(run) for run in (config, plain))
    for line, other in zip(toyseg.history(config), toyseg.history(plain), strict=True):
        assert (line["bytes_down"], line["bytes_up"]) == (other["bytes_down"], other["bytes_up"])
    one, two = (toyseg.checkpoint(run, 1)["state_dict"] for run in (config, plain))
    assert toyseg.differences(one, two) == []
    assert toyseg.differences(
        toyseg.checkpoint(config)["state_dict"], toyseg.checkpoint(plain)["state_dict"]
    )
    first, last = (toyseg.client_states(config, r)["clients"] for r in (1, 2))
    assert set(first) == {"a", "b"} and set(last) == {"a", "b", "c"}
    assert torch.equal(first["a"][PREVIOUS], last["a"][PREVIOUS])
    assert not torch.equal(first["b"][PREVIOUS], last["b"][PREVIOUS])
    sizes = toycls.CLIENTS
    kept = runner.flat.state_dict(
        w=(sizes["a"] * first["a"][PREVIOUS] + sizes["b"] * first["b"][PREVIOUS])
        / (sizes["a"] + sizes["b"])
    )
    for name, _ in runner.model.named_parameters():
        torch.testing.assert_close(kept[name], one[name], rtol=1e-5, atol=1e-6)


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize("model", ["ToySegNet", "Segmentor"])
@pytest.mark.parametrize("name", ["MOON", "FedAlign", "GradAug"])
def test_segmentors_are_refused(tmp_path, name, model):
    options = {"model": SEGMENTOR, "personal": None} if model == "Segmentor" else {}
    config = toyseg.settings(tmp_path, local_loss=LOSSES[name], **options)
    with pytest.raises(ConfigError, match=f"local_loss: {name} .*{model}.* use a"):
        toyseg.train(config)
