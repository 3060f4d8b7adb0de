"""A round of a small classifier beside a loop without the engine.

All sides train the same network on the same resident images in one process, in turns. A round of
the engine is what the training loop runs: sampling, broadcast, clients, validation, sum, server
step, history. Evaluation, which does not come with every round, is timed apart.
"""

import copy
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from mmengine.config import Config
from torch import Tensor, nn

from benchmarks import engine
from benchmarks.engine import CONFIGS, EngineRounds, measure_seconds
from fedseg.core.client_data import JobStream
from fedseg.core.seeds import generator_for
from fedseg.datasets.arrays import write_images
from fedseg.models.classifier import Classifier
from fedseg.runner.experiment import errors_name_their_source, load_config
from fedseg.runner.runner import FederatedRunner

RHO = 0.1
PRECISIONS = {"float32": False, "bfloat16": True}
SETTING = CONFIGS / "settings" / "cifar10_a005.py"
PADDING, FLIP = 4, 0.5  # of the setting's augmentation


def adapt(config: Config, clients: int, samples: int, test_images: int) -> Config:
    """Make an experiment's config one of the benchmark; it is changed.

    Where its data are not there, they are noise: so many samples per client and test images.
    """
    engine.strip(config, clients)
    config.train_cfg.update(local_epochs=1, amp=False)
    between = {n: c for n, c in config.val_dataloader.items() if not c.get("final_only")}
    config.val_dataloader = between
    root = Path(config.get("data_root") or config.train_dataloader.dataset.data_root)
    if not (root / "dataset.json").is_file():
        root, clients = Path(config.work_dir) / "noise", 2 * clients
        if not (root / "dataset.json").is_file():  # another config's in the same folder
            write_noise(root, clients * samples, test_images)
        config.data_root = str(root)
        partition = {"type": "HomogeneousPartition", "num_clients": clients}
        config.train_dataloader.partition = partition
    return config


def write_noise(root: Path, train: int, test: int) -> None:
    """A prepared folder of random images: what they show does not change how long they take."""
    rng = np.random.default_rng(0)
    sets = [
        (rng.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8), np.arange(n) % 10)
        for n in (train, test)
    ]
    write_images(root, "noise", [f"class {i}" for i in range(10)], *sets, synthetic=True)


