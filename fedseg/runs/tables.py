"""Tables of runs: the seeds of an experiment in one row, means over them, ranks; printing."""

import csv
import html
import io
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from rich import box
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fedseg.checks import is_number
from fedseg.metric_names import MAIN_METRICS, SPREAD, Metric
from fedseg.runs.schema import Results

MISSING = "—"  # in place of a value that there is not
Item = TypeVar("Item")


@dataclass(frozen=True)
class Cell:
    """A value of a row: a mean over runs or rounds, or a published number."""

    value: float | None = None
    std: float | None = None  # divided by n - 1 over seeds, by n over rounds and evaluations
    count: int = 0  # number of values in the mean; 0 for a published value
    over: str = ""  # what they are: seeds, rounds, evaluations; "unpaired": a difference of means
    status: str | None = None  # why it has no value, such as "not_reached", if that is known


def mean_cell(
    values: Collection[float],
    over: str = "seeds",
    deviation: Callable[[Collection[float]], float] = statistics.stdev,
) -> Cell | None:
    """Mean and deviation; None without values, no deviation of a single one."""
    if not values:
        return None
    std = deviation(values) if len(values) > 1 else None
    return Cell(statistics.fmean(values), std, len(values), over)


def experiment_key(results: Results) -> tuple:
    """The key that the seeds of one experiment share: method, images and their partition."""
    train, tests = results.train, results.tests  # of images, nothing depends on the run's seed
    images = {n: (t.samples, t.content_sha256 or t.split_checksum) for n, t in tests.items()}
    shared = train.partition_sha256, train.content_sha256, *sorted(images.items())
    return results.experiment_sha256, results.synthetic, *shared


def group_seeds(runs: Iterable[Item], results_of: Callable[[Item], Results]) -> list[list[Item]]:
    """The runs of each experiment, ordered by seed."""
    groups: dict[tuple, list[Item]] = {}
    for run in runs:
        groups.setdefault(experiment_key(results_of(run)), []).append(run)
    return [sorted(group, key=lambda run: results_of(run).seed) for group in groups.values()]


def differing(entries: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """The keys in which entries differ, sorted: a value of each, or :data:`MISSING`."""
    keys = sorted({key for entry in entries for key in entry})
    values = {key: tuple(entry.get(key, MISSING) for entry in entries) for key in keys}
    return {key: row for key, row in values.items() if any(v != row[0] for v in row[1:])}


def number_text(cell: Cell | None, sign: str = "") -> str:
    """``50.03 ± 0.41``."""
    if cell is None:
        return MISSING
    return f"{cell.value:{sign}.2f}" + ("" if cell.std is None else f" ± {cell.std:.2f}")


def spread_table(runs: Sequence[tuple[str, Sequence[Mapping[str, Any]]]]) -> list["TextTable"]:
    """mIoU or accuracy over clients or domains, if any is; ``runs``: labels, metrics by seed."""
    known = [metrics for _, seeds in runs for metrics in seeds]
    names = dict.fromkeys(n for metrics in known for n in metrics if f"{n}_worst10" in metrics)
    names = [name for name in names if Metric.parse(name).metric in MAIN_METRICS]
    rows, ends = [], {"": "all images", **SPREAD}
    for name in names:
        for label, seeds in runs:
            columns = ([metrics.get(name + end) for metrics in seeds] for end in ends)
            cells = [mean_cell([v for v in column if is_number(v)]) for column in columns]
            rows.append((name, label, *map(number_text, cells)))
    head = ("metric", "", *ends.values())
    title = "over clients or domains"
    return [TextTable(title, head, rows, range(2, len(head)), len(runs))] if rows else []


# ---------------------------------------------------------------- text


@dataclass(frozen=True)
class TextTable:
    """Cells as text, for any medium."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]  # as many cells each
    right: Collection[int] = ()  # columns of numbers
    group: int = 1  # rows that belong together; a line between groups
    bold: Collection[tuple[int, int]] = ()  # (row, column) of the best values
    dim: Collection[int] = ()  # rows

    def to_rich(self) -> Table:
        """For the terminal."""
        table = Table(title=escape(self.title), title_justify="left", box=box.SIMPLE_HEAD)
        for number, name in enumerate(self.head):
            right = number in self.right
            justify = "right" if right else "left"
            table.add_column(escape(name), justify=justify, no_wrap=right, overflow="fold")
        for number, row in enumerate(self.rows):
            cells = [
                Text(text, style="bold" if (number, column) in self.bold else "")
                for column, text in enumerate(row)
            ]
            end = self.group > 1 and (number + 1) % self.group == 0
            table.add_row(*cells, end_section=end, style="dim" if number in self.dim else "")
        return table

    def to_markdown(self) -> str:
        """Without the title."""
        lines = [
            [markdown_text(name) for name in self.head],
            ["---:" if number in self.right else "---" for number in range(len(self.head))],
        ]
        for number, row in enumerate(self.rows):
            texts = enumerate(map(markdown_text, row))
            lines.append([f"**{t}**" if (number, c) in self.bold else t for c, t in texts])
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def markdown_text(text: str) -> str:
    """Text as Markdown that shows it as it is, in one line: no markup gets through."""
    plain = html.escape(" ".join(text.split()), quote=False)
    for character in "\\|*_`[]~#":
        plain = plain.replace(character, f"\\{character}")
    return plain


def csv_text(head: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """Rows as CSV below their ``head``."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue()
