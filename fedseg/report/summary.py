"""The last screen of a run or test: results, worst clients, costs, and how to test the model."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedseg.checks import is_number
from fedseg.cli import program
from fedseg.metric_names import Metric, domain_label, find_set, flatten, main_metric
from fedseg.report.corruptions import MEAN, corruption_table
from fedseg.report.tables import table_text
from fedseg.runner.checkpoint import CHECKPOINTS, checkpoints
from fedseg.runs.history import Window
from fedseg.runs.run_files import read_clients
from fedseg.runs.schema import FILE_NAME, Results, read_results
from fedseg.runs.tables import MISSING
from fedseg.trust import noted_parts
from fedseg.units import format_bytes, format_duration

WORST = 3  # clients or domains that are named
NOTHING = "nothing was evaluated"
Domains = Mapping[str, Mapping[str, Any]]


def print_summary(work_dir: str | Path) -> None:
    """Print what a finished run reached, from its ``results.json``."""
    folder = Path(work_dir)
    results = read_results(folder / FILE_NAME, strict=False)
    print(table_text(results.name, _metrics(results)))
    print()
    for name, text in _facts(results, folder):
        print(f"{name:<15}{text}")
    if results.train.synthetic:
        print("\nThe data are synthetic: these are not results of the published benchmark.")
    has_tests = results.config.get("test_dataloader") is not None
    if has_tests and checkpoints(folder / CHECKPOINTS):
        print(f"\ntest the model\n  {test_command(folder)}")


def print_test(results: Mapping[str, Any], files: Sequence[Path]) -> None:
    """Print the metrics of ``test_results.json`` and where the files are."""
    domains = results["domains"]
    metric = _main_metric(domains)
    columns = {metric: _column(domains, metric)}
    if any("aAcc" in entry for entry in domains.values()):
        columns["aAcc"] = _column(domains, "aAcc")
    columns["images"] = [str(entry["images"]) for entry in domains.values()]
    model = ", averaged model" if results.get("averaged") else ""
    title = f"{results['name']}: {Path(results['checkpoint']).name}{model}"
    print(table_text(title, _domain_table(domains, columns)))
    print()
    for text in _coverage(domains):
        print(f"by_domain: {text}")
    for text in _worst_groups(results.get("groups", {})):
        print(f"worst {text}")
    for path in files:
        print(path)


def test_command(folder: Path) -> str:
    """Write the command that tests a run, and trusts the parts of the user's own that it has."""
    parts = list(dict.fromkeys(noted_parts(folder).values()))
    words = [str(folder)]
    if parts:
        words += ["--trust", *parts]
    return f"{program()} test {shlex.join(words)}"


def _metrics(results: Results) -> pd.DataFrame:
    """Tabulate the reported values first, which are those of the leaderboard."""
    final, window = results.final, results.last_rounds
    metric = _main_metric(final)
    last = _column(final, metric)
    if window.evaluations > 1:
        reported = [_reported(window, Metric.of(domain, metric)) for domain in final]
        columns = {f"{metric} (%), last {window.rounds} rounds": reported, "last evaluation": last}
    else:
        columns = {f"{metric} (%)": last}
    if any("aAcc" in entry for entry in final.values()):
        columns["pixel accuracy"] = _column(final, "aAcc")
    images = []
    for domain in final:
        test = results.tests.get(find_set(domain, results.tests))
        images.append(MISSING if test is None else str(test.samples))
    columns["images"] = images
    return _domain_table(final, columns)


def _domain_table(domains: Domains, columns: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    labels = [domain_label(domain, domains) for domain in domains]
    if not labels:
        return pd.DataFrame({"": [MISSING]}, [NOTHING])
    return pd.DataFrame(columns, labels)


def _main_metric(domains: Domains) -> str:
    numbers = (name for name, value in flatten(domains).items() if is_number(value))
    return main_metric(numbers) or "metric"


def _column(domains: Domains, metric: str) -> list[str]:
    return [_number(entry.get(metric)) for entry in domains.values()]


def _reported(window: Window, metric: Metric) -> str:
    """Write mean and deviation of a metric over the evaluations of the last rounds."""
    name = str(metric)
    if name not in window.mean:
        return MISSING
    return f"{window.mean[name]:.2f} ± {window.std[name]:.2f}"


def _facts(results: Results, folder: Path) -> Iterator[tuple[str, str]]:
    """Name what the run took and where it is."""
    clients = f"{results.clients_per_round} of {results.train.clients} clients each"
    yield "rounds", f"{results.completed_rounds} of {results.rounds}, {clients}"
    for text in _coverage(results.final):
        yield "by_domain", text
    for text in _worst_groups(read_clients(folder)):
        yield "worst", text
    corrupted = corruption_table(results.final)
    if corrupted is not None:
        yield "corruptions", _corruptions_text(corrupted)
    seconds = results.seconds
    if "wall" in seconds:
        known = [key for key in ("train", "evaluate") if key in seconds]
        parts = [f"{key} {format_duration(seconds[key])}" for key in known]
        yield "time", f"{format_duration(seconds['wall'])} ({', '.join(parts)})"
    sent = results.communication
    down, up = format_bytes(sent.bytes_down), format_bytes(sent.bytes_up)
    yield "communication", f"{down} to the clients, {up} to the server"
    if results.rejected_updates:
        yield "rejected", f"{results.rejected_updates} updates, see history.jsonl"
    yield "folder", str(folder)


def _coverage(domains: Domains) -> list[str]:
    """Note the domains whose clients have not trained yet."""
    texts = []
    for entry in domains.values():
        trained, count = entry.get("domains_with_statistics", 0), entry.get("domains", 0)
        if trained < count:
            texts.append(
                f"{trained} of the {count} domains have statistics of their own so far, the others "
                "are as in standard"
            )
    return texts


def _worst_groups(tables: Mapping[str, Domains]) -> Iterator[str]:
    """Name the worst clients or domains of each evaluated domain that is counted by them.

    Args:
        tables: evaluated domain -> client or domain -> its values.
    """
    for evaluated, groups in tables.items():
        metric = _main_metric({n: {**entry, "images": None} for n, entry in groups.items()})
        values = {n: entry[metric] for n, entry in groups.items() if is_number(entry.get(metric))}
        if len(values) < 2:
            continue
        worst = pd.Series(values).nsmallest(WORST)
        listed = ", ".join(f"{name} {_number(value)}" for name, value in worst.items())
        yield f"{metric}, {domain_label(evaluated, tables)}: {listed}"


def _corruptions_text(table: pd.DataFrame) -> str:
    """Write the mean accuracy under corruptions, and that of each severity."""
    *severities, (_, mean) = table.loc[MEAN].items()
    listed = ", ".join(f"{_number(value)} at {severity}" for severity, value in severities)
    return (
        f"under {len(table) - 1} corruptions: mean accuracy {_number(mean)} %; by severity {listed}"
    )


def _number(value: Any) -> str:
    return f"{value:.2f}" if is_number(value) else MISSING
