"""Evaluation by domain: every test set, in every view that applies."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from torch import Tensor

from fedseg.evaluation import views
from fedseg.evaluation.clients import deal_by_class
from fedseg.evaluation.models import ClientModels
from fedseg.evaluation.run import EvaluatedRun
from fedseg.evaluation.sets import EvaluationSet, Groups
from fedseg.evaluation.tasks import EvalTask, predict
from fedseg.evaluation.views import View
from fedseg.metric_names import BY_DOMAIN, FINE_TUNED, PERSONAL, Metric

# called with set, prefix, sample indices and predictions of each batch
OnPrediction = Callable[[EvaluationSet, str, list[int], Any], None]


class DomainEvaluator:
    """Evaluates a model on every test set, in every view that applies.

    ``standard``: the global model. With SiloBN or FedBN it has no statistics and normalizes by the
    test batch. Clients' held-out images are evaluated with each client's own local state, or as in
    ``standard`` if it has never trained. ``by_domain``: with personal parts, if every domain of a
    test set has training clients of its own, with those clients' parts. ``personal``: every
    client's own model on its test images. ``fine_tuned``: after local steps from the global model.
    Metrics are named ``<domain>/<metric>`` and ``<domain>_<view>/<metric>``.

    Args:
        run: the model, the clients and their states.
        sets: the test sets.
        views: those besides ``standard``.
        spread: count by domain, too; None: where metrics of label maps are counted.
        tuning: local steps of ``fine_tuned``, and their learning rate.

    Attributes:
        details: of the last :meth:`run`, what goes beyond metrics (per-class IoU, coverage).
        tables: of the last :meth:`run`, by evaluated domain: ``sets`` of clients or domains, and
            ``all`` of them together.
        confusions: confusion matrices by evaluated domain, which are kept if it is a dict.
    """

    def __init__(
        self,
        run: EvaluatedRun,
        sets: list[EvaluationSet],
        views: Collection[str] = (BY_DOMAIN,),
        spread: bool | None = None,
        tuning: tuple[int, float | None] = (1, None),
    ) -> None:
        self.runner = run
        self.sets = sets
        self.views = views
        self.spread = spread
        self.tuning = tuning
        self.details: dict[str, dict[str, Any]] = {}
        self.tables: dict[str, dict[str, Any]] = {}
        self.confusions: dict[str, Any] | None = None

    def run(
        self,
        w: Tensor,
        buffers: Tensor,
        on_prediction: OnPrediction | None = None,
        sets: Iterable[EvaluationSet] | None = None,
        final: bool = True,
    ) -> dict[str, float]:
        """Evaluate a model; returns all metrics.

        Args:
            w: its parameters, flat.
            buffers: its float buffers, flat.
            on_prediction: called with the predictions of each batch.
            sets: test sets; None: all.
            final: fine-tune the clients too.
        """
        models = ClientModels(self.runner, w, buffers)
        metrics: dict[str, float] = {}
        self.details = {}
        self.tables = {"sets": {}, "all": {}}
        for test in self.sets if sets is None else sets:
            self.runner.call_hook("before_val_domain", domain=test.name)
            if hasattr(test.dataset, "check_files"):
                test.dataset.check_files()
            for view in [*self._whole_set(test, models), *self._of_clients(test, models, final)]:
                metrics |= self._evaluate(view, on_prediction)
        return metrics

    def _evaluate(self, view: View, on_prediction: OnPrediction | None) -> dict[str, float]:
        """The metrics of a view; notes its details and tables."""
        test = view.test
        prefix = view.prefix
        test.count_by(view.groups)
        for samples in self._count_all(view, on_prediction):
            self.runner.call_hook("after_val_batch", prefix=prefix, samples=samples)
        for metric_prefix, values in test.details().items():
            self.details[str(Metric.of(prefix, metric_prefix))] = values
        confusion = test.confusion()
        if self.confusions is not None and confusion is not None:
            self.confusions[prefix] = confusion
        metrics = {str(Metric.of(prefix, name)): value for name, value in test.score().items()}
        table = test.table()
        if table:
            self.tables["sets"][prefix] = table
            self.tables["all"][prefix] = dict(self.details[prefix])
        self.details[prefix] |= view.details
        return metrics

    def _count_all(self, view: View, on_prediction: OnPrediction | None) -> Iterator[int]:
        """Count the predictions of all tasks, here or in workers; yields numbers of images."""
        test = view.test
        evaluate = getattr(getattr(self.runner, "executor", None), "evaluate", None)
        if evaluate is not None and on_prediction is None:
            for samples, counts in evaluate(test.name, view.tasks):
                test.add(counts)
                yield samples
            return
        for task in view.tasks:
            for batch in predict(self.runner, test, task):
                test.process(batch.indices, batch.data, batch.predictions, task.client)
                if on_prediction is not None:
                    on_prediction(test, view.prefix, batch.indices, batch.predictions)
                yield len(batch.indices)

    def count(self, test: EvaluationSet, task: EvalTask) -> list[Any]:
        """The metrics' counts of a task, for :meth:`EvaluationSet.add` in another process."""
        test.count_by(self.groups(test) if task.client is None else self.client_images(test))
        for batch in predict(self.runner, test, task):
            test.process(batch.indices, batch.data, batch.predictions, task.client)
        return test.take()

    def predict_some(
        self, w: Tensor, buffers: Tensor, chosen: Mapping[str, Collection[int]]
    ) -> Iterator[tuple[EvaluationSet, str, int, Any]]:
        """(set, prefix, sample index, prediction) of a few images, as :meth:`run` makes them.

        Models of single clients are left out.

        Args:
            w: the model's parameters, flat.
            buffers: its float buffers, flat.
            chosen: sample indices by set.
        """
        models = ClientModels(self.runner, w, buffers)
        for test in self.sets:
            wanted = frozenset(chosen.get(test.name, ()))
            for view in self._whole_set(test, models):
                for task in view.tasks:
                    for batch in predict(self.runner, test, task.only(wanted)):
                        for index, prediction in zip(batch.indices, batch.predictions, strict=True):
                            yield test, view.prefix, index, prediction

    def predict_samples(
        self, test: EvaluationSet, chosen: np.ndarray, w: Tensor, buffers: Tensor
    ) -> None:
        """Predict samples of a set with one model; nothing is scored."""
        by_batch = views.needs_batches(ClientModels(self.runner, w, buffers))
        for _ in predict(self.runner, test, EvalTask(test.plan(chosen), w, buffers, by_batch)):
            pass

    # ---------------------------------------------------------------- which views apply

    def _whole_set(self, test: EvaluationSet, models: ClientModels) -> list[View]:
        """The views of the whole set: ``standard``, and ``by_domain`` if it applies."""
        groups = self.groups(test)
        if test.clients and self.runner.local_state is not None:
            return [views.held_out(test, models)]
        whole = [views.standard(test, models, groups)]
        if self._is_by_domain(test):
            whole.append(views.by_domain(test, models, groups, self._owners(test)))
        return whole

    def _of_clients(self, test: EvaluationSet, models: ClientModels, final: bool) -> list[View]:
        """The views with a model for each client."""
        images = self._images_of_views(test, final)
        of_clients = []
        if PERSONAL in images:
            of_clients.append(views.personal(test, models, images[PERSONAL]))
        if FINE_TUNED in images:
            of_clients.append(views.fine_tuned(test, models, images[FINE_TUNED], self.tuning))
        return of_clients

    def _images_of_views(self, test: EvaluationSet, final: bool) -> dict[str, Groups]:
        """The views with a model for each client, with the clients' images.

        ``fine_tuned`` is of the last round, and brings ``personal`` as what was before; clients'
        held-out images are evaluated by their own models anyway.
        """
        tuned = final and FINE_TUNED in self.views
        wanted = []
        if (tuned or PERSONAL in self.views) and not test.clients:
            wanted.append(PERSONAL)
        if tuned:
            wanted.append(FINE_TUNED)
        images = self.client_images(test) if wanted else {}
        return dict.fromkeys(wanted, images) if images else {}

    def _is_by_domain(self, test: EvaluationSet) -> bool:
        """True if a set is evaluated by domain: clients are once, with their own state."""
        applies = self.runner.local_state is not None and BY_DOMAIN in self.views
        return applies and not test.clients and bool(self._owners(test))

    def num_predictions(self, sets: Iterable[EvaluationSet], final: bool = True) -> int:
        """The number of predictions of :meth:`run`; sets with two views count twice."""
        total = 0
        for test in sets:
            total += len(test.samples)
            if self._is_by_domain(test):
                total += len(test.samples)
            for images in self._images_of_views(test, final).values():
                total += sum(map(len, images.values()))
        return total

    # ---------------------------------------------------------------- groups

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
        images = {}
        for domain, clients in self._owners(test).items():
            images |= dict.fromkeys(clients, test.groups()[domain])
        return images

    def _owners(self, test: EvaluationSet) -> dict[str, list[str]]:
        """Domain -> its training clients, of a set whose domains all have some."""
        owners = {d: self.runner.domain_clients.get(d) for d in test.groups()}
        return owners if all(owners.values()) else {}
