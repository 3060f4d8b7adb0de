"""Test images of one domain with their own metrics: streamed, resident, or corrupted."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from mmengine.evaluator import BaseMetric
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor

from fedseg.checks import shown
from fedseg.config.arguments import check_value
from fedseg.core.seeds import generator_for, seed_for
from fedseg.errors import ConfigError, DataError, MissingDataError
from fedseg.evaluation.counting import ByCorruption, CountingMetric, Grouped
from fedseg.evaluation.metrics import Accuracy, IoUMetric, PixelMetric
from fedseg.evaluation.mmengine_metric import MMEngineMetric
from fedseg.loaders.partitioned import balanced_batches, build_dataset, domains_of
from fedseg.loaders.resident import resident_pipeline
from fedseg.loaders.streaming import TIMEOUT, BatchLoader
from fedseg.registry import EVALUATION_SETS, METRICS, build

Groups = Mapping[Any, np.ndarray]  # name -> sample indices
Metric = CountingMetric | MMEngineMetric


def build_evaluation_set(
    name: str, config: Mapping[str, Any], evaluator: Any, kind: str, like: Tensor
) -> "EvaluationSet | None":
    """One entry of ``val_dataloader`` or ``test_dataloader``; None if optional data are missing.

    Args:
        name: the domain.
        config: its loader config.
        evaluator: config of the metrics.
        kind: ``"val"`` or ``"test"``.
        like: a tensor of the model, for device and dtype.
    """
    field, evaluator_field = f"{kind}_dataloader.{name}", f"{kind}_evaluator"
    config = {"type": "StreamingData", **config}
    if isinstance(evaluator, list | tuple):
        places = {f"{evaluator_field}[{n}]": config for n, config in enumerate(evaluator)}
    else:
        places = {evaluator_field: evaluator}
    metrics = [_build_metric(config, place) for place, config in places.items()]
    injected = {"name": name, "field": field, "metrics": metrics, "like": like}
    try:
        return build(EVALUATION_SETS, config, field, injected)
    except MissingDataError:
        if config.get("optional"):
            return None
        raise


def _build_metric(config: Any, field: str) -> CountingMetric | BaseMetric:
    """Build a metric; ConfigError if it is of another kind."""
    metric = build(METRICS, config, field)
    if not isinstance(metric, CountingMetric | BaseMetric):
        raise ConfigError(
            f"{field}.type: must be a CountingMetric or MMEngine's BaseMetric, not "
            f"{type(metric).__name__}"
        )
    return metric


class EvaluationSet(ABC):
    """One domain's test images and its own metrics.

    Args:
        name: the domain, for example ``"unseen"``.
        field: where its config stands, for messages.
        metrics: its metrics, which have counted nothing yet.
        like: a tensor of the model.
        dataset: config of the data set.
        batch_size: images in a batch, at most.
        final_only: evaluate only when training has ended.
        drop_last: leave out a last, smaller batch where batch statistics normalize, as FedDrive's
            released code does.
        optional: leave the set out where its data are missing.
        held_out: of the training images only those that the partition holds out, by client.

    Attributes:
        samples: indices of what is evaluated.
        clients: of ``held_out``, client -> its samples.
        domains: the domain of each sample; None: the data set does not say.
    """

    def __init__(
        self,
        name: str,
        field: str,
        metrics: Sequence[CountingMetric | BaseMetric],
        like: Tensor,
        *,
        dataset: Any,
        batch_size: PositiveInt = 1,
        final_only: bool = False,
        drop_last: bool = False,
        optional: bool = False,
        held_out: bool = False,
    ) -> None:
        self.name = name
        self.field = field
        self.like = like
        self.dataset = build_dataset(dataset, f"{field}.dataset")
        if not len(self.dataset):
            raise ConfigError(f"{field}.dataset: is empty")
        self.batch_size = batch_size
        self.final_only = final_only
        self.drop_last = drop_last
        self.held_out = held_out
        self.clients: Groups = {}
        self.domains: list[str] | None = domains_of(self.dataset)
        self.samples = np.arange(len(self.dataset))
        self._ungrouped = [self._prepared(metric) for metric in metrics]
        self.metrics: list[Metric] = self._ungrouped

    def _prepared(self, metric: CountingMetric | BaseMetric) -> Metric:
        """A metric that knows the data set."""
        metric.dataset_meta = getattr(self.dataset, "metainfo", None)
        if isinstance(metric, BaseMetric):
            return MMEngineMetric(metric, len(self.dataset))
        if len(metric.classes) == 1:
            raise ConfigError(
                f"{self.field}.dataset: has the single class {metric.classes[0]!r}, which every "
                f"model predicts correctly: {type(metric).__name__} needs at least two"
            )
        metric.prepare(self.dataset)
        return metric

    def hold_out(self, clients: Mapping[str, np.ndarray]) -> None:
        """Evaluate these samples, and count them by client."""
        if not clients:
            raise ConfigError(
                f"{self.field}.held_out: no image is held out: set "
                "train_dataloader.partition.holdout, for example to 0.2, or leave the set out"
            )
        if max(map(max, clients.values())) >= len(self.dataset):
            raise ConfigError(f"{self.field}.dataset: must be that of train_dataloader")
        self.clients, self.samples = clients, np.concatenate(list(clients.values()))
        self.count_by(clients)

    def counts(self) -> bool:
        """True if its metrics can count by group."""
        return all(isinstance(metric, CountingMetric) for metric in self._ungrouped)

    def counts_pixels(self) -> bool:
        """True if it :meth:`counts`, and a metric is of label maps."""
        of_maps = [isinstance(metric, PixelMetric) for metric in self._ungrouped]
        return self.counts() and any(of_maps)

    def count_by(self, groups: Groups) -> None:
        """Count anew, for each of these groups too; none: for all samples together."""
        for metric in self._ungrouped:
            metric.reset()  # a group's counts may be in it
            if groups and not isinstance(metric, CountingMetric):
                raise ConfigError(
                    f"{self.field}: {type(metric.metric).__name__} does not count by client or "
                    "domain: use Accuracy, IoUMetric or another CountingMetric"
                )
        self.metrics = self._ungrouped
        if groups:
            size = len(self.dataset)
            self.metrics = [Grouped(metric, groups, size) for metric in self._ungrouped]

    def groups(self) -> dict[str, np.ndarray]:
        """Sample indices of each value of the data set's ``domains``, or of each client."""
        if self.clients:
            return dict(self.clients)
        groups: dict[str, list[int]] = {}
        for index, domain in enumerate(self.domains or []):
            groups.setdefault(domain, []).append(index)
        return {domain: np.asarray(indices) for domain, indices in groups.items()}

    def plan(self, indices: np.ndarray) -> list[list[int]]:
        """Batches of nearly equal size over all of ``indices``, none dropped, in order."""
        return balanced_batches(indices, self.batch_size)

    def shuffled_plan(self) -> list[list[int]]:
        """Batches of the whole set in one random order, always the same, that mixes domains."""
        indices = self.samples[generator_for(0, "test order").permutation(len(self.samples))]
        if self.drop_last:
            indices = indices[: max(1, len(indices) // self.batch_size) * self.batch_size]
        return self.plan(indices)

    @abstractmethod
    def batches(self, plan: list[list[int]], pin_memory: bool) -> Iterator[tuple[list[int], Any]]:
        """(sample indices, batch) of every batch of a plan."""

    def process(
        self,
        indices: list[int],
        batch: Mapping[str, Any],
        predictions: Any,
        group: Any = None,
    ) -> None:
        """Count one batch of predictions: for the group, or each sample for the one it is in."""
        for metric in self.metrics:
            metric.process(indices, batch, predictions, group)

    def take(self) -> list[Any]:
        """The metrics' counts so far; they start anew."""
        return [metric.take() for metric in self.metrics]

    def add(self, taken: list[Any]) -> None:
        """Go on from what :meth:`take` gave in another process."""
        for metric, counts in zip(self.metrics, taken, strict=True):
            if counts is not None:
                metric.add(counts)

    def score(self) -> dict[str, float]:
        """The metrics over everything that was processed, as plain floats; starts anew."""
        scores: dict[str, float] = {}
        for metric in self.metrics:
            name = _class_name(metric)
            try:
                values = metric.evaluate()
            except DataError as error:
                raise DataError(f"{self.field}.dataset: {error}") from error
            check_value(f"{self.field}: {name}: its metrics", values, Mapping[str, Any])
            for key, value in values.items():
                number = self._number(name, key, value)
                # as text: NaN is equal to itself
                if key in scores and repr(scores[key]) != repr(number):
                    raise ConfigError(
                        f"{self.field}: {name} gives {key!r}, and so does a metric before it, with "
                        f"another value ({number!r}, {scores[key]!r}): give one of them a prefix"
                    )
                scores[key] = number
        return scores

    def _number(self, name: str, key: str, value: Any) -> float | None:
        """A value of a metric as a plain number; ConfigError if it is none."""
        value = value.tolist() if hasattr(value, "tolist") else value
        if not isinstance(value, float | int | None) or isinstance(value, bool):
            raise ConfigError(
                f"{self.field}: {name} gives {shown(value)} as {key!r}: give a number"
            )
        return float(value) if isinstance(value, int) else value

    def table(self) -> dict[str, dict[str, Any]]:
        """Of metrics by client or domain, the values of each of them, with images and classes."""
        table: dict[str, dict[str, Any]] = {}
        for metric in self.metrics:
            if isinstance(metric, Grouped):
                for group, values in metric.table.items():
                    table.setdefault(str(group), {}).update(values)
        return table

    def details(self) -> dict[str, dict[str, Any]]:
        """Details such as IoU per class, by the prefix of the metric (ask before ``score``)."""
        details: dict[str, dict[str, Any]] = {"": {}}
        for metric in self.metrics:
            if isinstance(metric, CountingMetric):
                details.setdefault(metric.prefix or "", {}).update(metric.details())
        return details

    def confusion(self) -> dict[str, Any] | None:
        """Classes and pixels of a confusion matrix, if a metric has one (ask after ``details``)."""
        confusion = None
        for metric in self._ungrouped:
            if isinstance(metric, IoUMetric):
                pixels = metric.confusion.tolist()
                confusion = {"classes": list(metric.classes), "pixels": pixels}
        return confusion


def _class_name(metric: Metric) -> str:
    """The name of a metric's class, for messages."""
    if isinstance(metric, MMEngineMetric | Grouped):
        metric = metric.metric
    return type(metric).__name__


@EVALUATION_SETS.register_module(name="StreamingData")
class StreamedSet(EvaluationSet):
    """Test images from disk.

    Args:
        num_workers, collate_fn, prefetch_factor, timeout: see
            :class:`~fedseg.loaders.streaming.BatchLoader`.
    """

    def __init__(
        self,
        name: str,
        field: str,
        *args: Any,
        num_workers: NonNegativeInt = 0,
        collate_fn: Mapping | None = None,
        prefetch_factor: PositiveInt | None = 2,
        timeout: PositiveFloat | None = TIMEOUT,
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
    """Small test images in large batches, without a loader, from memory or a memory map.

    Args:
        transforms: configs of batched transforms, none of them random.
    """

    def __init__(
        self, name: str, field: str, *args: Any, transforms: Sequence[Any] = (), **kwargs: Any
    ) -> None:
        super().__init__(name, field, *args, **kwargs)
        self.pipeline = resident_pipeline(transforms, self.dataset, self.like.dtype, field)
        for number, draws in enumerate(self.pipeline.draw([1], 0, "test")):
            if draws:
                name = type(self.pipeline.steps[number]).__name__
                raise ConfigError(
                    f"{field}.transforms[{number}]: {name} is random; test images are not augmented"
                )

    def batches(self, plan: list[list[int]], pin_memory: bool) -> Iterator[tuple[list[int], Any]]:
        for chosen in plan:
            arrays = map(torch.from_numpy, self.dataset.gather(np.asarray(chosen)))
            images, labels = (array.to(self.like.device) for array in arrays)
            yield chosen, self.pipeline.apply(images, labels, [{}] * len(self.pipeline.steps))


@EVALUATION_SETS.register_module(name="CorruptedData")
class CorruptedSet(ResidentSet):
    """Test images under corruptions (CIFAR-C); the metric is :class:`ByCorruption`.

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
        self.blocks = dict(zip(groups, self.samples.reshape(len(groups), -1), strict=True))
        metric = Accuracy()
        metric.dataset_meta = self.dataset.metainfo
        self.metrics = [ByCorruption(metric, self.blocks, len(self.samples))]

    def groups(self) -> Groups:
        return self.blocks

    def count_by(self, groups: Groups) -> None:
        """Corruptions are its only groups."""
