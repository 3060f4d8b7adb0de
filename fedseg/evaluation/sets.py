"""Test images of one domain with their own metrics: streamed, resident, or corrupted."""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from fedseg.checks import check_bool, check_int
from fedseg.core.seeds import seed_for
from fedseg.datasets.batch_transforms import BatchPipeline
from fedseg.errors import ConfigError, MissingDataError
from fedseg.loaders.partitioned import balanced_batches
from fedseg.loaders.resident import require_arrays
from fedseg.loaders.streaming import (
    SeededDataset,
    build_collate,
    init_worker,
    plain_worker_errors,
)
from fedseg.registry import DATASETS, EVALUATION_SETS, METRICS, build, did_you_mean

RESIDENT_BYTES = 2**29  # a test set up to this size is kept on the device


def build_evaluation_set(
    name: str, config: Mapping[str, Any], evaluator: Any, kind: str, like: Tensor
) -> "EvaluationSet | None":
    """Build one entry of ``val_dataloader`` or ``test_dataloader``.

    Args:
        name: the domain. config: its loader config.
        evaluator: config of the metrics.
        kind: ``"val"`` or ``"test"``.
        like: a tensor of the model, whose device and dtype images are to have.

    Returns:
        The set; None for an ``optional`` one whose data are missing.
    """
    options = dict(config)
    field = f"{kind}_dataloader.{name}"
    optional = options.pop("optional", False)
    check_bool(f"{field}.optional", optional)
    loader = options.pop("type", "StreamingData")
    cls = EVALUATION_SETS.get(loader) if isinstance(loader, str) else loader
    if not (inspect.isclass(cls) and issubclass(cls, EvaluationSet)):
        EVALUATION_SETS.import_from_location()
        known = sorted(EVALUATION_SETS.module_dict)
        raise ConfigError(
            f"{field}.type: unknown loader {loader!r}{did_you_mean(str(loader), known)}; known: "
            f"{', '.join(known)}"
        )
    try:
        return cls(name, options, evaluator, kind, like)
    except MissingDataError:
        if optional:
            return None
        raise


