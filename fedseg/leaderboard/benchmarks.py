"""The benchmarks: settings whose runs are comparable, and the tables that rank them.

A :class:`Setting` is what the rows of a table share: data, split, network, participation, rounds. A
:class:`Benchmark` is a table of one setting. A setting can have several: accuracy, accuracy under
corruptions, traffic until a target. Names and the published splits are in
``reference/benchmarks.json``; ``reference/settings.json`` is composed of it and the configs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from fedseg.leaderboard.reference import Published, read_json, read_published

MODELS: Mapping[str, str] = read_json("benchmarks.json")["models"]
"""Class of a model -> its name in the published records."""
DATASETS: Mapping[str, Mapping[str, Any]] = read_json("benchmarks.json")["datasets"]
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
    # "epsilon": of privacy; "curvature": as measured of the last round, <quantity>/<value>
    statistic: str
    published: tuple[str | None, str]  # domain and metric of the published records
    higher: bool = True  # whether more is better
    digits: int = 2  # after the decimal point; values that print alike share a rank
    unit: str = "%"  # or "rounds", "of FedAvg's", "" where the label has it


def _columns(facts: Iterable[dict[str, Any]]) -> tuple[Column, ...]:
    return tuple(Column(**{**fact, "published": tuple(fact["published"])}) for fact in facts)


# what a setting's first table can show besides what it ranks
FURTHER_COLUMNS = _columns(read_json("benchmarks.json")["further_columns"])


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
    # other values that count as well: ``command``, as below, which composes them; ``when``, by key
    # the class that a run must have for them; ``change``, the values by key
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
def records_of(setting: Setting) -> tuple[Published, ...]:
    """The published cells of a setting: also centralized ones, and points on the way."""

    def belongs(record: Published) -> bool:
        if (record.model, record.dataset or UNNAMED) != (setting.model, setting.dataset):
            return False
        on_the_way = (record.variant or "").startswith("at ")  # in any round
        names = SIZES[on_the_way:]
        return record.split is None or (
            all(setting.split.get(key, value) == value for key, value in record.split.items())
            and all(getattr(record, name) in (None, getattr(setting, name)) for name in names)
        )

    return tuple(filter(belongs, read_published()))


@cache
def settings() -> tuple[Setting, ...]:
    """Every setting, in the order in which a reader sees them."""
    return tuple(Setting(**facts) for facts in read_json("settings.json")["settings"])


@cache
def benchmarks() -> tuple[Benchmark, ...]:
    """Every benchmark, in the order in which a reader sees them."""
    known = {setting.id: setting for setting in settings()}
    return tuple(
        Benchmark(
            **{**facts, "setting": known[facts["setting"]], "columns": _columns(facts["columns"])},
            further=FURTHER_COLUMNS if facts["id"] == facts["setting"] else (),
        )
        for facts in read_json("settings.json")["benchmarks"]
    )


class PublishedCount(NamedTuple):
    """The published numbers: cells of papers' tables that have a value."""

    total: int
    in_tables: int  # those that belong to a benchmark, whose tables show them

    @property
    def others(self) -> int:
        """Those of no benchmark, such as speed-ups, which follow from others."""
        return self.total - self.in_tables


@cache
def count_published() -> PublishedCount:
    """Count the published numbers, each once, although several tables may show it."""
    numbers = {id(record) for record in read_published() if record.value is not None}
    shown = {
        id(record)
        for benchmark in benchmarks()
        for record in records_of(benchmark.setting)
        if benchmark.column_of(record)[0] is not None
    }
    return PublishedCount(total=len(numbers), in_tables=len(numbers & shown))
