"""Local steps replayed from graphs: the same bits as the eager ones, or the eager ones.

No GPU is needed: :class:`Recorder` stands for one. It records the calls of a step below autograd
and replays them on the same tensors, without running any Python of the step again; so a number that
Python held, or a tensor that is no longer the client's, shows in the result as it would on a GPU.
"""

import contextlib
import random
import re

import numpy as np
import pytest
import torch
import toycls
import toyseg
from torch.utils._python_dispatch import TorchDispatchMode

from fedseg.algorithms import FedAvg
from fedseg.errors import ConfigError
from fedseg.hooks import FederatedHook
from fedseg.registry import ALGORITHMS, HOOKS, MODELS
from fedseg.runner import cuda_graph as graph_module
from fedseg.runner.cuda_graph import GraphedStep

# ---------------------------------------------------------------- what stands for a GPU


class NoWaiting(TorchDispatchMode):
    """Refuses what makes the host wait for the device."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten._local_scalar_dense.default:
            raise RuntimeError("called a synchronizing operation\nand here is how")
        return func(*args, **kwargs or {})


class Calls(TorchDispatchMode):
    """Notes every call of an ATen operation, with its tensors."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **kwargs or {})
        if func.namespace == "aten":
            self.calls.append((func, args, kwargs or {}, result))
        return result


class Recorder:
    """Records and replays on the CPU. broken: what the n-th recording does instead (an error)."""

    def __init__(self, broken=None):
        self.captures = self.replays = 0
        self.broken = broken

    def warm_up(self, function):
        with NoWaiting():
            function()

    def capture(self, function):
        self.captures += 1
        with Calls() as recorded:
            function()
        if self.broken == "raises":
            try:
                raise RuntimeError("operation not permitted when stream is capturing")
            except RuntimeError:
                raise RuntimeError("capture was invalidated")  # noqa: B904 - as CUDA does
        calls = recorded.calls[:-3] if self.broken == "loses work" else recorded.calls

        @torch.no_grad()
        def replay():
            self.replays += 1
            for func, args, kwargs, before in calls:
                overwrite(before, func(*args, **kwargs))

        return replay


def overwrite(before, now):
    """Results lie where they lay when they were recorded."""
    if isinstance(before, tuple | list):
        for pair in zip(before, now, strict=True):
            overwrite(*pair)
    elif isinstance(before, torch.Tensor) and before.data_ptr() != now.data_ptr():
        before.detach().copy_(now)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return toycls.write_data(tmp_path_factory.mktemp("images"))


def trained(config, monkeypatch, recorder=None):
    """The runner after training, eagerly or by a recorder; and what the user was warned of."""
    made = toyseg.runner(config)
    warnings = []
    monkeypatch.setattr(graph_module, "capture_backend", lambda device: recorder)
    monkeypatch.setattr(made.logger, "warning", warnings.append)
    made.train()
    return made, [w for w in warnings if "cuda_graph" in w]


def both(tmp_path, monkeypatch, settings, recorder=None):
    """Train eagerly and with graphs: the second runner, the recorder, its warnings; same bits."""
    settings = toyseg.merge(settings, {"train_cfg": {"cuda_graph": "auto"}})
    eager = {**settings, "work_dir": str(tmp_path / "eager")}
    graphs = {**settings, "work_dir": str(tmp_path / "graphs")}
    trained(eager, monkeypatch)
    recorder = recorder or Recorder()
    runner, warnings = trained(graphs, monkeypatch, recorder)
    assert toyseg.run_differences(eager, graphs) == []
    return runner, recorder, warnings


def step_of(runner):
    return runner.trainer.step


def all_steps(runner):
    rounds = range(1, runner.max_rounds + 1)
    chosen = [c for r in rounds for c in runner.client_sampler.participants(r)]
    trains = sum(runner.algorithm.trains(e) for e in range(runner.algorithm.exchanges))
    return trains * sum(runner.data.num_steps(c) for c in chosen)


