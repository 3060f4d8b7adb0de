"""Test images of one domain with their own metrics: streamed, resident, or corrupted."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedseg.checks import check_int, check_type, is_number, shown
from fedseg.core.seeds import generator_for, seed_for
from fedseg.errors import ConfigError, MissingDataError
from fedseg.evaluation.metrics import CountingMetric, labels_of
from fedseg.loaders.partitioned import balanced_batches, domains_of
from fedseg.loaders.resident import resident_pipeline
from fedseg.loaders.streaming import TIMEOUT, BatchLoader
from fedseg.registry import (
    BATCH_TRANSFORMS,
    DATASETS,
    EVALUATION_SETS,
    METRICS,
    build,
    check_component,
)

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
    check_evaluation_set(name, config, evaluator, kind)
    config = {"type": "StreamingData", **config}
    field = f"{kind}_dataloader.{name}"
    optional = config.pop("optional", False)
    metrics = [build(METRICS, metric, own) for own, metric in _metrics(evaluator, kind)]
    given = {"name": name, "field": field, "metrics": metrics, "like": like}
    try:
        return build(EVALUATION_SETS, config, field, given)
    except MissingDataError:
        if optional:
            return None
        raise


def check_evaluation_set(name: str, config: Mapping[str, Any], evaluator: Any, kind: str) -> None:
    """Raise ConfigError for what is wrong with an entry and its metrics whatever the data are.

    Arguments: those of :func:`build_evaluation_set`.
    """
    config = {"type": "StreamingData", **config}
    field = f"{kind}_dataloader.{name}"
    check_type(f"{field}.optional", config.pop("optional", False), bool)
    for own, metric in _metrics(evaluator, kind):
        check_component(METRICS, metric, own)
    check_component(EVALUATION_SETS, config, field, ("name", "field", "metrics", "like"))
    check_component(DATASETS, config.get("dataset"), f"{field}.dataset")
    for number, step in enumerate(config.get("transforms") or ()):
        build(BATCH_TRANSFORMS, step, f"{field}.transforms[{number}]")
    check_int(f"{field}.batch_size", config.get("batch_size", 1))


def _metrics(evaluator: Any, kind: str) -> list[tuple[str, Any]]:
    """(field, config) of every metric."""
    field = f"{kind}_evaluator"
    if isinstance(evaluator, list | tuple):
        return [(f"{field}[{number}]", metric) for number, metric in enumerate(evaluator)]
    return [(field, evaluator)]


class EvaluationSet(ABC):
    """One domain's test images and its own metrics.

    Args:
        name: the domain, for example ``"unseen"``.
        field: where its config stands, for messages.
        metrics: its metrics.
        like: a tensor of the model.
        dataset: a data set or its config.
        batch_size: images in a batch, at most.
        final_only: evaluate only when training has ended.
        drop_last: leave out a last, smaller batch where batch statistics normalize, as FedDrive's
            released code does.
    """

    def __init__(
        self,
        name: str,
        field: str,
        metrics: Sequence[Any],
        like: Tensor,
        *,
        dataset: Any,
        batch_size: int = 1,
        final_only: bool = False,
        drop_last: bool = False,
    ) -> None:
        self.name, self.field = name, field
        self.metrics = metrics
        self.like = like
        self.dataset = build(DATASETS, dataset, f"{field}.dataset")
        if not len(self.dataset):
            raise ConfigError(f"{field}.dataset: is empty")
        self.batch_size, self.final_only, self.drop_last = batch_size, final_only, drop_last
        for metric in metrics:
            metric.dataset_meta = getattr(self.dataset, "metainfo", None)
        self.domains: list[str] | None = domains_of(self.dataset)
        self._shared = False  # whether other processes have counted a part

    def groups(self) -> dict[str, np.ndarray]:
        """Sample indices of each value of the data set's ``domains``."""
        groups: dict[str, list[int]] = {}
        for index, domain in enumerate(self.domains or []):
            groups.setdefault(domain, []).append(index)
        return {domain: np.asarray(indices) for domain, indices in groups.items()}

    def plan(self, indices: np.ndarray) -> list[list[int]]:
        """Batches of nearly equal size over all of ``indices``, none dropped, in order."""
        return balanced_batches(indices, self.batch_size)

    def shuffled_plan(self) -> list[list[int]]:
        """Batches of the whole set in one random order, always the same, that mixes domains."""
        indices = generator_for(0, "test order").permutation(len(self.dataset))
        if self.drop_last:
            indices = indices[: max(1, len(indices) // self.batch_size) * self.batch_size]
        return self.plan(indices)

    @abstractmethod
    def batches(self, plan: list[list[int]], pin_memory: bool) -> Iterator[tuple[list[int], Any]]:
        """(sample indices, batch) of every batch of a plan."""

    def process(self, indices: list[int], data: Any, predictions: Any) -> None:
        """Count one batch of predictions.

        Args:
            indices: its samples. data: the preprocessed batch. predictions: the model's.
        """
        for metric in self.metrics:
            metric.process(data_batch=data, data_samples=predictions)

    def take(self) -> list[Any]:
        """What the metrics have counted so far; they start anew.

        Raises:
            ConfigError: a metric counts in a place of its own.
        """
        taken = [_counts(metric) for metric in self.metrics]
        for metric, counts in zip(self.metrics, taken, strict=True):
            if counts is None:
                raise _own_counts(metric)
            if isinstance(metric, CountingMetric):
                metric.reset()
            else:
                metric.results = []
        return taken

    def add(self, taken: list[Any]) -> None:
        """Go on from what :meth:`take` gave in another process."""
        self._shared = True
        for metric, counts in zip(self.metrics, taken, strict=True):
            if isinstance(metric, CountingMetric):
                metric.add(counts)
            else:
                metric.results += counts

    def score(self) -> dict[str, float]:
        """The metrics over everything that was processed, as plain floats; starts anew.

        Raises:
            ConfigError: see :meth:`take`; or two metrics give two values by one name.
        """
        scores: dict[str, float] = {}
        shared, self._shared = self._shared, False
        for metric in self.metrics:
            if shared and not isinstance(metric, CountingMetric) and not metric.results:
                raise _own_counts(metric)
            found = metric.evaluate(len(self.dataset))
            if not isinstance(found, Mapping):
                raise ConfigError(
                    f"{type(metric).__name__}: must give its values as a dict by name, not "
                    f"{type(found).__name__}"
                )
            for name, value in found.items():
                value = value.item() if isinstance(value, Tensor | np.generic) else value
                if name in scores and not _same(scores[name], value):
                    raise ConfigError(
                        f"{self.field}: {type(metric).__name__} gives {name!r}, and so does a "
                        f"metric before it, with another value ({shown(value)}, "
                        f"{shown(scores[name])}): give one of them a prefix"
                    )
                scores[name] = value
        return scores

    def details(self) -> dict[str, dict[str, Any]]:
        """What the metrics keep beyond their values, such as IoU per class (ask before ``score``).

        By the prefix of the metric, ``""`` without one.
        """
        found: dict[str, dict[str, Any]] = {"": {}}
        for metric in self.metrics:
            if hasattr(metric, "per_class"):
                place = found.setdefault(getattr(metric, "prefix", None) or "", {})
                place[getattr(metric, "per_class_name", "IoU")] = metric.per_class()
        return found


def _same(one: Any, other: Any) -> bool:
    """Whether two values of a metric are equal; NaN is, and an array has no truth value."""
    return repr(one) == repr(other) or (is_number(one) and is_number(other) and one == other)


def _own_counts(metric: Any) -> ConfigError:
    return ConfigError(
        f"{type(metric).__name__}: keeps its counts neither in counts (CountingMetric) nor in "
        "results (BaseMetric), so that workers cannot share an evaluation"
    )


def _counts(metric: Any) -> Tensor | list | None:
    """What a metric has counted so far; None if it is in a place of its own."""
    if isinstance(metric, CountingMetric):
        return metric.counts
    results = getattr(metric, "results", None)
    return results if isinstance(results, list) else None


@EVALUATION_SETS.register_module(name="StreamingData")
class StreamedSet(EvaluationSet):
    """Test images from disk.

    Args:
        num_workers, collate_fn, prefetch_factor, timeout: see
            :class:`~fedseg.loaders.streaming.BatchLoader`.
        name, field, metrics, like, dataset, batch_size, final_only: see :class:`EvaluationSet`.
    """

    def __init__(
        self,
        name: str,
        field: str,
        *args: Any,
        num_workers: int = 0,
        collate_fn: Mapping | None = None,
        prefetch_factor: int | None = 2,
        timeout: float | None = TIMEOUT,
        **kwargs: Any,
    ) -> None:
        super().__init__(name, field, *args, **kwargs)
        self._loader = BatchLoader(
            self.dataset, field, num_workers, collate_fn, prefetch_factor, timeout
        )

    def batches(self, plan: list[list[int]], pin_memory: bool) -> Iterator[tuple[list[int], Any]]:
        keys = [[(int(i), seed_for(0, "evaluate", i)) for i in chosen] for chosen in plan]
        workers = min(self._loader.num_workers, len(plan))
        yield from zip(plan, self._loader.start(keys, workers, pin_memory), strict=True)


@EVALUATION_SETS.register_module(name="ResidentData")
class ResidentSet(EvaluationSet):
    """Small test images in large batches, without a loader.

    Args:
        transforms: configs of batched transforms, none of them random.
        name, field, metrics, like, dataset, batch_size, final_only: see :class:`EvaluationSet`.
    """

    def __init__(
        self, name: str, field: str, *args: Any, transforms: Sequence[Any] = (), **kwargs: Any
    ) -> None:
        super().__init__(name, field, *args, **kwargs)
        self.pipeline = resident_pipeline(transforms, self.dataset, self.like.dtype, field)
        for number, draws in enumerate(self.pipeline.draw(np.random.default_rng, [1])):
            if draws:
                name = type(self.pipeline.steps[number]).__name__
                raise ConfigError(
                    f"{field}.transforms[{number}]: {name} is random; test images are not augmented"
                )
        self._resident: tuple[Tensor, Tensor] | None = None

    def batches(self, plan: list[list[int]], pin_memory: bool) -> Iterator[tuple[list[int], Any]]:
        for chosen in plan:
            parts = self._gather(np.asarray(chosen))
            yield chosen, self.pipeline.apply(*parts, [{}] * len(self.pipeline.steps))

    def _gather(self, indices: np.ndarray) -> tuple[Tensor, ...]:
        if self.dataset.images.nbytes > RESIDENT_BYTES:
            return self._upload(indices)
        if self._resident is None:
            self._resident = self._upload(np.arange(len(self.dataset)))
        rows = torch.from_numpy(indices).to(self.like.device)
        return tuple(part.index_select(0, rows) for part in self._resident)

    def _upload(self, indices: np.ndarray) -> tuple[Tensor, ...]:
        parts = (torch.from_numpy(part) for part in self.dataset.gather(indices))
        return tuple(part.to(self.like.device) for part in parts)


@EVALUATION_SETS.register_module(name="CorruptedData")
class CorruptedSet(ResidentSet):
    """Test images under corruptions of several severities (CIFAR-C).

    Metrics: ``accuracy``, the mean over all corruptions and severities, and
    ``accuracy_severity_<n>``, the mean over the corruptions, in PERCENT; the detail
    ``corruptions`` has the accuracy of each corruption at each severity.

    The data set has ``groups``, the (corruption, severity) of every block of ``group_size`` images.
    """

    def __init__(self, name: str, field: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(name, field, *args, **kwargs)
        groups = getattr(self.dataset, "groups", None)
        if groups is None:
            raise ConfigError(
                f"{field}.dataset: {type(self.dataset).__name__} has no corruptions; use a "
                "CIFAR10CDataset or CIFAR100CDataset"
            )
        self._cells = list(groups)
        self._severities = sorted({severity for _, severity in groups})
        self._counts = np.zeros((2, len(groups)), np.int64)  # correct and all images of a cell

    def process(self, indices: list[int], data: Any, predictions: Any) -> None:
        if predictions.is_floating_point():  # logits
            predictions = predictions.argmax(dim=1)
        correct = (predictions == labels_of(data)).cpu().numpy()
        cells = np.asarray(indices) // self.dataset.group_size
        length = len(self._cells)
        self._counts += [np.bincount(part, minlength=length) for part in (cells[correct], cells)]

    def take(self) -> list[Any]:
        taken = [self._counts.copy()]
        self._counts[:] = 0
        return taken

    def add(self, taken: list[Any]) -> None:
        self._counts += taken[0]

    def _accuracies(self) -> dict[tuple[str, int], float]:
        shares = 100 * self._counts[0] / np.maximum(self._counts[1], 1)
        return dict(zip(self._cells, shares.tolist(), strict=True))

    def score(self) -> dict[str, float]:
        accuracies = self._accuracies()
        self._counts[:] = 0
        metrics = {"accuracy": float(np.mean(list(accuracies.values())))}
        for severity in self._severities:
            values = [value for cell, value in accuracies.items() if cell[1] == severity]
            metrics[f"accuracy_severity_{severity}"] = float(np.mean(values))
        return metrics

    def details(self) -> dict[str, dict[str, Any]]:
        table: dict[str, list[float]] = {}
        for (corruption, _), value in self._accuracies().items():
            table.setdefault(corruption, []).append(value)
        return {"": {"corruptions": table, "severities": self._severities}}
