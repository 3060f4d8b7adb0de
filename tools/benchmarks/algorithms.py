"""What each algorithm's own arithmetic costs: ``tools/benchmark.py algorithms``.

Every method is a run of the engine from its own experiment, on the same clients and the same images
in one process. A round of each is timed right after one of FedAvg, in turns, so that a drift of the
machine's speed hits both. The same clients take part in every round: before anything is counted or
timed they have been there, so that their states exist (MOON has a previous model, SCAFFOLD control
variates). The learning rate is small, so that every round trains about the same model: at the
published one these clients would be learned by heart before the last turn.

Passes are counted in the arithmetic of the network: the floating-point operations of a round's
convolutions and matrix products, forward and backward, divided by those of FedAvg's round on
FedAvg's network. A gradient more is one, and so is a full-batch gradient over as many samples as
the local steps see. A forward pass alone is about a third, a narrow sub-network what it computes.
"""

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from benchmarks.classification import adapt, build
from rich.table import Table
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from fedseg.core.client import Client
from fedseg.core.messages import Update
from fedseg.errors import ConfigError
from fedseg.hooks import FederatedHook
from fedseg.registry import did_you_mean
from fedseg.runner.compose import setting_file
from fedseg.runner.cuda_graph import EagerStep
from fedseg.runner.experiment import load_config
from fedseg.runner.replay import FixedSampler
from fedseg.runner.runner import FederatedRunner

REFERENCE = "FedAvg"
RATE = 1e-4


SETTING = "cifar10_a005"
# names of configs/methods, by what a table calls them
CNN = {
    "FedAvg": ("fedavg",),
    "FedProx": ("fedprox",),
    "SCAFFOLD": ("scaffold",),
    "FedDyn": ("feddyn",),
    "AdaBest": ("adabest",),
    "FedCM": ("fedcm",),
    "FedACG": ("fedacg",),
    "FedGloSS-SGD": ("fedgloss_sgd",),
    "FedSAM": ("fedsam",),
    "FedASAM": ("fedasam",),
    "FedGloSS-SAM": ("fedgloss_sam",),
    "FedGamma": ("fedgamma",),
    "FedSpeed": ("fedspeed",),
    "FedSMOO": ("fedsmoo",),
    "MIMELite": ("mimelite",),
    "MIME": ("mime",),
    "MOON": ("moon",),
}
# the methods of FedAlign's table
RESNET56 = {
    "FedAvg": ("fedavg", "resnet56"),
    "FedProx": ("fedprox", "resnet56"),
    "MOON": ("moon", "resnet56"),
    "StochDepth": ("stochdepth", "resnet56"),
    "GradAug": ("gradaug", "resnet56"),
    "FedAlign": ("fedalign", "resnet56"),
}


def choose(methods: Mapping[str, Sequence[str]], only: Sequence[str]) -> dict[str, Sequence[str]]:
    """The methods of these names, and FedAvg; all if there are none.

    Raises:
        ConfigError: a name is unknown.
    """
    for name in only:
        if name not in methods:
            raise ConfigError(
                f"--only: {name!r} is unknown{did_you_mean(name, methods)}; "
                f"known: {', '.join(methods)}"
            )
    return {n: m for n, m in methods.items() if not only or n == REFERENCE or n in only}


