"""The benchmarks: settings whose runs are comparable, and the tables that rank them.

A :class:`Setting` is what the rows of a table share: data, split, network, participation, rounds. A
:class:`Benchmark` is a table of one setting. A setting can have several: accuracy, accuracy under
corruptions, traffic until a target. Names and the published splits are in
``reference/benchmarks.json``; ``reference/settings.json`` is composed of it and the configs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from typing import Any

from fedseg.leaderboard.reference import Published, read_json, read_published
from fedseg.metric_names import Metric

_FACTS = read_json("benchmarks.json")
MODELS: Mapping[str, str] = _FACTS["models"]
"""Class of a model -> its name in the published records."""
DATASETS: Mapping[str, Mapping[str, Any]] = _FACTS["datasets"]
"""Data set of the published records -> facts; ``class`` is that of the training set."""

UNNAMED = "mnist"  # data set of the course report, which does not name it
SIZES = ("rounds", "clients_per_round", "n_clients")


@dataclass(frozen=True)
class Column:
    """A metric that is compared."""

    key: str  # short, unique in its table
    label: str  # for the reader
    metric: str  # of a run: <domain>/<metric>
    # "window": mean over the evaluations of the last rounds; "final": last evaluation;
    # "rounds_to_target", "traffic_to_target": until the metric first reaches the target;
    # "parameters", in millions; "seconds" of wall time per round; "published": no run has it;
    # "epsilon": of privacy; "curvature": of the last round's curvature.json, <quantity>/<value>
    statistic: str
    published: tuple[str | None, str]  # domain and metric of the published records
    higher: bool = True  # whether more is better
    digits: int = 2  # after the decimal point; values that print alike share a rank
    unit: str = "%"  # or "rounds", "of FedAvg's", "" where the label has it


def _columns(facts: Iterable[dict[str, Any]], **usual: Any) -> tuple[Column, ...]:
    columns = ({"metric": fact["key"], **usual, **fact} for fact in facts)
    return tuple(Column(**fact | {"published": tuple(fact["published"])}) for fact in columns)


CORRUPTED_COLUMNS = _columns(_FACTS["corrupted_columns"])
TARGET_COLUMNS = _columns(_FACTS["target_columns"])
# what a setting's first table can show besides what it ranks
FURTHER_COLUMNS = _columns(_FACTS["further_columns"], statistic="published", higher=False, unit="")


@dataclass(frozen=True, eq=False)
class Setting:
    """The common part of a table's rows; names are those of the published records."""

    id: str  # for URLs
    title: str
    dataset: str
    split: Mapping[str, Any]  # kind, and its options
    model: str
    n_clients: int
    clients_per_round: int
    rounds: int
    local_epochs: int  # the usual number; a row with another one says so
    domains: Sequence[str]
    # the values that a run's config must have, see fedseg.leaderboard.comparable
    protocol: Mapping[str, Any] = field(default_factory=dict)
    # methods whose other values count as well: ``method``, in configs/methods; ``when``, by key the
    # class that a run must have for them; ``change``, the values by key
    variants: Sequence[Mapping[str, Any]] = ()
    free: Sequence[str] = ()  # keys of the protocol that no source states
    known: Mapping[str, Any] = field(default_factory=dict)  # checksums of the data
    window: int | None = 100  # reported rounds at the end; None: the last evaluation is reported
    evaluations: int = 20  # required number in the window
    note: str = ""
    command: str = ""  # what trains FedAvg in it, after "fedseg train"
    parameters: int | None = None  # trainable ones of the network


