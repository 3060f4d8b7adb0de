"""The published numbers of the package: complete, with their sources, as they were transcribed."""

import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from fedseg.datasets import CityscapesDataset, IDDADataset
from fedseg.leaderboard.reference import PAPERS, Published, known_data, read_published
from fedseg.loaders.partitioned import PartitionedData
from fedseg.partition import NaturalPartition

SHARED = Path(__file__).parents[3] / "shared"
needs_transcriptions = pytest.mark.skipif(
    not (SHARED / "reference").is_dir(), reason="needs the papers' tables, ../shared/reference"
)
CITED = {
    "fedsam": "ECCV22",
    "fedalign": "FedAlign",
    "fedgloss": "FedGloSS",
    "wima": "WIMA",
    "course": "Course report",
}
KEY = (
    *("dataset", "model", "algorithm", "averaging", "server_opt", "bn", "augmentation"),
    *("n_clients", "clients_per_round", "rounds", "local_epochs", "domain", "metric", "variant"),
)
CELL = ("value", "std", "confident", "status", "comm_cost", "note")


def cells(records, of) -> Counter:
    """Source, key and content of every cell, as text."""
    return Counter(
        (
            of(r, "source"),
            str(of(r, "split")),
            *(of(r, name) for name in KEY),
            *(of(r, name) for name in CELL),
            bool(of(r, "approx")),
            bool(of(r, "conflict")),
        )
        for r in records
    )


def test_every_record_has_a_source_and_a_known_metric():
    records = read_published()
    assert {r.paper for r in records} == {*CITED.values(), "FedDrive"} and len(PAPERS) == 6
    assert all(r.table and r.title for r in records)
    for record in records:
        if record.metric in ("accuracy", "miou") and record.value is not None:
            assert 0 < record.value < 100


@needs_transcriptions
@pytest.mark.parametrize("name", CITED)
def test_numbers_equal_the_transcription_cell_by_cell(name):
    yaml = pytest.importorskip("yaml")
    text = (SHARED / "reference" / f"results_{name}.yaml").read_text(encoding="utf-8")
    own = [r for r in read_published() if r.paper == CITED[name]]

    def of_own(record: Published, field: str):
        if field == "source":
            return f"{record.paper} {record.table}"
        return getattr(record, field)

    expected = cells(yaml.safe_load(text), lambda r, field: r.get(field))
    assert cells(own, of_own) == expected
    assert sum(expected.values()) > 10


@needs_transcriptions
def test_numbers_of_feddrive_stand_in_its_notes():
    text = (SHARED / "feddrive.md").read_text(encoding="utf-8").partition("## Published mIoU")[2]
    printed = Counter(re.findall(r"\d\d\.\d\d", text.partition("\n## ")[0]))
    own = Counter(f"{r.value:.2f}" for r in read_published() if r.paper == "FedDrive")
    assert own == printed


@pytest.mark.parametrize(
    ("kind", "shift", "bn", "augmentation", "algorithm", "values"),
    [  # read off the page by eye
        ("uniform", None, None, None, "fedavg", [45.62]),
        ("heterogeneous", None, "silobn", "lab", "fedavg", [53.37]),
        ("class_imbalance", None, None, "cfsi", "fedavg", [48.28]),
        ("uniform", "rainy", None, None, "fedavg", [27.61, 62.72]),
        ("heterogeneous", "bus", None, "lab", "fedavg", [50.48, 58.84]),
        ("heterogeneous", "rainy", "silobn", None, "fedavg", [50.03, 54.36, 62.48]),
        ("heterogeneous", "country", "silobn", "cfsi", "fedavg", [49.17, 63.43, 61.22]),
        ("class_imbalance", "bus", "silobn", None, "fedavg", [57.63, 67.54]),
        ("uniform", "country", None, None, "fedavgm", [55.47, 71.27]),
        ("heterogeneous", "country", None, None, "fedavgm", [42.42, 44.38]),
    ],
)
def test_rows_of_feddrive(kind, shift, bn, augmentation, algorithm, values):
    found = {
        r.domain: r.value
        for r in read_published()
        if r.paper == "FedDrive"
        and (r.split["kind"], r.split.get("shift")) == (kind, shift)
        and (r.bn, r.augmentation, r.algorithm) == (bn, augmentation, algorithm)
    }
    domains = ["test"] if shift is None else ["unseen", "seen", "seen_by_domain"]
    assert found == dict(zip(domains, values, strict=False))


def test_numbers_in_doubt_say_why():
    records = read_published()
    damaged = [r for r in records if not r.confident]
    assert len(damaged) > 200 and all(r.doubt for r in damaged)
    reasons = {r.doubt for r in records if r.confident and r.doubt}
    assert "the source does not name the data set" in reasons
    assert any(r.doubt is None for r in records)


def test_known_data_have_the_published_counts():
    known = known_data()
    counts = {
        name: (entry["train"].get("clients"), entry["train"]["samples"])
        for name, entry in known.items()
    }
    assert counts["cityscapes_uniform"] == (146, 2975)
    assert counts["cityscapes_heterogeneous"] == (144, 2904)
    assert counts["cityscapes_class_imbalance"] == (142, 2970)
    for distribution in ("uniform", "heterogeneous", "class_imbalance"):
        assert counts[f"idda_country_{distribution}"] == (90, 4320)
        assert counts[f"idda_rainy_{distribution}"] == (69, 3312)
        assert counts[f"idda_bus_{distribution}"] == (83, 3984)
    assert known["idda_rainy_uniform"]["test"]["unseen"]["samples"] == 2100
    assert known["idda_bus_uniform"]["test"]["seen"]["samples"] == 996
    assert len({e["train"]["partition_sha256"][0] for n, e in known.items() if "_" in n}) == 12


@pytest.mark.skipif(
    not (SHARED / "data" / "feddrive_splits").is_dir(),
    reason="needs the published splits, ../shared/data/feddrive_splits",
)
@pytest.mark.parametrize(
    ("dataset", "place", "name"),
    [
        (IDDADataset, "idda/data/heterogeneous/bus", "idda_bus_heterogeneous"),
        (CityscapesDataset, "cityscapes/data/uniform", "cityscapes_uniform"),
    ],
)
def test_published_splits_have_the_known_checksums_in_a_run(dataset, place, name, tmp_path):
    folder = SHARED / "data" / "feddrive_splits" / place
    train = dataset(tmp_path, folder / "train", check="none")
    data = SimpleNamespace(dataset=train, indices=NaturalPartition("users")(train))
    known = known_data()[name]
    assert PartitionedData.checksum(data) in known["train"]["partition_sha256"]
    assert len(train) == known["train"]["samples"]
    test = dataset(tmp_path, folder / "test", check="none")
    for entry in known["test"].values():
        assert entry["split_checksum"] == [test.split_checksum]
