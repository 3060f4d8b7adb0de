"""The summary of a run or test on the terminal: results, files, and what to do next."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedseg.checks import is_number
from fedseg.cli import program
from fedseg.metric_names import Metric, domain_label, find_set, flatten, main_metric
from fedseg.names import PREPARED_BY
from fedseg.report.corruptions import corruption_table
from fedseg.runner.checkpoint import CHECKPOINTS, checkpoints
from fedseg.runs.history import Window
from fedseg.runs.run_files import CLIENTS, read_clients
from fedseg.runs.schema import FILE_NAME, Results, read_results
from fedseg.runs.tables import TextTable
from fedseg.trust import noted_parts
from fedseg.units import format_bytes, format_duration

FILES = {
    "results.json": "metrics, versions, checksums",
    "history.jsonl": "a line for each round",
    CLIENTS: "every domain or client",
    "vis_data": "the same for TensorBoard",
}
PICTURES = {
    "curves": "loss and metrics over rounds",
    "iou_by_class": "every class",
    "client_accuracy": "accuracy for each client over rounds",
    "corruptions": "accuracy by corruption and severity",
}
WORST = 3  # clients or domains that are named
Domains = Mapping[str, Mapping[str, Any]]


def print_summary(
    work_dir: str | Path,
    real_config: str | Path | None = None,
    console: Console | None = None,
) -> None:
    """Print what a finished run reached, from its ``results.json``.

    ``real_config`` is the same experiment on real data.
    """
    folder = Path(work_dir)
    results = read_results(folder / FILE_NAME, strict=False)
    console = console or Console()
    console.print("", _metrics(results).to_rich(), _facts(results, folder))
    corrupted = corruption_table(results.final)
    if corrupted is not None:
        *means, (_, overall) = corrupted["mean"].items()
        listed = ", ".join(f"{_number(value)} at {severity}" for severity, value in means)
        text = f"mean accuracy {_number(overall)} %; by severity {listed}"
        text = f"under {len(corrupted) - 1} corruptions: {text}"
        console.print(text, soft_wrap=True, highlight=False, markup=False)
    for text in _next_steps(results, folder, real_config):
        # commands must stay in one piece for copying
        console.print(text, soft_wrap=True, highlight=False)


def print_test(results: Mapping[str, Any], files: Sequence[Path]) -> None:
    """Print the metrics of ``test_results.json`` and where the files are."""
    domains = results["domains"]
    model = ", averaged model" if results.get("averaged") else ""
    metric = _main_metric(domains)
    metrics = [metric] + [m for m in ("aAcc",) if any(m in d for d in domains.values())]
    columns = {m: [_number(entry.get(m)) for entry in domains.values()] for m in metrics}
    columns["images"] = [str(entry["images"]) for entry in domains.values()]
    title = f"{results['name']}: {Path(results['checkpoint']).name}{model}"
    console = Console()
    console.print(_domain_table(title, domains, columns).to_rich())
    for text in _coverage(domains):
        console.print(f"by_domain: {text}", soft_wrap=True)
    for text in _worst_groups(results.get("groups", {})):
        console.print(f"worst {text}", soft_wrap=True, highlight=False, markup=False)
    for path in files:
        console.print(str(path), soft_wrap=True, highlight=False, markup=False)


def _main_metric(domains: Domains) -> str:
    numbers = (name for name, value in flatten(domains).items() if is_number(value))
    return main_metric(numbers) or "metric"


def _domain_table(title: str, domains: Domains, columns: Mapping[str, Sequence[str]]) -> TextTable:
    labels = [domain_label(domain, domains) for domain in domains]
    rows = list(zip(labels, *columns.values(), strict=True))
    rows = rows or [("nothing was evaluated", *["-"] * len(columns))]
    return TextTable(title, ("domain", *columns), rows, right=range(1, 1 + len(columns)))


def _metrics(results: Results) -> TextTable:
    """The reported values first, which are those of the leaderboard."""
    final, window = results.final, results.last_rounds
    metric = _main_metric(final)
    last = [_number(entry.get(metric)) for entry in final.values()]
    if window.evaluations > 1:
        reported = [_reported(window, Metric.of(domain, metric)) for domain in final]
        columns = {f"{metric} (%), last {window.rounds} rounds": reported, "last evaluation": last}
    else:
        columns = {f"{metric} (%)": last}
    if any("aAcc" in entry for entry in final.values()):
        columns["pixel accuracy"] = [_number(entry.get("aAcc")) for entry in final.values()]
    tests = [results.tests.get(find_set(domain, results.tests)) for domain in final]
    columns["images"] = ["-" if test is None else str(test.samples) for test in tests]
    return _domain_table(results.name, final, columns)


def _reported(window: Window, metric: Metric) -> str:
    """Mean and deviation of a metric over the evaluations of the last rounds."""
    name = str(metric)
    if name not in window.mean:
        return "-"
    return f"{window.mean[name]:.2f} ± {window.std[name]:.2f}"


def _coverage(domains: Domains) -> list[str]:
    """Note the domains whose clients have not trained yet."""
    counts = [(e.get("domains_with_statistics", 0), e.get("domains", 0)) for e in domains.values()]
    text = "domains have statistics of their own so far, the others are as in standard"
    return [f"{some} of the {every} {text}" for some, every in counts if some < every]


def _worst_groups(tables: Mapping[str, Domains]) -> Iterator[str]:
    """Name the worst clients or domains of each evaluated domain that is counted by them.

    ``tables``: evaluated domain -> client or domain -> its values.
    """
    for evaluated, groups in tables.items():
        metric = _main_metric({n: {**entry, "images": None} for n, entry in groups.items()})
        values = {n: entry[metric] for n, entry in groups.items() if is_number(entry.get(metric))}
        if len(values) < 2:
            continue
        worst = sorted(values, key=values.__getitem__)[:WORST]
        listed = ", ".join(f"{name} {_number(values[name])}" for name in worst)
        yield f"{metric}, {domain_label(evaluated, tables)}: {listed}"


def _facts(results: Results, folder: Path) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    clients = f"{results.clients_per_round} of {results.train.clients} clients each"
    table.add_row("rounds", f"{results.completed_rounds} of {results.rounds}, {clients}")
    for text in _coverage(results.final):
        table.add_row("by_domain", text)
    for number, text in enumerate(_worst_groups(read_clients(folder))):
        table.add_row("" if number else "worst", escape(text))
    seconds = results.seconds
    parts = [f"{k} {format_duration(seconds[k])}" for k in ("train", "evaluate") if k in seconds]
    if "wall" in seconds:
        table.add_row("time", f"{format_duration(seconds['wall'])} ({', '.join(parts)})")
    down, up = results.communication.bytes_down, results.communication.bytes_up
    sent = f"{format_bytes(down)} to the clients, {format_bytes(up)} to the server"
    table.add_row("communication", sent)
    if results.rejected_updates:
        table.add_row("rejected", f"{results.rejected_updates} updates, see history.jsonl")
    table.add_row("files", escape(f"{folder}/"))
    for name, what in _files(folder):
        table.add_row("", escape(f"  {name:<31} {what}"))
    return table


def _files(folder: Path) -> Iterator[tuple[str, str]]:
    yield from ((name, what) for name, what in FILES.items() if (folder / name).exists())
    for _, newest in checkpoints(folder / CHECKPOINTS)[-1:]:
        yield f"{CHECKPOINTS}/{newest.name}", "the newest model"
    for path in sorted((folder / "pictures").glob("*")):
        yield f"pictures/{path.name}", PICTURES.get(path.stem, "predictions")


def _next_steps(results: Results, folder: Path, real_config: str | Path | None) -> Iterator[str]:
    if _has_tests(results) and checkpoints(folder / CHECKPOINTS):
        yield f"\n[dim]test the model[/dim]\n  {escape(_test_command(folder))}"
    if results.train.synthetic:
        kind = results.train.dataset
        name = "CIFAR-10" if kind == "SyntheticShapesDataset" else kind.removesuffix("Dataset")
        text = "the data are synthetic: these are not results of the published benchmark"
        tool = PREPARED_BY.get(kind, "").removesuffix(" --synthetic").removeprefix("fedseg ")
        if tool.startswith("prepare "):
            data = name.lower().replace("-", "")
            text += f"; to use the real {escape(name)} in data/{data}[/dim]\n  {program()} {tool}"
        else:
            text += "[/dim]"
        yield f"\n[dim]{text}"
        if real_config is not None:
            yield f"  {program()} train {escape(str(real_config))}"


def _has_tests(results: Results) -> bool:
    """True if the run's config has test images."""
    return results.config.get("test_dataloader") is not None


def _test_command(folder: Path) -> str:
    """The command that tests a run, and trusts the parts of the user's own that it has."""
    parts = list(dict.fromkeys(noted_parts(folder).values()))
    trust = ["--trust", *parts] if parts else []
    return f"{program()} test {shlex.join([str(folder), *trust])}"


def _number(value: Any) -> str:
    return f"{value:.2f}" if is_number(value) else "-"
