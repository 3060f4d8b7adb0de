"""Check that a history has the rounds, participants and evaluations that its config asks for."""

from collections.abc import Mapping, Sequence
from typing import Any

from mmengine.config import Config

from fedseg.engine.loop import FederatedTrainLoop
from fedseg.metric_names import Metric, find_set
from fedseg.registry import PRIVACIES, SAMPLERS, build
from fedseg.updates.accountant import Accountant

SCHEDULE = (
    "max_rounds",
    "val_interval",
    "val_last_rounds",
    "val_last_interval",
    "val_initial",
    "val_shares",
)


def privacy_accountant(config: Config, client_sizes: Mapping[str, int]) -> Accountant | None:
    """Build the accountant of a run's budget; None without privacy."""
    if config.get("privacy") is None:
        return None
    privacy = build(PRIVACIES, config.privacy, "privacy")
    return privacy.accountant_of(client_sampler(config, client_sizes))


def client_sampler(config: Config, client_sizes: Mapping[str, int]) -> Any:
    """Build the sampler of a run's participants."""
    sampler = build(SAMPLERS, config.client_sampler, "client_sampler")
    sampler.bind(list(client_sizes), config.randomness.seed)
    return sampler


def check_rounds(
    history: Sequence[Mapping[str, Any]],
    stated: Config,
    config: Config,
    client_sizes: Mapping[str, int],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Describe the rounds of a history as they are and as they should be.

    Args:
        history: its lines, in order and without gaps.
        stated: the config as the run recorded it.
        config: the same with the options of the user who verifies it.
        client_sizes: samples by client, in the order of the partition.

    Returns:
        (actual, expected), each ``{"rounds": count, "round 1": {...}, ...}``.
    """
    names = list(client_sizes)
    sampler = client_sampler(config, client_sizes)
    accountant = privacy_accountant(config, client_sizes)
    schedule = {key: stated.train_cfg[key] for key in SCHEDULE if key in stated.train_cfg}
    loop = FederatedTrainLoop(None, None, **schedule)  # asked for its schedule only
    has_tests = stated.get("val_dataloader") is not None
    metrics = _metrics_of_every_evaluation(history, stated)
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
            "evaluated": evaluated,
            "initial": bool(record.get("initial_metrics")),
            "missing metrics": sorted(metrics - record["metrics"].keys()) if evaluated else [],
        }
        expected[f"round {number}"] = {
            "participants": clients,
            "samples": [client_sizes[client] for client in clients],
            "evaluated": (has_tests and loop.evaluates(number)) or prolonged,
            "initial": number == 1 and has_tests and loop.val_initial,
            "missing metrics": [],
        }
        if accountant is not None:
            actual[f"round {number}"]["epsilon"] = record.get("epsilon")
            expected[f"round {number}"]["epsilon"] = accountant.epsilon(number)
    return actual, expected


def _metrics_of_every_evaluation(history: Sequence[Mapping[str, Any]], config: Config) -> set[str]:
    """Name the metrics of the last round, but those of test sets that are evaluated once."""
    tests = config.get("val_dataloader") or {}
    at_end = {name for name, test in tests.items() if test is not None and test.get("final_only")}
    names = history[-1].get("metrics", ())
    return {name for name in names if find_set(Metric.parse(name).domain, tests) not in at_end}
