"""The board as text: tables on the terminal, Markdown, LaTeX, CSV."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from fedseg.cli import wide_console
from fedseg.leaderboard.benchmarks import Benchmark
from fedseg.leaderboard.board import Board
from fedseg.leaderboard.values import DOUBT
from fedseg.metric_names import flatten
from fedseg.runs.tables import TextTable, markdown_text, spread_table
from fedseg.units import format_bytes

CSV_FIELDS = [
    "benchmark",
    "title",
    "kind",
    "method",
    "experiment",
    "paper",
    "table",
    "column",
    "metric",
    "value",
    "std",
    "seeds",
    "rank",
    "doubt",
    "status",
    "bytes",
    "seconds",
    "year",
    "url",
]
LEGEND = f"{DOUBT}: in doubt, nothing is ranked against it"
WHY = "--why"  # the option that shows all reasons
LATEX_BEST = "textbf:--rwrap;"  # pandas' notation of \textbf{...}
TEXT_COLUMNS = ("method", "seeds", "source", "experiment", "why")  # the others hold numbers


@dataclass(frozen=True)
class TextFrame:
    """A table as text."""

    title: str
    texts: pd.DataFrame  # of str
    best: np.ndarray  # of bool, as large as the texts: the values of rank 1
    published: list[bool]  # by row

    def to_rich(self) -> RichTable:
        """Make the table of the terminal."""
        names = list(self.texts.columns)
        table = TextTable(
            title=self.title,
            head=tuple(names),
            rows=list(self.texts.itertuples(index=False, name=None)),
            right=[place for place, name in enumerate(names) if name not in TEXT_COLUMNS],
            bold={(int(row), int(column)) for row, column in np.argwhere(self.best)},
            dim=[place for place, is_published in enumerate(self.published) if is_published],
        )
        return table.to_rich()

    def to_markdown(self) -> str:
        """Make a table in Markdown, without the title."""
        texts = self.texts.map(markdown_text)
        texts = texts.where(~self.best, texts.map(lambda text: f"**{text}**"))
        align = ["left" if name in TEXT_COLUMNS else "right" for name in texts.columns]
        texts.columns = [markdown_text(name) for name in texts.columns]
        return texts.to_markdown(index=False, disable_numparse=True, colalign=align)


def ranked_table(board: Board, benchmark: Benchmark, why: bool = False) -> TextFrame:
    """Show what is ranked in a table: a row for each method, a column for each metric.

    Args:
        board: which has the table.
        benchmark: the table.
        why: with a column of the reasons why runs have no published numbers beside them.
    """
    lines = board.lines(benchmark)
    # runs without a metric have no ranks, but they are named
    is_shown = lines["is_ranked"] if benchmark.columns else lines["place"] == 0
    return _text_frame(benchmark, lines[is_shown], benchmark.title, why)


def unranked_table(board: Board, benchmark: Benchmark) -> TextFrame | None:
    """Show what is also published or measured, and not ranked; None if there is nothing."""
    lines = board.lines(benchmark)
    lines = lines[~lines["is_ranked"]]
    lines = lines[lines["value"].notna() | (lines["kind"] == "published")]
    if lines.empty:
        return None
    words = "also measured" if benchmark.setting is None else "also published"
    return _text_frame(benchmark, lines, f"{benchmark.title}: {words}")


def _text_frame(
    benchmark: Benchmark, lines: pd.DataFrame, title: str, why: bool = False
) -> TextFrame:
    """Turn lines into a table with a row for each method, and facts of its runs beside it."""
    known = lines.groupby("place")["value"].transform("count") > 0
    lines = lines[known | (lines["place"] == 0)]
    labels = lines.drop_duplicates("place").set_index("place")["label"].sort_index()
    values = lines.pivot(index="row", columns="place", values="text").fillna("-")
    best = lines.pivot(index="row", columns="place", values="rank").eq(1).fillna(False)
    rows = lines.drop_duplicates("row").set_index("row").sort_index()
    ranks = lines[lines["place"] == 0].set_index("row")["rank"].reindex(rows.index)
    before = {"rank": ["" if pd.isna(rank) else str(rank) for rank in ranks]}
    if not lines["is_ranked"].all():
        before = {}
    before["method"] = list(rows["method"])
    after = {"seeds": [", ".join(map(str, seeds)) or "published" for seeds in rows["seeds"]]}
    if benchmark.setting is None:
        after["rounds"] = [f"{rounds:,}" for rounds in rows["rounds"]]
    if benchmark.target is None:
        after["traffic"] = [traffic_text(sent) for sent in rows["bytes"]]
    name = "experiment" if benchmark.setting is None else "source"
    after[name] = [
        f"{source}, reproduced here" if kind == "reproduced" else source
        for source, kind in zip(rows["source"], rows["kind"], strict=True)
    ]
    if why:
        after["why"] = ["; ".join(reasons) for reasons in rows["reasons"]]
    values = values.set_axis(list(labels), axis=1)
    leading = pd.DataFrame(before, index=rows.index)
    trailing = pd.DataFrame(after, index=rows.index)
    texts = pd.concat([leading, values, trailing], axis=1)
    is_best = np.zeros(texts.shape, dtype=bool)
    is_best[:, len(before) : len(before) + len(labels)] = best.to_numpy(dtype=bool)
    return TextFrame(title, texts, is_best, list(rows["kind"] == "published"))


def traffic_text(sent: float | None) -> str:
    """A run's bytes for the reader; a published row has none."""
    return "-" if pd.isna(sent) else format_bytes(sent)


