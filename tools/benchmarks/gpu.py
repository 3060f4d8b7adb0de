"""The first minutes on a GPU: python tools/benchmarks/gpu.py --out gpu.json (docs/gpu.md).

Every part runs in a process of its own with a limit of time; rows that it has measured until then
are kept. With ``--tiny`` it runs anywhere in seconds, and its figures mean nothing.
"""

import argparse
import copy
import json
import multiprocessing
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from queue import Empty
from typing import Any

import torch
from torch import Tensor, nn

from fedseg.core.client import Client
from fedseg.core.client_data import ClientData, Job
from fedseg.core.flat import FlatModel
from fedseg.core.messages import Message, Task
from fedseg.core.server import Server
from fedseg.engine.trainer import ClientTrainer
from fedseg.errors import ConfigError
from fedseg.optim import build_local_optimizer
from fedseg.registry import ALGORITHMS, MODELS, build
from fedseg.runner.kernels import choose_kernels
from fedseg.runs.results import environment

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
TOLERANCE = 1e-10  # relative difference in float64 that another order of sums may give


@dataclass(frozen=True)
class Network:
    """A network that is timed.

    Attributes:
        model: its config.
        batch: images of a batch.
        size: height and width of an image.
        dense: whether labels are maps.
    """

    model: dict[str, Any]
    batch: int
    size: tuple[int, int]
    dense: bool = False


BISENET = {"type": "BiSeNetV2Segmentor", "num_classes": 19}
NETWORKS = {
    "CNN": Network({"type": "CNN", "num_classes": 10}, batch=64, size=(32, 32)),
    "ResNet18GN": Network({"type": "ResNet18GN", "num_classes": 100}, batch=64, size=(32, 32)),
    "ResNet56": Network({"type": "ResNet56", "num_classes": 100}, batch=64, size=(32, 32)),
    "BiSeNetV2, 8": Network(BISENET, batch=8, size=(512, 1024), dense=True),
    "BiSeNetV2, 16": Network(BISENET, batch=16, size=(512, 1024), dense=True),
}


class NoiseBatches(ClientData):
    """The same random batches for every client, on the device."""

    fits_model = True

    def __init__(self, network: Network, device: torch.device, dtype: torch.dtype) -> None:
        self.clients = ["0", "1", "2"]
        self.sizes = [2 * network.batch] * len(self.clients)
        self.recorded = [noise(network, seed, device, dtype) for seed in range(2)]

    def num_steps(self, client: int) -> int:
        return len(self.recorded)

    def full_sizes(self, client: int) -> list[int]:
        return [len(batch["inputs"]) for batch in self.recorded]

    def batches(self, job: Job) -> Iterator[dict[str, Tensor]]:
        yield from self.recorded


class WatchedTrainer(ClientTrainer):
    """Raises where a local step waits for the GPU."""

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
) -> ClientTrainer:
    """A trainer of noise, without a runner around it; ConfigError for what cannot be combined."""
    flat = FlatModel(build_network(network, device, dtype), channels_last)
    local = build_local_optimizer(OPTIMIZERS[optimizer], flat, max_rounds=2)
    algorithm = build(ALGORITHMS, {"type": method, **METHODS[method]}, "algorithm")
    algorithm.setup(flat, local, max_rounds=2)
    data = NoiseBatches(network, device, dtype)
    return WatchedTrainer(
        flat, algorithm, local, data, seed=0, call_hook=lambda *_, **__: None, amp=amp
    )


def train(trainer: ClientTrainer, rounds: int = 2) -> Tensor:
    """The global model after rounds of all clients, on the CPU."""
    algorithm, data = trainer.algorithm, trainer.data
    server = Server(trainer.flat, len(data.clients), algorithm.server_vectors)
    states: dict[int, dict[str, Tensor]] = {client: {} for client in range(len(data.clients))}
    for server.round in range(1, rounds + 1):
        trainer.local.start_round(server.round)
        for server.exchange in range(len(algorithm.exchanges)):
            message = algorithm.broadcast(server)
            sums = algorithm.new_sums()
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
                sums.add(result)
                trained[client] = result.state
            algorithm.step(server, sums)
        states = trained
    return server.w.cpu()


def combinations() -> Iterator[tuple[str, str]]:
    """Every method with every local optimizer."""
    return product(METHODS, OPTIMIZERS)


# ---------------------------------------------------------------- parts


def oracles(device: torch.device, networks: dict[str, Network]) -> Iterator[Row]:
    """Two rounds in float64 on the device beside the CPU, where the tests' oracles hold them."""
    choose_kernels(str(device), deterministic=True)
    for method, optimizer in combinations():
        options = {"dtype": torch.float64, "method": method, "optimizer": optimizer}
        try:
            here = train(make_trainer(networks["CNN"], device, **options))
        except ConfigError:  # the two exclude each other
            continue
        there = train(make_trainer(networks["CNN"], torch.device("cpu"), **options))
        difference = float((here - there).norm() / there.norm())
        yield {
            "what": f"{method}, {optimizer}",
            "relative difference": difference,
            "passed": difference < TOLERANCE,
        }


