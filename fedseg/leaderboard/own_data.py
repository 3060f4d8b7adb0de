"""Boards of data that nobody has published numbers on: runs are ranked among each other."""

from collections.abc import Sequence

from fedseg.files import digest
from fedseg.leaderboard.benchmarks import FURTHER_COLUMNS, Benchmark, Column, Setting
from fedseg.leaderboard.collect import FoundRun
from fedseg.leaderboard.comparable import model_name
from fedseg.metric_names import Metric, main_metric
from fedseg.runs.schema import Results

GROUP = "Own data"
NOTE = (
    "runs with the same clients, test images, network, participation and rounds are ranked among "
    "each other; nothing is published"
)


def own_key(results: Results) -> str:
    """A digest of what the rows of such a board share."""
    tests = {
        name: (test.dataset, test.samples, test.split_checksum, test.content_sha256, test.steps)
        for name, test in sorted(results.tests.items())
    }
    train, window = results.train, results.last_rounds
    return digest(
        [
            *(train.dataset, train.samples, train.partition_sha256, results.synthetic, tests),
            *(model_name(results), results.model.parameters, results.rounds, window.rounds),
            *(results.clients_per_round.min, results.clients_per_round.max),
        ]
    )


def own_benchmark(runs: Sequence[FoundRun]) -> Benchmark:
    """The board of runs that agree in :func:`own_key`."""
    first = runs[0].results
    train, most = first.train, first.clients_per_round.max
    rendered = "rendered images, " if first.synthetic else ""
    setting = Setting(
        id=f"own-{own_key(first)[:8]}",
        title=f"{rendered}{train.dataset}, {model_name(first)}, {most} of {train.clients} clients, "
        f"{first.rounds:,} rounds",
        dataset=train.dataset,
        split={},
        model=model_name(first),
        n_clients=train.clients,
        clients_per_round=most,
        rounds=first.rounds,
        local_epochs=first.local_epochs,
        domains=tuple(first.tests),
        window=first.last_rounds.rounds,
        parameters=first.model.parameters,
    )
    columns = own_columns(runs)
    return Benchmark(setting.id, setting.title, GROUP, setting, columns, FURTHER_COLUMNS, note=NOTE)


def own_columns(runs: Sequence[FoundRun]) -> tuple[Column, ...]:
    """Columns of such data: its domains' mIoU, or accuracy, or the first metric."""
    names = dict.fromkeys(name for run in runs for name in run.results.last_rounds.mean)
    main = main_metric(names)
    domains = {str(m): m.domain for m in map(Metric.parse, names) if m.metric == main}
    taken = {column.key for column in FURTHER_COLUMNS}  # a domain may have the name of one
    return tuple(
        Column(name if domain in taken else domain, domain, name, "window", (domain, main))
        for name, domain in domains.items()
    )
