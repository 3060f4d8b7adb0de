"""Local optimizers over the flat vector: clipping, options by parameter, what is refused."""

from types import SimpleNamespace

import pytest
import torch
import toyseg
from torch import nn

from fedseg.core.flat import FlatModel
from fedseg.errors import ConfigError
from fedseg.optim import build_local_optimizer

ROUNDS = 10
SGD = {"type": "SGD", "lr": 0.1}


class Quadratic(nn.Module):
    """Loss ``sum a w^2 / 2`` over a matrix, a norm scale and biases: the gradient is ``a w``."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 4)
        self.norm = nn.LayerNorm(4)
        with torch.no_grad():
            for i, p in enumerate(self.parameters()):
                p.copy_(torch.linspace(-1, 1.5, p.numel()).view(p.shape) + 0.1 * i)


def make(config):
    flat = FlatModel(Quadratic().double())
    curvature = torch.linspace(0.5, 3, flat.w.numel(), dtype=torch.float64)
    local = build_local_optimizer(config, flat, ROUNDS)
    calls = []

    def backward(replay=False):
        calls.append(replay)
        flat.grad.copy_(curvature * flat.w)

    client = SimpleNamespace(w=flat.w, grad=flat.grad, model=flat.model, backward=backward)
    return flat, local, client, curvature, calls


@pytest.mark.parametrize("kind", ["SAMOptimWrapper", "ASAMOptimWrapper"])
def test_a_zero_gradient_perturbs_nothing(kind):
    flat, local, client, a, _ = make({"type": kind, "rho": 0.3, "optimizer": SGD})
    a.zero_()
    w = flat.w.clone()
    local.gradient(client)
    local.step()
    assert torch.equal(flat.w, w) and torch.isfinite(flat.grad).all()


@pytest.mark.parametrize("kind", ["SAMOptimWrapper", "ASAMOptimWrapper"])
def test_approximate_sam_perturbs_along_the_gradient_of_the_step_before(kind):
    """In one pass; a client's first step has none before it."""
    flat, local, client, a, calls = make(
        {"type": kind, "rho": 0.3, "optimizer": SGD, "approximate": True}
    )
    scaled = torch.zeros(len(flat.w), dtype=torch.bool)
    for slot in flat.slots:
        scaled[slot.span] = kind.startswith("ASAM") and not slot.name.endswith("bias")
    for _ in range(2):  # clients
        last = None
        for client.step in range(3):
            w = flat.w.clone()
            t = torch.where(scaled, w.abs() + 0.2, 1.0)
            eps = 0 if last is None else 0.3 * t * t * last / (t * last).norm()
            local.gradient(client)
            last = a * (w + eps)
            torch.testing.assert_close(flat.grad, last)
            assert torch.equal(flat.w, w)
            local.step()
    assert calls == [False] * 6 and local.passes == 1


@pytest.mark.parametrize("clip", [{"max_norm": 0.5}, {"clip_value": 0.2, "type": "value"}])
def test_clipping_acts_on_the_corrected_gradient(clip):
    flat, local, client, a, _ = make({"type": "OptimWrapper", "optimizer": SGD, "clip_grad": clip})
    w = flat.w.clone()
    local.gradient(client)
    client.grad.mul_(3)  # an algorithm's correction
    g = 3 * a * w
    local.step()
    g = g * 0.5 / g.norm() if "max_norm" in clip else g.clamp(-0.2, 0.2)
    torch.testing.assert_close(flat.w, w - 0.1 * g, rtol=1e-5, atol=1e-8)


def test_paramwise_options_reach_their_parameters():
    config = {
        "type": "OptimWrapper",
        "optimizer": {"type": "SGD", "lr": 0.1, "weight_decay": 1.0},
        "paramwise_cfg": {"bias_decay_mult": 0.0, "norm_decay_mult": 0.0},
    }
    flat, local, client, a, _ = make(config)
    state = {n: t.clone() for n, t in flat.model.state_dict().items()}
    local.gradient(client)
    local.step()
    flat.check_views()
    after, slots = flat.model.state_dict(), {s.name: s for s in flat.slots}
    for name, before in state.items():
        decay = 1.0 if name == "fc.weight" else 0.0
        curvature = slots[name].view(a)
        expected = before - 0.1 * (curvature * before + decay * before)
        torch.testing.assert_close(after[name], expected, msg=name)


