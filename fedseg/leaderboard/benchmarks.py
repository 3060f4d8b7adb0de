"""The benchmarks: settings whose runs are comparable, and the tables that rank them.

A :class:`Setting` is what the rows of a table share: data, split, network, participation, rounds. A
:class:`Benchmark` is a table of one setting. A setting can have several: accuracy, accuracy under
corruptions, traffic until a target. Names and the published splits are in
``reference/benchmarks.json``; ``reference/settings.json`` is composed of it and the configs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from fedseg.leaderboard.reference import Published, read_json, read_published

MODELS: Mapping[str, str] = read_json("benchmarks.json")["models"]
"""Class of a model -> its name in the published records."""
DATASETS: Mapping[str, Mapping[str, Any]] = read_json("benchmarks.json")["datasets"]
"""Data set of the published records -> facts; ``class`` is that of the training set."""

UNNAMED = "mnist"  # data set of the course report, which does not name it
OTHER_SIZES = ("clients_per_round", "n_clients")
SIZES = ("rounds", *OTHER_SIZES)


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

    @property
    def header(self) -> str:
        """The label with its unit."""
        return f"{self.label} (%)" if self.unit == "%" else self.label


def _columns(entries: Iterable[dict[str, Any]]) -> tuple[Column, ...]:
    return tuple(Column(**{**facts, "published": tuple(facts["published"])}) for facts in entries)


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
    configs: Sequence[str] = ()  # names of the settings in configs/settings that have its protocol
    parameters: int | None = None  # trainable ones of the network


@dataclass(frozen=True, eq=False)
class Benchmark:
    """A table: some metrics of one setting."""

    id: str  # for URLs
    title: str
    group: str  # tab of the page
    setting: Setting | None  # None: a table of runs alone
    columns: tuple[Column, ...]  # the first one orders the rows
    further: tuple[Column, ...] = ()  # can be shown, and are not ranked
    target: float | None = None  # accuracy in percent that traffic is measured to
    note: str = ""

    @property
    def all_columns(self) -> tuple[Column, ...]:
        """Ranked columns and the others."""
        return (*self.columns, *self.further)

    def is_ranked(self, record: Published) -> bool:
        """True unless a published cell is a variant's or of centralized training."""
        return record.variant is None and record.split is not None

    def column_of(self, record: Published) -> Column | None:
        """The column of one of the setting's published cells; None if the table has none.

        What is not ranked stands in the first table of a setting alone, which has further columns.
        """
        if not self.further and not self.is_ranked(record):
            return None
        for column in self.all_columns:
            if column.published == (record.domain, record.metric):
                return column
        return None

    def doubt(self, record: Published) -> str | None:
        """The reason not to rank anything against a published cell of this table, or None."""
        if record.doubt or record.split is None:
            return record.doubt
        for name in SIZES:
            if getattr(record, name) is None:
                return f"the source does not state {name.replace('_', ' ')}"
        return None


@cache
def records_of(setting: Setting) -> tuple[Published, ...]:
    """The published cells of a setting: also centralized ones, and points on the way."""
    records = _records_by_network().get((setting.model, setting.dataset), ())
    return tuple(record for record in records if _belongs(record, setting))


@cache
def _records_by_network() -> dict[tuple[str, str], list[Published]]:
    """The published cells by network and data set."""
    groups: dict[tuple[str, str], list[Published]] = {}
    for record in read_published():
        groups.setdefault((record.model, record.dataset or UNNAMED), []).append(record)
    return groups


def _belongs(record: Published, setting: Setting) -> bool:
    """True if a cell of the same network and data set has the setting's split and sizes."""
    if record.split is None:
        return True
    for key, value in record.split.items():
        if setting.split.get(key, value) != value:
            return False
    is_on_the_way = (record.variant or "").startswith("at ")
    sizes = OTHER_SIZES if is_on_the_way else SIZES  # on the way: in any round
    return all(getattr(record, name) in (None, getattr(setting, name)) for name in sizes)


@cache
def settings() -> tuple[Setting, ...]:
    """Every setting, in the order in which a reader sees them."""
    return tuple(Setting(**facts) for facts in read_json("settings.json")["settings"])


@cache
def benchmarks() -> tuple[Benchmark, ...]:
    """Every benchmark, in the order in which a reader sees them."""
    known = {setting.id: setting for setting in settings()}
    tables = []
    for facts in read_json("settings.json")["benchmarks"]:
        is_first = facts["id"] == facts["setting"]
        fields = {
            **facts,
            "setting": known[facts["setting"]],
            "columns": _columns(facts["columns"]),
            "further": FURTHER_COLUMNS if is_first else (),
        }
        tables.append(Benchmark(**fields))
    return tuple(tables)


@dataclass(frozen=True)
class PublishedCount:
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
        if benchmark.column_of(record) is not None
    }
    return PublishedCount(total=len(numbers), in_tables=len(numbers & shown))
