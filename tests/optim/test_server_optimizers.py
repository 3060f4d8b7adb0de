"""Server optimizers: PyTorch's, precision, what the state holds; the oracles have the rest."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fedseg.errors import ConfigError
from fedseg.optim.server import build_server_optimizer

RNG = np.random.default_rng(0)
START = RNG.normal(size=20)
DELTAS = RNG.normal(size=(6, 20)) * np.array([1, 1e-3, 10, 1, 0, 1])[:, None]


def new_server(dtype: torch.dtype = torch.float64) -> SimpleNamespace:
    return SimpleNamespace(w=torch.from_numpy(START.copy()).to(dtype), state={})


def run(config: dict | None, dtype: torch.dtype = torch.float64) -> SimpleNamespace:
    """The server after a step along each of ``DELTAS``."""
    server = new_server(dtype)
    optimizer = build_server_optimizer(config)
    address = server.w.data_ptr()
    for delta in DELTAS:
        optimizer.step(server, torch.from_numpy(delta.copy()))
    assert server.w.data_ptr() == address and server.w.dtype == dtype, "in place"
    return server


def test_adagrad_with_a_first_moment():
    w, m, v = START.copy(), np.zeros(20), np.full(20, 0.01**2)
    for delta in DELTAS:
        m, v = 0.3 * m + 0.7 * delta, v + delta**2
        w = w - 0.03 * m / (np.sqrt(v) + 0.01)
    server = run({"type": "Adagrad", "lr": 0.03, "beta1": 0.3, "tau": 0.01})
    np.testing.assert_allclose(server.w, w, rtol=1e-12)


TORCH = [
    {"type": "Adam", "lr": 1.0, "betas": (0.9, 0.99), "eps": 0.1},
    {"type": "Adagrad", "lr": 1.0, "eps": 0.01},
    {"type": "SGD", "lr": 1.0, "momentum": 0.9},
]


@pytest.mark.parametrize("options", TORCH, ids=lambda options: options["type"])
def test_torch_is_that_of_torch(options):
    """One optimizer that lives on, against one that is built for every step from the state."""
    w = torch.from_numpy(START.copy()).requires_grad_()
    kind = getattr(torch.optim, options["type"])
    optimizer = kind([w], **{k: v for k, v in options.items() if k != "type"})
    for delta in DELTAS:
        w.grad = torch.from_numpy(delta.copy())
        optimizer.step()
    server = run({"type": "Torch", "optimizer": options})
    np.testing.assert_allclose(server.w, w.detach(), rtol=1e-12)
    run({"type": "Torch", "optimizer": options}, torch.float32)  # the model keeps its precision


def test_torch_leaves_the_pseudo_gradient_as_it_is():
    """By lists of tensors, torch's default on a GPU; the history has Delta's norm afterwards."""
    nesterov = {"type": "SGD", "lr": 1.0, "momentum": 0.9, "nesterov": True, "foreach": True}
    server = new_server()
    optimizer = build_server_optimizer({"type": "Torch", "optimizer": nesterov})
    w, m = START.copy(), np.zeros(20)
    for delta in DELTAS:
        given = torch.from_numpy(delta.copy())
        optimizer.step(server, given)
        assert (given.numpy() == delta).all()
        m = 0.9 * m + delta
        w = w - (delta + 0.9 * m)
        np.testing.assert_allclose(server.w, w, rtol=1e-12)


def test_none_is_plain_averaging():
    np.testing.assert_allclose(run(None).w, START - DELTAS.sum(0), rtol=1e-12)


def test_float32_models_are_rounded_once_a_step():
    server = run({"type": "SGD", "lr": 1.0}, torch.float32)
    w = START.astype(np.float32)
    for delta in DELTAS:
        w = (w.astype(np.float64) - delta).astype(np.float32)
    assert (server.w.numpy() == w).all()


@pytest.mark.parametrize("kind", ["Adam", "Yogi", "Adagrad", "SGD", "Torch"])
def test_the_state_is_all_there_is(kind):
    """A resumed run gives a new optimizer the old state: it must go on as if nothing happened."""
    config = {"type": kind, "lr": 0.1} | ({"momentum": 0.9} if kind == "SGD" else {})
    if kind == "Torch":
        config = {"type": kind, "optimizer": TORCH[0]}
    whole = run(config)
    server = new_server()
    for delta in DELTAS:
        server.state = {name: tensor.clone() for name, tensor in server.state.items()}
        build_server_optimizer(config).step(server, torch.from_numpy(delta.copy()))
    assert torch.equal(server.w, whole.w)


@pytest.mark.parametrize("kind", ["Adam", "Yogi", "Adagrad"])
def test_a_zero_pseudo_gradient_moves_nothing(kind):
    """Alignment gaps of the flat vector never have a gradient."""
    server = SimpleNamespace(w=torch.ones(3), state={})
    build_server_optimizer({"type": kind}).step(server, torch.zeros(3).double())
    assert server.w.tolist() == [1, 1, 1]


def torch_optimizer(**options):
    return {"type": "Torch", "optimizer": options}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"lr": 1.0}, r"algorithm\.server_optim\.type: is missing"),
        ("SGD", r"algorithm\.server_optim: must be"),
        (
            torch_optimizer(type="AdamW"),
            r"server_optim\.optimizer\.type: must be SGD, Adam or Adagrad, not 'AdamW'",
        ),
        (torch_optimizer(type="Adam", epz=1), r"optimizer\.epz.*'eps'"),
        (torch_optimizer(type="SGD", lr=1.0, nesterov=True), "Nesterov momentum requires"),
        (torch_optimizer(type="SGD", lr=0.0), r"optimizer\.lr: must be greater than 0"),
        (torch_optimizer(type="SGD", lr=1.0, maximize=True), r"optimizer\.maximize: "),
    ],
)
def test_wrong_configs(config, message):
    with pytest.raises(ConfigError, match=message):
        build_server_optimizer(config)