class HandWritten:
    """Rounds of FedAvg without the engine, with a copy of its model on its data; a call is a round.

    What one writes for one case and speed: images resident as uint8, batched augmentation, one
    model. It makes the engine's draws, so that both end at the same weights.

    Attributes:
        round: the last round. loss: the mean loss of its steps. w: the global model by name.
    """

    def __init__(self, runner: FederatedRunner, amp: bool = False) -> None:
        self.round, self.loss, self.amp, self.data = 0, 0.0, amp, runner.data
        self.participants = runner.client_sampler.participants
        self.parts = [self.data.indices[client] for client in self.data.clients]
        self.device = self.data.images.device
        self.model = copy.deepcopy(runner.model)
        for parameter in self.model.parameters():  # ordinary ones, no views into a flat vector
            parameter.data = parameter.data.contiguous().clone()
            parameter.grad = None
        self.model.to(memory_format=torch.channels_last).train()
        self.w = {name: w.detach().clone() for name, w in self.model.named_parameters()}
        options = dict(runner.cfg.optim_wrapper.optimizer, fused=True)
        del options["type"]
        self.sgd = torch.optim.SGD(self.model.parameters(), **options)
        normalize = self.data.pipeline.steps[2]
        mean, std = (torch.tensor(v, dtype=torch.float64) for v in (normalize.mean, normalize.std))
        width = self.data.images.shape[2]
        self.scale = (1 / (255 * std)).repeat(width).to(self.device, torch.float32)
        self.shift = (-mean / std).repeat(width).to(self.device, torch.float32)

    def __call__(self) -> None:
        """Run the next round."""
        self.round += 1
        chosen = self.participants(self.round)
        total = sum(len(self.parts[client]) for client in chosen)
        mean = {name: torch.zeros_like(w) for name, w in self.w.items()}
        losses, steps = torch.zeros((), device=self.device), 0
        for client in chosen:
            with torch.no_grad():
                for name, parameter in self.model.named_parameters():
                    parameter.copy_(self.w[name])
            self.sgd.state.clear()
            for images, labels in self.batches(client):
                with torch.autocast(self.device.type, torch.bfloat16, enabled=self.amp):
                    logits = self.model.classifier(self.model.features(images))
                    loss = F.cross_entropy(logits, labels)
                self.sgd.zero_grad(set_to_none=True)
                loss.backward()
                self.sgd.step()
                losses += loss.detach()
                steps += 1
            with torch.no_grad():
                for name, parameter in self.model.named_parameters():
                    mean[name].add_(parameter, alpha=len(self.parts[client]) / total)
        self.w = mean
        self.loss = float(losses) / steps
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def batches(self, client: int) -> Iterator[tuple[Tensor, Tensor]]:
        """(images [B, C, H, W], labels [B]) of a client's local epoch."""
        part, size, seed = self.parts[client], self.data.batch_size, self.data.seed
        keys = self.round, client, 0
        order = part[generator_for(seed, "shuffle", *keys).permutation(len(part))]
        # height and width move alike: images are square and keep their size
        rng = generator_for(seed, "augment batch", 0, *keys)
        corners = rng.integers(0, 2 * PADDING + 1, (len(part), 2))
        flips = generator_for(seed, "augment batch", 1, *keys).random(len(part)) < FLIP
        arrays = [torch.from_numpy(array) for array in (order, corners, flips)]
        order, corners, flips = (array.to(self.device, non_blocking=True) for array in arrays)
        for start in range(0, len(part), size):
            rows = slice(start, start + size)
            images = self.data.images.index_select(0, order[rows])
            labels = self.data.labels.index_select(0, order[rows])
            yield self.augment(images, corners[rows], flips[rows]), labels

    def augment(self, images: Tensor, corners: Tensor, flips: Tensor) -> Tensor:
        """Crop, flip, normalize: uint8 [B, H, W, C] to float [B, C, H, W]."""
        count, height, width, channels = images.shape
        pad = F.pad(images, (0, 0, PADDING, PADDING, PADDING, PADDING))
        row = pad.shape[2] * channels
        windows = pad.as_strided(
            (count, 2 * PADDING + 1, 2 * PADDING + 1, height, width * channels),
            (pad.shape[1] * row, row, channels, row, 1),
        )
        numbers = torch.arange(count, device=images.device)
        cut = windows[numbers, corners[:, 0], corners[:, 1]]
        mirrored = cut.view(images.shape).flip(2).flatten(1).view(torch.int64)
        straight = cut.flatten(1).view(torch.int64)  # eight pixels at a time
        cut = torch.where(flips.view(-1, 1), mirrored, straight).view(torch.uint8)
        rows = cut.view(count, height, width * channels).to(torch.float32)
        pixels = torch.addcmul(self.shift, rows, self.scale)
        return pixels.view(images.shape).permute(0, 3, 1, 2)


def make_sides(runner: FederatedRunner, amp: bool) -> dict[str, EngineRounds | HandWritten]:
    """The timed sides by name; a name ends with its precision."""
    fedavg = engine.local_optimizer(runner, type="OptimWrapper")
    fedsam = engine.local_optimizer(runner, type="SAMOptimWrapper", rho=RHO)
    sides: dict[str, EngineRounds | HandWritten] = {}
    for precision, used in list(PRECISIONS.items())[: 1 + amp]:
        sides[f"hand-written, {precision}"] = HandWritten(runner, used)
        sides[f"FedAvg, {precision}"] = EngineRounds(runner, fedavg, used)
        sides[f"FedSAM, {precision}"] = EngineRounds(runner, fedsam, used)
    return sides