def test_weights_only_decay_leaves_biases_and_norms_alone_at_any_rate():
    heads = {"custom_keys": {"head": {"lr_mult": 10.0}}}
    config = {
        "optimizer": {"type": "SGD", "lr": 0.1, "weight_decay": 0.5},
        "constructor": "WeightsOnlyDecay",
        "paramwise_cfg": heads,
    }
    model = nn.Sequential()
    model.add_module("stem", nn.Conv2d(3, 4, 1))
    model.add_module("norm", nn.BatchNorm2d(4))
    model.add_module("head", nn.Sequential(nn.Conv2d(4, 4, 1), nn.GroupNorm(2, 4)))
    groups = build_local_optimizer(config, FlatModel(model), ROUNDS).optimizer.param_groups
    found = [(group["lr"], group["weight_decay"]) for group in groups]
    names = [name for name, _ in model.named_parameters()]
    assert dict(zip(names, found, strict=True)) == {
        "stem.weight": (0.1, 0.5),
        "stem.bias": (0.1, 0.0),
        "norm.weight": (0.1, 0.0),
        "norm.bias": (0.1, 0.0),
        "head.0.weight": (1.0, 0.5),
        "head.0.bias": (1.0, 0.0),
        "head.1.weight": (1.0, 0.0),
        "head.1.bias": (1.0, 0.0),
    }


class Growing(torch.optim.SGD):
    """Raises its own learning rate, as optimizers without one to choose do."""

    def step(self, closure=None):
        super().step(closure)
        self.param_groups[0]["d"] = self.param_groups[0].get("d", 1.0) * 1.01


def test_an_optimizer_that_would_remember_the_last_client_is_refused():
    with pytest.raises(ConfigError, match=r"optim_wrapper\.optimizer\.type: Growing changes .* d "):
        make({"optimizer": {"type": Growing, "lr": 0.1}})


class Nested(torch.optim.SGD):
    """Leaves the step to an optimizer of its own, as Lookahead does."""

    def __init__(self, params, lr):
        super().__init__(params, lr)
        self.inner = torch.optim.SGD(params, lr=lr, momentum=0.9, weight_decay=0.1)

    def step(self, closure=None):
        self.inner.step(closure)


def test_trying_an_optimizer_out_leaves_it_and_the_model_as_they_are():
    start = FlatModel(Quadratic().double()).w.clone()
    flat, local, *_ = make({"optimizer": {"type": Nested, "lr": 0.1}})
    assert torch.equal(flat.w, start)
    assert not local.optimizer.inner.state
    local.optimizer.step()
    assert not torch.equal(flat.w, start)


def test_adafactor_may_leave_its_first_eps_open():
    make({"optimizer": {"type": "TorchAdafactor", "lr": 0.1}})


def custom_keys(name, factor):
    return {"custom_keys": {name: {"lr_mult": factor}}}


