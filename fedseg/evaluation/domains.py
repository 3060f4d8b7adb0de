"""Evaluation by domain: images, BatchNorm statistics and metrics, and the loops that run it."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch
from mmengine.runner import BaseLoop
from pydantic import PositiveInt
from torch import Tensor, nn

from fedseg.batchnorm import batch_statistics, batchnorm_layers
from fedseg.config.arguments import Positive
from fedseg.core.client import Trainer
from fedseg.core.client_data import ClientData
from fedseg.core.flat import FlatModel
from fedseg.core.forward import forward, prepare_batch
from fedseg.core.hook import Run, TensorStore
from fedseg.core.local_state import LocalState
from fedseg.errors import ConfigError
from fedseg.evaluation.clients import accuracy_in_mix, class_counts, deal_by_class, fine_tune
from fedseg.evaluation.metrics import IoUMetric
from fedseg.evaluation.sets import EvaluationSet, Groups, build_evaluation_set
from fedseg.files import write_text
from fedseg.loaders.partitioned import PartitionedData, balanced_batches
from fedseg.metric_names import BY_DOMAIN, FINE_TUNED, PERSONAL, STANDARD, Metric, global_name
from fedseg.registry import LOOPS

ESTIMATED = 512  # training images, at most, that BatchNorm's statistics are re-estimated from


class EvaluatedRun(Run, Protocol):
    """The run as the evaluation sees it.

    Attributes:
        trainer: trains the clients whose fine-tuned models are evaluated.
        data: the clients' data.
        store: the clients' states, with their personal parts.
        local_state: what stays with each client; None: nothing.
        averaging: the average of models; None: the global model is evaluated.
        client_sizes: client -> its samples. held_out: client -> its samples for tests.
        domain_clients: domain -> its training clients.
        interrupt: its ``check`` raises to stop early.
        train_loop: the rounds.
    """

    trainer: Trainer
    data: ClientData
    store: TensorStore
    local_state: LocalState | None
    averaging: Any
    client_sizes: Mapping[str, int]
    held_out: Mapping[str, np.ndarray]
    domain_clients: Mapping[str, list[str]]
    interrupt: Any
    train_loop: Any

    def call_hook(self, fn_name: str, **arguments: Any) -> None:
        """Call a stage of every hook that has it."""

    def autocast(self) -> AbstractContextManager:
        """The context of every forward pass."""


def load_model(runner: EvaluatedRun, w: Tensor, buffers: Tensor) -> None:
    """Evaluate these; nothing needs restoring: every client and every evaluation loads its own."""
    runner.flat.w.copy_(w)
    runner.flat.buffers.copy_(buffers)
    runner.model.eval()


def layers_by_batch(runner: EvaluatedRun) -> dict[str, nn.Module]:
    """BatchNorm layers, by name, whose statistics stay with the clients: they use a batch's.

    Layers that a network leaves in eval mode while it trains never do.
    """
    if runner.local_state is None:
        return {}
    runner.model.train()
    layers = batchnorm_layers(runner.model)
    names = [name for name in runner.local_state.norm_layers if layers[name].training]
    runner.model.eval()
    return {name: layers[name] for name in names}


@dataclass(frozen=True)
class EvalTask:
    """Samples of a test set that one model predicts; workers are dealt slices of its batches.

    Attributes:
        plan: sample indices of every batch.
        w, buffers: the model, flat.
        batch_statistics: BatchNorm normalizes by the batch, not by the statistics in ``buffers``.
        counted: the samples whose predictions count; the others only fill up batches. None: all.
        client: whose test images these are; None: metrics count by the set's own groups.
        tuning: that client's local steps before it predicts, and their learning rate.
    """

    plan: list[list[int]]
    w: Tensor
    buffers: Tensor
    batch_statistics: bool = False
    counted: frozenset[int] | None = None
    client: str | None = None
    tuning: tuple[int, float | None] | None = None

    def only(self, wanted: Collection[int]) -> "EvalTask":
        """The task for some of the samples; their predictions stay the same."""
        counted = frozenset(i for batch in self.plan for i in batch if i in wanted)
        if self.counted is not None:
            counted &= self.counted
        plan = [batch for batch in self.plan if not counted.isdisjoint(batch)]
        if not self.batch_statistics:  # a sample does not depend on its batch
            plan = [[i for i in batch if i in counted] for batch in plan]
        return replace(self, plan=plan, counted=counted)


class DomainEvaluator:
    """Evaluates a model on every test set, in every view that applies.

    ``standard``: the global model. With SiloBN or FedBN it has no statistics and normalizes by the
    test batch, which mixes the domains of its test set at random (always in the same way). Clients'
    held-out images are evaluated with each client's own local state, or as in ``standard`` if it
    has never trained. ``by_domain``: with personal parts, if every domain of a test set has
    training clients of its own, with those clients' parts. ``personal``: every client's own
    model on its test images. ``fine_tuned``: after local steps from the global model.
    Metrics are named ``<domain>/<metric>`` and ``<domain>_<view>/<metric>``.
    """

    def __init__(
        self,
        runner: EvaluatedRun,
        sets: list[EvaluationSet],
        views: Collection[str] = (BY_DOMAIN,),
        spread: bool | None = None,
        tuning: tuple[int, float | None] = (1, None),
    ) -> None:
        self.runner, self.sets = runner, sets
        self.views, self.spread, self.tuning = views, spread, tuning
        self.details: dict[str, dict[str, Any]] = {}
        self.tables: dict[str, dict[str, Any]] = {}  # by evaluated domain, of clients and all
        self.confusions: dict[str, Any] | None = None  # by evaluated domain, kept if it is a dict
        self._trained_domains = 0  # of the last evaluation by domain, those with own statistics

    def run(
        self,
        w: Tensor,
        buffers: Tensor,
        on_prediction: Callable[[EvaluationSet, str, list[int], Any], None] | None = None,
        sets: Iterable[EvaluationSet] | None = None,
        final: bool = True,
    ) -> dict[str, float]:
        """All metrics of a model; :attr:`details` keeps what goes beyond (per-class IoU, coverage).

        ``on_prediction`` is called with (set, prefix, sample indices, predictions) of each batch;
        ``final``: fine-tune the clients too.
        """
        metrics: dict[str, float] = {}
        self.details, self.tables = {}, {"sets": {}, "all": {}}
        for test in self.sets if sets is None else sets:
            self.runner.call_hook("before_val_domain", domain=test.name)
            if hasattr(test.dataset, "check_files"):
                test.dataset.check_files()
            of_clients = self.client_views(test, final)
            for view, groups, tasks in self._views(test, w, buffers, of_clients):
                prefix = Metric(test.name, view, "").domain
                test.count_by(groups)
                for samples in self._score(test, prefix, tasks, on_prediction):
                    self.runner.call_hook("after_val_batch", prefix=prefix, samples=samples)
                for metric_prefix, values in test.details().items():
                    self.details[str(Metric.of(prefix, metric_prefix))] = values
                for metric in test.metrics if self.confusions is not None else ():
                    of_all = getattr(metric, "metric", metric)  # of groups: as for the details
                    if isinstance(of_all, IoUMetric):
                        names, pixels = list(of_all.classes), of_all.confusion.tolist()
                        self.confusions[prefix] = {"classes": names, "pixels": pixels}
                metrics |= {str(Metric.of(prefix, k)): value for k, value in test.score().items()}
                if each := test.table():
                    self.tables["sets"][prefix] = each
                    self.tables["all"][prefix] = dict(self.details[prefix])
                if view == BY_DOMAIN:
                    self.details[prefix]["domains_with_statistics"] = self._trained_domains
                    self.details[prefix]["domains"] = len(test.groups())
        return metrics

    def _score(
        self, test: EvaluationSet, prefix: str, tasks: Iterable[EvalTask], on_prediction: Any
    ) -> Iterator[int]:
        """Count the predictions of all tasks, here or in workers; yields numbers of images."""
        evaluate = getattr(getattr(self.runner, "executor", None), "evaluate", None)
        if evaluate is not None and on_prediction is None:
            for samples, counts in evaluate(test.name, tasks):
                test.add(counts)
                yield samples
            return
        for task in tasks:
            for chosen, data, predictions in self._predict(test, task):
                test.process(chosen, data, predictions, task.client)
                if on_prediction is not None:
                    on_prediction(test, prefix, chosen, predictions)
                yield len(chosen)

    def count(self, test: EvaluationSet, task: EvalTask) -> list[Any]:
        """The metrics' counts of a task, for :meth:`EvaluationSet.add` in another process."""
        test.count_by(self.groups(test) if task.client is None else self.client_images(test))
        for chosen, data, predictions in self._predict(test, task):
            test.process(chosen, data, predictions, task.client)
        return test.take()

    def num_predictions(self, sets: Iterable[EvaluationSet], final: bool = True) -> int:
        """The number of predictions of :meth:`run`; sets with two views count twice."""
        return sum(
            len(test.samples) * (1 + self.has_own_clients(test))
            + sum(sum(map(len, own.values())) for own in self.client_views(test, final).values())
            for test in sets
        )

    def predict_some(
        self, w: Tensor, buffers: Tensor, chosen: Mapping[str, Collection[int]]
    ) -> Iterator[tuple[EvaluationSet, str, int, Any]]:
        """(set, prefix, sample index, prediction) of a few images, as :meth:`run` makes them.

        ``chosen``: sample indices by set. Models of single clients are left out.
        """
        for test in self.sets:
            wanted = frozenset(chosen.get(test.name, ()))
            for view, _, tasks in self._views(test, w, buffers, {}):
                prefix = Metric(test.name, view, "").domain
                for task in tasks:
                    for indices, _, predictions in self._predict(test, task.only(wanted)):
                        for index, prediction in zip(indices, predictions, strict=True):
                            yield test, prefix, index, prediction

    def groups(self, test: EvaluationSet) -> Groups:
        """The groups that metrics of a whole set count by: clients, or domains.

        By domain if ``spread`` says so; if it is None, where pixels are counted, which is cheap,
        and there are several domains.
        """
        if test.clients:
            return test.clients
        domains = test.groups()
        by_domain = self.spread
        if by_domain is None:
            by_domain = len(domains) > 1 and test.counts_pixels()
        return domains if by_domain else {}

    def client_images(self, test: EvaluationSet) -> Groups:
        """Client -> its test images in a set: held out, else of its domain or mix of classes."""
        if any(other.clients for other in self.sets) or not test.counts():
            return test.clients
        if not test.groups():
            return deal_by_class(getattr(self.runner, "data", None), test.dataset)
        return {c: test.groups()[d] for d, clients in self._owners(test).items() for c in clients}

    def _owners(self, test: EvaluationSet) -> dict[str, list[str]]:
        """Domain -> its training clients, of a set whose domains all have some."""
        owners = {d: self.runner.domain_clients.get(d) for d in test.groups()}
        return owners if all(owners.values()) else {}

    def client_views(self, test: EvaluationSet, final: bool) -> dict[str, Groups]:
        """The views with a model for each client, with its images."""
        tuned = final and FINE_TUNED in self.views
        asked = [PERSONAL] * ((tuned or PERSONAL in self.views) and not test.clients)
        asked += [FINE_TUNED] * tuned
        images = self.client_images(test) if asked else {}
        return dict.fromkeys(asked, images) if images else {}

    def _views(
        self, test: EvaluationSet, w: Tensor, buffers: Tensor, of_clients: Mapping[str, Groups]
    ) -> Iterator[tuple[str, Groups, Iterable[EvalTask]]]:
        """Views, each with the groups that metrics count by."""
        local_state = self.runner.local_state
        by_batch = self.needs_batches
        plan = test.shuffled_plan() if by_batch else test.plan(test.samples)
        standard = EvalTask(plan, *self.shared_model(w, buffers), by_batch)

        def own_tasks(groups: Groups, view: str) -> Iterator[EvalTask]:
            """One model at a time: all of them at once might not fit into memory.

            Groups of which no client has trained yet are predicted as in ``standard``, in the
            batches of the whole test set: alone, a domain may be a single image.
            """
            untrained: list[int] = []
            self._trained_domains = 0
            for group, indices in groups.items():
                clients = self.runner.domain_clients[group] if view == BY_DOMAIN else [group]
                model = self._own(w, buffers, clients, own_model=view != FINE_TUNED)
                told = {"client": group} if view in (PERSONAL, FINE_TUNED) else {}
                if view == FINE_TUNED:
                    model, told["tuning"] = model or (w, buffers), self.tuning
                if model is not None:
                    self._trained_domains += 1
                    yield EvalTask(test.plan(indices), *model, **told)
                elif told:
                    yield replace(standard.only(frozenset(indices.tolist())), **told)
                else:
                    untrained += indices.tolist()
            if untrained:
                yield standard.only(untrained)

        by_client = local_state is not None and test.clients
        groups = self.groups(test)
        yield STANDARD, groups, own_tasks(groups, STANDARD) if by_client else [standard]
        if self.has_own_clients(test):
            yield BY_DOMAIN, groups, own_tasks(test.groups(), BY_DOMAIN)
        for view, clients in of_clients.items():
            yield view, clients, own_tasks(clients, view)

    @property
    def needs_batches(self) -> bool:
        """Whether the standard evaluation uses statistics of batches: clients keep the others."""
        local_state = self.runner.local_state
        return local_state is not None and bool(local_state.norm_layers)

    def shared_model(self, w: Tensor, buffers: Tensor) -> tuple[Tensor, Tensor]:
        """The model of nobody in particular: parameters that clients keep are their mean."""
        local_state = self.runner.local_state
        if local_state is None or not local_state.parameter_names:
            return w, buffers
        mean = self.mean_model(w, buffers)
        return (w if mean is None else mean[0]), buffers

    def mean_model(self, w: Tensor, buffers: Tensor) -> tuple[Tensor, Tensor] | None:
        """The model with the mean of what clients keep, by samples; None if none has trained.

        BatchNorm statistics are those of the union of the clients' samples.
        """
        return self._own(w, buffers, self.runner.client_sizes, own_model=False)

    def model_of(self, name: str, w: Tensor, buffers: Tensor) -> tuple[Tensor, Tensor]:
        """The model with the local state of a domain's clients, or of one client."""
        if self.runner.local_state is None:
            raise ConfigError("domain: does not apply: this run shares the whole model")
        if name not in self.trained(w, buffers, name):
            shown = ", ".join(self.trained(w, buffers)[-20:])
            raise ConfigError(f"domain: {name!r} has no client that trained: name one of {shown}")
        return self._own(w, buffers, self.runner.domain_clients.get(name, [name]))

    def trained(self, w: Tensor, buffers: Tensor, name: str = "") -> list[str]:
        """Clients, then domains, that have local state; ``name``: this one alone."""
        known = {**{c: [c] for c in self.runner.client_sizes}, **self.runner.domain_clients}
        asked = (n for n in known if name in ("", n))
        return [n for n in asked if self._own(w, buffers, known[n]) is not None]

    def _own(
        self, w: Tensor, buffers: Tensor, clients: Iterable[str], own_model: bool = True
    ) -> tuple[Tensor, Tensor] | None:
        """The model with the clients' own parts; None if there are no such parts yet."""
        run = self.runner
        if run.local_state is None:
            return None
        states = [(run.client_sizes[client], run.store.get(client)) for client in clients]
        return run.local_state.personal_model(w, buffers, states, own_model)

    def predict_samples(
        self, test: EvaluationSet, chosen: np.ndarray, w: Tensor, buffers: Tensor
    ) -> None:
        """Predict samples of a set with one model; nothing is scored."""
        task = EvalTask(test.plan(chosen), w, buffers, self.needs_batches)
        for _ in self._predict(test, task):
            pass

    def has_own_clients(self, test: EvaluationSet) -> bool:
        """True if a set is evaluated by domain: clients are once, with their own state."""
        applies = self.runner.local_state is not None and BY_DOMAIN in self.views
        return applies and not test.clients and bool(self._owners(test))

    @torch.no_grad()
    def _predict(self, test: EvaluationSet, task: EvalTask) -> Iterator[tuple[list[int], Any, Any]]:
        """(sample indices, preprocessed batch, predictions) of every batch, of what counts."""
        runner = self.runner
        statistics = nullcontext()
        if task.batch_statistics:
            statistics = batch_statistics(layers_by_batch(runner).values())
        load_model(runner, task.w, task.buffers)
        if task.tuning is not None:
            fine_tune(runner, task.client, *task.tuning)
        with statistics:
            for indices, batch in test.batches(task.plan, pin_memory=runner.flat.w.is_cuda):
                runner.interrupt.check()
                data = prepare_batch(runner.model, batch, runner.flat.w.dtype, training=False)
                try:
                    with runner.autocast():
                        predictions = forward(runner.model, data, "predict")
                except ValueError as error:
                    if not task.batch_statistics or len(indices) > 1:
                        raise
                    raise ConfigError(
                        f"{test.field}: a batch of one image has no statistics for the standard "
                        f"evaluation, where BatchNorm's stay with the clients ({error}): give it a "
                        "batch_size of at least 2, and at least 2 images"
                    ) from error
                if task.counted is not None and not task.counted.issuperset(indices):
                    rows = [n for n, index in enumerate(indices) if index in task.counted]
                    data = _select(data, rows, len(indices))
                    # a list has a prediction for every sample, as MMEngine's models give it
                    fields = not isinstance(predictions, list)
                    predictions = _select(predictions, rows, len(indices), fields)
                    indices = [indices[n] for n in rows]
                yield indices, data, predictions