SHORT = {
    "train_cfg": {"max_rounds": 3, "local_epochs": 1},
    "val_dataloader": None,
    "val_evaluator": None,
    "default_hooks": {"checkpoint": {"interval": 3}},
}
SGD = {"type": "SGD", "lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4}
PLAIN = {"type": "SGD", "lr": 0.1}


def wrapper(kind="OptimWrapper", **options):
    return {"optim_wrapper": {"_delete_": True, "type": kind, "optimizer": SGD, **options}}


# ---------------------------------------------------------------- the same bits

RUNS = {
    "FedASAM, SWA, mixup, cutout": {},
    "SGD": wrapper(),
    "SGD without momentum": wrapper(optimizer=PLAIN),
    "Nesterov": wrapper(optimizer={**SGD, "nesterov": True}),
    "clipped": wrapper(clip_grad={"max_norm": 0.2}),
    "SAM with a growing radius": wrapper("SAMOptimWrapper", rho=0.2, rho0=0.01, rho_rounds=2),
    "a rate that falls every round": {
        "param_scheduler": [{"type": "ExponentialLR", "gamma": 0.7}],
        **wrapper(),
    },
    "SWA with a cyclic rate": {"averaging": {"start": 1, "cycle": 2, "lr2": 0.01}, **wrapper()},
    "FedDyn": {"algorithm": {"type": "FedDyn", "beta": 10.0}},
    "NaiveFedGloSS": {
        "algorithm": {"type": "NaiveFedGloSS", "rho_server": 0.1, "beta": 10.0},
        **wrapper("SAMOptimWrapper", rho=0.1),
    },
    "SCAFFOLD": {"algorithm": {"type": "SCAFFOLD"}, **wrapper(optimizer=PLAIN)},
    "FedSMOO": {"algorithm": {"type": "FedSMOO", "rho": 0.1, "beta": 10.0}, **wrapper()},
    "FedSpeed": {
        "algorithm": {"type": "FedSpeed", "rho": 0.1, "alpha": 0.9, "lam": 10.0},
        **wrapper(),
    },
    "MIME": {"algorithm": {"type": "MIME", "momentum": 0.5}, **wrapper(optimizer=PLAIN)},
    "MOON": {"local_loss": {"type": "MOON"}, **wrapper()},
    "parameters of their own": wrapper(
        optimizer={**SGD, "fused": True}, paramwise_cfg={"bias_decay_mult": 0.0}
    ),
    "bfloat16": {"train_cfg": {"amp": True}},
}


@pytest.mark.parametrize("name", RUNS)
def test_images_of_any_batch_size(tmp_path, monkeypatch, images, name):
    settings = toycls.settings(tmp_path, images, **toyseg.merge(SHORT, RUNS[name]))
    runner, recorder, warnings = both(tmp_path, monkeypatch, settings)
    assert warnings == [] and step_of(runner).given_up is None
    assert recorder.replays == all_steps(runner)
    assert 3 <= recorder.captures < recorder.replays, "one for each size of batch"


@pytest.mark.parametrize("freeze", [False, True])
def test_batchnorm_with_statistics_of_each_client(tmp_path, monkeypatch, freeze):
    changes = wrapper("SAMOptimWrapper", rho=0.1, freeze_statistics=freeze)
    settings = toyseg.settings(tmp_path, train_cfg={"max_rounds": 4}, **changes)
    runner, recorder, warnings = both(tmp_path, monkeypatch, settings)
    assert warnings == [] and recorder.replays == all_steps(runner)


# ---------------------------------------------------------------- what a graph depends on


@ALGORITHMS.register_module()
class Proximal(FedAvg):
    """A proximal term whose weight may change, and a running sum in the client's state."""

    client_vectors = ("seen", "assigned")

    def __init__(self, mu):
        super().__init__()
        self.mu = mu

    @torch.no_grad()
    def correct(self, client):
        client.grad.add_(client.w - client.start, alpha=self.mu)
        client.state["seen"].add_(client.grad)
        client.state["assigned"] = client.state["assigned"] + client.grad


@HOOKS.register_module()
class Changes(FederatedHook):
    """Changes what a step uses: between rounds, or every few steps."""

    def __init__(self, what):
        self.what = what

    def before_round(self, runner):
        if self.what == "mu":
            runner.algorithm.mu = 0.5 * (runner.round % 2)

    def before_client(self, runner, client):
        if self.what == "start":
            client.start = client.start + 0.25

    def after_local_steps(self, runner, client):
        if self.what == "rate":
            runner.optim_wrapper.optimizer.param_groups[0]["lr"] *= 0.9
        if self.what == "state":
            client.state["seen"] = client.state["seen"] * 0.5
        if self.what == "decay":
            runner.optim_wrapper.optimizer.param_groups[0]["weight_decay"] = 0.1


@pytest.mark.parametrize("what", [None, "mu", "start", "rate", "state", "decay"])
def test_vectors_of_the_client_and_numbers_that_change(tmp_path, monkeypatch, images, what):
    changes = {
        "algorithm": {"type": "Proximal", "mu": 0.1},
        "custom_hooks": [{"type": "Changes", "what": what}],
        "train_cfg": {"hook_interval": 2},
        **wrapper(),
    }
    settings = toycls.settings(tmp_path, images, **toyseg.merge(SHORT, changes))
    runner, recorder, warnings = both(tmp_path, monkeypatch, settings)
    assert warnings == [] and recorder.replays == all_steps(runner)
    states = toyseg.client_states({**settings, "work_dir": str(tmp_path / "graphs")})["clients"]
    assert len({float(s["seen"].norm()) for s in states.values()}) == len(states) > 2


def test_so_many_kinds_of_steps(tmp_path, monkeypatch, images):
    """Beyond the limit steps run eagerly, and the user is told once."""
    monkeypatch.setattr(graph_module, "MAX_GRAPHS", 2)
    settings = toycls.settings(tmp_path, images, **toyseg.merge(SHORT, wrapper()))
    runner, recorder, warnings = both(tmp_path, monkeypatch, settings)
    assert recorder.captures == 2 and 2 < recorder.replays < all_steps(runner)
    assert len(warnings) == 1 and "2 graphs are recorded" in warnings[0]
    assert step_of(runner).given_up is None


# ---------------------------------------------------------------- falling back


@ALGORITHMS.register_module()
class Obstacle(FedAvg):
    """An algorithm whose step cannot be recorded, for a reason."""

    client_vectors = ("own",)

    def __init__(self, kind):
        super().__init__()
        self.kind, self.calls = kind, 0

    @torch.no_grad()
    def correct(self, client):
        if self.kind == "waits" and client.grad.norm().item() > 0.1:
            client.grad.mul_(0.5)
        if self.kind == "reads the step":
            client.grad.mul_(1 + client.step)
        if self.kind == "reads the rate":
            client.grad.mul_(1 + client.lr)
        if self.kind == "counts":
            self.calls += 1
            client.grad.mul_(self.calls)
        if self.kind == "adds state":
            client.state["more"] = client.grad.clone()
        if self.kind == "draws in Python":
            client.grad.mul_(random.random())
        if self.kind == "draws in NumPy":
            client.grad.mul_(np.random.random())  # noqa: NPY002 - what outside code does
        if self.kind == "sets the rate":
            client.local.optimizer.param_groups[0]["lr"] = 0.05


OBSTACLES = {
    "waits": r"called a synchronizing operation$",
    "reads the step": r"reads client\.step",
    "reads the rate": r"reads client\.lr",
    "counts": "changes numbers that the algorithm",
    "adds state": "adds 'state more'",
    "draws in Python": "random numbers on the host",
    "draws in NumPy": "random numbers on the host",
    "sets the rate": "rate is changed within a step",
}


@pytest.mark.parametrize("kind", OBSTACLES)
def test_a_step_that_cannot_be_recorded(tmp_path, monkeypatch, images, kind):
    random.seed(5)
    changes = {"algorithm": {"type": "Obstacle", "kind": kind}, **wrapper()}
    settings = toycls.settings(tmp_path, images, **toyseg.merge(SHORT, changes))
    seeds = {}
    if kind.startswith("draws"):  # these runs are not reproducible but for the global state
        seeds = {"custom_hooks": [{"type": "SeedHook"}]}
    runner, recorder, warnings = both(tmp_path, monkeypatch, {**settings, **seeds})
    assert len(warnings) == 1 and re.search(OBSTACLES[kind], warnings[0])
    assert recorder.replays == 0 and step_of(runner).given_up


@HOOKS.register_module()
class SeedHook(FederatedHook):
    """Seeds the global generators for each client."""

    def before_client(self, runner, client):
        random.seed(client.index)
        np.random.seed(client.index)  # noqa: NPY002


CONFIGS = {
    "Adam": (wrapper(optimizer={"type": "Adam", "lr": 0.01}), "Adam is not torch's SGD"),
    "not fused": (wrapper(optimizer={**SGD, "fused": False}), "SGD is not torch's SGD with fused"),
    "dampening": (wrapper(optimizer={**SGD, "dampening": 0.1}), "with dampening"),
    "float64": ({"dtype": "float64", **wrapper()}, "the model is in float64"),
    "dropout on the host": (
        {"model": {"dropout": 0.5}, **wrapper("SAMOptimWrapper", rho=0.1)},
        "random numbers on the host",
    ),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_that_cannot_be_recorded(tmp_path, monkeypatch, images, name):
    changes, reason = CONFIGS[name]
    settings = toycls.settings(tmp_path, images, **toyseg.merge(SHORT, changes))
    _, recorder, warnings = both(tmp_path, monkeypatch, settings)
    assert len(warnings) == 1 and reason in warnings[0]
    assert recorder.replays == 0


@pytest.mark.parametrize(
    ("broken", "reason"),
    [("loses work", "a step ends"), ("raises", "not permitted when stream is capturing")],
)
def test_a_graph_that_is_not_its_eager_twin_is_not_used(
    tmp_path, monkeypatch, images, broken, reason
):
    settings = toycls.settings(tmp_path, images, **SHORT)
    _, recorder, warnings = both(tmp_path, monkeypatch, settings, Recorder(broken))
    assert recorder.captures == 1 and len(warnings) == 1 and reason in warnings[0]


@MODELS.register_module()
class Wordy(toycls.ToyClassifier):
    """Takes a batch with a word in it."""

    def forward(self, inputs, data_samples=None, mode="tensor", note=None):
        return super().forward(inputs, data_samples, mode)


def test_a_batch_of_more_than_tensors(tmp_path, monkeypatch, images):
    from fedseg.loaders.resident import ResidentData

    settings = toycls.settings(tmp_path, images, model={"type": "Wordy"}, **SHORT)
    batches = ResidentData.batches
    monkeypatch.setattr(
        ResidentData,
        "batches",
        lambda data, job: ({**batch, "note": "hello"} for batch in batches(data, job)),
    )
    _, _, warnings = both(tmp_path, monkeypatch, settings)
    assert len(warnings) == 1 and "batch.note is a str, not a tensor" in warnings[0]


# ---------------------------------------------------------------- the switch


@pytest.mark.parametrize("choice", [True, False, "auto"])
def test_the_switch(tmp_path, monkeypatch, images, choice):
    changes = toyseg.merge(SHORT, {"train_cfg": {"max_rounds": 1, "cuda_graph": choice}})
    settings = toycls.settings(tmp_path, images, **changes)
    recorder = Recorder()
    runner, warnings = trained(settings, monkeypatch, recorder)
    assert isinstance(step_of(runner), GraphedStep) == (choice is not False)
    assert warnings == [] and bool(recorder.replays) == (choice is not False)


@pytest.mark.parametrize("choice", [True, False, "auto"])
def test_without_a_gpu(tmp_path, monkeypatch, images, choice):
    changes = toyseg.merge(SHORT, {"train_cfg": {"max_rounds": 1, "cuda_graph": choice}})
    settings = toycls.settings(tmp_path, images, device="cpu", **changes)
    runner, warnings = trained(settings, monkeypatch)
    assert not isinstance(step_of(runner), GraphedStep)
    assert len(warnings) == (choice is True), "who asked for it is told"
    assert all("the cpu, not on a CUDA device" in w for w in warnings)


@pytest.mark.parametrize("choice", ["yes", None, 2])
def test_a_wrong_switch(tmp_path, images, choice):
    settings = toycls.settings(tmp_path, images, train_cfg={"cuda_graph": choice})
    with pytest.raises(ConfigError, match=r"train_cfg\.cuda_graph.*True, False or 'auto'"):
        toyseg.runner(settings).build_federation()


# ---------------------------------------------------------------- on a GPU

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

ON_CUDA = {
    **{name: RUNS[name] for name in RUNS if name != "bfloat16"},
    "dropout": {"model": {"dropout": 0.5}, **wrapper()},
    "dropout, SAM": {"model": {"dropout": 0.5}, **wrapper("SAMOptimWrapper", rho=0.1)},
}


@needs_cuda
@pytest.mark.parametrize("name", ON_CUDA)
def test_cuda_graphs_give_the_losses_of_the_eager_twin(tmp_path, monkeypatch, images, name):
    with contextlib.ExitStack() as stack:
        for flags in (torch.backends.cudnn.flags(deterministic=True, allow_tf32=False),):
            stack.enter_context(flags)
        losses = {}
        for choice in (False, True):
            changes = toyseg.merge(SHORT, {"train_cfg": {"cuda_graph": choice}, "device": "cuda"})
            changes = toyseg.merge(changes, ON_CUDA[name])
            settings = toycls.settings(tmp_path / str(choice), images, **changes)
            made = toyseg.train(settings)
            losses[choice] = [
                p["loss"] for line in toyseg.history(settings) for p in line["participants"]
            ]
            if choice:
                assert step_of(made).given_up is None and step_of(made).graphs
    np.testing.assert_allclose(losses[True], losses[False], rtol=0, atol=1e-5)


@needs_cuda
@pytest.mark.parametrize("kind", ["waits", "reads the step"])
def test_cuda_falls_back(tmp_path, images, kind):
    changes = {"algorithm": {"type": "Obstacle", "kind": kind}, "device": "cuda", **wrapper()}
    settings = toycls.settings(tmp_path, images, **toyseg.merge(SHORT, changes))
    made = toyseg.train(settings)
    assert step_of(made).given_up and not step_of(made).graphs


@needs_cuda
def test_a_capture_that_fails_leaves_the_generator_usable():
    backend = graph_module.CudaCapture(torch.device("cuda", torch.cuda.current_device()))
    x = torch.ones(4, device="cuda")
    with pytest.raises(RuntimeError):
        backend.capture(lambda: (torch.rand(4, device="cuda"), x.sum().item()))
    torch.rand(4, device="cuda")  # would raise in capture mode
    replay = backend.capture(lambda: x.mul_(2))
    replay()
    assert x.tolist() == [2, 2, 2, 2]
