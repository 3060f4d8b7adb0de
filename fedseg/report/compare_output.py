"""A comparison of runs as tables for the terminal and as Markdown."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from fedseg.cli import widen_console
from fedseg.errors import ConfigError
from fedseg.files import write_text
from fedseg.report.compare import Comparison, Reached, Value
from fedseg.report.compare_curves import draw_curves
from fedseg.report.compare_sides import Side
from fedseg.report.tables import TextTable, markdown_text
from fedseg.runs.metric_names import domain_label, split_name
from fedseg.units import format_bytes, format_duration

NONE = "—"
MANY = 4  # sides, from which on each has a row: columns for all would not fit
STD = {
    "rounds": "std over rounds that both evaluated",
    "seeds": "std over seeds, divided by n - 1",
    "evaluations": "std over the evaluations of the last rounds",
}


def tables(comparison: Comparison) -> Iterator[TextTable]:
    """Runs, configs, conditions, metrics, cost, norms; without empty ones."""
    sides = comparison.sides
    labels = tuple(side.label for side in sides)
    head = ("", "experiment", "seed", "rounds", "folder")
    yield TextTable("runs", head, tuple(map(_run_row, sides)))
    if comparison.config:
        yield _values("config: what differs", labels, comparison.config)
    if comparison.conditions:
        title = "versions, hardware and data: what differs"
        yield _values(title, labels, comparison.conditions)
    if comparison.metrics:
        yield _metrics(comparison)
    measured = (_measures(title, comparison) for title in MEASURES)
    yield from (table for table in measured if len(table.head) > 1)


def _run_row(side: Side) -> tuple[str, ...]:
    run = side.first
    seeds = ", ".join(NONE if one.seed is None else str(one.seed) for one in side.runs)
    of = "" if run.finished else f" of {run.planned:,}" if run.planned else " so far"
    return side.label, run.name, seeds, f"{run.rounds:,}{of}", str(side.path)


def _values(title: str, labels: Sequence[str], values: Mapping[str, Sequence[Any]]) -> TextTable:
    """A column for each side; of many sides a row for each value, with the sides that have it."""
    rows = {key: [_plain(key, value) for value in row] for key, row in values.items()}
    if len(labels) < MANY:
        return TextTable(title, ("", *labels), tuple((key, *row) for key, row in rows.items()))
    lines = []
    for key, row in rows.items():
        for number, text in enumerate(dict.fromkeys(row)):
            having = [label for label, other in zip(labels, row, strict=True) if other == text]
            lines.append(("" if number else key, text, ", ".join(having)))
    return TextTable(title, ("", "", "in"), tuple(lines))


def _plain(key: str, value: Any) -> str:
    if isinstance(value, str) and ("sha256" in key or key.endswith("checksum")):
        return f"{value[:12]}…"  # enough to tell two apart
    return str(value)


def _metrics(comparison: Comparison) -> TextTable:
    sides, until = comparison.sides, comparison.until
    windows = {run.window.rounds for side in sides for run in side.runs}
    last = f"last {windows.pop()} rounds" if len(windows) == 1 else "last rounds"
    domains = [split_name(name)[0] for name in comparison.metrics]
    rows = []
    for name, cells in comparison.metrics.items():
        domain, metric = split_name(name)
        label = f"{metric}, {domain_label(domain, domains)}"
        for number, (side, cell) in enumerate(zip(sides, cells, strict=True)):
            row = ("" if number else label, side.label, _number(cell.last))
            row += (_number(cell.difference, "+"), _number(cell.window, count=True))
            row += (_number(cell.paired, "+", count=True),)
            rows.append(row if until is None else row + _reached(cell.reached, side))
    reference = sides[0].label
    head = ("", "", "last", f"- {reference}", f"{last}: mean ± std")
    head += (f"paired difference to {reference} ± std",)
    if until is not None:
        head += (f"rounds until {until:g}", "traffic")
    right = tuple(range(2, len(head)))
    return TextTable("metrics", head, tuple(rows), right, group=len(sides))


def _reached(reached: Reached | None, side: Side) -> tuple[str, str]:
    if reached is None:
        return NONE, NONE
    if reached.round is None or reached.bytes is None:
        return "not reached", NONE
    first = reached.round
    rounds = f"{first.mean:,.0f}" + ("" if first.std is None else f" ± {first.std:,.0f}")
    if reached.seeds < len(side.runs):
        rounds += f" ({reached.seeds} of {len(side.runs)} seeds)"
    return rounds, format_bytes(reached.bytes.mean)


def _number(value: Value | None, sign: str = "", count: bool = False) -> str:
    if value is None:
        return NONE
    text = f"{value.mean:{sign}.2f}"
    if value.std is not None:
        text += f" ± {value.std:.2f}"
    if not count:
        return text
    over = value.over.removesuffix("s") if value.count == 1 else value.over
    return f"{text} (unpaired)" if over == "unpaired" else f"{text} ({value.count} {over})"


MEASURES: dict[str, dict[str, tuple[str, Callable[[float], str]]]] = {
    "cost": {
        "rounds": ("rounds", "{:,.0f}".format),
        "bytes_down": ("traffic to the clients", format_bytes),
        "bytes_up": ("traffic to the server", format_bytes),
        "bytes": ("traffic", format_bytes),
        "wall": ("wall time", format_duration),
        "train": ("training", format_duration),
        "aggregate": ("aggregation", format_duration),
        "evaluate": ("evaluation", format_duration),
        "rejected_updates": ("rejected updates", "{:,.0f}".format),
    },
    "norms in the last round": {
        "norm_w": ("parameters", "{:.4g}".format),
        "norm_delta": ("pseudo-gradient", "{:.4g}".format),
    },
}


def _measures(title: str, comparison: Comparison) -> TextTable:
    """A row for each side: values, and in parentheses their ratios to the reference's."""
    head, columns = [""], [[side.label for side in comparison.sides]]
    for name, (word, form) in MEASURES[title].items():
        reference, *others = comparison.costs[name]
        if not any(comparison.costs[name]):
            continue
        texts = [NONE if reference is None else form(reference)]
        for value in others:
            ratio = f" ({value / reference:.2f})" if value is not None and reference else ""
            texts.append(NONE if value is None else f"{form(value)}{ratio}")
        head.append(word)
        columns.append(texts)
    right = tuple(range(1, len(head)))
    return TextTable(title, tuple(head), tuple(zip(*columns, strict=True)), right)