# ---------------------------------------------------------------- terminal


def print_board(
    board: Board,
    console: Console | None = None,
    everything: bool = False,
    further: bool = False,
    why: bool = False,
) -> None:
    """Print tables and messages.

    Args:
        board: what to print.
        console: where; default: the terminal.
        everything: also tables without a run.
        further: also what is not ranked.
        why: every reason why a run is not comparable, not the decisive one alone.
    """
    console = console or wide_console()
    benchmarks = board.shown(everything)
    for benchmark in benchmarks:
        console.print(ranked_table(board, benchmark).to_rich())
        _print_note(console, _note(board, benchmark))
        also = unranked_table(board, benchmark) if further else None
        if also is not None:
            console.print(also.to_rich())
        _print_spread(console, board, benchmark)
    for table in board.apart:
        shown = ranked_table(board, table)
        console.print(replace(shown, title=f"Your runs: {table.title}").to_rich())
        for note in _reasons(board, table, why):
            console.print(Text(note, style="dim"), soft_wrap=True)
        also = unranked_table(board, table) if further else None
        if also is not None:
            console.print(also.to_rich())
        _print_spread(console, board, table)
    if not benchmarks and not board.apart:
        console.print("There are no rows.")
    for message in board.messages:
        console.print(Text(message, style="yellow"), soft_wrap=True)


def _print_note(console: Console, note: str) -> None:
    if note:
        console.print(Text(note, style="dim"))


def _print_spread(console: Console, board: Board, benchmark: Benchmark) -> None:
    for spread in _spread(board, benchmark):
        console.print(spread.to_rich())
    console.print()


def _note(board: Board, benchmark: Benchmark) -> str:
    """The remark below a table, and what its marks mean."""
    lines = board.lines(benchmark)
    is_doubtful = lines["is_ranked"] & lines["doubt"].notna() & lines["value"].notna()
    notes = [benchmark.note, LEGEND if is_doubtful.any() else ""]
    return "; ".join(note for note in notes if note)


def _reasons(board: Board, table: Benchmark, why: bool) -> list[str]:
    """Why the rows of a table have no published numbers beside them; once, if it is one reason."""
    rows = board.lines(table).drop_duplicates("row")
    if rows["reasons"].nunique() == 1:
        return _reason_lines("Not comparable because", rows["reasons"].iloc[0], why)
    notes = []
    for experiment, reasons in zip(rows["experiment"], rows["reasons"], strict=True):
        if reasons:
            notes += _reason_lines(f"{experiment} is not comparable because", reasons, why)
    return notes


def _reason_lines(because: str, reasons: Sequence[str], why: bool) -> list[str]:
    """The decisive reason in one line, or all of them in a line each."""
    decisive, *further = reasons
    if why:
        return [f"{because}: {decisive}", *(f"  and {reason}" for reason in further)]
    more = f" (and {len(further)} more: fedseg leaderboard {WHY})" if further else ""
    return [f"{because}: {decisive}{more}"]


def _spread(board: Board, benchmark: Benchmark) -> list[TextTable]:
    """The results of a table's runs over clients or domains."""
    rows = board.lines(benchmark).drop_duplicates("row")
    entries = []
    for row in rows[rows["kind"] == "run"].itertuples():
        finals = [flatten(board.runs[id_].results.final) for id_ in row.runs]
        entries.append((f"{row.method}, {row.experiment}", finals))
    return spread_table(entries)