def _select(batch: Any, rows: list[int], size: int, fields: bool = True) -> Any:
    """Rows of the tensors and items of the lists of a batch of ``size`` samples.

    ``fields``: a sequence is one of fields, such as ``(inputs, labels)``, not of samples.
    """
    if isinstance(batch, Mapping):
        return {name: _select(value, rows, size, False) for name, value in batch.items()}
    if isinstance(batch, Tensor | np.ndarray):
        return batch[rows] if batch.ndim and len(batch) == size else batch
    if not isinstance(batch, tuple | list):
        return batch
    if fields or len(batch) != size:
        members = [_select(value, rows, size, False) for value in batch]
    else:
        members = [batch[row] for row in rows]
    return getattr(batch, "_make", type(batch))(members)


def statistics_batches(data: PartitionedData) -> Iterator[Any]:
    """Training images evenly spaced over all, in their training augmentation with a fixed seed."""
    everything = np.concatenate(list(data.indices.values()))
    chosen = everything[np.linspace(0, len(everything) - 1, ESTIMATED).round().astype(int)]
    chosen = np.unique(chosen)
    size = data.batch_size if data.batch_size != "full" else len(chosen)
    return data.sample_batches(balanced_batches(chosen, size))


@torch.no_grad()
def statistics_of(
    flat: FlatModel,
    batches: Iterable[Any],
    w: Tensor,
    buffers: Tensor,
    autocast: Callable[[], AbstractContextManager] = nullcontext,
    check: Callable[[], None] = lambda: None,
) -> Tensor:
    """Float buffers with the cumulative averages of BatchNorm statistics over these batches.

    ``check`` raises before a batch to stop. See :func:`statistics_batches`.
    """
    model = flat.model
    model.train()  # a network may leave layers in eval mode: these keep their statistics
    layers = [layer for layer in batchnorm_layers(model).values() if layer.training]
    flat.w.copy_(w)
    flat.buffers.copy_(buffers)
    model.eval()
    with _cumulative_averages(layers):
        for batch in batches:
            check()
            prepared = prepare_batch(model, batch, flat.w.dtype, training=True)
            with autocast():
                forward(model, prepared, "tensor")
    return flat.buffers.clone()


