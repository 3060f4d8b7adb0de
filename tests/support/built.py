"""What is built of a setting and its methods, as facts that papers state: rates, radii, batches.

Everything is built without data; networks on PyTorch's meta device, where weights take no memory.
Only the functions here know how the suite builds its parts.
"""

import functools
import json
import warnings
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from mmengine.config import Config
from mmengine.logging import MMLogger
from torch import nn

from fedseg.batchnorm import batchnorm_layers
from fedseg.config.check import complete_config
from fedseg.config.compose import compose, setting_file
from fedseg.core.flat import FlatModel
from fedseg.datasets.photos import PIPELINES
from fedseg.engine.loop import FederatedTrainLoop
from fedseg.hooks.averaging import SWA
from fedseg.optim import build_local_optimizer
from fedseg.registry import ALGORITHMS, HOOKS, LOCAL_LOSSES, TRANSFORMS, build
from fedseg.runner.build import build_model, build_schedulers

RESIDENT = "ResidentData"  # small images, which are augmented in batches


class Built:
    """A setting with methods; each part is built when a fact needs it."""

    def __init__(self, setting: str, methods: Sequence[str] = ()) -> None:
        self.config = complete_config(compose(setting_file(setting), list(methods)))
        self.max_rounds = self.config.train_cfg.max_rounds

    # ---------------------------------------------------------------- parts

    @property
    def model(self) -> nn.Module:
        return _model(json.dumps(self.config.model.to_dict(), sort_keys=True))

    @property
    def train(self) -> Config:
        return self.config.train_dataloader

    @functools.cached_property
    def flat(self) -> FlatModel:
        return FlatModel(self.model)

    @functools.cached_property
    def optim_wrapper(self) -> Any:
        logger = MMLogger.get_current_instance()
        level = logger.level
        logger.setLevel("ERROR")  # MMEngine logs a line for each parameter
        try:
            rounds = self.config.train_cfg.max_rounds
            return build_local_optimizer(self.config.optim_wrapper, self.flat, rounds)
        finally:
            logger.setLevel(level)

    @functools.cached_property
    def algorithm(self) -> Any:
        algorithm = build(ALGORITHMS, self.config.algorithm, "algorithm")
        algorithm.setup(self.flat, self.optim_wrapper, self.config.train_cfg.max_rounds)
        return algorithm

    @functools.cached_property
    def local_loss(self) -> Any:
        return build(LOCAL_LOSSES, self.config.local_loss, "local_loss")

    @functools.cached_property
    def averaging(self) -> Any:
        hook = self.config.get("averaging")
        return None if hook is None else build(HOOKS, hook, "averaging")

    @functools.cached_property
    def style(self) -> Any:
        return build(TRANSFORMS, self.train.dataset.style, "train_dataloader.dataset.style")

    # ---------------------------------------------------------------- by parameter

    def num_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.model.parameters())

    def group_of_each_parameter(self) -> dict[str, dict[str, Any]]:
        """Name of a parameter -> the optimizer's options for it."""
        groups = self.optim_wrapper.optimizer.param_groups
        if len(groups) == 1:
            return dict.fromkeys(dict(self.model.named_parameters()), groups[0])
        by_id = {id(parameter): group for group in groups for parameter in group["params"]}
        named = self.model.named_parameters()
        return {name: by_id[id(parameter)] for name, parameter in named}

    def option(self, key: str, has: Callable[[str], bool] = lambda name: True) -> Any:
        """An option of the optimizer, the same for all parameters whose name is asked for."""
        groups = self.group_of_each_parameter()
        values = {group[key] for name, group in groups.items() if has(name)}
        assert len(values) == 1, f"{key}: has several values: {sorted(values)}"
        return values.pop()

    def is_bias_or_norm(self, name: str) -> bool:
        owner, _, kind = name.rpartition(".")
        module = self.model.get_submodule(owner)
        weights = (nn.Conv2d, nn.Linear, nn.Embedding, nn.LSTM)
        return kind == "bias" or not isinstance(module, weights)

    # ---------------------------------------------------------------- by round

    def rates(self, rounds: Sequence[int]) -> list[float]:
        """The local learning rate of some rounds, in ascending order; of parameters outside heads.

        Schedules step after each round, and the average changes what they say.
        """
        optimizer = self.optim_wrapper.optimizer
        schedulers = build_schedulers(self.config, self.optim_wrapper)
        rates, now = [], 1
        for round_ in rounds:
            while schedulers and now < round_:
                with warnings.catch_warnings(action="ignore"):  # of steps without training
                    for scheduler in schedulers:
                        scheduler.step()
                now += 1
            groups = [group["lr"] for group in optimizer.param_groups]
            if self.averaging is not None:
                groups = self.averaging.local_lrs(optimizer, round_, self.max_rounds)
            rates.append(groups[0])
        return rates

    def local_radii(self, rounds: Sequence[int]) -> list[float]:
        """SAM's or ASAM's radius in some rounds."""
        radii = []
        for round_ in rounds:
            self.optim_wrapper.start_round(round_)
            radii.append(self.optim_wrapper.radius)
        return radii

    def averaged_rounds(self) -> list[int]:
        """The rounds whose global models SWA averages."""
        hook, rounds = self.averaging, []
        assert isinstance(hook, SWA)
        server = SimpleNamespace(w=torch.zeros(1), buffers=torch.zeros(1))
        optim_wrapper = SimpleNamespace(restore_rates=lambda: None)
        run = SimpleNamespace(
            max_rounds=self.max_rounds, server=server, optim_wrapper=optim_wrapper, round=0
        )
        run.logger = SimpleNamespace(warning=warnings.warn)
        hook.before_train(run)
        for run.round in range(hook.start_round, self.max_rounds + 1):
            before = hook.count
            hook.after_round(run, {})
            if hook.count > before:
                rounds.append(run.round)
        return rounds

    def reported_rounds(self) -> list[int]:
        """The evaluated rounds in the window over which the reported metric is the mean."""
        options = dict(self.config.train_cfg)
        known = ("max_rounds", "val_interval", "val_last_rounds", "val_last_interval")
        loop = FederatedTrainLoop(None, None, **{k: options[k] for k in known if k in options})
        first = self.max_rounds - loop.val_last_rounds + 1
        return [r for r in range(max(first, 1), self.max_rounds + 1) if loop.evaluates(r)]

    def server_moves(self) -> list[float]:
        """How far the server moves in its first two rounds, if the pseudo-gradient is 1 in both."""
        server = SimpleNamespace(w=torch.zeros(1, dtype=torch.float64), state={})
        moves = []
        for _ in range(2):
            before = server.w.clone()
            self.algorithm.server_optim.step(server, torch.ones(1, dtype=torch.float64))
            moves.append(float(before - server.w))
        return moves

    # ---------------------------------------------------------------- images

    def training_steps(self) -> list[str]:
        """The augmentation of training images, as ``Name(option=value)`` in order."""
        dataset = self.train.dataset
        if self.train.get("type") == RESIDENT:
            steps = self.train.get("transforms", ())
        elif dataset.type == "ImageFolderDataset":
            steps = dataset.get("pipeline", PIPELINES["train"])
        else:
            steps = dataset.get("pipeline", ())
        return [written(step) for step in steps]

    def test_steps(self) -> list[str]:
        """The preparation of test images, which is the same for every domain."""
        prepared = set()
        for loader in self.config.val_dataloader.values():
            if loader.get("type") in (RESIDENT, "CorruptedData"):
                steps = loader.transforms
            else:
                steps = loader.dataset.get("pipeline") or []
            prepared.add(tuple(map(written, steps)))
        assert len(prepared) == 1, f"test sets are prepared differently: {sorted(prepared)}"
        return list(prepared.pop())