def remarks(comparison: Comparison) -> list[str]:
    """Which deviation is which, and what does not compare."""
    kinds = {
        value.over
        for cells in comparison.metrics.values()
        for cell in cells
        for value in (cell.window, cell.paired)
        if value is not None and value.std is not None
    }
    found = []
    if kinds:
        found.append("; ".join(f"± ({kind}): {STD[kind]}" for kind in STD if kind in kinds) + ".")
    if kinds & {"rounds", "evaluations"}:
        found.append(
            "A deviation over rounds says how much a run moves, not how much another seed would "
            "differ: for that, compare folders of seeds."
        )
    if comparison.complete and not comparison.config and len(comparison.sides) > 1:
        found.append("The configs do not differ.")
    return found + list(comparison.notes)


def print_comparison(comparison: Comparison, console: Console | None = None) -> None:
    """Print tables and remarks; where standard output is no terminal, wide enough for each row."""
    console = console or Console()
    widen_console(console)
    for table in tables(comparison):
        console.print(table.to_rich(), "")
    for remark in remarks(comparison):
        console.print(escape(remark), highlight=False)


def to_markdown(comparison: Comparison, picture: str) -> str:
    """Tables and remarks as Markdown, with the picture of the curves."""
    names = (markdown_text(side.first.name) for side in comparison.sides)
    parts = [f"# {' against '.join(names)}"]
    for table in tables(comparison):
        parts += [f"## {table.title[0].upper()}{table.title[1:]}", table.to_markdown()]
    lines = [f"- {markdown_text(remark)}" for remark in remarks(comparison)]
    if lines:
        parts += ["## Remarks", "\n".join(lines)]
    return "\n\n".join([*parts, f"![training loss and metrics over rounds]({picture})"]) + "\n"


def write_comparison(comparison: Comparison, folder: str | Path) -> list[Path]:
    """Write ``compare.md`` and ``curves.png``, in place of earlier ones.

    Raises:
        ConfigError: the folder cannot be written to.
    """
    path, picture = Path(folder) / "compare.md", Path(folder) / "curves.png"
    try:
        draw_curves(comparison, picture)
        write_text(path, to_markdown(comparison, picture.name))
    except OSError as error:
        raise ConfigError(f"--out: {folder}: cannot be written to ({error})") from error
    return [path, picture]