def largest_difference(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    """Between weights of the same names."""
    return max(float((w - b[name]).abs().max()) for name, w in a.items())


def check_first_round(sides: dict[str, Any], precision: str) -> float:
    """Run a round of FedAvg by hand and by the engine: the largest difference of the weights.

    RuntimeError if they do not do the same work, so that times would mean nothing.
    """
    rounds, loop = sides[f"FedAvg, {precision}"], sides[f"hand-written, {precision}"]
    start = {name: w.clone() for name, w in rounds.weights().items()}
    rounds()
    loop()
    gap = largest_difference(rounds.weights(), loop.w)
    if not gap < 0.1 * largest_difference(rounds.weights(), start):
        raise RuntimeError(f"{precision}: the loop is {gap} away from the engine's weights")
    return gap


def classification(
    folder: Path,
    clients: int = 5,
    samples: int = 500,
    test_images: int = 10_000,
    repeats: int = 5,
    amp: bool = False,
    cfg_options: Sequence[str] = (),
) -> dict[str, Any]:
    """Rounds of the engine and of a hand-written loop, in turns; medians over the repeats."""
    cfg = load_config(SETTING, work_dir=folder, options=cfg_options)
    with errors_name_their_source(cfg):
        return measure(adapt(cfg, clients, samples, test_images), repeats, amp)


class MLP(Classifier):
    """One hidden layer of 64 over the pixels of a 32x32 RGB image: 197,322 parameters."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.hidden = nn.Linear(3 * 32 * 32, 64)
        self.add_head(64)

    def features(self, inputs: Tensor) -> Tensor:
        return F.relu(self.hidden(inputs.permute(0, 2, 3, 1).flatten(1)))


def small_clients(
    folder: Path,
    clients: int = 1000,
    per_round: int = 100,
    samples: int = 20,
    repeats: int = 5,
) -> dict[str, Any]:
    """Rounds of many clients with few images: what a client costs besides its only step."""
    measured: dict[str, Any] = {}
    write_noise(folder / "noise", clients * samples, 100)
    for name, model in (("CNN", {"type": "CNN"}), ("MLP", {"type": MLP})):
        cfg = load_config(SETTING, work_dir=folder / name)
        cfg.data_root = str(folder / "noise")
        cfg.model = {**model, "num_classes": 10}
        with errors_name_their_source(cfg):
            cfg = adapt(cfg, per_round, samples, 100)
            partition = {"type": "HomogeneousPartition", "num_clients": clients}
            cfg.train_dataloader.partition = partition
            runner = engine.build(cfg)
        sides = make_sides(runner, amp=False)
        del sides["FedSAM, float32"]
        check_first_round(sides, "float32")
        # as in a run: the batches of several clients are made together
        runner.data.start(JobStream(runner.client_sampler.participants, 2, engine.ENDLESS))
        seconds = engine.alternate(sides, repeats)
        measured[f"engine / hand-written: {name}"] = engine.median_ratio(seconds, *reversed(sides))
        measured |= {f"{name}, {side}, s": t for side, t in engine.medians(seconds).items()}
    return measured


def measure(config: Config, repeats: int, amp: bool) -> dict[str, Any]:
    """Time the rounds of an adapted config."""
    runner = engine.build(config)
    sides = make_sides(runner, amp)
    precisions = list(PRECISIONS)[: 1 + amp]
    differences = {precision: check_first_round(sides, precision) for precision in precisions}
    seconds = engine.alternate(sides, repeats)
    measured: dict[str, Any] = {
        **engine.describe(runner, runner.client_sampler.participants(1)),
        "seconds per round": engine.medians(seconds),
    }
    for side, other in (("FedAvg", "hand-written"), ("FedSAM", "FedAvg")):
        ratios = [engine.median_ratio(seconds, f"{side}, {p}", f"{other}, {p}") for p in precisions]
        title = "engine / hand-written" if side == "FedAvg" else "FedSAM / FedAvg"
        measured[title] = dict(zip(precisions, ratios, strict=True))
    measured["outside of clients' training / round"] = {
        name: 1 - statistics.median(side.share("train", "whole", repeats))
        for name, side in sides.items()
        if isinstance(side, EngineRounds)
    }
    measured["largest difference of weights after a round, engine - hand-written"] = differences
    images = sum(len(test.dataset) for test in runner.val_loop.sets)
    evaluations = measured[f"seconds per evaluation of {images:,} images"] = {}
    for precision in precisions:
        runner.cfg.train_cfg["amp"] = PRECISIONS[precision]
        _, *times = (measure_seconds(runner.val_loop.run) for _ in range(repeats + 1))
        evaluations[precision] = statistics.median(times)
    return measured
