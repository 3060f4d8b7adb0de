"""The published numbers of the package: complete, with their sources, as they were transcribed."""

from collections import Counter
from pathlib import Path

import pytest

from fedseg.leaderboard.reference import PAPERS, read_json, read_published

CONTENT = {  # paper -> records, sum of their values, records in doubt
    "FedDrive": (175, 9120.95, 0),
    "ECCV22": (1198, 59772.90, 252),
    "FedGloSS": (668, 681198.81, 7),
    "WIMA": (158, 8536.75, 26),
    "FedAlign": (215, 93735.73, 13),
    "LADD": (3, 95.64, 3),
    "FedSeg": (1, 47.03, 1),
    "Course report": (16, 920.43, 11),
}


def test_no_record_is_lost_or_changed():
    records = read_published()
    assert len(CONTENT) == len(PAPERS) and {r.paper for r in records} == set(CONTENT)
    for paper, (count, total, doubtful) in CONTENT.items():
        own = [r for r in records if r.paper == paper]
        assert len(own) == count
        assert sum(r.value or 0 for r in own) == pytest.approx(total, abs=0.005)
        assert sum(r.doubt is not None for r in own) == doubtful


def test_pages_count_the_records_that_have_a_value():
    """Those of seven papers and of a course report."""
    root = Path(__file__).parents[2]
    values = Counter(r.paper for r in read_published() if r.value is not None)
    assert len(values) == 8
    total = f"{values.total():,}"
    for page, text in (
        ("docs/comparison.md", f"{total} results of seven papers and a course report"),
        ("docs/leaderboard.md", f"The suite has {total} published results"),
        ("README.md", f"{total} of 7 papers and a report"),
    ):
        assert text in (root / page).read_text(encoding="utf-8")


def test_every_record_has_a_source_and_a_known_metric():
    for record in read_published():
        assert record.table and record.title
        if record.metric in ("accuracy", "miou") and record.value is not None:
            assert 0 < record.value < 100


def test_rows_of_feddrive():
    for kind, shift, bn, augmentation, algorithm, values in (
        # read off the page by eye
        ("uniform", None, None, None, "fedavg", [45.62]),
        ("class_imbalance", None, None, "cfsi", "fedavg", [48.28]),
        ("heterogeneous", "rainy", "silobn", None, "fedavg", [50.03, 54.36, 62.48]),
        ("class_imbalance", "bus", None, "lab", "fedavg", [54.01, 62.10]),
        ("heterogeneous", "country", None, None, "fedavgm", [42.42, 44.38]),
        ("uniform", "rainy", None, None, "adam", [31.72, 65.39]),
        ("heterogeneous", "country", "silobn", None, "adagrad", [41.69, 51.35, 48.97]),
    ):
        found = {
            r.domain: r.value
            for r in read_published()
            if r.paper == "FedDrive"
            and (r.split["kind"], r.split.get("shift")) == (kind, shift)
            and (r.bn, r.augmentation, r.server_opt or r.algorithm) == (bn, augmentation, algorithm)
        }
        domains = ["test"] if shift is None else ["unseen", "seen", "seen_by_domain"]
        assert found == dict(zip(domains, values, strict=False))

    records = [r for r in read_published() if r.paper == "FedDrive"]
    assert all(r.std and r.rounds == 1600 for r in records)
    (cell,) = (r for r in records if r.value == 53.37)
    assert cell.std == 1.65


def test_cells_of_the_other_papers():
    cells = Counter(
        (r.paper, r.table, r.dataset, r.algorithm, r.averaging, r.model, r.value, r.std)
        for r in read_published()
    )
    for cell in (
        ("ECCV22", "Table 3", "cifar100", "fedavg", None, "resnet18_gn", 47.0, None),
        ("ECCV22", "Table 6", "cifar10", "fedavgm_asam", "swa", "cnn", 80.88, None),
        ("FedGloSS", "Table 3", "cifar10", "fedavg", None, "cnn", 59.9, 0.4),
        ("FedGloSS", "Table 10", "cifar100", "scaffold", None, "resnet18_gn", 8900, None),
        ("WIMA", "Table 2", "cifar10", "mime_sgdm", None, "resnet20_gn", 74.58, None),
        ("FedAlign", "Table 5", "cifar100", "fedalign", None, "resnet56", 56.9, 0.5),
        ("Course report", "Sec. 2.3", "mnist", "scaffold", None, "cnn_course", 59.68, None),
    ):
        assert cells[cell], cell


def test_numbers_in_doubt_say_why():
    records = read_published()
    assert all(r.doubt for r in records if not r.confident)
    assert "the source does not name the data set" in {r.doubt for r in records if r.confident}


def test_known_data_have_the_published_counts():
    known = read_json("known_data.json")
    assert known.pop("cityscapes_classes").keys() == {"test"}  # its clients are not published
    counts = {
        name: tuple(map(entry["train"].get, ("clients", "samples")))
        for name, entry in known.items()
    }
    for kind, cityscapes in (
        ("uniform", (146, 2975)),
        ("heterogeneous", (144, 2904)),
        ("class_imbalance", (142, 2970)),
    ):
        assert counts[f"cityscapes_{kind}"] == cityscapes
        for shift, idda in (("country", (90, 4320)), ("rainy", (69, 3312)), ("bus", (83, 3984))):
            assert counts[f"idda_{shift}_{kind}"] == idda
    assert known["idda_rainy_uniform"]["test"]["unseen"]["samples"] == 2100
    assert len({e["train"]["partition_sha256"][0] for n, e in known.items() if "_" in n}) == 12