SAM = {"type": "SAMOptimWrapper", "rho": 1, "optimizer": SGD}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"optimizer": "SGD"}, r"optimizer: must be a dict such as"),
        ({**SAM, "rho_rounds": 3}, "rho_rounds goes with rho0"),
        ({**SAM, "rho0": 0.1}, "rho_rounds goes with rho0"),
        ({**SAM, "approximate": True, "freeze_statistics": True}, "freeze_statistics is for"),
        ({"type": "AmpOptimWrapper", "optimizer": SGD}, r"optim_wrapper\.type: AmpOptimWrapper is"),
        ({"optimizer": {"type": "SGD", "lr": 0.1, "maximize": True}}, "maximize"),
        ({"optimizer": {"type": "LBFGS", "lr": 1.0}}, "LBFGS takes several losses"),
        ({"optimizer": {"type": "SparseAdam"}}, r"optimizer\.type: SparseAdam takes sparse"),
        ({"optimizer": {"type": "Adamm"}}, r"unknown optimizer 'Adamm' .did you mean 'Adam"),
        ({"optimizer": SGD, "paramwise_cfg": [1]}, r"paramwise_cfg: must be a dict"),
        ({"optimizer": SGD, "paramwise_cfg": {"norm_decay_mul": 0}}, r"norm_decay_mul: unknown"),
        ({"optimizer": SGD, "paramwise_cfg": {"norm_decay_mult": 0.0}}, "constructor.*base_wd"),
        ({"optimizer": SGD, "paramwise_cfg": custom_keys("backbone", 0.1)}, "'backbone' is in no"),
        ({"optimizer": SGD, "paramwise_cfg": custom_keys("fc", -1)}, r"paramwise_cfg\.lr: must be"),
        ({"optimizer": SGD, "paramwise_cfg": custom_keys("fc", "a")}, "paramwise_cfg"),
        (
            {"optimizer": SGD, "paramwise_cfg": {"custom_keys": {"fc": {"lr_mul": 0.1}}}},
            r"custom_keys\.fc\.lr_mul: unknown .did you mean 'lr_mult'",
        ),
        ({"optimizer": SGD, "constructor": "Nope"}, "constructor.*'Nope'"),
        ({"clip_grad": {}, "optimizer": SGD}, "'max_norm' is missing"),
        ({"clip_grad": {"maxnorm": 1}, "optimizer": SGD}, "did you mean 'max_norm'"),
        ({"clip_grad": {"max_norm": 1, "normtype": 1}, "optimizer": SGD}, "normtype: unknown"),
        ({"clip_grad": {"max_norm": -1}, "optimizer": SGD}, r"clip_grad\.max_norm: must be"),
        (
            {"clip_grad": {"type": "value", "clip_value": "1e"}, "optimizer": SGD},
            "clip_value: must",
        ),
    ],
)
def test_wrong_configs(config, message):
    with pytest.raises(ConfigError, match=message):
        build_local_optimizer(config, FlatModel(Quadratic()), ROUNDS)


# ---------------------------------------------------------------- in a run


def one_round(tmp_path, wrapper, **changes):
    config = toyseg.run(
        tmp_path,
        **{
            **toyseg.PLAIN,
            "optim_wrapper": {"_delete_": True, "optimizer": SGD, **wrapper},
            "train_cfg": {"max_rounds": 1, "local_epochs": 1},
            **changes,
        },
    )
    return toyseg.checkpoint(config)["state_dict"]


def test_both_passes_see_the_same_dropout(tmp_path):
    """With rho = 0 the second pass repeats the first exactly: SAM is SGD, dropout and all."""
    model = {"model": {"dropout": 0.5, "norm": False}}
    sam = one_round(tmp_path / "a", {"type": "SAMOptimWrapper", "rho": 0.0}, **model)
    sgd = one_round(tmp_path / "b", {"type": "OptimWrapper"}, **model)
    other = one_round(tmp_path / "c", {"type": "SAMOptimWrapper", "rho": 0.5}, **model)
    for name, tensor in sgd.items():
        torch.testing.assert_close(sam[name], tensor, rtol=1e-6, atol=1e-7)
    assert not torch.allclose(other["conv1.weight"], sgd["conv1.weight"])


@pytest.mark.parametrize("kind", ["Adagrad", "Adam", "SGD"])
def test_every_client_has_a_fresh_optimizer(kind):
    config = {"optimizer": {"type": kind, "lr": 0.1}}
    flat, local, client, _, _ = make(config)
    start, ends = flat.w.clone(), []
    for _ in range(2):
        flat.w.copy_(start)
        local.reset_state()
        for _ in range(3):
            local.gradient(client)
            local.step()
        ends.append(flat.w.clone())
    w = start.clone().requires_grad_()
    optimizer, curvature = getattr(torch.optim, kind)([w], lr=0.1), make(config)[3]
    for _ in range(3):
        w.grad = curvature * w.detach()
        optimizer.step()
    torch.testing.assert_close(ends[0], w.detach())
    assert torch.equal(*ends)
