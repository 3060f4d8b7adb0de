"""Check that a history has the rounds, participants, evaluations and traffic of its config."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mmengine.config import Config

from fedseg.core.client import Client
from fedseg.core.client_data import ClientData, Job
from fedseg.core.server import Server
from fedseg.engine.loop import FederatedTrainLoop
from fedseg.engine.trainer import ClientTrainer
from fedseg.metric_names import Metric, find_set
from fedseg.optim import build_local_optimizer
from fedseg.registry import ALGORITHMS, PRIVACIES, SAMPLERS, build
from fedseg.runner.build import build_local_loss, build_postprocessors, declare_payloads
from fedseg.runner.plan import rehearse
from fedseg.updates.accountant import Accountant

SCHEDULE = (
    *("max_rounds", "val_interval", "val_last_rounds", "val_last_interval", "val_initial"),
    "val_shares",
)


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


def client_traffic(config: Config, runner: Any, client_sizes: Mapping[str, int]) -> Any:
    """The bytes between the server and a participant in a round, without training."""
    algorithm = build(ALGORITHMS, config.algorithm, "algorithm")
    rounds = config.train_cfg.max_rounds
    local = build_local_optimizer(config.optim_wrapper, runner.flat, rounds)
    algorithm.local_state = runner.local_state
    algorithm.setup(runner.flat, local, rounds)
    server = Server(runner.flat, len(client_sizes), algorithm.server_vectors, runner.local_state)
    options = {"seed": config.randomness.seed, "call_hook": lambda *_, **__: None}
    data = algorithm.data = _NoBatches(client_sizes)
    loss = build_local_loss(config)
    loss.data = data
    loss.setup(runner.flat)
    options |= {"payloads": declare_payloads([algorithm, loss], data, runner.flat)}
    postprocessors = build_postprocessors(config)
    for step in postprocessors:
        step.setup(runner.flat, algorithm, data, config.randomness.seed)
    options |= {
        "local_loss": loss,
        "local_state": runner.local_state,
        "postprocessors": postprocessors,
    }
    trainer = _IdleTrainer(runner.flat, algorithm, local, data, **options)
    return rehearse(trainer, server, 0)


def privacy_accountant(config: Config, client_sizes: Mapping[str, int]) -> Accountant | None:
    """The accountant of a run's budget; None without privacy."""
    if config.get("privacy") is None:
        return None
    privacy = build(PRIVACIES, config.privacy, "privacy")
    return privacy.accountant_of(client_sampler(config, client_sizes))


def client_sampler(config: Config, client_sizes: Mapping[str, int]) -> Any:
    """The sampler of a run's participants."""
    sampler = build(SAMPLERS, config.client_sampler, "client_sampler")
    sampler.bind(list(client_sizes), config.randomness.seed)
    return sampler


def check_rounds(
    history: Sequence[Mapping[str, Any]],
    stated: Config,
    config: Config,
    runner: Any,
    client_sizes: Mapping[str, int],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The rounds of a history as they are and as they should be; it is in order, without gaps.

    ``stated`` is the config as the run recorded it; the other arguments are those of
    :func:`client_traffic`, with the samples of the clients in partition order.
    """
    sent, names = client_traffic(config, runner, client_sizes), list(client_sizes)
    sampler = client_sampler(config, client_sizes)
    accountant = privacy_accountant(config, client_sizes)
    schedule = {key: stated.train_cfg[key] for key in SCHEDULE if key in stated.train_cfg}
    loop = FederatedTrainLoop(None, None, **schedule)  # asked for its schedule only
    tests = stated.get("val_dataloader") or {}
    has_tests = stated.get("val_dataloader") is not None
    at_end = {n for n, test in tests.items() if test is not None and test.get("final_only")}
    metrics = {
        name
        for name in history[-1].get("metrics", ())
        if find_set(Metric.parse(name).domain, tests) not in at_end
    }
    actual: dict[str, Any] = {"rounds": len(history)}
    expected: dict[str, Any] = {"rounds": loop.max_rounds}
    for number, record in enumerate(history[: loop.max_rounds], start=1):
        clients = [names[client] for client in sampler.participants(number)]
        evaluated = "metrics" in record
        # outside the window, a run that was prolonged has more evaluations
        prolonged = evaluated and number <= loop.max_rounds - loop.val_last_rounds
        actual[f"round {number}"] = {
            "participants": [entry["client"] for entry in record["participants"]],
            "samples": [entry.get("samples") for entry in record["participants"]],
            "bytes_down": record["bytes_down"],
            "bytes_up": record["bytes_up"],
            "evaluated": evaluated,
            "initial": bool(record.get("initial_metrics")),
            "missing metrics": sorted(metrics - record["metrics"].keys()) if evaluated else [],
        }
        expected[f"round {number}"] = {
            "participants": clients,
            "samples": [client_sizes[client] for client in clients],
            "bytes_down": sent.down * len(clients),
            "bytes_up": sent.up * len(clients),
            "evaluated": (has_tests and loop.evaluates(number)) or prolonged,
            "initial": number == 1 and has_tests and loop.val_initial,
            "missing metrics": [],
        }
        if accountant is not None:
            actual[f"round {number}"]["epsilon"] = record.get("epsilon")
            expected[f"round {number}"]["epsilon"] = accountant.epsilon(number)
    return actual, expected