@contextmanager
def _cumulative_averages(layers: Sequence[Any]) -> Iterator[None]:
    """Within it, BatchNorm layers of a model in eval mode average the statistics of all batches."""
    momenta = [layer.momentum for layer in layers]
    try:
        for layer in layers:
            layer.reset_running_stats()
            layer.momentum = None
            layer.train()
        yield
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
            layer.eval()


@LOOPS.register_module()
class FederatedValLoop(BaseLoop):
    """Evaluates the averaged model where there is one, else the global model, on every domain.

    Args:
        runner, dataloader, evaluator: given by the runner; ``dataloader`` maps domain names to
            loader configs.
        evaluate_global: with an averaged model, evaluate the global one too; its metrics are named
            ``global:<domain>/<metric>``.
        views: besides the model itself; see :class:`DomainEvaluator`. The fine-tuned view is of the
            last round, and brings the personal one as what was before.
        spread: count by domain too: mean, deviation and worst ones of a set's domains. None: where
            metrics of label maps are counted.
        fine_tune_steps, fine_tune_lr: of the fine-tuned view; None: the rate of ``optim_wrapper``.
    """

    kind = "val"

    def __init__(
        self,
        runner: EvaluatedRun,
        dataloader: Mapping[str, Mapping[str, Any]],
        evaluator: Any,
        evaluate_global: bool = False,
        views: Sequence[Literal["by_domain", "personal", "fine_tuned"]] = (BY_DOMAIN,),
        spread: bool | None = None,
        fine_tune_steps: PositiveInt = 10,
        fine_tune_lr: Positive | None = None,
    ) -> None:
        self._runner = runner
        built = {
            name: build_evaluation_set(name, config, evaluator, self.kind, runner.flat.w)
            for name, config in dataloader.items()
            if config is not None
        }
        self.missing = [name for name, test in built.items() if test is None]
        for name in self.missing:
            runner.logger.info(
                f"skipping optional test set {name!r}: no data found in "
                f"{dataloader[name]['dataset'].get('data_root')}"
            )
        self.sets = [test for test in built.values() if test is not None]
        for test in self.sets:
            if test.held_out:
                test.hold_out(runner.held_out)
        if not self.sets:
            raise ConfigError(f"{self.kind}_dataloader: no domain has data")
        tuning = fine_tune_steps, fine_tune_lr
        self.domains = DomainEvaluator(runner, self.sets, views, spread, tuning)
        for test in self.sets if spread else ():
            test.count_by(self.domains.groups(test))  # what does not count is told now
        if FINE_TUNED in views and not isinstance(runner.data, PartitionedData):
            raise ConfigError(
                f"{self.kind}_cfg.views: fine_tuned needs train_dataloader.type of StreamingData, "
                f"ResidentData or another PartitionedData, not {type(runner.data).__name__}"
            )
        of_clients = {PERSONAL, FINE_TUNED} & set(views)
        if of_clients and not any(map(self.domains.client_images, self.sets)):
            runner.logger.warning(
                f"{self.kind}_cfg.views: no test set has images of clients for "
                f"{', '.join(sorted(of_clients))}: hold some out with "
                "train_dataloader.partition.holdout"
            )
        self.evaluate_global = evaluate_global
        self.details: dict[str, Any] = {}
        # of the last evaluation, as ``DomainEvaluator.tables``
        self.tables: dict[str, Any] = {"sets": {}, "all": {}}

    def _due(self, round_: int) -> tuple[list[EvaluationSet], bool]:
        """The sets to evaluate after a round, and whether it is the last one."""
        final = self.kind == "test" or round_ >= self.runner.max_rounds
        return [test for test in self.sets if not test.final_only or final], final

    def num_predictions(self, round_: int) -> int:
        """The number of images that :meth:`run` predicts after a round."""
        sets, final = self._due(round_)
        count = self.domains.num_predictions(sets, final)
        if self.evaluate_global and self.runner.averaging is not None:
            sets = [test for test in sets if not test.final_only]
            count += self.domains.num_predictions(sets, final)
        return count

    def run(self, on_prediction: Any = None) -> dict[str, float]:
        """Evaluate; returns the metrics by name."""
        runner = self.runner
        runner.call_hook(f"before_{self.kind}")
        w, buffers = runner.evaluated_model()
        sets, final = self._due(runner.round)
        self.domains.confusions = {} if self.kind == "test" else None
        metrics = self.domains.run(w, buffers, on_prediction, sets, final)
        self.confusions, self.domains.confusions = self.domains.confusions, None
        details, self.tables = self.domains.details, self.domains.tables
        if self.evaluate_global and runner.averaging is not None:
            sets = [test for test in sets if not test.final_only]
            others = self.domains.run(runner.server.w, runner.server.buffers, None, sets, final)
            metrics |= {global_name(name): value for name, value in others.items()}
            details |= {global_name(name): entry for name, entry in self.domains.details.items()}
        self.details = details
        if self.kind == "val" and runner.train_loop.pending is not None:
            self._note_clients(runner.train_loop.pending)
        runner.call_hook(f"after_{self.kind}_epoch", metrics=metrics)
        runner.call_hook(f"after_{self.kind}")
        return metrics

    def _note_clients(self, record: dict[str, Any]) -> None:
        """Write ``clients.json``; add ``client_accuracy`` (of the global model) to a line."""
        if self.tables["sets"]:
            path = Path(self.runner.work_dir) / "clients.json"
            content = {"round": record["round"], **self.tables}
            write_text(path, json.dumps(content, indent=1) + "\n")
        names = [test.name for test in self.sets]
        for name in (*map(global_name, names), *names):
            for key, entry in self.details.items():
                if f"{key}/".startswith(f"{name}/") and entry.get("accuracy_by_class"):
                    accuracies = accuracy_in_mix(self.runner.data, entry["accuracy_by_class"])
                    record |= {"client_accuracy": accuracies} if accuracies else {}
                    return

    def results(self, runner: EvaluatedRun, history: list[dict[str, Any]]) -> dict[str, Any]:
        """``client_accuracy`` of ``results.json``."""
        lines = [record for record in history if record.get("client_accuracy")]
        if not lines:
            return {}
        table = {
            "images": "test",
            "clients": list(runner.data.clients),
            "classes": list(runner.data.dataset.metainfo["classes"]),
            "main_class": class_counts(runner.data).argmax(axis=1).tolist(),
            "rounds": [record["round"] for record in lines],
            "accuracy": [record["client_accuracy"] for record in lines],
        }
        return {"client_accuracy": table}


@LOOPS.register_module()
class FederatedTestLoop(FederatedValLoop):
    """As :class:`FederatedValLoop`, for ``fedseg test``: every set, whatever the round."""

    kind = "test"