@EVALUATION_SETS.register_module(name="StreamingData")
class EvaluationSet:
    """One domain's test images and its own metric.

    Args:
        name: the domain, for example ``"unseen"``.
        config: ``dict(batch_size=, num_workers=, dataset=, collate_fn=, prefetch_factor=)``, and
            ``final_only=True`` for a set that is evaluated only when training has ended.
        evaluator: config of the metric, or a list of them; built anew for every domain.
        kind: ``"val"`` or ``"test"``: whose config this is, for messages.
        like: a tensor of the model.
    """

    keys = ("batch_size", "num_workers", "dataset", "collate_fn", "prefetch_factor", "final_only")

    def __init__(
        self,
        name: str,
        config: Mapping[str, Any],
        evaluator: Any,
        kind: str = "val",
        like: Tensor | None = None,
    ) -> None:
        field = f"{kind}_dataloader.{name}"
        unknown = set(config) - set(self.keys)
        if unknown or "dataset" not in config:
            problem = f"unknown key {min(unknown)!r}" if unknown else "dataset is missing"
            known = ", ".join(("type", *self.keys, "optional"))
            raise ConfigError(f"{field}: {problem}; known: {known}")
        self.name = name
        self.dataset = build(DATASETS, config["dataset"], f"{field}.dataset")
        if not len(self.dataset):
            raise ConfigError(f"{field}.dataset: is empty")
        self.batch_size = config.get("batch_size", 1)
        check_int(f"{field}.batch_size", self.batch_size)
        self.final_only = config.get("final_only", False)
        check_bool(f"{field}.final_only", self.final_only)
        metrics = evaluator if isinstance(evaluator, list | tuple) else [evaluator]
        self.metrics = [build(METRICS, metric, f"{kind}_evaluator") for metric in metrics]
        for metric in self.metrics:
            metric.dataset_meta = getattr(self.dataset, "metainfo", None)
        self.domains: list[str] | None = getattr(self.dataset, "domains", None)
        self._set_up(config, field, like)

    def _set_up(self, config: Mapping[str, Any], field: str, like: Tensor | None) -> None:
        """Prepare how batches are made."""
        self.num_workers = config.get("num_workers", 0)
        self.prefetch_factor = config.get("prefetch_factor", 2)
        check_int(f"{field}.num_workers", self.num_workers, least=0)
        if self.prefetch_factor is not None:
            check_int(f"{field}.prefetch_factor", self.prefetch_factor)
        self.collate_fn = build_collate(config.get("collate_fn"))

    def groups(self) -> dict[str, np.ndarray]:
        """Sample indices of each value of the data set's ``domains``."""
        groups: dict[str, list[int]] = {}
        for index, domain in enumerate(self.domains or []):
            groups.setdefault(domain, []).append(index)
        return {domain: np.asarray(indices) for domain, indices in groups.items()}

    def plan(self, indices: np.ndarray) -> list[list[int]]:
        """Batches of nearly equal size over all of ``indices``, none dropped, in order."""
        return balanced_batches(indices, self.batch_size)

    def batches(self, plan: list[list[int]], pin_memory: bool) -> Iterator[tuple[list[int], Any]]:
        """(sample indices, batch) of every batch of a plan."""
        workers = min(self.num_workers, len(plan))
        loader = DataLoader(
            SeededDataset(self.dataset),
            batch_sampler=[[(int(i), seed_for(0, "evaluate", i)) for i in b] for b in plan],
            num_workers=workers,
            collate_fn=self.collate_fn,
            pin_memory=pin_memory,
            worker_init_fn=init_worker if workers else None,
            prefetch_factor=self.prefetch_factor if workers else None,
            generator=torch.Generator(),
        )
        loaded = iter(loader)
        for chosen in plan:
            with plain_worker_errors():
                batch = next(loaded)
            yield chosen, batch

    def process(self, indices: list[int], data: Any, predictions: Any) -> None:
        """Count one batch of predictions.

        Args:
            indices: its samples. data: the preprocessed batch. predictions: the model's.
        """
        for metric in self.metrics:
            metric.process(data_batch=data, data_samples=predictions)

    def score(self) -> dict[str, float]:
        """The metrics over everything that was processed, as plain floats; starts anew."""
        scores: dict[str, float] = {}
        for metric in self.metrics:
            figures = metric.evaluate(len(self.dataset))
            if not isinstance(figures, Mapping):
                raise ConfigError(
                    f"{type(metric).__name__}: must give its figures as a dict by name, not "
                    f"{type(figures).__name__}"
                )
            scores |= figures
        return {name: _plain(value) for name, value in scores.items()}

    def details(self) -> dict[str, Any]:
        """What the metrics keep beyond their figures: IoU per class (ask before ``score``)."""
        details: dict[str, Any] = {}
        for metric in self.metrics:
            if hasattr(metric, "per_class"):
                details[getattr(metric, "per_class_name", "IoU")] = metric.per_class()
        return details