def written(step: Any) -> str:
    """A step of a pipeline without spaces: ``RandomCrop(padding=4)``."""
    options = [f"{k}={v}" for k, v in step.items() if k != "type"]
    return f"{step['type']}({','.join(options)})".replace(" ", "")


@functools.cache
def _model(config: str) -> nn.Module:
    with torch.device("meta"), warnings.catch_warnings(action="ignore"):
        return build_model(
            Config({"model": json.loads(config), "randomness": {"seed": 0}, "dtype": "float32"})
        )


@functools.cache
def built(setting: str, methods: tuple[str, ...] = ()) -> Built:
    """A setting with methods; facts do not change it."""
    return Built(setting, methods)


# ---------------------------------------------------------------- facts


def numbers(values: Sequence[float]) -> str:
    """``0.05 0.005``: six digits, without trailing zeros."""
    return " ".join(f"{value:.6g}" for value in values)


def yes(value: bool) -> str:
    return "yes" if value else "no"


def rounds_of(rounds: Sequence[int]) -> str:
    """``7500 to 10000, 251 of them``, or all where they are few."""
    if len(rounds) <= 6:
        return " ".join(map(str, rounds))
    return f"{rounds[0]} to {rounds[-1]}, {len(rounds)} of them"


FACTS: dict[str, Callable[[Built], Any]] = {
    # protocol
    "rounds": lambda b: b.max_rounds,
    "local epochs": lambda b: b.config.train_cfg.local_epochs,
    "clients": lambda b: b.train.partition.num_clients,
    "clients a class": lambda b: b.train.partition.clients_per_class,
    "clients a round": lambda b: b.config.client_sampler.clients_per_round,
    "sampler": lambda b: b.config.client_sampler.type,
    "partition": lambda b: b.train.partition.type,
    "alpha of clients": lambda b: b.train.partition.alpha,
    "batch": lambda b: b.train.batch_size,
    "drops the last batch": lambda b: yes(b.train.get("drop_last", False)),
    "mixed precision": lambda b: yes(b.config.train_cfg.get("amp", False)),
    "reported rounds": lambda b: rounds_of(b.reported_rounds()),
    "loads labels": lambda b: yes(not b.train.partition.get("unlabelled", False)),
    # local optimizer
    "optimizer": lambda b: type(b.optim_wrapper.optimizer).__name__,
    "rate": lambda b: numbers([b.option("lr")]),
    "rate of heads": lambda b: numbers([b.option("lr", lambda name: "head" in name)]),
    "rate outside heads": lambda b: numbers([b.option("lr", lambda name: "head" not in name)]),
    "momentum": lambda b: numbers([b.option("momentum")]),
    "betas": lambda b: numbers(b.option("betas")),
    "Nesterov": lambda b: yes(b.option("nesterov")),
    "weight decay": lambda b: numbers([b.option("weight_decay")]),
    "weight decay of biases and norms": lambda b: numbers(
        [b.option("weight_decay", b.is_bias_or_norm)]
    ),
    "weight decay of weights": lambda b: numbers(
        [b.option("weight_decay", lambda name: not b.is_bias_or_norm(name))]
    ),
    "gradient norm": lambda b: b.config.optim_wrapper.clip_grad.max_norm,
    "local optimizer": lambda b: type(b.optim_wrapper).__name__.removesuffix("OptimWrapper"),
    "eta": lambda b: numbers([b.optim_wrapper.eta]),
    "passes": lambda b: b.optim_wrapper.passes,
    # averages
    "average": lambda b: type(b.averaging).__name__,
    "averaged rounds": lambda b: rounds_of(b.averaged_rounds()),
    "window": lambda b: b.averaging.window,
    # server
    "server moves": lambda b: numbers(b.server_moves()),
    "algorithm": lambda b: type(b.algorithm).__name__,
    "local loss": lambda b: type(b.local_loss).__name__,
    # network and loss
    "network": lambda b: type(b.model).__name__,
    "parameters": lambda b: b.num_parameters(),
    "million parameters": lambda b: numbers([round(b.num_parameters() / 1e6, 2)]),
    "BatchNorm layers": lambda b: len(batchnorm_layers(b.model)),
    "groups of GroupNorm": lambda b: {
        m.num_groups for m in b.model.modules() if isinstance(m, nn.GroupNorm)
    }.pop(),
    "loss": lambda b: type(b.model.criterion).__name__,
    "weight of auxiliary losses": lambda b: numbers([b.model.aux_weight]),
    # images
    "training images": lambda b: " ".join(b.training_steps()),
    "test images": lambda b: " ".join(b.test_steps()),
    "mirror images": lambda b: yes(b.train.dataset.get("mirror", False)),
    "test batch": lambda b: {v.batch_size for v in b.config.val_dataloader.values()}.pop(),
    "style": lambda b: type(b.style).__name__,
}
# facts with an argument behind a colon: rounds, or the name of an attribute
ARGUMENTS: dict[str, Callable[[Built, str], Any]] = {
    "rate in rounds": lambda b, rounds: numbers(b.rates([int(r) for r in rounds.split()])),
    "radius in rounds": lambda b, rounds: numbers(b.local_radii([int(r) for r in rounds.split()])),
    "algorithm's radius in rounds": lambda b, rounds: numbers(
        [b.algorithm.radius(int(r)) for r in rounds.split()]
    ),
    "algorithm": lambda b, name: getattr(b.algorithm, name),
    "local loss": lambda b, name: getattr(b.local_loss, name),
    "style": lambda b, name: getattr(b.style, name),
    "config": lambda b, key: value_of(b.config, key),
}


def value_of(config: Config, key: str) -> Any:
    """A value of a config by its dotted key; a number is a place in a list."""
    value = config
    for part in key.split("."):
        value = value[int(part)] if part.isdecimal() else value[part]
    return value


def fact(b: Built, name: str) -> str:
    """A fact of the table by its name, as the table writes it."""
    kind, _, argument = name.partition(": ")
    value = ARGUMENTS[kind](b, argument) if argument else FACTS[kind](b)
    if isinstance(value, float):
        return numbers([value])
    return str(value)
