"""The first minutes on a GPU: python tools/benchmarks/gpu.py --out gpu.json (docs/gpu.md).

Every part runs in a process of its own with a limit of time; rows that it has measured until then
are kept. With ``--tiny`` it runs anywhere in a few minutes, and its figures mean nothing.
"""

import argparse
import copy
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from queue import Empty
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from PIL import Image
from rich.console import Console
from torch import Tensor, nn
from torch.utils.data import Dataset

from fedseg.core.client import Client
from fedseg.core.client_data import ClientData, Job
from fedseg.core.flat import FlatModel
from fedseg.core.local_loss import LocalLoss
from fedseg.core.local_state import LocalState
from fedseg.core.messages import Message, Task
from fedseg.core.server import Server
from fedseg.datasets.arrays import write_images
from fedseg.datasets.images import read_image, read_label
from fedseg.datasets.transforms import Pipeline
from fedseg.engine.trainer import ClientTrainer
from fedseg.errors import ConfigError
from fedseg.evaluation.metrics import Accuracy, CountingMetric, IoUMetric
from fedseg.loaders.streaming import StreamingData
from fedseg.names import ERASED
from fedseg.optim import build_local_optimizer
from fedseg.partition import SinglePartition
from fedseg.registry import ALGORITHMS, LOCAL_LOSSES, MODELS, build
from fedseg.runner.build import declare_payloads
from fedseg.runner.checkpoint import checkpoint_path
from fedseg.runner.experiment import load_config
from fedseg.runner.kernels import choose_kernels
from fedseg.runner.runner import FederatedRunner
from fedseg.runs.results import environment
from fedseg.runs.tables import TextTable

Row = dict[str, Any]
SGD = {"type": "SGD", "lr": 0.01}
OPTIMIZERS = {
    "SGD": {"type": "OptimWrapper", "optimizer": SGD},
    "SAM": {"type": "SAMOptimWrapper", "rho": 0.05, "optimizer": SGD},
    "ASAM": {"type": "ASAMOptimWrapper", "rho": 0.1, "optimizer": SGD},
}
METHODS: dict[str, dict[str, Any]] = {
    "FedAvg": {},
    "FedProx": {"mu": 0.1},
    "SCAFFOLD": {},
    "FedDyn": {"beta": 10.0},
    "AdaBest": {"mu": 0.02, "beta": 0.8},
    "FedCM": {"alpha": 0.5},
    "FedACG": {"lam": 0.8, "beta": 0.01},
    "FedGloSS": {"rho_server": 0.05, "beta": 10.0},
    "NaiveFedGloSS": {"rho_server": 0.05, "beta": 10.0},
    "FedGamma": {},
    "FedSpeed": {"rho": 0.05, "alpha": 0.9, "lam": 100.0},
    "FedSMOO": {"rho": 0.05, "beta": 10.0},
    "MIME": {"momentum": 0.5},
    "MIMELite": {"momentum": 0.5},
    "Ditto": {"lam": 0.1},
}
LOSSES: dict[str, dict[str, Any]] = {  # for images
    "MOON": {},
    "FedAlign": {},
    "GradAug": {},
}
PIXEL_LOSSES: dict[str, dict[str, Any]] = {
    "ClassWeights": {},
    "FedSeg": {},
    "SelfTraining": {"every": 2, "average_from": 2},
}
PERSONAL = ["@batchnorm.statistics", "@batchnorm", "@head", "@body"]
TOLERANCE = 1e-10  # relative difference in float64 that another order of sums may give


@dataclass(frozen=True)
class Network:
    """A network that is timed.

    Attributes:
        model: its config.
        batch: images of a batch.
        size: height and width of an image.
        dense: whether labels are maps.
        erased: whether clients know the first class only, and every fourth row of a map is erased.
    """

    model: dict[str, Any]
    batch: int
    size: tuple[int, int]
    dense: bool = False
    erased: bool = False