# ---------------------------------------------------------------- files


def to_markdown(board: Board, everything: bool = False, further: bool = False) -> str:
    """Write the tables in Markdown, with options of :func:`print_board` and every reason."""
    parts = ["# Leaderboard"]
    for benchmark in board.shown(everything):
        parts.append(f"## {markdown_text(benchmark.title)}")
        parts.append(ranked_table(board, benchmark).to_markdown())
        parts.append(markdown_text(_note(board, benchmark)))
        also = unranked_table(board, benchmark) if further else None
        if also is not None:
            parts += [f"### {markdown_text(also.title)}", also.to_markdown()]
        parts += [
            f"{spread.title}:\n\n{spread.to_markdown()}" for spread in _spread(board, benchmark)
        ]
    if board.apart:
        parts.append("## Your runs")
    for table in board.apart:
        parts.append(f"### {markdown_text(table.title)}")
        parts.append(ranked_table(board, table, why=True).to_markdown())
        also = unranked_table(board, table) if further else None
        if also is not None:
            parts += [f"#### {markdown_text(also.title)}", also.to_markdown()]
        parts += [f"{spread.title}:\n\n{spread.to_markdown()}" for spread in _spread(board, table)]
    if board.messages:
        lines = [f"- {markdown_text(message)}" for message in board.messages]
        parts += ["## Messages", "\n".join(lines)]
    return "\n\n".join(part for part in parts if part) + "\n"


def to_csv(board: Board, tables: Sequence[Benchmark], reasons: bool = False) -> str:
    """Write a line for every value of some tables, in full precision.

    Args:
        board: which has the tables.
        tables: the tables.
        reasons: with a column of why runs have no published numbers beside them.
    """
    values = board.values[board.values["benchmark"].isin([table.id for table in tables])]
    is_known = values["value"].notna() | ~values["status"].isin([None, "missing"])
    values = values[is_known].assign(
        seeds=[" ".join(map(str, seeds)) for seeds in values.loc[is_known, "seeds"]],
        reasons=["; ".join(texts) for texts in values.loc[is_known, "reasons"]],
    )
    fields = [*CSV_FIELDS, "reasons"] if reasons else CSV_FIELDS
    return values.to_csv(index=False, columns=fields, lineterminator="\n")


def to_latex(board: Board) -> str:
    """Write tables for a paper: methods x settings, yours beside published ones, the best in bold.

    There is one for each group of benchmarks that has a run; it needs ``booktabs``.
    """
    groups: dict[str, list[str]] = {}
    for table in (*board.shown(), *board.apart):
        groups.setdefault(table.group, []).append(table.id)
    tables = []
    for ids in groups.values():
        lines = board.values[board.values["benchmark"].isin(ids) & board.values["is_ranked"]]
        lines = lines[lines["value"].notna()]
        if not lines.empty:
            tables.append(_latex_table(lines))
    return "\n".join(tables)


def _latex_table(lines: pd.DataFrame) -> str:
    """Write the ranked values of some tables as one."""
    key = ["benchmark", "column", "method", "paper"]
    twice = lines.duplicated(key, keep=False)
    lines = lines.assign(
        method=lines["method"].where(~twice, lines["method"] + " (" + lines["experiment"] + ")"),
        source=lines["paper"].where(lines["kind"] == "published", "ours"),
    )
    columns = ["title", "label", "source"]
    lines = lines.drop_duplicates([*columns, "method"])
    texts = lines.pivot(index="method", columns=columns, values="text").fillna("")
    best = lines.pivot(index="method", columns=columns, values="rank").eq(1).fillna(False)
    texts = texts.rename_axis(index=None, columns=[None] * len(columns))
    style = np.where(best.to_numpy(dtype=bool), LATEX_BEST, "")
    styler = texts.style.format(_latex_value, escape="latex")
    styler = styler.format_index(escape="latex", axis=0).format_index(escape="latex", axis=1)
    styler = styler.apply(lambda _: style, axis=None)
    return styler.to_latex(hrules=True, multicol_align="c", column_format="l" + "r" * len(texts.T))


def _latex_value(text: str) -> str:
    return text.replace("±", r"$\pm$")
