"""What a run left in its work dir, and what its figures are called in pictures and tables."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedseg.errors import DataError
from fedseg.runs.history import History

MAIN_METRICS = ("mIoU", "accuracy")
BY_DOMAIN = "_by_domain"
GLOBAL = "global:"


@dataclass(frozen=True)
class RunFiles:
    """History and results of a run.

    Attributes:
        folder: the work dir.
        history: a record a round, oldest first.
        results: the content of ``results.json``; empty while the run is not finished.
    """

    folder: Path
    history: list[dict[str, Any]]
    results: dict[str, Any]

    @classmethod
    def read(cls, folder: str | Path) -> "RunFiles":
        """Read a work dir.

        Raises:
            DataError: ``results.json`` is damaged.
        """
        folder = Path(folder)
        path = folder / "results.json"
        results: dict[str, Any] = {}
        if path.is_file():
            try:
                results = json.loads(path.read_text(encoding="utf-8"))
            except ValueError as error:
                raise DataError(
                    f"{path}: is damaged ({error}); train --resume rewrites it"
                ) from error
        return cls(folder, History(folder / "history.jsonl").read(), results)

    def series(self, metric: str) -> dict[str, list[tuple[int, float]]]:
        """By domain, the (round, value) pairs of a metric, without those that have no value."""
        found: dict[str, list[tuple[int, float]]] = {}
        for record in self.history:
            for name, value in (record.get("metrics") or {}).items():
                domain, _, kind = name.rpartition("/")
                if kind == metric:
                    points = found.setdefault(domain, [])
                    if is_number(value):
                        points.append((record["round"], value))
        return {domain: points for domain, points in found.items() if points}

    @property
    def metric(self) -> str | None:
        """The metric that figures and curves show."""
        names = [n for r in self.history for n in r.get("metrics") or {}]
        return main_metric(names)


def is_number(value: Any) -> bool:
    """Whether a value is a finite figure (JSON writes the others as null)."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def main_metric(names: Iterable[str]) -> str | None:
    """The metric to show: mIoU, else accuracy, else the first one there is.

    Args:
        names: figures as ``<domain>/<metric>``, or bare metrics.
    """
    kinds = list(dict.fromkeys(name.rpartition("/")[2] for name in names))
    for metric in MAIN_METRICS:
        if metric in kinds:
            return metric
    return kinds[0] if kinds else None


def domain_label(domain: str, domains: Iterable[str]) -> str:
    """A figure's domain in words: ``seen_by_domain`` is ``seen by_domain``.

    Args:
        domain: the domain as figures name it.
        domains: all of them: one that is also evaluated by domain is called ``standard`` otherwise.
    """
    if domain.startswith(GLOBAL):
        plain = [d.removeprefix(GLOBAL) for d in domains if d.startswith(GLOBAL)]
        return f"{domain_label(domain.removeprefix(GLOBAL), plain)}, not averaged"
    if domain.endswith(BY_DOMAIN):
        return f"{domain.removesuffix(BY_DOMAIN)} by_domain"
    return f"{domain} standard" if f"{domain}{BY_DOMAIN}" in set(domains) else domain


def class_table(domains: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, float | None]]:
    """IoU by class and domain, from ``{domain: {"IoU": {class: value}, ...}}``; may be empty."""
    table: dict[str, dict[str, float | None]] = {}
    for domain, figures in domains.items():
        for name, value in (figures.get("IoU") or {}).items():
            table.setdefault(name, {})[domain] = value if is_number(value) else None
    return table