BISENET = {"type": "BiSeNetV2Segmentor", "num_classes": 19}
NETWORKS = {
    "CNN": Network({"type": "CNN", "num_classes": 10}, batch=64, size=(32, 32)),
    "ResNet18GN": Network({"type": "ResNet18GN", "num_classes": 100}, batch=64, size=(32, 32)),
    "ResNet56": Network({"type": "ResNet56", "num_classes": 100}, batch=64, size=(32, 32)),
    "BiSeNetV2, 8": Network(BISENET, batch=8, size=(512, 1024), dense=True),
    "BiSeNetV2, 16": Network(BISENET, batch=16, size=(512, 1024), dense=True),
}
LOSS_NETWORK = Network({"type": "ResNet56", "num_classes": 10}, batch=2, size=(32, 32))
PIXEL_NETWORK = Network(
    {**BISENET, "projection": (32,)}, batch=2, size=(64, 64), dense=True, erased=True
)
GRAPHS = ("SGD", "SAM")  # local optimizers whose step is captured as a CUDA graph
IMAGES_ON_DISK = 16
TABLE_WIDTH = 130  # characters
LOADED_BATCH = 8  # images


@dataclass(frozen=True)
class Sizes:
    """What is measured, and how large it is.

    Attributes:
        networks: by name.
        file_size: height and width of images on disk.
        crop: height and width of what a batch has of them.
        batches: to load.
        workers: numbers of loader processes.
    """

    networks: dict[str, Network]
    file_size: tuple[int, int] = (1080, 1920)
    crop: tuple[int, int] = (512, 1024)
    batches: int = 96
    workers: tuple[int, ...] = (4, 8, 16)


class NoiseBatches(ClientData):
    """The same random batches for every client, on the device."""

    fits_model = True

    def __init__(self, network: Network, device: torch.device, dtype: torch.dtype) -> None:
        self.clients = ["0", "1", "2"]
        self.sizes = [2 * network.batch] * len(self.clients)
        self.recorded = [noise(network, seed, device, dtype) for seed in range(2)]
        images = np.arange(2 * network.batch)
        self.indices = dict.fromkeys(self.clients, images)
        classes = [str(number) for number in range(network.model["num_classes"])]
        self.dataset = SimpleNamespace(classes=classes, metainfo={"classes": classes})
        if network.erased:
            self.dataset.known = dict.fromkeys(images, (0,))

    def num_steps(self, client: int) -> int:
        return len(self.recorded)

    def full_sizes(self, client: int) -> list[int]:
        return [len(batch["inputs"]) for batch in self.recorded]

    def batches(self, job: Job) -> Iterator[dict[str, Tensor]]:
        yield from self.recorded

    def sample_batches(self, batches: list[list[int]]) -> Iterator[dict[str, Tensor]]:
        """The same batches in the same order, whatever the samples."""
        yield from self.recorded


