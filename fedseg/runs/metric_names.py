"""What metrics ``<domain>/<metric>`` are called in tables and pictures."""

from collections.abc import Iterable

MAIN_METRICS = ("mIoU", "accuracy")
BY_DOMAIN = "_by_domain"
GLOBAL = "global:"


def split_name(name: str) -> tuple[str, str]:
    """Domain and metric of ``<domain>/<metric>``; a bare metric has the domain ``""``."""
    domain, _, metric = name.rpartition("/")
    return domain, metric


def evaluated_set(domain: str) -> str:
    """The test set behind an evaluated domain: ``seen`` for ``global:seen_by_domain``."""
    return domain.removeprefix(GLOBAL).removesuffix(BY_DOMAIN)


def main_metric(names: Iterable[str]) -> str | None:
    """The metric to show, of names with or without domain: mIoU, else accuracy, else the first."""
    metrics = list(dict.fromkeys(split_name(name)[1] for name in names))
    return next((m for m in (*MAIN_METRICS, *metrics) if m in metrics), None)


def domain_label(domain: str, domains: Iterable[str]) -> str:
    """An evaluated domain in words: ``seen_by_domain`` is ``seen by_domain``.

    ``seen`` is ``seen standard`` where ``seen_by_domain`` is among ``domains``.
    """
    if domain.startswith(GLOBAL):
        plain = [d.removeprefix(GLOBAL) for d in domains if d.startswith(GLOBAL)]
        return f"{domain_label(domain.removeprefix(GLOBAL), plain)}, not averaged"
    if domain.endswith(BY_DOMAIN):
        return f"{domain.removesuffix(BY_DOMAIN)} by_domain"
    return f"{domain} standard" if f"{domain}{BY_DOMAIN}" in set(domains) else domain
