"""Steps of a segmentation round beside a hand-written loop, waits for data, memory; evaluation.

Both sides train the same network on the same batches in one process, in turns. The hand-written
loop is what one would write without any framework: forward, backward, ``torch.optim.SGD``, nothing
else.
"""

import copy
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.utils import import_modules_from_strings

from benchmarks import engine
from benchmarks.engine import CONFIGS, EngineRounds, in_own_process
from fedseg.core.client_data import ClientData, Job, JobStream
from fedseg.core.forward import prepare_batch
from fedseg.runner.experiment import errors_name_their_source, load_config
from fedseg.runner.runner import FederatedRunner

MEMORY_CLIENTS = (5, 50)
WAITING_ROUNDS = 3
RHO = 0.01


class RecordedData(ClientData):
    """Each client's batches from memory, so that loading is not what is timed."""

    def __init__(self, source: ClientData, clients: list[int]) -> None:
        self.clients, self.sizes = source.clients, source.sizes
        jobs = [Job(1, 0, client) for client in clients]
        source.start(jobs)
        self.recorded = {job.client: list(source.batches(job)) for job in jobs}
        source.close()

    def num_steps(self, client: int) -> int:
        return len(self.recorded[client])

    def batches(self, job: Job) -> Iterator[Any]:
        yield from self.recorded[job.client]


def hand_written(runner: FederatedRunner, batches: list[Any]) -> Callable[[], None]:
    """A loop over the batches with a copy of the model, its parameters ordinary ones again."""
    model = copy.deepcopy(runner.model)
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()
        parameter.grad = None
    model.to(memory_format=torch.channels_last)  # as the engine's
    options = {k: v for k, v in runner.cfg.optim_wrapper.optimizer.items() if k != "type"}
    optimizer = torch.optim.SGD(model.parameters(), **options)
    device, amp = runner.flat.w.device.type, runner.trainer.amp

    def run() -> None:
        model.train()
        for batch in batches:
            data = model.data_preprocessor(batch, training=True)
            with torch.autocast(device, dtype=torch.bfloat16, enabled=amp):
                losses = model(**data, mode="loss")
                loss = sum(value for name, value in losses.items() if "loss" in name)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()

    return run


def segmentation(
    folder: Path,
    config: Path = CONFIGS / "demo.py",
    clients: int = 2,
    local_steps: int = 12,
    repeats: int = 5,
    amp: bool = False,
    cfg_options: Sequence[str] = (),
) -> dict[str, Any]:
    """Steps of the engine and of a hand-written loop, SAM beside SGD, waits for data, and memory.

    12 local steps are FedDrive's: 48 images, 2 epochs, batches of 8.
    """
    cfg = load_config(config, work_dir=folder, options=cfg_options)
    engine.make_streets(cfg)
    cfg.train_cfg.amp = amp
    with errors_name_their_source(cfg):
        peaks = {f"{n} clients": in_own_process(peak_of_round, cfg, n) for n in MEMORY_CLIENTS}
        measured = measure(cfg, repeats, clients, local_steps)
    return {**measured, "peak memory, MiB": peaks}


def measure(config: Config, repeats: int, clients: int, local_steps: int) -> dict[str, Any]:
    """Time the sides, all but memory; the config is changed."""
    engine.strip(config, clients)
    config.train_cfg.update(local_epochs=None, local_steps=local_steps)
    runner = engine.build(config)
    chosen, source = engine.fix_participants(runner), runner.data
    data = RecordedData(source, chosen)
    batches = [batch for client in chosen for batch in data.recorded[client]]
    sgd = engine.local_optimizer(runner, type="OptimWrapper")
    sam = engine.local_optimizer(runner, type="SAMOptimWrapper", rho=RHO)
    engine.use_data(runner, data)
    sides = {
        "hand-written loop": hand_written(runner, batches),
        "engine, SGD": EngineRounds(runner, sgd),
        "engine, SAM": EngineRounds(runner, sam),
    }
    seconds = engine.alternate(sides, repeats)
    engine.use_data(runner, source)
    return {
        "steps": len(batches),
        "seconds per step": {name: m / len(batches) for name, m in engine.medians(seconds).items()},
        "engine / hand-written": engine.median_ratio(seconds, "engine, SGD", "hand-written loop"),
        "SAM / SGD": engine.median_ratio(seconds, "engine, SAM", "engine, SGD"),
        "waiting for data / training": share_of_waiting(EngineRounds(runner, sgd)),
    }


def share_of_waiting(rounds: EngineRounds) -> float:
    """Share of the training that waits for the loader, the first round left out."""
    run = rounds.runner
    run.data.start(JobStream(run.client_sampler.participants, 1, WAITING_ROUNDS + 1))
    try:
        for _ in range(WAITING_ROUNDS + 1):
            rounds()
    finally:
        run.data.close()
    return statistics.fmean(rounds.share("data_wait", "train", WAITING_ROUNDS))


def peak_of_round(config: Config, clients: int) -> float:
    """Peak memory of this process, MiB, after one round of one local step per client."""
    if config.get("custom_imports"):  # this process has not read the file
        import_modules_from_strings(**config.custom_imports)
    engine.strip(config, clients)
    config.train_cfg.update(max_rounds=1, local_epochs=None, local_steps=1)
    config.val_dataloader = config.val_evaluator = config.val_cfg = None
    config.train_dataloader.num_workers = 0
    config.work_dir = f"{config.work_dir}/{clients} clients"
    FederatedRunner.from_cfg(config).train()
    return engine.peak()


def evaluation(
    folder: Path,
    config: Path = CONFIGS / "demo.py",
    images: int = 8,
    repeats: int = 5,
    cfg_options: Sequence[str] = (),
) -> dict[str, Any]:
    """Time an evaluation beside the forward passes alone, and loading."""
    cfg = load_config(config, work_dir=folder, options=cfg_options)
    engine.make_streets(cfg)
    with errors_name_their_source(cfg):
        runner = FederatedRunner.from_cfg(engine.strip(cfg, 1))
        runner.build_federation()
    test = runner.val_loop.sets[-1]
    test.samples = test.samples[:images]
    recorded = list(test.batches(test.plan(test.samples), False))
    test.batches = lambda plan, pin_memory: iter(recorded)  # loading is not timed
    model, w = runner.model, runner.flat.w

    @torch.no_grad()
    def predict() -> None:
        model.eval()
        for _, batch in recorded:
            data = prepare_batch(model, batch, w.dtype, training=False)
            with runner.autocast():
                model.outputs(data["inputs"], auxiliary=False)

    def evaluate() -> None:
        runner.val_loop.domains.run(w, runner.flat.buffers, sets=[test])

    def load() -> None:
        for index in test.samples:
            test.dataset[index]

    sides = {"forward": predict, "evaluation": evaluate, "loading": load}
    seconds = engine.alternate(sides, repeats)
    per_image = {name: median / images for name, median in engine.medians(seconds).items()}
    return {
        "seconds per image": per_image,
        "evaluation / forward": engine.median_ratio(seconds, "evaluation", "forward"),
    }