class WatchedTrainer(ClientTrainer):
    """Raises where a local step waits for the GPU; its batches need no preprocessor."""

    def prepare(self, client: Client, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return batch

    def local_step(self, client: Client) -> None:
        if not self.flat.w.is_cuda:
            super().local_step(client)
            return
        torch.cuda.set_sync_debug_mode("error")
        try:
            super().local_step(client)
        finally:
            torch.cuda.set_sync_debug_mode("default")


def noise(
    network: Network, seed: int, device: torch.device, dtype: torch.dtype
) -> dict[str, Tensor]:
    """A batch of random images and labels, drawn on the CPU, in channels_last strides."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn((network.batch, 3, *network.size), generator=generator)
    shape = (network.batch, *network.size) if network.dense else (network.batch,)
    labels = torch.randint(network.model["num_classes"], shape, generator=generator)
    if network.erased:
        labels[:, ::4] = ERASED
    images = images.to(device, dtype, memory_format=torch.channels_last)
    return {"inputs": images, "data_samples": labels.to(device)}


def build_network(network: Network, device: torch.device, dtype: torch.dtype) -> nn.Module:
    """The network with the same initial weights on every device."""
    torch.manual_seed(0)
    model = build(MODELS, dict(network.model), "model", base=nn.Module)
    return model.to(device, dtype).train()


def make_trainer(
    network: Network,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
    method: str = "FedAvg",
    optimizer: str = "SGD",
    channels_last: bool = True,
    amp: bool = False,
    local_loss: dict[str, Any] | None = None,
    personal: str | None = None,
) -> ClientTrainer:
    """A trainer of noise, without a runner around it; ConfigError for what cannot be combined."""
    flat = FlatModel(build_network(network, device, dtype), channels_last)
    local = build_local_optimizer(OPTIMIZERS[optimizer], flat, max_rounds=2)
    data = NoiseBatches(network, device, dtype)
    algorithm = build(ALGORITHMS, {"type": method, **METHODS[method]}, "algorithm")
    algorithm.local_state = None if personal is None else LocalState(flat, personal)
    algorithm.setup(flat, local, max_rounds=2)
    loss = LocalLoss() if local_loss is None else build(LOCAL_LOSSES, local_loss, "local_loss")
    loss.data = data
    loss.setup(flat)
    return WatchedTrainer(
        flat,
        algorithm,
        local,
        data,
        seed=0,
        call_hook=lambda *_, **__: None,
        local_loss=loss,
        local_state=algorithm.local_state,
        payloads=declare_payloads([algorithm, loss], data, flat),
        amp=amp,
    )


def train(trainer: ClientTrainer, rounds: int = 2) -> Tensor:
    """The global model after rounds of all clients, on the CPU."""
    algorithm, data = trainer.algorithm, trainer.data
    server = make_server(trainer)
    states: dict[int, dict[str, Tensor]] = {client: {} for client in range(len(data.clients))}
    for server.round in range(1, rounds + 1):
        trainer.local.start_round(server.round)
        for server.exchange in range(len(algorithm.exchanges)):
            message = algorithm.broadcast(server)
            aggregate = algorithm.new_aggregate()
            trained = {}
            for client, name in enumerate(data.clients):
                task = Task(
                    round=server.round,
                    exchange=server.exchange,
                    client=client,
                    name=name,
                    num_samples=data.sizes[client],
                    num_steps=data.num_steps(client),
                    state=states[client],
                )
                result = trainer.train(task, message)
                aggregate.add(result)
                trained[client] = result.state
            algorithm.step(server, aggregate)
        trainer.local_loss.step(server, aggregate)
        server.take_buffers(aggregate)
        states = trained
    return server.w.cpu()


def make_server(trainer: ClientTrainer) -> Server:
    """The server of a trainer, before the first round."""
    algorithm = trainer.algorithm
    num_clients = len(trainer.data.clients)
    server = Server(trainer.flat, num_clients, algorithm.server_vectors, trainer.local_state)
    server.keep(trainer.payloads.values())
    return server


def combinations() -> Iterator[tuple[str, str]]:
    """Every method with every local optimizer."""
    return product(METHODS, OPTIMIZERS)


# ---------------------------------------------------------------- parts


def oracles(device: torch.device, sizes: Sizes) -> Iterator[Row]:
    """Two rounds in float64 on the device beside the CPU, where the tests' oracles hold them."""
    choose_kernels(str(device), deterministic=True)
    for method, optimizer in combinations():
        options = {"dtype": torch.float64, "method": method, "optimizer": optimizer}
        try:
            on_device = train(make_trainer(sizes.networks["CNN"], device, **options))
        except ConfigError:  # the two exclude each other
            continue
        on_cpu = train(make_trainer(sizes.networks["CNN"], torch.device("cpu"), **options))
        difference = float((on_device - on_cpu).norm() / on_cpu.norm())
        yield {
            "what": f"{method}, {optimizer}",
            "relative difference": difference,
            "passed": difference < TOLERANCE,
        }


def waits(device: torch.device, sizes: Sizes) -> Iterator[Row]:
    """Local steps under ``set_sync_debug_mode("error")``; on a CPU nothing is watched."""
    for method, optimizer in combinations():
        try:
            trainer = make_trainer(
                sizes.networks["CNN"], device, method=method, optimizer=optimizer
            )
        except ConfigError:  # the two exclude each other
            continue
        yield watched(f"{method}, {optimizer}", trainer)
    for losses, network in ((LOSSES, LOSS_NETWORK), (PIXEL_LOSSES, PIXEL_NETWORK)):
        for name, personal in product(losses, PERSONAL):
            local_loss = {"type": name, **losses[name]}
            trainer = make_trainer(
                network, device, optimizer="SAM", local_loss=local_loss, personal=personal
            )
            yield watched(f"{name}, {personal}", trainer)


def watched(what: str, trainer: ClientTrainer) -> Row:
    """The row of a training whose local steps must not wait."""
    problem = ""
    try:
        train(trainer)
    except (RuntimeError, ConfigError) as error:
        problem = str(error).split("\n")[0]
    return {"what": what, "passed": not problem, "problem": problem}


def bits(device: torch.device, sizes: Sizes) -> Iterator[Row]:
    """Whether two repeated trainings end at the same bits, with and without ``deterministic``."""
    for deterministic in (True, False):
        choose_kernels(str(device), deterministic)
        for name, network in sizes.networks.items():
            problem, equal = "", False
            try:
                first = train(make_trainer(network, device, optimizer="SAM"))
                equal = torch.equal(first, train(make_trainer(network, device, optimizer="SAM")))
            except (RuntimeError, ConfigError) as error:
                problem = str(error).split("\n")[0]
            yield {
                "what": f"{name}, deterministic={deterministic}",
                "passed": equal or not deterministic,
                "same bits": equal,
                "problem": problem,
            }


def resume(device: torch.device, sizes: Sizes) -> Iterator[Row]:
    """Whether a run that loses its last round and resumes ends at the bits that it had."""
    for deterministic in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            config = resumed_config(Path(folder), device, deterministic)
            whole = FederatedRunner.from_cfg(copy.deepcopy(config))
            whole.train()
            checkpoint_path(whole.checkpoint_folder, whole.max_rounds).unlink()
            config.resume = True
            resumed = FederatedRunner.from_cfg(config)
            resumed.train()
        equal = torch.equal(whole.server.w, resumed.server.w)
        yield {
            "what": f"FedASAM, deterministic={deterministic}",
            "passed": equal or not deterministic,
            "same bits": equal,
        }


def steps(device: torch.device, sizes: Sizes) -> Iterator[Row]:
    """Milliseconds and peak memory of a step of the engine and of a loop without it."""
    sides = {"engine": engine_step, "loop": loop_step, "loss": loss_step}
    modes = product((False, True), (False, True), (True, False), sizes.networks)
    for compiled, amp, channels_last, name in modes:
        precision = "bfloat16" if amp else "float32"
        layout = "channels_last" if channels_last else "contiguous"
        mode = "compile" if compiled else "eager"
        row: Row = {"what": f"{name}, {precision}, {layout}, {mode}"}
        for side, make in sides.items():
            step = make(sizes.networks[name], device, amp, channels_last, compiled)
            row[f"{side}, ms"], peak = measure(step, device)
            if side != "loss":
                row[f"{side}, MiB"] = peak
        row["loss, share"] = row["loss, ms"] / row["engine, ms"]
        yield row


def clients(device: torch.device, sizes: Sizes) -> Iterator[Row]:
    """Milliseconds that a client takes besides its steps: loading, packing, adding to the sums."""
    for name, method in product(sizes.networks, ("FedAvg", "SCAFFOLD")):
        milliseconds, _ = measure(client_turn(sizes.networks[name], device, method), device)
        yield {"what": f"{name}, {method}", "ms": milliseconds}


def graphs(device: torch.device, sizes: Sizes) -> Iterator[Row]:
    """A local step of the CNN, launched kernel by kernel and as one CUDA graph."""
    for optimizer in GRAPHS:
        step = engine_step(sizes.networks["CNN"], device, optimizer=optimizer)
        row: Row = {"what": f"CNN, {optimizer}"}
        row["eager, ms"], _ = measure(step, device)
        if device.type != "cuda":
            yield {**row, "problem": "CUDA graphs need a GPU"}
            continue
        try:
            row["graph, ms"], _ = measure(capture(step), device)
        except RuntimeError as error:
            row["problem"] = str(error).split("\n")[0]
        yield row


def loaders(device: torch.device, sizes: Sizes) -> Iterator[Row]:
    """Images a second from files to batches in the model's memory, by number of workers."""
    with tempfile.TemporaryDirectory() as folder:
        dataset = NoiseFiles(Path(folder), sizes.file_size, sizes.crop)
        for workers in sizes.workers:
            rate = loading_rate(dataset, sizes.batches, workers, device)
            yield {"what": f"{workers} workers", "images/s": rate}


def evaluation(device: torch.device, sizes: Sizes) -> Iterator[Row]:
    """Images a second through prediction and metric, without loading."""
    for name, amp in product(sizes.networks, (False, True)):
        network = sizes.networks[name]
        step = evaluation_step(network, device, amp)
        milliseconds, peak = measure(step, device)
        precision = "bfloat16" if amp else "float32"
        yield {
            "what": f"{name}, {precision}",
            "images/s": 1000 * network.batch / milliseconds,
            "MiB": peak,
        }


PARTS: dict[str, tuple[Callable[..., Iterator[Row]], int]] = {  # seconds that each may take
    "oracles": (oracles, 100),
    "waits": (waits, 110),
    "bits": (bits, 80),
    "resume": (resume, 40),
    "clients": (clients, 20),
    "graphs": (graphs, 20),
    "loaders": (loaders, 70),
    "evaluation": (evaluation, 40),
    "steps": (steps, 240),
}


# ---------------------------------------------------------------- steps


def lay_out(batch: dict[str, Tensor], channels_last: bool) -> dict[str, Tensor]:
    """The batch with images in the memory format of the weights."""
    if not channels_last:
        batch["inputs"] = batch["inputs"].contiguous()
    return batch


def engine_step(
    network: Network,
    device: torch.device,
    amp: bool = False,
    channels_last: bool = True,
    compiled: bool = False,
    optimizer: str = "SGD",
) -> Callable[[], None]:
    """A local step of the engine, over the same batch every time."""
    trainer = make_trainer(
        network, device, channels_last=channels_last, amp=amp, optimizer=optimizer
    )
    if compiled:
        trainer.model.compile()
    w = trainer.flat.w.clone()
    task = Task(1, 0, 0, "0", network.batch, 1, {})
    client = Client(
        trainer, task, Message(w, trainer.flat.buffers.clone(), trainer.flat.counters.clone())
    )
    client.batch = lay_out(trainer.data.recorded[0], channels_last)
    return lambda: trainer.local_step(client)


def loop_step(
    network: Network, device: torch.device, amp: bool, channels_last: bool, compiled: bool
) -> Callable[[], None]:
    """Forward, backward and ``torch.optim.SGD``: what one writes without any framework."""
    model = build_network(network, device, torch.float32)
    if channels_last:
        model.to(memory_format=torch.channels_last)
    if compiled:
        model.compile()
    optimizer = torch.optim.SGD(model.parameters(), lr=SGD["lr"])
    batch = lay_out(noise(network, 0, device, torch.float32), channels_last)

    def step() -> None:
        with autocast(device, amp):
            losses = model(**batch, mode="loss")
            loss = sum(value for name, value in losses.items() if "loss" in name)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def loss_step(
    network: Network, device: torch.device, amp: bool, channels_last: bool, compiled: bool
) -> Callable[[], None]:
    """The model's loss of given outputs and its gradient, not compiled."""
    model = build_network(network, device, torch.float32)
    batch = lay_out(noise(network, 0, device, torch.float32), channels_last)
    with torch.no_grad(), autocast(device, amp):
        outputs = model.outputs(batch["inputs"])
    outputs = [output.detach().requires_grad_() for output in outputs]

    def step() -> None:
        with autocast(device, amp):
            losses = model.losses(outputs, batch["data_samples"])
            loss = sum(value for name, value in losses.items() if "loss" in name)
        torch.autograd.grad(loss, outputs)

    return step


def client_turn(network: Network, device: torch.device, method: str) -> Callable[[], None]:
    """Train a client that has no batch, and add its update to the sums."""
    trainer = make_trainer(network, device, method=method)
    trainer.data.recorded = []
    message = trainer.algorithm.broadcast(make_server(trainer))
    task = Task(1, 0, 0, "0", network.batch, 1, {})
    aggregate = trainer.algorithm.new_aggregate()
    return lambda: aggregate.add(trainer.train(task, message))


def capture(step: Callable[[], None]) -> Callable[[], None]:
    """A step as one CUDA graph, which reads and writes the same memory every time."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # what is allocated in the first steps is not captured
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def evaluation_step(network: Network, device: torch.device, amp: bool) -> Callable[[], None]:
    """Predict a batch and count it."""
    model = build_network(network, device, torch.float32).eval()
    model.to(memory_format=torch.channels_last)
    batch = noise(network, 0, device, torch.float32)
    metric: CountingMetric = IoUMetric() if network.dense else Accuracy()
    metric.dataset_meta = {"classes": [str(c) for c in range(network.model["num_classes"])]}

    @torch.no_grad()
    def step() -> None:
        with autocast(device, amp):
            predictions = model(**batch, mode="predict")
        metric.process([], batch, predictions)

    return step


def autocast(device: torch.device, amp: bool) -> Any:
    """The context of a forward pass."""
    return torch.autocast(device.type, torch.bfloat16) if amp else nullcontext()


def measure(step: Callable[[], None], device: torch.device, repeats: int = 10) -> tuple[float, int]:
    """(median milliseconds, peak MiB of the GPU; 0 on a CPU) of a step, after three more."""
    cuda = device.type == "cuda"
    if cuda:
        torch.cuda.reset_peak_memory_stats(device)
    times = []
    for number in range(3 + repeats):
        begin = time.perf_counter()
        step()
        if cuda:
            torch.cuda.synchronize(device)
        if number >= 3:
            times.append(1000 * (time.perf_counter() - begin))
    peak = torch.cuda.max_memory_allocated(device) >> 20 if cuda else 0
    return statistics.median(times), peak


# ---------------------------------------------------------------- files and runs


class NoiseFiles(Dataset):
    """Blurred noise as JPEG files and its label maps, cropped as FedDrive does.

    Args:
        folder: where the files are written.
        size: height and width of a file.
        crop: of an image in a batch.
    """

    seeded = True
    metainfo = {"classes": [str(c) for c in range(BISENET["num_classes"])]}

    def __init__(self, folder: Path, size: tuple[int, int], crop: tuple[int, int]) -> None:
        self.folder = folder
        self.pipeline = Pipeline(
            [
                {
                    "type": "RandomScaleCrop",
                    "scale": (0.5, 2.0),
                    "crop_size": crop,
                    "base_size": crop,
                },
                {"type": "HorizontalFlip", "p": 0.5},
            ]
        )
        rng = np.random.default_rng(0)
        width_first = size[::-1]
        for number in range(IMAGES_ON_DISK):
            colors = rng.integers(0, 256, (size[0] // 8, size[1] // 8, 3), np.uint8)
            labels = rng.integers(0, BISENET["num_classes"], colors.shape[:2], np.uint8)
            image = Image.fromarray(colors).resize(width_first)
            image.save(folder / f"{number}.jpg")
            label = Image.fromarray(labels).resize(width_first, Image.Resampling.NEAREST)
            label.save(folder / f"{number}.png")

    def __len__(self) -> int:
        return IMAGES_ON_DISK

    def __getitem__(self, key: tuple[int, int]) -> dict[str, Tensor]:
        index, seed = key
        image = read_image(str(self.folder / f"{index}.jpg"))
        label = read_label(str(self.folder / f"{index}.png"))
        image, label = self.pipeline(image, label, seed)
        return {
            "inputs": torch.from_numpy(image.transpose(2, 0, 1).copy()),
            "data_samples": torch.from_numpy(label.copy()),
        }


def loading_rate(
    dataset: NoiseFiles, num_batches: int, workers: int, device: torch.device
) -> float:
    """Images a second on the device, from the first batch on."""
    data = StreamingData(
        dataset,
        SinglePartition(),
        batch_size=LOADED_BATCH,
        local_steps=num_batches,
        num_workers=workers,
        prefetch_factor=2,
        device=device,
    )
    job = Job(1, 0, 0)
    data.start([job])
    batches = data.batches(job)
    try:
        next(batches)
        begin = time.perf_counter()
        images = 0
        for batch in batches:
            images += len(batch["inputs"].to(device, non_blocking=True))
        return images / (time.perf_counter() - begin)
    finally:
        data.close()


def resumed_config(folder: Path, device: torch.device, deterministic: bool) -> Any:
    """Two rounds of FedASAM with the CNN on images of noise, each saved."""
    rng = np.random.default_rng(0)
    labels = np.arange(64) % 10
    train_images, test_images = rng.integers(0, 256, (2, len(labels), 32, 32, 3), np.uint8)
    classes = [str(c) for c in range(10)]
    root = folder / "noise"
    splits = (train_images, labels), (test_images, labels)
    write_images(root, "noise", classes, *splits, synthetic=True)
    options = {
        "data_root": str(root),
        "device": str(device),
        "randomness.deterministic": deterministic,
        "train_cfg.max_rounds": 2,
        "train_cfg.val_interval": 1,
        "client_sampler.clients_per_round": 2,
        "default_hooks.checkpoint.interval": 1,
    }
    config = load_config("cifar10_a005", ["fedasam"], work_dir=folder / "run", options=options)
    config.train_dataloader.partition = {"type": "HomogeneousPartition", "num_clients": 4}
    return config


# ---------------------------------------------------------------- command line


def tiny() -> Sizes:
    """One small network and small files, to run the script where there is no GPU."""
    network = Network(copy.deepcopy(NETWORKS["CNN"].model), batch=2, size=(32, 32))
    return Sizes({"CNN": network}, file_size=(64, 96), crop=(32, 48), batches=4, workers=(0, 1))


def run_part(name: str, device: str, sizes: Sizes, rows: Any) -> None:
    """Put a part's rows into a queue as they come, and None after the last."""
    warnings.filterwarnings("ignore")
    function, _ = PARTS[name]
    for row in function(torch.device(device), sizes):
        rows.put(row)
    rows.put(None)


def measure_part(name: str, device: str, sizes: Sizes) -> dict[str, Any]:
    """The rows of a part that runs in a process of its own, and how it ended."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=run_part, args=(name, device, sizes, queue))
    process.start()
    begin = time.monotonic()
    limit = PARTS[name][1]
    rows: list[Row] = []
    end = "time is up"
    while time.monotonic() - begin < limit:
        try:
            row = queue.get(timeout=1)
        except Empty:
            if process.is_alive():
                continue
            end = f"the process ended with code {process.exitcode}"
            break
        if row is None:
            end = "complete"
            break
        rows.append(row)
    process.kill()
    process.join()
    return {"end": end, "seconds": time.monotonic() - begin, "rows": rows}


def to_table(name: str, part: dict[str, Any]) -> TextTable:
    """The rows of a part; a column for each key that one of them has."""
    keys: list[str] = []
    for row in part["rows"]:
        keys += [key for key in row if key not in keys]
    rows = [tuple(to_text(row.get(key, "")) for key in keys) for row in part["rows"]]
    title = f"{name}: {part['end']}, {part['seconds']:.0f} s"
    numbers = [keys.index(key) for key in keys if key not in ("what", "problem")]
    return TextTable(title, tuple(keys), rows, right=numbers)


def to_text(value: Any) -> str:
    """A cell."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main() -> None:
    usage = argparse.ArgumentParser(description="Measure and check the engine on a GPU.")
    usage.add_argument("--out", type=Path, required=True, help="the measured rows as JSON")
    usage.add_argument("--device", default="cuda", help="such as cuda:1 (default: cuda)")
    usage.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    usage.add_argument("--tiny", action="store_true", help="small sizes; figures mean nothing")
    options = usage.parse_args()
    sizes = tiny() if options.tiny else Sizes(NETWORKS)
    measured: dict[str, Any] = {"environment": environment(torch.device(options.device))}
    measured["parts"] = {}
    for name in options.parts:
        measured["parts"][name] = measure_part(name, options.device, sizes)
        options.out.write_text(json.dumps(measured, indent=2) + "\n", encoding="utf-8")
    console = Console(width=TABLE_WIDTH)
    for name, part in measured["parts"].items():
        console.print(to_table(name, part).to_rich())


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main()