@dataclass(frozen=True, eq=False)
class Benchmark:
    """A table: some metrics of one setting."""

    id: str  # for URLs
    title: str
    group: str  # tab of the page
    setting: Setting
    columns: tuple[Column, ...]  # the first one orders the rows
    further: tuple[Column, ...] = ()  # can be shown, and are not ranked
    target: float | None = None  # accuracy in percent that traffic is measured to
    note: str = ""

    def column_of(self, record: Published) -> tuple[Column | None, bool]:
        """The column of one of the setting's published cells, and whether it is ranked."""
        wanted = (record.domain, record.metric)
        ranked = record.variant is None and record.split is not None
        for column in self.columns if ranked or self.further else ():
            if column.published == wanted:
                return column, ranked
        return next((column for column in self.further if column.published == wanted), None), False

    def doubt(self, record: Published) -> str | None:
        """The reason not to rank anything against a published cell of this table, or None."""
        needed = () if record.split is None else SIZES
        unstated = (name.replace("_", " ") for name in needed if getattr(record, name) is None)
        return record.doubt or next((f"the source does not state {n}" for n in unstated), None)


@cache
def _records() -> Mapping[tuple[str, str], Sequence[Published]]:
    """The published cells by network and data set."""
    records: dict[tuple[str, str], list[Published]] = {}
    for record in read_published():
        records.setdefault((record.model, record.dataset or UNNAMED), []).append(record)
    return records


@cache
def records_of(setting: Setting) -> tuple[Published, ...]:
    """The published cells of a setting: also centralized ones, and points on the way."""

    def belongs(record: Published) -> bool:
        on_the_way = (record.variant or "").startswith("at ")  # in any round
        names = SIZES[on_the_way:]
        return record.split is None or (
            all(setting.split.get(key, value) == value for key, value in record.split.items())
            and all(getattr(record, name) in (None, getattr(setting, name)) for name in names)
        )

    return tuple(filter(belongs, _records().get((setting.model, setting.dataset), ())))


@cache
def settings() -> tuple[Setting, ...]:
    """Every setting, in the order in which a reader sees them."""
    return tuple(Setting(**facts) for facts in read_json("settings.json"))


@cache
def benchmarks() -> tuple[Benchmark, ...]:
    """Every benchmark, in the order in which a reader sees them."""
    tables = [benchmark for setting in settings() for benchmark in _tables(setting)]
    groups = [benchmark.group for benchmark in tables]
    return tuple(sorted(tables, key=lambda benchmark: groups.index(benchmark.group)))


def _tables(setting: Setting) -> Iterator[Benchmark]:
    """The benchmarks of a setting, the main one first."""
    data = DATASETS[setting.dataset]
    title, metric = data.get("group", data["title"]), data["metric"]
    statistic = "final" if setting.window is None else "window"
    columns = tuple(
        Column(key, label, str(Metric.of(key, metric)), statistic, (key, metric.lower()))
        for key, label in data["columns"].items()
    )
    yield Benchmark(
        *(setting.id, setting.title, title, setting, columns, FURTHER_COLUMNS), note=setting.note
    )
    if data.get("corrupted"):
        id_, group, note = f"{setting.id}_corrupted", f"{title}-C", _FACTS["corrupted_note"]
        name = setting.title.replace(title, group)
        yield Benchmark(id_, name, group, setting, CORRUPTED_COLUMNS, note=note)
    if (target := _target(setting)) is not None:
        id_, name = f"{setting.id}_traffic", f"{setting.title}: until {target:g} %"
        yield Benchmark(
            *(id_, name, "Communication", setting, TARGET_COLUMNS),
            target=target,
            note=_FACTS["target_note"],
        )


def _target(setting: Setting) -> float | None:
    """FedAvg's final accuracy, where a paper reports how long other methods take to reach it."""
    cells = [r for r in records_of(setting) if r.variant is None and r.split is not None]
    papers = {r.paper for r in cells if r.metric == TARGET_COLUMNS[0].published[1]}
    named = attrgetter("metric", "doubt", "algorithm", "averaging", "augmentation")
    wanted = ("accuracy", None, "fedavg", None, None)
    return next((r.value for r in cells if r.paper in papers and named(r) == wanted), None)
