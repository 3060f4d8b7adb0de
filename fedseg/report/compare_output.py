"""A comparison of runs as tables for the terminal and as Markdown."""

import html
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedseg.cli import widen_console
from fedseg.errors import ConfigError
from fedseg.report.compare import Cell, Comparison, Reached, Side, Value
from fedseg.report.compare_configs import MISSING
from fedseg.report.compare_curves import draw_curves
from fedseg.runs.run_files import domain_label
from fedseg.units import format_bytes, format_duration

NONE = "—"
MANY = 4  # sides, from which on each has a row: columns for all would not fit
STD = {
    "rounds": "std over rounds that both evaluated",
    "seeds": "std over seeds, divided by n - 1",
    "evaluations": "std over the evaluations of the last rounds",
}


@dataclass(frozen=True)
class TextTable:
    """Cells as text, for any medium.

    Attributes:
        title: above it. head: of the columns. rows: as many cells each.
        right: columns of numbers. group: rows that belong together, a line between groups.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: tuple[int, ...] = ()
    group: int = 1


def tables(comparison: Comparison) -> Iterator[TextTable]:
    """Runs, configs, conditions, figures, cost, norms; without those that have nothing to tell."""
    sides = comparison.sides
    labels = tuple(side.label for side in sides)
    yield TextTable(
        "runs",
        ("", "experiment", "seed", "rounds", "folder"),
        tuple(_run_row(side) for side in sides),
    )
    for title, values in (
        ("config: what differs", comparison.config),
        ("versions, hardware and data: what differs", comparison.conditions),
    ):
        if values:
            yield _values(title, labels, values)
    if comparison.figures:
        yield _figures(comparison)
    yield _measures("cost", labels, comparison.costs)
    if any(value is not None for row in comparison.norms.values() for value in row):
        yield _measures("norms in the last round", labels, comparison.norms)


def _run_row(side: Side) -> tuple[str, ...]:
    run = side.first
    seeds = ", ".join(NONE if one.seed is None else str(one.seed) for one in side.runs)
    rounds = f"{run.rounds:,}" + (
        "" if run.finished else f" of {run.planned:,}" if run.planned else " so far"
    )
    return side.label, run.name, seeds, rounds, str(side.path)


def _values(title: str, labels: Sequence[str], values: Mapping[str, Sequence[Any]]) -> TextTable:
    """A column a side; of many sides a row a value, with the sides that have it."""
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
    if value is MISSING:
        return NONE
    if isinstance(value, str):
        # the first digits of a checksum are enough to tell two apart
        return f"{value[:12]}…" if "sha256" in key or key.endswith("checksum") else value
    return str(value)


def _figures(comparison: Comparison) -> TextTable:
    sides = comparison.sides
    windows = sorted({run.window for side in sides for run in side.runs})
    last = f"last {windows[0]} rounds" if len(windows) == 1 else "last rounds"
    domains = [name.rpartition("/")[0] for name in comparison.figures]
    until = comparison.until if comparison.reached else None
    rows = []
    for name, cells in comparison.figures.items():
        domain, _, metric = name.rpartition("/")
        label = f"{metric}, {domain_label(domain, domains)}"
        for number, (side, cell) in enumerate(zip(sides, cells, strict=True)):
            row = ("" if number else label, side.label, *_cell(cell))
            if until is not None:
                reached = comparison.reached.get(name)
                row += _reached(reached and reached[number], side)
            rows.append(row)
    reference = sides[0].label
    return TextTable(
        "figures",
        (
            "",
            "",
            "last",
            f"- {reference}",
            f"{last}: mean ± std",
            f"paired difference to {reference} ± std",
            *(() if until is None else (f"rounds until {until:g}", "traffic")),
        ),
        tuple(rows),
        right=(2, 3, 4, 5, 6, 7),
        group=len(sides),
    )


def _cell(cell: Cell) -> tuple[str, ...]:
    return (
        _number(cell.last),
        _number(cell.difference, "+"),
        _number(cell.window, count=True),
        _number(cell.paired, "+", count=True),
    )


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


WORDS: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "rounds": ("rounds", lambda v: f"{v:,.0f}"),
    "bytes_down": ("traffic to the clients", format_bytes),
    "bytes_up": ("traffic back", format_bytes),
    "bytes": ("traffic", format_bytes),
    "wall": ("wall time", format_duration),
    "train": ("training", format_duration),
    "aggregate": ("aggregation", format_duration),
    "evaluate": ("evaluation", format_duration),
    "rejected_updates": ("rejected updates", lambda v: f"{v:,.0f}"),
    "norm_w": ("parameters", lambda v: f"{v:.4g}"),
    "norm_delta": ("pseudo-gradient", lambda v: f"{v:.4g}"),
}


def _measures(
    title: str, labels: Sequence[str], measures: Mapping[str, Sequence[float | None]]
) -> TextTable:
    """What was measured and its ratio to the reference: a column a side, or a row if many."""
    head, columns, ratios = [], [], []
    for name, values in measures.items():
        if name in ("rejected_updates", "wall") and not any(values):
            continue
        word, text = WORDS[name]
        head.append(word)
        columns.append([NONE if value is None else text(value) for value in values])
        of = values[0]
        ratios.append([NONE if v is None or not of else f"{v / of:.2f}" for v in values[1:]])
    if len(labels) < MANY:
        rows = [
            (word, *column, *ratio)
            for word, column, ratio in zip(head, columns, ratios, strict=True)
        ]
        head = [*labels, *(f"{label} / {labels[0]}" for label in labels[1:])]
    else:
        for column, ratio in zip(columns, ratios, strict=True):
            column[1:] = [
                cell if of == NONE else f"{cell} ({of})"
                for cell, of in zip(column[1:], ratio, strict=True)
            ]
        rows = list(zip(labels, *columns, strict=True))
    return TextTable(title, ("", *head), tuple(rows), right=tuple(range(1, 1 + len(head))))


def remarks(comparison: Comparison) -> list[str]:
    """What the tables leave to be said: which deviation is which, and what does not compare."""
    kinds = {
        value.over
        for cells in comparison.figures.values()
        for cell in cells
        for value in (cell.window, cell.paired)
        if value is not None and value.std is not None
    }
    told = []
    if kinds:
        told.append("; ".join(f"± ({kind}): {STD[kind]}" for kind in STD if kind in kinds) + ".")
    if kinds & {"rounds", "evaluations"}:
        told.append(
            "A deviation over rounds tells how much a run moves, not how much another seed would "
            "differ: for that, compare folders of seeds."
        )
    if comparison.complete and not comparison.config and len(comparison.sides) > 1:
        told.append("The configs do not differ.")
    return told + list(comparison.notes)


# ---------------------------------------------------------------- terminal


def print_comparison(comparison: Comparison, console: Console | None = None) -> None:
    """Print the tables and remarks.

    Args:
        comparison: what to print.
        console: where to; by default standard output, wide enough for a line a row where that is
            no terminal.
    """
    console = console or Console()
    widen_console(console)
    for table in tables(comparison):
        console.print(_rich_table(table))
        console.print()
    for remark in remarks(comparison):
        console.print(escape(remark), highlight=False)


def _rich_table(table: TextTable) -> Table:
    shown = Table(title=escape(table.title), title_justify="left", box=box.SIMPLE_HEAD)
    for number, name in enumerate(table.head):
        right = number in table.right
        shown.add_column(
            escape(name), justify="right" if right else "left", no_wrap=right, overflow="fold"
        )
    for number, row in enumerate(table.rows, start=1):
        shown.add_row(*map(escape, row), end_section=table.group > 1 and number % table.group == 0)
    return shown


# ---------------------------------------------------------------- files


def to_markdown(comparison: Comparison, picture: str | None = None) -> str:
    """The tables and remarks as Markdown, with the picture of the curves if it is named."""
    parts = [f"# {' against '.join(_text(side.first.name) for side in comparison.sides)}"]
    remark_lines = [f"- {_text(remark)}" for remark in remarks(comparison)]
    for table in tables(comparison):
        parts.append(f"## {table.title[0].upper()}{table.title[1:]}")
        rule = ["---:" if number in table.right else "---" for number in range(len(table.head))]
        lines = [tuple(map(_text, table.head)), rule, *(tuple(map(_text, r)) for r in table.rows)]
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    if remark_lines:
        parts.append("## Remarks")
        parts.append("\n".join(remark_lines))
    if picture is not None:
        parts.append(f"![training loss and figures over rounds]({picture})")
    return "\n\n".join(parts) + "\n"


def _text(text: str) -> str:
    """Text in a cell of Markdown: no markup of a config's gets through."""
    plain = html.escape(" ".join(text.split()), quote=False)
    for character in "\\|*_`[]":
        plain = plain.replace(character, f"\\{character}")
    return plain


def write_comparison(comparison: Comparison, folder: str | Path) -> list[Path]:
    """Write ``compare.md`` and ``curves.png``; what is there of these names is replaced.

    Args:
        comparison: what to write. folder: where to; it is made.

    Raises:
        ConfigError: the folder cannot be written to.
    """
    path = Path(folder) / "compare.md"
    scratch = path.with_name(f"{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        picture = draw_curves(comparison, path.with_name("curves.png"))
        scratch.write_text(to_markdown(comparison, picture.name), encoding="utf-8")
        os.replace(scratch, path)
    except OSError as error:
        raise ConfigError(f"--out: {folder}: cannot be written to ({error})") from error
    return [path, picture]