@EVALUATION_SETS.register_module(name="ResidentData")
class ResidentSet(EvaluationSet):
    """Small test images in large batches, without a loader.

    Args:
        config: ``dict(dataset=, batch_size=, transforms=)``, ``final_only`` as above; transforms
            must not be random.
    """

    keys = ("batch_size", "dataset", "transforms", "final_only")

    def _set_up(self, config: Mapping[str, Any], field: str, like: Tensor | None) -> None:
        require_arrays(self.dataset, field)
        self.like = torch.zeros(()) if like is None else like
        self.pipeline = BatchPipeline(
            config.get("transforms", ()),
            self.dataset.images.shape[1:],
            len(self.dataset.classes),
            self.like.dtype,
            f"{field}.transforms",
        )
        for number, draws in enumerate(self.pipeline.draw(np.random.default_rng, [1])):
            if draws:
                name = type(self.pipeline.steps[number]).__name__
                raise ConfigError(
                    f"{field}.transforms[{number}]: {name} is random; test images are not augmented"
                )
        self._resident: tuple[Tensor, Tensor] | None = None

    def batches(self, plan: list[list[int]], pin_memory: bool) -> Iterator[tuple[list[int], Any]]:
        for chosen in plan:
            yield chosen, self._batch(*self._gather(np.asarray(chosen)))

    def prepare(self, images: np.ndarray, labels: np.ndarray) -> dict[str, Tensor]:
        """Any images, uint8 [B, H, W, C], as a batch of this set: on the device, normalized."""
        return self._batch(*self._upload(images, labels))

    def _batch(self, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return self.pipeline.apply(images, labels, [{}] * len(self.pipeline.steps))

    def _gather(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        if self.dataset.images.nbytes > RESIDENT_BYTES:
            return self._upload(*self.dataset.gather(indices))
        if self._resident is None:
            self._resident = self._upload(*self.dataset.gather(np.arange(len(self.dataset))))
        rows = torch.from_numpy(indices).to(self.like.device)
        return tuple(part.index_select(0, rows) for part in self._resident)

    def _upload(self, images: np.ndarray, labels: np.ndarray) -> tuple[Tensor, Tensor]:
        return tuple(torch.from_numpy(part).to(self.like.device) for part in (images, labels))


@EVALUATION_SETS.register_module(name="CorruptedData")
class CorruptedSet(ResidentSet):
    """Test images under corruptions of several severities (CIFAR-C).

    Figures: ``accuracy``, the mean over all corruptions and severities, and
    ``accuracy_severity_<n>``, the mean over the corruptions, in PERCENT; the detail
    ``corruptions`` has the accuracy of each corruption at each severity.

    The data set has ``groups``, the (corruption, severity) of every block of ``group_size`` images.
    """

    def _set_up(self, config: Mapping[str, Any], field: str, like: Tensor | None) -> None:
        super()._set_up(config, field, like)
        groups = getattr(self.dataset, "groups", None)
        if groups is None:
            raise ConfigError(
                f"{field}.dataset: {type(self.dataset).__name__} has no corruptions; use a "
                "CIFAR10CDataset or CIFAR100CDataset"
            )
        self._cells = list(groups)
        self._reset()

    def _reset(self) -> None:
        self._correct = np.zeros(len(self._cells), dtype=np.int64)
        self._total = np.zeros(len(self._cells), dtype=np.int64)

    def _gather(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        return self._upload(*self.dataset.gather(indices))

    def process(self, indices: list[int], data: Any, predictions: Any) -> None:
        if predictions.is_floating_point():  # logits
            predictions = predictions.argmax(dim=1)
        correct = (predictions == data["data_samples"]).cpu().numpy()
        cells = np.asarray(indices) // self.dataset.group_size
        self._correct += np.bincount(cells[correct], minlength=len(self._cells))
        self._total += np.bincount(cells, minlength=len(self._cells))

    def _accuracies(self) -> dict[tuple[str, int], float]:
        shares = 100 * self._correct / np.maximum(self._total, 1)
        return dict(zip(self._cells, shares.tolist(), strict=True))

    def score(self) -> dict[str, float]:
        accuracies = self._accuracies()
        self._reset()
        figures = {"accuracy": float(np.mean(list(accuracies.values())))}
        for severity in sorted({severity for _, severity in self._cells}):
            values = [value for cell, value in accuracies.items() if cell[1] == severity]
            figures[f"accuracy_severity_{severity}"] = float(np.mean(values))
        return figures

    def details(self) -> dict[str, Any]:
        table: dict[str, list[float]] = {}
        for (corruption, _), value in self._accuracies().items():
            table.setdefault(corruption, []).append(value)
        severities = sorted({severity for _, severity in self._cells})
        return {"corruptions": table, "severities": severities}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor | np.generic) else value
