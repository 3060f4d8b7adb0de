"""Local optimizers over the flat vector: clipping, options by parameter, what is refused."""

from unittest import mock

import minibatch
import pytest
import torch
import toyalgorithms
import toyseg
from torch import Tensor, nn

from fedseg.core.client import Client
from fedseg.core.flat import FlatModel
from fedseg.core.local_loss import LocalLoss
from fedseg.errors import ConfigError
from fedseg.optim import build_local_optimizer

SGD = {"type": "SGD", "lr": 0.1}
PERTURBING = ("SAMOptimWrapper", "ASAMOptimWrapper")


def start_client(optim_wrapper: dict) -> Client:
    """A client before its first step: a small network in float64, one minibatch."""
    model = minibatch.scrambled(minibatch.ToyProjected())
    return minibatch.local_client(model, LocalLoss(), optim_wrapper=optim_wrapper)


def gradient_at(client: Client, w: Tensor) -> Tensor:
    """The minibatch gradient at other weights; those of the client stay."""
    kept = client.w.clone()
    client.w.copy_(w)
    gradient = minibatch.gradient(client)
    client.w.copy_(kept)
    return gradient


@pytest.mark.parametrize("kind", PERTURBING)
def test_a_zero_gradient_perturbs_nothing(kind):
    client = start_client({"type": kind, "rho": 0.3, "optimizer": SGD})
    w = client.w.clone()
    client.local.perturb(client.w, torch.zeros_like(w))
    assert torch.equal(client.w, w)


@pytest.mark.parametrize("kind", PERTURBING)
def test_approximate_sam_perturbs_along_the_gradient_of_the_step_before(kind):
    """In one pass; a client's first step has none before it."""
    client = start_client({"type": kind, "rho": 0.3, "optimizer": SGD, "approximate": True})
    scaled = torch.zeros(len(client.w), dtype=torch.bool)
    for slot in client.flat.slots:
        scaled[slot.span] = kind.startswith("ASAM") and not slot.name.endswith("bias")
    for _ in range(2):  # clients
        previous = None
        for step in range(3):
            client.step = step
            w = client.w.clone()
            eps = torch.zeros_like(w)
            if previous is not None:
                t = torch.where(scaled, w.abs() + 0.2, 1.0)
                eps = 0.3 * t * t * previous / (t * previous).norm()
            expected = gradient_at(client, w + eps)
            with mock.patch.object(client, "backward", wraps=client.backward) as backward:
                client.local.gradient(client)
            torch.testing.assert_close(client.grad, expected)
            assert torch.equal(client.w, w)
            assert backward.call_count == client.local.passes == 1
            previous = expected
            client.local.step()


@pytest.mark.parametrize("clip", [{"max_norm": 0.05}, {"clip_value": 0.02, "type": "value"}])
def test_clipping_acts_on_the_corrected_gradient(clip):
    client = start_client({"type": "OptimWrapper", "optimizer": SGD, "clip_grad": clip})
    w = client.w.clone()
    client.local.gradient(client)
    client.grad.mul_(3)  # an algorithm's correction
    g = client.grad.clone()
    client.local.step()
    clipped = g * 0.05 / g.norm() if "max_norm" in clip else g.clamp(-0.02, 0.02)
    assert not torch.equal(clipped, g)
    torch.testing.assert_close(client.w, w - 0.1 * clipped, rtol=1e-5, atol=1e-8)


def test_paramwise_options_reach_their_parameters():
    optimizer = {"type": "SGD", "lr": 0.1, "weight_decay": 1.0}
    factors = {"bias_decay_mult": 0.0, "norm_decay_mult": 0.0}
    client = start_client({"optimizer": optimizer, "paramwise_cfg": factors})
    w = client.w.clone()
    client.local.gradient(client)
    g = client.grad.clone()
    client.local.step()
    client.flat.check_views()
    for slot in client.flat.slots:
        before = w[slot.span]
        is_decayed = slot.name.endswith("weight") and not slot.name.startswith("norm")
        decay = before if is_decayed else 0.0
        expected = before - 0.1 * (g[slot.span] + decay)
        torch.testing.assert_close(client.w[slot.span], expected, msg=slot.name)


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
    groups = build_local_optimizer(config, FlatModel(model), max_rounds=1).optimizer.param_groups
    options = [(group["lr"], group["weight_decay"]) for group in groups]
    names = [name for name, _ in model.named_parameters()]
    assert dict(zip(names, options, strict=True)) == {
        "stem.weight": (0.1, 0.5),
        "stem.bias": (0.1, 0.0),
        "norm.weight": (0.1, 0.0),
        "norm.bias": (0.1, 0.0),
        "head.0.weight": (1.0, 0.5),
        "head.0.bias": (1.0, 0.0),
        "head.1.weight": (1.0, 0.0),
        "head.1.bias": (1.0, 0.0),
    }


