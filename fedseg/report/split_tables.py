"""Splits as tables on the terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from fedseg.cli import widen_console
from fedseg.report.partition_view import PLURAL, View, spread
from fedseg.report.tables import TextTable


def print_views(views: Sequence[View], console: Console | None = None) -> None:
    """Print a column for each split, and a row for each test set."""
    console = console or Console()
    widen_console(console)
    console.print(_splits_table(views).to_rich())
    console.print(
        "per client: least / median / most; distance: mean total-variation distance of a client's "
        "distribution to the whole data set's, from 0 (all alike) to nearly 1",
        style="dim",
    )
    if any(view.tests for view in views):
        console.print()
        console.print(_tests_table(views).to_rich())
    for view in views:
        for note in view.notes:
            console.print(escape(note), highlight=False, soft_wrap=True)


def _splits_table(views: Sequence[View]) -> TextTable:
    found = [view.statistics for view in views]
    rows = [
        ("clients", *(f"{len(view.clients):,}" for view in views)),
        ("samples", *(f"{one.sizes.sum():,}" for one in found)),
        ("unused", *(f"{one.unused:,}" for one in found)),
        ("samples per client", *(spread(one.sizes) for one in found)),
    ]
    for kind in dict.fromkeys(view.kind for view in views if view.kind):
        held, each = [], []
        for view, one in zip(views, found, strict=True):
            own = view.kind == kind
            held.append(f"{one.counts.any(axis=0).sum():,}" if own else "")
            each.append(spread(one.classes_per_client) if own else "")
        rows += [(PLURAL[kind], *held), (f"{PLURAL[kind]} per client", *each)]
    pairs = zip(views, found, strict=True)
    rows.append(("distance", *(f"{o.total_variation:.3f}" if v.kind else "" for v, o in pairs)))
    head = ("", *(view.name for view in views))
    return TextTable("splits", head, tuple(rows), right=tuple(range(1, len(head))))


def _tests_table(views: Sequence[View]) -> TextTable:
    rows = []
    for view in views:
        held = view.statistics.counts.any(axis=0)
        for name, samples in view.tests.items():
            of = also = ""
            if name in view.test_counts and view.kind:
                there = view.test_counts[name] > 0
                of = f"{there.sum():,} {view.kind if there.sum() == 1 else PLURAL[view.kind]}"
                also = f"{(there & held).sum():,}"
            rows.append((view.name, name, f"{samples:,}", of, also))
    head = ("split", "test set", "images", "of", "also held by clients")
    return TextTable("test sets", head, tuple(rows), right=(2, 3, 4))
