"""The views of a model on a test set: a function for each."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fedseg.evaluation.models import ClientModels
from fedseg.evaluation.sets import EvaluationSet, Groups
from fedseg.evaluation.tasks import EvalTask
from fedseg.metric_names import BY_DOMAIN, FINE_TUNED, PERSONAL, STANDARD, Metric


@dataclass(frozen=True)
class View:
    """A view of a model on a test set.

    Attributes:
        name: of the view.
        test: the test set.
        groups: what metrics count by; none: all samples together.
        tasks: what is predicted, one model at a time: all of them might not fit into memory.
        details: for the results; whole once all tasks are done.
    """

    name: str
    test: EvaluationSet
    groups: Groups
    tasks: Iterable[EvalTask]
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        """The domain in the names of its metrics."""
        return Metric(self.test.name, self.name, "").domain


def standard(test: EvaluationSet, models: ClientModels, groups: Groups) -> View:
    """View all samples by the global model."""
    return View(STANDARD, test, groups, [standard_task(test, models)])


def held_out(test: EvaluationSet, models: ClientModels) -> View:
    """View each client's held-out images by the model with its own local state."""
    return View(STANDARD, test, test.clients, _held_out_tasks(test, models))


def by_domain(
    test: EvaluationSet, models: ClientModels, groups: Groups, owners: Mapping[str, list[str]]
) -> View:
    """View each domain by the model with the parts of its training clients, ``owners``."""
    details = {"domains_with_statistics": 0, "domains": len(owners)}
    tasks = _by_domain_tasks(test, models, owners, details)
    return View(BY_DOMAIN, test, groups, tasks, details)


def personal(test: EvaluationSet, models: ClientModels, images: Groups) -> View:
    """View each client's images by its own model."""
    return View(PERSONAL, test, images, _personal_tasks(test, models, images))


def fine_tuned(
    test: EvaluationSet, models: ClientModels, images: Groups, tuning: tuple[int, float | None]
) -> View:
    """View each client's images after some of its local steps from the global model."""
    return View(FINE_TUNED, test, images, _fine_tuned_tasks(test, models, images, tuning))


def needs_batches(models: ClientModels) -> bool:
    """Whether the global model normalizes by the batch: clients keep BatchNorm's statistics."""
    local_state = models.run.local_state
    return local_state is not None and bool(local_state.norm_layers)


def standard_task(test: EvaluationSet, models: ClientModels) -> EvalTask:
    """All samples by the model of nobody in particular.

    Where it normalizes by the batch, batches mix the domains at random, always in the same way.
    """
    by_batch = needs_batches(models)
    plan = test.shuffled_plan() if by_batch else test.plan(test.samples)
    w, buffers = models.shared()
    return EvalTask(plan=plan, w=w, buffers=buffers, batch_statistics=by_batch)


def _held_out_tasks(test: EvaluationSet, models: ClientModels) -> Iterator[EvalTask]:
    untrained: list[int] = []
    for client, indices in test.clients.items():
        model = models.of_clients([client])
        if model is None:
            untrained += indices.tolist()
        else:
            yield EvalTask(test.plan(indices), *model)
    yield from _untrained_tasks(test, models, untrained)


def _by_domain_tasks(
    test: EvaluationSet,
    models: ClientModels,
    owners: Mapping[str, list[str]],
    details: dict[str, Any],
) -> Iterator[EvalTask]:
    untrained: list[int] = []
    for domain, indices in test.groups().items():
        model = models.of_clients(owners[domain])
        if model is None:
            untrained += indices.tolist()
        else:
            details["domains_with_statistics"] += 1
            yield EvalTask(test.plan(indices), *model)
    yield from _untrained_tasks(test, models, untrained)


def _untrained_tasks(
    test: EvaluationSet, models: ClientModels, samples: list[int]
) -> Iterator[EvalTask]:
    """Samples of groups of which no client has trained yet are predicted as in the standard view.

    In the batches of the whole test set: alone, a domain may be a single image.
    """
    if samples:
        yield standard_task(test, models).only(samples)


def _personal_tasks(
    test: EvaluationSet, models: ClientModels, images: Groups
) -> Iterator[EvalTask]:
    everything = standard_task(test, models)
    for client, indices in images.items():
        model = models.of_clients([client])
        if model is None:
            yield replace(everything.only(indices.tolist()), client=client)
        else:
            yield EvalTask(test.plan(indices), *model, client=client)


def _fine_tuned_tasks(
    test: EvaluationSet, models: ClientModels, images: Groups, tuning: tuple[int, float | None]
) -> Iterator[EvalTask]:
    for client, indices in images.items():
        model = models.of_clients([client], own_model=False) or (models.w, models.buffers)
        yield EvalTask(test.plan(indices), *model, client=client, tuning=tuning)
