"""Check that a history has the rounds, participants, evaluations and traffic of its config."""

from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from mmengine.config import Config

from fedseg.core.client import Client
from fedseg.core.client_data import ClientData, Job
from fedseg.core.server import Server
from fedseg.engine.loop import FederatedTrainLoop
from fedseg.engine.trainer import ClientTrainer
from fedseg.metric_names import Metric
from fedseg.optim import build_local_optimizer
from fedseg.registry import ALGORITHMS, SAMPLERS, build
from fedseg.runner.plan import rehearse

SCHEDULE = ("max_rounds", "val_interval", "val_last_rounds", "val_last_interval")


class _IdleTrainer(ClientTrainer):
    """Clients that do not train: what they send has the right size all the same."""

    def _local_steps(self, client: Client) -> None:
        client.step = client.num_steps


class _NoBatches(ClientData):
    """The data of clients that do not train."""

    def __init__(self, client_sizes: Mapping[str, int]) -> None:
        self.clients, self.sizes = list(client_sizes), list(client_sizes.values())

    def num_steps(self, client: int) -> int:
        return 1

    def full_sizes(self, client: int) -> list[int]:
        return []

    def batches(self, job: Job) -> Iterator[Any]:
        return iter(())


def train_loop(config: Config) -> FederatedTrainLoop:
    """The loop of a complete config, to be asked for its schedule only."""
    options = {key: config.train_cfg[key] for key in SCHEDULE if key in config.train_cfg}
    return FederatedTrainLoop(None, None, **options)


def expected_rounds(
    config: Config, runner: Any, client_sizes: Mapping[str, int], count: int
) -> list[dict[str, Any]]:
    """The expected rounds: round, participants, their samples, bytes, whether evaluated.

    The config is complete, and safe to build of; the runner has its model and BatchNorm policy;
    ``client_sizes`` are samples in partition order; ``count``: rounds that are asked for at most.
    """
    algorithm = build(ALGORITHMS, config.algorithm, "algorithm")
    local = build_local_optimizer(config.optim_wrapper, runner.flat)
    algorithm.check(local, runner.flat)
    algorithm.bind(runner.flat)
    server = Server(runner.flat, len(client_sizes), algorithm.server_vectors)
    if runner.batchnorm is not None:
        runner.batchnorm.before_train(SimpleNamespace(server=server))
    data = _NoBatches(client_sizes)
    seed = config.randomness.seed
    trainer = _IdleTrainer(
        runner.flat, algorithm, local, data, seed=seed, call_hook=lambda *_, **__: None
    )
    sent = rehearse(trainer, server, 0)
    sampler = build(SAMPLERS, config.client_sampler, "client_sampler")
    sampler.bind(data.clients, seed)
    loop = train_loop(config)
    rounds = []
    for number in range(1, min(loop.max_rounds, count) + 1):
        chosen = sampler.participants(number)
        rounds.append(
            {
                "round": number,
                "participants": [data.clients[client] for client in chosen],
                "samples": [data.sizes[client] for client in chosen],
                "bytes_down": sent.down * len(chosen),
                "bytes_up": sent.up * len(chosen),
                "evaluated": config.get("val_dataloader") is not None and loop.evaluates(number),
            }
        )
    return rounds


def compared_rounds(
    history: Sequence[Mapping[str, Any]], expected: Sequence[Mapping[str, Any]], config: Config
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The history as it is and as it should be, by round; it is in order and has no gaps."""
    loop, tests = train_loop(config), config.get("val_dataloader") or {}
    at_end = {n for n, test in tests.items() if test is not None and test.get("final_only")}
    metrics = {n for n in history[-1].get("metrics", ()) if Metric.parse(n).set not in at_end}
    there: dict[str, Any] = {"rounds": len(history)}
    wanted: dict[str, Any] = {"rounds": loop.max_rounds}
    for record, round_ in zip(history, expected, strict=False):
        number, evaluated = round_["round"], "metrics" in record
        found = {
            "participants": [one["client"] for one in record["participants"]],
            "samples": [one.get("samples") for one in record["participants"]],
            **{name: record[name] for name in ("bytes_down", "bytes_up")},
            "evaluated": evaluated,
            "missing metrics": sorted(metrics - record["metrics"].keys()) if evaluated else [],
        }
        should = {name: round_.get(name, []) for name in found}
        if number <= loop.max_rounds - loop.val_last_rounds and not should["evaluated"]:
            # outside the window, a run that was prolonged has more evaluations
            should["evaluated"] = evaluated
        there[f"round {number}"], wanted[f"round {number}"] = found, should
    return there, wanted