@pytest.mark.parametrize(
    "optimizer",
    [
        {"type": "SGD", "momentum": 0.9},
        {"type": "SGD", "momentum": 0.9, "dampening": 0.5},
        {"type": "Adam"},
        {"type": "AdamW", "weight_decay": 0.1},
    ],
)
def test_every_client_has_a_fresh_optimizer(optimizer):
    client = start_client({"optimizer": {**optimizer, "lr": 0.1}})
    start = client.w.clone()
    ends = []
    for _ in range(2):  # clients
        client.w.copy_(start)
        client.local.reset_state()
        for _ in range(3):
            client.local.gradient(client)
            client.local.step()
        ends.append(client.w.clone())
    options = {key: value for key, value in optimizer.items() if key != "type"}
    w = start.clone()
    torch_optimizer = getattr(torch.optim, optimizer["type"])([w], lr=0.1, **options)
    for _ in range(3):
        w.grad = gradient_at(client, w)
        torch_optimizer.step()
    torch.testing.assert_close(ends[0], w)
    assert torch.equal(*ends)


def custom_keys(name, **multipliers):
    return {"optimizer": SGD, "paramwise_cfg": {"custom_keys": {name: multipliers}}}


def paramwise(**options):
    return {"optimizer": SGD, "paramwise_cfg": options}


def clipped(**options):
    return {"optimizer": SGD, "clip_grad": options}


SAM = {"type": "SAMOptimWrapper", "rho": 1, "optimizer": SGD}
WEIGHTS_ONLY = {"optimizer": SGD, "constructor": "WeightsOnlyDecay"}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"optimizer": "SGD"}, r"optimizer: must be a dict such as"),
        ({**SAM, "rho_rounds": 3}, "rho_rounds goes with rho0"),
        ({**SAM, "rho0": 0.1}, "rho_rounds goes with rho0"),
        ({**SAM, "approximate": True, "freeze_statistics": True}, "freeze_statistics is for"),
        ({"type": "AmpOptimWrapper", "optimizer": SGD}, r"optim_wrapper\.type: AmpOptimWrapper is"),
        ({"optimizer": {**SGD, "maximize": True}}, r"optimizer\.maximize: must be False"),
        (
            {"optimizer": {"type": "RMSprop", "lr": 0.1}},
            r"optimizer\.type: must be SGD, Adam or AdamW, not 'RMSprop'",
        ),
        ({"optimizer": {"lr": 0.1}}, r"optimizer\.type: must be SGD, Adam or AdamW, not None"),
        ({"optimizer": {**SGD, "nesterov": True}}, "Nesterov momentum requires"),
        ({**paramwise(), "optimizer": {**SGD, "nesterov": True}}, "Nesterov momentum requires"),
        (
            {"optimizer": SGD, "paramwise_cfg": [1]},
            r"paramwise_cfg: must be a valid dictionary",
        ),
        (paramwise(norm_decay_mul=0), r"norm_decay_mul: unknown .did you mean 'norm_decay_mult'"),
        (paramwise(dwconv_decay_mult=0), r"dwconv_decay_mult: unknown"),
        (paramwise(norm_decay_mult=0.0), r"optimizer\.weight_decay: is missing"),
        (
            paramwise(custom_keys={"weight": 0.1}),
            r"custom_keys\.weight: must be a valid dict",
        ),
        (custom_keys("backbone", lr_mult=0.1), "'backbone' is in no"),
        (custom_keys("weight", lr_mult=-1), r"custom_keys\.weight\.lr_mult: must be"),
        (custom_keys("weight", decay_mult=0.0), r"optimizer\.weight_decay: is missing"),
        (custom_keys("weight", lr_mul=0.1), r"\.weight\.lr_mul: unknown .did you mean 'lr_mult'"),
        (custom_keys("weight", momentum=0.1), r"weight\.momentum: unknown; known: lr_mult, decay"),
        ({**paramwise(), "constructor": "Nope"}, r"constructor: must be 'WeightsOnlyDecay'"),
        (WEIGHTS_ONLY, r"paramwise_cfg: is missing"),
        (clipped(), "'max_norm' is missing"),
        (clipped(maxnorm=1), "did you mean 'max_norm'"),
        (clipped(max_norm=1, normtype=1), "normtype: unknown"),
        (clipped(max_norm=-1), r"clip_grad\.max_norm: must be"),
        (clipped(type="value", clip_value="1e"), "clip_value: must"),
    ],
)
def test_wrong_configs(config, message):
    with pytest.raises(ConfigError, match=message):
        toyalgorithms.wrapper(config)


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