def waits(device: torch.device, networks: dict[str, Network]) -> Iterator[Row]:
    """Local steps under ``set_sync_debug_mode("error")``; on a CPU nothing is watched."""
    for method, optimizer in combinations():
        try:
            trainer = make_trainer(networks["CNN"], device, method=method, optimizer=optimizer)
        except ConfigError:  # the two exclude each other
            continue
        problem = ""
        try:
            train(trainer)
        except (RuntimeError, ConfigError) as error:
            problem = str(error).split("\n")[0]
        yield {"what": f"{method}, {optimizer}", "passed": not problem, "problem": problem}


def bits(device: torch.device, networks: dict[str, Network]) -> Iterator[Row]:
    """Whether two repeated trainings end at the same bits, with and without ``deterministic``."""
    for deterministic in (True, False):
        choose_kernels(str(device), deterministic)
        for name, network in networks.items():
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


def steps(device: torch.device, networks: dict[str, Network]) -> Iterator[Row]:
    """Milliseconds and peak memory of a step of the engine and of a loop without it."""
    for compiled in (False, True):
        for name, amp, channels_last in product(networks, (False, True), (True, False)):
            network = networks[name]
            precision = "bfloat16" if amp else "float32"
            layout = "channels_last" if channels_last else "contiguous"
            mode = "compile" if compiled else "eager"
            row: Row = {"what": f"{name}, {precision}, {layout}, {mode}"}
            sides = {"engine": engine_step, "loop": loop_step}
            for side, make in sides.items():
                step = make(network, device, amp, channels_last, compiled)
                row[f"{side}, ms"], row[f"{side}, MiB"] = measure(step, device)
            yield row


PARTS: dict[str, tuple[Callable[..., Iterator[Row]], int]] = {  # seconds that each may take
    "oracles": (oracles, 120),
    "waits": (waits, 60),
    "bits": (bits, 120),
    "steps": (steps, 420),
}


# ---------------------------------------------------------------- steps


def lay_out(batch: dict[str, Tensor], channels_last: bool) -> dict[str, Tensor]:
    """The batch with images in the memory format of the weights."""
    if not channels_last:
        batch["inputs"] = batch["inputs"].contiguous()
    return batch


def engine_step(
    network: Network, device: torch.device, amp: bool, channels_last: bool, compiled: bool
) -> Callable[[], None]:
    """A local step of the engine, over the same batch every time."""
    trainer = make_trainer(network, device, channels_last=channels_last, amp=amp)
    if compiled:
        trainer.model.compile()
    w = trainer.flat.w.clone()
    task = Task(1, 0, 0, "0", network.batch, 1, {})
    client = Client(trainer, task, Message(w, trainer.flat.buffers.clone()))
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
        autocast = torch.autocast(device.type, torch.bfloat16) if amp else nullcontext()
        with autocast:
            losses = model(**batch, mode="loss")
            loss = sum(value for name, value in losses.items() if "loss" in name)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


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


# ---------------------------------------------------------------- command line


def tiny() -> dict[str, Network]:
    """One small network, to run the script where there is no GPU."""
    return {"CNN": Network(copy.deepcopy(NETWORKS["CNN"].model), batch=2, size=(32, 32))}


def run_part(name: str, device: str, networks: dict[str, Network], rows: Any) -> None:
    """Put a part's rows into a queue as they come, and None after the last."""
    warnings.filterwarnings("ignore")
    function, _ = PARTS[name]
    for row in function(torch.device(device), networks):
        rows.put(row)
    rows.put(None)


def measure_part(name: str, device: str, networks: dict[str, Network]) -> dict[str, Any]:
    """The rows of a part that runs in a process of its own, and how it ended."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=run_part, args=(name, device, networks, queue))
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


def to_text(measured: dict[str, Any]) -> str:
    """The rows of all parts, a line each."""
    lines = []
    for name, part in measured["parts"].items():
        lines.append(f"{name}: {part['end']}, {part['seconds']:.0f} s")
        for row in part["rows"]:
            values = {key: value for key, value in row.items() if key != "what" and value != ""}
            texts = [
                f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
                for key, value in values.items()
            ]
            lines.append(f"  {row['what']}: {'; '.join(texts)}")
    return "\n".join(lines)


def main() -> None:
    usage = argparse.ArgumentParser(description="Measure and check the engine on a GPU.")
    usage.add_argument("--out", type=Path, required=True, help="the measured rows as JSON")
    usage.add_argument("--device", default="cuda", help="such as cuda:1 (default: cuda)")
    usage.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    usage.add_argument("--tiny", action="store_true", help="small sizes; figures mean nothing")
    options = usage.parse_args()
    networks = tiny() if options.tiny else NETWORKS
    measured: dict[str, Any] = {"environment": environment(torch.device(options.device))}
    measured["parts"] = {}
    for name in options.parts:
        measured["parts"][name] = measure_part(name, options.device, networks)
        options.out.write_text(json.dumps(measured, indent=2) + "\n", encoding="utf-8")
    print(to_text(measured))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main()