class Ledger(FederatedHook):
    """Notes what a round sends and what its clients hold.

    Attributes:
        held: vectors like the model's that a client holds at the end of its local training: the
            model, its gradient, what it received, its state, and all work vectors. The most of the
            present round.
        traffic: bytes down and up, by round.
    """

    def __init__(self) -> None:
        self.held = 0.0
        self.traffic: list[int] = []

    def before_round(self, runner: FederatedRunner) -> None:
        self.held = 0.0

    def after_client(self, runner: FederatedRunner, client: Client, update: Update) -> None:
        flat, local = runner.flat, client.local
        owners = (runner.algorithm, runner.local_loss, local, client)
        places = [flat.w, flat.grad, client.delta(), update.vectors, local.optimizer.state]
        places += [vars(owner) for owner in owners]
        storages = {t.untyped_storage().data_ptr(): t.untyped_storage() for t in _tensors(places)}
        sizes = (s.nbytes() for s in storages.values() if s.nbytes() >= flat.w.nbytes)
        self.held = max(self.held, sum(sizes) / flat.w.nbytes)

    def after_round(self, runner: FederatedRunner, record: dict[str, Any]) -> None:
        self.traffic.append(record["bytes_down"] + record["bytes_up"])


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _tensors(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _tensors(inner)


class MethodRound:
    """Rounds of a method.

    Args:
        runner: built for training, not started.
    """

    def __init__(self, runner: FederatedRunner) -> None:
        self.runner = runner
        self.ledger = Ledger()
        runner._hooks = [self.ledger]

    def __call__(self) -> None:
        """Run the next round."""
        self.runner.train_loop._run_round()
        if self.runner.flat.w.is_cuda:
            torch.cuda.synchronize()

    def flops(self) -> int:
        """Run the next round; floating-point operations of its network passes."""
        trainer = self.runner.trainer
        step, trainer.step = trainer.step, EagerStep(trainer)  # a replayed graph cannot be counted
        counter = FlopCounterMode(display=False)
        with counter:
            self()
        trainer.step = step
        return counter.get_total_flops()

    def kept(self) -> float:
        """Vectors like the model's that a client keeps between its rounds."""
        store, w = self.runner.store, self.runner.flat.w
        sizes = [sum(t.nbytes for t in store.get(k).values()) for k in store.keys()]  # noqa: SIM118
        return max(sizes, default=0) / w.nbytes


def prepare(
    methods: Mapping[str, Sequence[str]],
    work_dir: Path,
    clients: int,
    samples: int,
    amp: bool,
    options: Sequence[str] = (),
) -> dict[str, MethodRound]:
    """A runner for every method, all on the same data with the same participants in every round.

    Clipping of gradients, which some experiments have, is left out: it is no algorithm's.

    Args:
        methods: names of configs/methods, by the method's name in the table.
        work_dir: for what the runs write.
        clients: participants of a round.
        samples: a client's images, where they are random.
        amp: local training in bfloat16.
        options: ``KEY=VALUE`` overrides of all configs.
    """
    rounds: dict[str, MethodRound] = {}
    data = None
    for number, (name, method) in enumerate(methods.items()):
        config = load_config(setting_file(SETTING), method, work_dir=work_dir, options=options)
        config = adapt(config, clients, samples, test_images=10)
        config.work_dir = str(work_dir / str(number))
        config.val_dataloader = config.val_evaluator = config.val_cfg = None
        config.optim_wrapper.pop("clip_grad", None)
        config.optim_wrapper.optimizer.lr = RATE
        config.train_cfg.amp = amp
        runner = build(config)
        chosen = [runner.data.clients[c] for c in runner.client_sampler.participants(1)]
        runner.client_sampler = FixedSampler([chosen], repeat=True)
        runner.client_sampler.bind(runner.data.clients, runner.seed)
        data = data or runner.data
        runner.data = runner.trainer.data = data  # the images once, not for each
        rounds[name] = MethodRound(runner)
    return rounds


def algorithms(rounds: dict[str, MethodRound], repeats: int) -> dict[str, Any]:
    """Measure rounds of all methods.

    Args:
        rounds: from :func:`prepare`, FedAvg among them.
        repeats: timed rounds of each, after two that are not timed.

    Returns:
        Figures of all, and by name of each under ``"methods"``. Ratios of times are medians over
        the turns, of the clock on the wall and of the processors' time (which other processes
        disturb less).
    """
    flops = {}
    for name, run in rounds.items():
        run()  # gives every client its first state
        flops[name] = run.flops()
    wall, processor = _timed_beside_reference(rounds, repeats)
    reference = rounds[REFERENCE]
    device = reference.runner.flat.w.device
    chosen = reference.runner.client_sampler.participants(1)
    figures: dict[str, Any] = {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "clients a round": len(chosen),
        "steps a round": sum(reference.runner.data.num_steps(client) for client in chosen),
        "methods": {},
    }
    for name, run in rounds.items():
        passes = flops[name] / flops[REFERENCE]
        ratio = statistics.median(own / other for other, own in wall[name])
        figures["methods"][name] = {
            "parameters": run.runner.flat.num_parameters,
            "seconds a round": statistics.median(own for _, own in wall[name]),
            "round / FedAvg": ratio,
            "passes a step": passes,
            "round / (passes x FedAvg)": ratio / passes,
            "traffic / FedAvg": run.ledger.traffic[-1] / reference.ledger.traffic[-1],
            "vectors kept": run.kept(),
            "vectors in training": run.ledger.held,
            "processor time / (passes x FedAvg)": statistics.median(
                own / other / passes for other, own in processor[name]
            ),
        }
    return figures


def _timed_beside_reference(
    rounds: dict[str, MethodRound], repeats: int
) -> tuple[dict[str, list[tuple[float, float]]], dict[str, list[tuple[float, float]]]]:
    """Pairs (FedAvg's, own) of a round's seconds and processor seconds, for each turn."""
    wall: dict[str, list[tuple[float, float]]] = {name: [] for name in rounds}
    processor: dict[str, list[tuple[float, float]]] = {name: [] for name in rounds}
    for _ in range(repeats):
        for name, run in rounds.items():
            first, second = _clocked(rounds[REFERENCE]), _clocked(run)
            wall[name].append((first[0], second[0]))
            processor[name].append((first[1], second[1]))
    return wall, processor


def _clocked(run: MethodRound) -> tuple[float, float]:
    wall, processor = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - wall, time.process_time() - processor


COLUMNS = {  # of the figures of a method, and how they are written
    "round / FedAvg": ".2f",
    "passes a step": ".2f",
    "round / (passes x FedAvg)": ".3f",
    "traffic / FedAvg": ".2f",
    "vectors kept": ".3g",
    "vectors in training": ".3g",
}


def _rows(figures: Mapping[str, Any]) -> list[list[str]]:
    return [
        [name, *(format(own[column], spec) for column, spec in COLUMNS.items())]
        for name, own in figures["methods"].items()
    ]


def as_table(title: str, figures: Mapping[str, Any]) -> Table:
    """The figures of :func:`algorithms` for the terminal."""
    table = Table(title=title)
    table.add_column("method", no_wrap=True)
    for column in COLUMNS:
        table.add_column(column, justify="right")
    for row in _rows(figures):
        table.add_row(*row)
    return table


def as_markdown(figures: Mapping[str, Any]) -> str:
    """The same as a Markdown table."""
    rows = [["", *COLUMNS], ["---", *["---:"] * len(COLUMNS)], *_rows(figures)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
