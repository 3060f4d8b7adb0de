"""Testing a checkpoint: metrics of every domain, and the files that keep them."""

import copy
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mmengine.config import Config

from fedseg.config.check import complete_config, drop_weights
from fedseg.errors import ConfigError
from fedseg.evaluation.sets import EvaluationSet
from fedseg.files import sha256, write_text
from fedseg.metric_names import find_set, nest
from fedseg.runner.checkpoint import load_checkpoint
from fedseg.runner.runner import FederatedRunner
from fedseg.runs.config import config_digest
from fedseg.runs.history import plain
from fedseg.runs.results import package_versions
from fedseg.runs.schema import TEST_SCHEMA_VERSION
from fedseg.runs.tables import csv_text


def evaluate_checkpoint(
    config: Config, checkpoint: Path, recorded: Config | None = None
) -> tuple[FederatedRunner, dict[str, Any]]:
    """Evaluate a checkpoint on every test domain of a config; needs no training data.

    Args:
        config: as :func:`fedseg.runner.experiment.load_config` gives it; ``work_dir`` is where
            logs go, which should not be a run's own work dir.
        recorded: all of a run's config, of which ``config`` is a part.

    Returns:
        The runner, and the content of ``test_results.json``.
    """
    payload, checksum = load_checkpoint(checkpoint), sha256(checkpoint)  # a run may delete it
    whole = complete_config(config)
    tested = copy.deepcopy(whole)
    drop_weights(tested.model)
    runner = FederatedRunner.from_complete(tested)
    if runner.cfg.test_dataloader is None:
        where = runner.cfg.filename or "the config"
        raise ConfigError(
            f"{where}: has neither test_dataloader nor val_dataloader, nothing to test"
        )
    if _lacks_estimate(runner, payload):
        runner.logger.warning(
            "averaging.bn='reestimate': the checkpoint of a round that was not evaluated keeps "
            "averaged statistics, and they are tested"
        )
    metrics = runner.test(checkpoint, _announcer(), payload)
    loop = runner.test_loop
    domains = nest(metrics, loop.details)
    images = {test.name: len(test.samples) for test in loop.sets}
    for domain, entry in domains.items():
        name = find_set(domain, images)
        if name is not None:
            entry["images"] = images[name]
    meta = payload.get("meta") or {}
    results = {
        "schema_version": TEST_SCHEMA_VERSION,
        "name": runner.name,
        "config_sha256": config_digest(whole if recorded is None else recorded),
        "trained_config_sha256": meta.get("config_sha256"),
        "checkpoint": str(checkpoint),
        "checkpoint_sha256": checksum,
        "round": payload.get("round"),
        "averaged": "averaged_state_dict" in payload,
        "seed": meta.get("seed"),
        "amp": bool(runner.cfg.train_cfg.get("amp", False)),
        "device": str(runner.flat.w.device),
        "versions": package_versions(),
        "domains": domains,
        **({"groups": loop.tables["sets"]} if loop.tables["sets"] else {}),
        **({"confusion": loop.confusions} if loop.confusions else {}),
    }
    return runner, plain(results)


def _lacks_estimate(runner: FederatedRunner, payload: Mapping[str, Any]) -> bool:
    """True for an averaged model whose BatchNorm statistics were not re-estimated as configured."""
    if getattr(runner.averaging, "bn", None) != "reestimate":
        return False
    if runner.local_state is not None and not runner.local_state.estimable:
        return False
    return "averaged_state_dict" in payload and not payload.get("reestimated")


def write_test_results(results: dict[str, Any], folder: Path) -> list[Path]:
    """Write ``test_results.json`` and, where classes have an IoU, ``iou_by_class.csv``."""
    path = folder / "test_results.json"
    write_text(path, json.dumps(results, indent=2) + "\n")
    columns = [d for d, entry in results["domains"].items() if entry.get("IoU")]
    if not columns:
        return [path]
    table = folder / "iou_by_class.csv"
    # full precision; empty where the class does not occur
    by_class = {d: results["domains"][d]["IoU"] for d in columns}
    rows = [(name, *(by_class[d].get(name) for d in columns)) for name in by_class[columns[0]]]
    write_text(table, csv_text(("class", *columns), rows))
    return [path, table]


def _announcer() -> Callable[..., None]:
    """A function that prints a line as the first images of a domain are evaluated."""
    announced = set()

    def announce(test: EvaluationSet, domain: str, indices: list[int], _: Any) -> None:
        if domain not in announced:
            announced.add(domain)
            print(f"testing {domain}: {len(test.samples)} images", file=sys.stderr, flush=True)

    return announce
