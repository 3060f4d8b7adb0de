"""The cost of each algorithm's own arithmetic, beside FedAvg (docs/performance.md).

A round of each method is timed right after one of FedAvg, in turns in one process, on the same
images and with the same clients in every round. Before anything is counted or timed these have
taken part, so that their states exist. The learning rate is small, so that every round trains about
the same model: at the published one it would overfit these clients before the last turn.
"""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import engine
from benchmarks.classification import SETTING, adapt
from benchmarks.engine import EngineRounds, measure_seconds
from fedseg.core.client import Client
from fedseg.core.messages import Update
from fedseg.errors import ConfigError
from fedseg.memory import map_tensors
from fedseg.names import did_you_mean
from fedseg.runner.experiment import load_config
from fedseg.runner.runner import FederatedRunner

REFERENCE = "FedAvg"
RATE = 1e-4
CNN = (
    *("FedAvg", "FedProx", "SCAFFOLD", "FedDyn", "AdaBest", "FedCM", "FedACG", "FedGloSS-SGD"),
    *("FedSAM", "FedASAM", "FedGloSS-SAM", "FedGamma", "FedSpeed", "FedSMOO", "MIMELite", "MIME"),
    "MOON",
)
RESNET56 = ("FedAvg", "FedProx", "MOON", "StochDepth", "GradAug", "FedAlign")


class MethodRounds(EngineRounds):
    """Rounds of a method.

    Attributes:
        held: vectors like the model's that a client holds at the end of its local training: the
            model, its gradient, what it received, its state, and all work vectors. The most of the
            last round.
    """

    held = 0.0

    def before_round(self, runner: FederatedRunner) -> None:
        self.held = 0.0

    def after_client(self, runner: FederatedRunner, client: Client, update: Update) -> None:
        """As a hook: look for vectors wherever the method may keep them."""
        flat, local = runner.flat, client.local
        owners = (runner.algorithm, runner.trainer.local_loss, local, client)
        places = [flat.w, flat.grad, client.delta(), update.vectors, local.optimizer.state]
        places += [vars(owner) for owner in owners]
        tensors: list[Tensor] = []
        map_tensors(tensors.append, places)
        storages = {t.untyped_storage().data_ptr(): t.untyped_storage() for t in tensors}
        sizes = (s.nbytes() for s in storages.values() if s.nbytes() >= flat.w.nbytes)
        self.held = max(self.held, sum(sizes) / flat.w.nbytes)

    def flops(self) -> int:
        """Run the next round; floating-point operations of its network passes."""
        with FlopCounterMode(display=False) as counter:
            self()
        return counter.get_total_flops()

    def kept(self) -> float:
        """Vectors like the model's that a client keeps between its rounds."""
        store, w = self.runner.store, self.runner.flat.w
        sizes = [sum(t.nbytes for t in store.get(k).values()) for k in store.keys()]  # noqa: SIM118
        return max(sizes, default=0) / w.nbytes


def algorithms(
    folder: Path,
    only: Sequence[str] = (),
    resnet56: bool = False,
    clients: int = 5,
    samples: int = 500,
    repeats: int = 5,
    amp: bool = False,
    cfg_options: Sequence[str] = (),
) -> dict[str, Any]:
    """Every algorithm beside FedAvg.

    Ratios of times are medians; ``passes`` are floating-point operations of the network's passes
    over those of FedAvg.
    """
    known = RESNET56 if resnet56 else CNN
    for name in only:
        if name not in known:
            raise ConfigError(f"--only: unknown {name!r}{did_you_mean(name, known)}")
    names = [name for name in known if not only or name in (REFERENCE, *only)]
    return compare(prepare(folder, names, resnet56, clients, samples, amp, cfg_options), repeats)


def prepare(
    folder: Path,
    names: list[str],
    resnet56: bool,
    clients: int,
    samples: int,
    amp: bool,
    options: list[str],
) -> dict[str, MethodRounds]:
    """Rounds of every method, all on the same data with the same participants in every round.

    Gradient clipping, which some experiments have, is left out: it is no algorithm's.
    """
    rounds: dict[str, MethodRounds] = {}
    data = None
    for number, name in enumerate(names):
        methods = [name.lower().replace("-", "_"), *(["resnet56"] if resnet56 else [])]
        config = load_config(SETTING, methods, work_dir=folder, options=options)
        adapt(config, clients, samples, test_images=10)
        config.work_dir = str(folder / str(number))
        config.val_dataloader = config.val_evaluator = config.val_cfg = None
        config.optim_wrapper.pop("clip_grad", None)
        config.optim_wrapper.optimizer.lr = RATE
        config.train_cfg.amp = amp
        runner = engine.build(config)
        engine.fix_participants(runner)
        data = data or runner.data
        engine.use_data(runner, data)  # the images once, not for each
        rounds[name] = MethodRounds(runner)
    return rounds


def compare(rounds: Mapping[str, MethodRounds], repeats: int) -> dict[str, Any]:
    """Measure the rounds of all methods, FedAvg among them."""
    flops = {}
    for name, run in rounds.items():
        run()  # gives every client its first state
        flops[name] = run.flops()
    reference = rounds[REFERENCE]
    ratios: dict[str, list[float]] = {name: [] for name in rounds}
    for _ in range(repeats):
        for name, run in rounds.items():
            fedavg = measure_seconds(reference)
            ratios[name].append(measure_seconds(run) / fedavg)
    methods = {}
    for name, run in rounds.items():
        passes, ratio = flops[name] / flops[REFERENCE], statistics.median(ratios[name])
        methods[name] = {
            "round / FedAvg": ratio,
            "passes per step": passes,
            "round / (passes x FedAvg)": ratio / passes,
            "traffic / FedAvg": run.traffic[-1] / reference.traffic[-1],
            "vectors kept": run.kept(),
            "vectors in training": run.held,
        }
    chosen = reference.runner.client_sampler.participants(1)
    return {**engine.describe(reference.runner, chosen), "methods": methods}
