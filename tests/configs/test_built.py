"""What is built of every setting and method is what its paper or its own comment says.

``built.csv`` has a row for each fact: settings, methods, the fact, its value by the source, and the
source. Settings are names, patterns such as ``cifar10_a*``, or groups of ``GROUPS``. A value that
begins with ``* `` is the end of what is built. ``tests/support/built.py`` has the facts.
"""

import csv
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest
from built import ARGUMENTS, FACTS, built, fact
from config_components import SETTINGS

from fedseg.errors import ConfigError

TABLE = Path(__file__).with_name("built.csv")
CIFAR10 = ["cifar10_a0", "cifar10_a005", "cifar10_a100"]
CIFAR100 = ["cifar100_a0", "cifar100_a05", "cifar100_a1000"]
IDDA = [f"idda_{shift}" for shift in ("bus", "country", "rainy")]
LISTED = [
    "acdc",
    "ade20k",
    "bdd100k",
    "gta5",
    "idd",
    "mapillary_a",
    "mapillary_b",
    "streets_dg",
    "synthia",
    "voc",
]
GROUPS = {
    "@cifar": [*CIFAR10, *CIFAR100],
    "@cifar10": CIFAR10,
    "@cifar100": CIFAR100,
    "@fedalign": ["cifar10_c16", "cifar10_c64", "cifar100_c16", "imagenet200"],
    "@idda": [
        f"{name}{clients}" for name in IDDA for clients in ("", "_uniform", "_class_imbalance")
    ],
    "@cityscapes": [
        "cityscapes_uniform",
        "cityscapes_heterogeneous",
        "cityscapes_class_imbalance",
    ],
    "@fedseg": ["ade20k_classes", "camvid_classes", "cityscapes_classes", "voc_classes"],
    "@listed": [*LISTED, "camvid", "segmentation"],
    "@listed_sets": LISTED,
    "@centralized_streets": [
        "camvid_centralized",
        "cityscapes_centralized",
        "demo_streets_centralized",
        "demo_towns_centralized",
        "gta5_centralized",
        *(f"{name}_centralized" for name in IDDA),
    ],
}
# what the table says of every setting, each by one of these facts
EVERY_SETTING = {
    "rounds": ("rounds",),
    "participants": ("clients a round",),
    "local epochs": ("local epochs",),
    "batch": ("batch",),
    "rate": ("rate", "rate outside heads", "rate in rounds"),
    "momentum": ("momentum", "betas"),
    "weight decay": ("weight decay", "weight decay of weights"),
    "augmentation": ("training images",),
    "reported rounds": ("reported rounds",),
}
# ends of the names of settings that change a few values of another one
PROTOCOLS = (
    "_batch8",
    "_eccv2022",
    "_fedgloss",
    "_fedsam",
    "_paper",
    "_resnet18",
    "_resnet20",
    "_scaffold",
    "_wima",
)


@dataclass(frozen=True)
class Row:
    """A row of the table for one setting."""

    setting: str
    methods: tuple[str, ...]
    fact: str
    value: str  # as the source says it
    source: str


def settings_of(names: str) -> list[str]:
    """The settings that a cell of the table names."""
    patterns: list[str] = []
    for name in names.split():
        patterns += GROUPS.get(name, [name])
    found = [s for s in SETTINGS if any(fnmatch(s, pattern) for pattern in patterns)]
    for pattern in patterns:
        assert any(fnmatch(s, pattern) for s in found), f"{TABLE.name}: no setting {pattern}"
    return found


def read_table() -> list[Row]:
    rows = []
    with TABLE.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file, delimiter=";"):
            assert None not in line and all(v is not None for v in line.values()), line
            assert line["source"], f"{TABLE.name}: {line} has no source"
            for setting in settings_of(line["settings"]):
                methods = tuple(line["methods"].split())
                rows.append(Row(setting, methods, line["fact"], line["value"], line["source"]))
    return rows


ROWS = read_table()


@pytest.mark.parametrize("setting", sorted({row.setting for row in ROWS}))
@pytest.mark.usefixtures("configs_read_once")
def test_what_is_built_is_what_its_source_says(setting):
    wrong = []
    for row in ROWS:
        if row.setting != setting:
            continue
        found = fact(built(setting, row.methods), row.fact)
        is_end = row.value.startswith("* ") and found.endswith(row.value.removeprefix("*"))
        if found != row.value and not is_end:
            name = " ".join(["--with", *row.methods]) if row.methods else "alone"
            wrong.append(f"{name}: {row.fact}: {found!r}, not {row.value!r} ({row.source})")
    assert not wrong, "\n".join([setting, *wrong])


def test_the_table_has_no_fact_twice():
    counts = Counter((row.setting, row.methods, row.fact) for row in ROWS)
    assert {key for key, count in counts.items() if count > 1} == set()
    kinds = {row.fact.partition(": ")[0] for row in ROWS}
    assert kinds <= set(FACTS) | set(ARGUMENTS)


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_setting_has_its_protocol_in_the_table(setting):
    known = {
        row.fact.partition(": ")[0] for row in ROWS if row.setting == setting and not row.methods
    }
    if setting.endswith(PROTOCOLS):
        assert known
        return
    missing = [name for name, facts in EVERY_SETTING.items() if not known & set(facts)]
    assert not missing


def test_every_method_is_in_the_table(slots):
    named = {method for row in ROWS for method in row.methods}
    assert set(slots) - named == set()
    for row in ROWS:
        if row.methods:
            built(row.setting, row.methods)  # they go together


def test_a_value_of_another_source_is_noticed():
    b = built("cifar10_a005")
    assert fact(b, "rate") == "0.01"
    with pytest.raises(ConfigError):
        built("cifar10_a005", ("silobn",))
