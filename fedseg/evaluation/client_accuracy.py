"""Accuracy of the evaluated model for each client: what heterogeneous training forgets."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedseg.core.hook import FederatedHook
from fedseg.errors import ConfigError
from fedseg.evaluation.domains import EvaluatedRun
from fedseg.files import write_text
from fedseg.metric_names import global_name
from fedseg.registry import HOOKS

DETAIL = "accuracy_by_class"


@HOOKS.register_module()
class ClientAccuracyHook(FederatedHook):
    """Adds ``client_accuracy`` to the history's line of every evaluated round, and to the results.

    It is the accuracy, in PERCENT, of the global model (with ``evaluate_global``, else of the model
    that is evaluated) on the test images, each class weighted by its share among the client's
    training images. With one class for each client it shows which classes the last rounds'
    participants have made the model forget (Caldarola et al., ECCV 2022, section 3). Data sets
    without class labels have none, and nothing is added.

    Where the partition holds out images of the clients, ``clients.json`` in the run's folder has
    the figures of every client on its own ones, in all and by class, of the last evaluation.

    Args:
        domain: the test set to use; None: the first one that has an accuracy by class.
    """

    def __init__(self, domain: str | None = None) -> None:
        self.domain = domain
        self._mix: np.ndarray | None = None

    def before_train(self, runner: EvaluatedRun) -> None:
        sets = [test.name for test in runner.val_loop.sets] if runner.val_loop is not None else []
        if self.domain is not None and self.domain not in sets:
            raise ConfigError(
                f"default_hooks.client_accuracy.domain: {self.domain!r} is no test set; there is "
                f"{', '.join(sets) or 'none'}"
            )

    def after_val_epoch(self, runner: EvaluatedRun, metrics: Mapping[str, Any]) -> None:
        record = runner.train_loop.pending if runner.data is not None else None
        if record is not None and (clients := getattr(runner.val_loop, "clients", None)):
            content = {"round": record["round"], "sets": clients}
            write_text(Path(runner.work_dir) / "clients.json", json.dumps(content, indent=1) + "\n")
        if record is None or not _has_classes(runner.data.dataset):
            return
        if (accuracies := self._accuracies(runner)) is not None:
            record["client_accuracy"] = accuracies

    def results(self, runner: EvaluatedRun, history: list[dict[str, Any]]) -> dict[str, Any]:
        lines = [record for record in history if record.get("client_accuracy")]
        if not lines:
            return {}
        return {
            "client_accuracy": {
                "images": "test",
                "clients": list(runner.data.clients),
                "classes": list(runner.data.dataset.metainfo["classes"]),
                "main_class": self._class_mix(runner).argmax(axis=1).tolist(),
                "rounds": [record["round"] for record in lines],
                "accuracy": [record["client_accuracy"] for record in lines],
            }
        }

    def _class_mix(self, runner: EvaluatedRun) -> np.ndarray:
        """float64 [clients, classes]: each client's share of every class."""
        if self._mix is None:
            dataset = runner.data.dataset
            labels, classes = np.asarray(dataset.labels), len(dataset.metainfo["classes"])
            counts = [
                np.bincount(labels[runner.data.indices[client]], minlength=classes)
                for client in runner.data.clients
            ]
            self._mix = np.stack(counts) / np.asarray(runner.data.sizes)[:, None]
        return self._mix

    def _accuracies(self, runner: EvaluatedRun) -> list[float | None] | None:
        details = runner.val_loop.details
        names = [self.domain] if self.domain else [test.name for test in runner.val_loop.sets]
        names = [*map(global_name, names), *names]
        keys = (key for n in names for key in details if key == n or key.startswith(f"{n}/"))
        chosen = next((details[key][DETAIL] for key in keys if details[key].get(DETAIL)), None)
        if chosen is None:
            return None
        by_class = np.array([np.nan if v is None else v for v in chosen.values()], dtype=float)
        mix = self._class_mix(runner)
        if mix.shape[1] != len(by_class):
            return None
        tested = np.isfinite(by_class)  # a class without a test image says nothing
        weight = mix[:, tested].sum(axis=1)
        values = mix[:, tested] @ by_class[tested] / np.where(weight > 0, weight, np.nan)
        return [float(v) if np.isfinite(v) else None for v in values]


def _has_classes(dataset: Any) -> bool:
    labels = getattr(dataset, "labels", None)
    classes = (getattr(dataset, "metainfo", None) or {}).get("classes")
    if labels is None or classes is None or not len(classes):
        return False
    first = np.asarray(labels[0])
    return first.ndim == 0 and np.issubdtype(first.dtype, np.integer)
