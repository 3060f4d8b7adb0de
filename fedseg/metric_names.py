"""Names of metrics, such as ``seen/mIoU`` and ``global:seen_by_domain/mIoU``.

A metric is of a test set, in one of the views in which the set is evaluated. Set and view together
are an evaluated domain: ``seen_by_domain``. Histories, results and configs have the names.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

MAIN_METRICS = ("fgDice", "mIoU", "accuracy")
WINDOW = 100  # rounds at the end over which metrics are averaged, unless the config says otherwise
STANDARD = "standard"
BY_DOMAIN = "by_domain"  # with the BatchNorm statistics of each domain's clients
PERSONAL = "personal"  # each client's model on its own test images
FINE_TUNED = "fine_tuned"  # the same after a few local steps
GLOBAL = "global standard"  # of the global model, where there is an average
AFTER = {BY_DOMAIN: "_by_domain", PERSONAL: "_personal", FINE_TUNED: "_fine_tuned", STANDARD: ""}
# view -> what stands before and after the name of the set
VIEWS = {
    **{f"global {view}": ("global:", after) for view, after in AFTER.items()},
    **{view: ("", after) for view, after in AFTER.items()},
}
# after a metric's name -> what it is over groups: clients or domains
SPREAD = {"_mean": "mean", "_std": "std", "_worst10": "worst 10 %", "_worst": "worst"}


class Metric(NamedTuple):
    """A value of the evaluation; ``str`` gives its name."""

    set: str
    view: str
    metric: str  # empty: the evaluated domain as a whole

    @classmethod
    def parse(cls, name: str) -> "Metric":
        """``seen_by_domain/mIoU``; a bare metric is of the set ``""``."""
        domain, _, metric = name.rpartition("/")
        return cls.of(domain, metric)

    @classmethod
    def of(cls, domain: str, metric: str = "") -> "Metric":
        """A metric of an evaluated domain such as ``seen_by_domain``."""
        for view, (before, after) in VIEWS.items():
            if domain.startswith(before) and domain.endswith(after):
                return cls(domain.removeprefix(before).removesuffix(after), view, metric)
        raise AssertionError("the standard view has no affixes")

    @property
    def domain(self) -> str:
        """The evaluated domain."""
        before, after = VIEWS[self.view]
        return f"{before}{self.set}{after}"

    @property
    def is_global(self) -> bool:
        """True for a metric of the global model although there is an average."""
        return self.view.startswith("global ")

    def __str__(self) -> str:
        return "/".join(filter(None, (self.domain, self.metric)))


def global_name(name: str) -> str:
    """The name of the same metric or evaluated domain, of the global model."""
    return f"{VIEWS[GLOBAL][0]}{name}"


def find_set(domain: str, sets: Collection[str]) -> str | None:
    """The test set of an evaluated domain, which the prefix of a metric may follow.

    ``seen_by_domain/boundary`` is of ``seen``. None if it is of none of ``sets``.
    """
    while domain:
        name = Metric.of(domain).set
        if name in sets:
            return name
        domain = domain.rpartition("/")[0]
    return None


def nest(
    metrics: Mapping[str, Any], details: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, dict[str, Any]]:
    """``{"unseen/mIoU": x}`` as ``{"unseen": {"mIoU": x}}``, with more entries by domain."""
    domains: dict[str, dict[str, Any]] = {}
    for metric, value in ((Metric.parse(name), value) for name, value in metrics.items()):
        domains.setdefault(metric.domain, {})[metric.metric] = value
    for domain, entries in (details or {}).items():
        domains.setdefault(domain, {}).update(entries)
    return domains


def flatten(domains: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """``{"unseen": {"mIoU": x}}`` as ``{"unseen/mIoU": x}``."""
    return {
        str(Metric.of(domain, metric)): value
        for domain, entry in domains.items()
        for metric, value in entry.items()
    }


def main_metric(names: Iterable[str]) -> str | None:
    """The metric to show, with or without domain: the first of MAIN_METRICS, else of the names."""
    metrics = list(dict.fromkeys(Metric.parse(name).metric for name in names))
    return next((m for m in (*MAIN_METRICS, *metrics) if m in metrics), None)


def domain_label(domain: str, domains: Iterable[str]) -> str:
    """An evaluated domain in words: ``seen_by_domain`` is ``seen by_domain``.

    ``seen`` is ``seen standard`` where ``seen_by_domain`` is among ``domains``.
    """
    one, others = Metric.of(domain), [Metric.of(name) for name in domains]
    views = {o.view for o in others if (o.set, o.is_global) == (one.set, one.is_global)}
    view = one.view.removeprefix("global ")
    label = one.set if view == STANDARD and len(views) <= 1 else f"{one.set} {view}"
    return f"{label}, not averaged" if one.is_global else label
