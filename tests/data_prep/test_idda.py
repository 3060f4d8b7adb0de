"""The splits of IDDA have the benchmark's numbers, for every seed; damaged data are reported."""

import shutil

import numpy as np
import pytest
from prepare_tools import presence, sizes, use_fewer, write_pair

from fedseg.data_prep.paired_images import rendered_files, verify
from fedseg.data_prep.split_rules import build_idda, is_unseen
from fedseg.data_prep.street_sets import DOMAINS, IDDA
from fedseg.datasets import IDDADataset
from fedseg.datasets.templates import fields_of
from fedseg.errors import DataError

# Clients, seen test, unseen test.
IDDA_TABLE = {"country": (90, 1080, 840), "rainy": (69, 828, 2100), "bus": (83, 996, 1260)}
FREQUENCIES = np.linspace(0.01, 1, 16) ** 2  # many classes of all frequencies


def domains_per_client(split):
    return [
        len({fields_of(IDDADataset.image_path, x)["domain"] for x, _ in samples})
        for samples in split.users.values()
    ]


def check_idda(train, test, setting, distribution):
    clients, seen, unseen = IDDA_TABLE[setting]
    assert sizes(train) == [48] * clients
    assert {user: len(s) for user, s in test.users.items()} == {
        "test_user_diff_domain": unseen,
        "test_user_same_domain": seen,
    }
    assert len({*train.samples, *test.samples}) == len(train) + len(test)
    seen_domains = {fields_of(IDDADataset.image_path, x)["domain"] for x, _ in train.samples}
    for user, samples in test.users.items():
        domains, counts = np.unique(
            [fields_of(IDDADataset.image_path, x)["domain"] for x, _ in samples], return_counts=True
        )
        if user == "test_user_same_domain":
            assert set(domains) == seen_domains and set(counts) == {12}
        else:
            assert all(is_unseen(setting, d) for d in domains) and set(counts) == {60}
    held = domains_per_client(train)
    if distribution == "uniform":
        assert held == [48] * clients
    elif distribution == "heterogeneous":
        assert list(train.users) == [
            fields_of(IDDADataset.image_path, s[0][0])["domain"] for s in train.users.values()
        ]
        assert held == [1] * clients


def test_numbers_of_every_split_and_seed():
    for setting in IDDA.settings:
        for seed in (0, 1, 7):
            pools, tests = [], []
            for distribution in IDDA.rules:
                content = presence(FREQUENCIES, seed)
                train, test = build_idda(
                    rendered_files(IDDA), (distribution, setting), seed, content
                )
                check_idda(train, test, setting, distribution)
                pools.append(set(train.samples))
                tests.append(test.checksum)
            assert pools[0] == pools[1] == pools[2] and len(set(tests)) == 1


def test_file_names():
    images = rendered_files(IDDA)
    assert len(images) == len(DOMAINS) == 104 and "T07_CN_M" not in images
    assert sum(map(len, images.values())) == 6240
    name = ("T01_CN_A/RGB/10_T01_CN_A.jpg", "T01_CN_A/Semantic/10_T01_CN_A.png")
    assert images["T01_CN_A"][0] == name  # before 1_T01_CN_A.jpg, as a listing is sorted


def test_it_scales_with_fewer_images(monkeypatch):
    few = use_fewer(monkeypatch, 5)
    train, test = build_idda(rendered_files(few), ("uniform", "rainy"), 0)
    assert sizes(train) == [4] * 69
    assert domains_per_client(train) == [4] * 69
    assert [len(s) for s in test.users.values()] == [35 * 5, 69]


def test_class_imbalance_names_clients_after_their_rarest_classes():
    classes = IDDADataset.classes
    frequencies = np.ones(len(classes))
    frequencies[classes.index("bicycle")] = 0.1
    frequencies[classes.index("traffic light")] = 0.3
    content = presence(frequencies)
    train, _ = build_idda(rendered_files(IDDA), ("class_imbalance", "rainy"), 0, content)
    names = list(train.users)
    assert names[0] == "client_bicycle_1" and "client_light_1" in names
    assert "client_bicycle_light" in names and "client_light_road" in names
    assert names.index("client_bicycle_light") < names.index("client_light_1")
    # All bicycles are with the clients named after it: the others cannot learn the class.
    other, _ = build_idda(rendered_files(IDDA), ("heterogeneous", "rainy"), 0)
    shows = content(other.samples)[:, classes.index("bicycle")]
    with_bicycle = {s for s, shown in zip(other.samples, shows, strict=True) if shown}
    holders = {user for user, samples in train.users.items() if with_bicycle & set(samples)}
    assert holders == {name for name in names if "bicycle" in name}


def test_verification_reports_the_first_kind_of_fault(tmp_path, monkeypatch):
    few = use_fewer(monkeypatch, 2)
    with pytest.raises(DataError, match="IDDAsmall"):
        verify(few, tmp_path)
    base = tmp_path / "IDDAsmall"
    for samples in rendered_files(few).values():
        for sample in samples:
            write_pair(base, base, sample)
    assert len(verify(few, tmp_path)) == 104
    with pytest.raises(DataError, match=r"1 labels of another size .*: T04_CN_A/Semantic/1_"):
        write_pair(base, tmp_path / "aside", rendered_files(few)["T04_CN_A"][0], size=(20, 8))
        verify(few, tmp_path)
    cut = base / "T03_CN_A/RGB/2_T03_CN_A.jpg"
    cut.write_bytes(cut.read_bytes()[:-40])
    (base / "T03_CN_B/Semantic/2_T03_CN_B.png").write_text("no image")
    with pytest.raises(DataError, match=r"2 unreadable or truncated files: T03_CN_A/.*, T03_CN_B"):
        verify(few, tmp_path)
    shutil.rmtree(base / "T05_CN_A")
    told = r"1 folders with another number of pairs: T05_CN_A \(0 instead of 2\): put IDDA there"
    with pytest.raises(DataError, match=told):
        verify(few, tmp_path)
    (base / "T02_CN_A/RGB/1_T02_CN_A.jpg").unlink()
    with pytest.raises(DataError, match=r"1 label maps without an image: T02_CN_A/Semantic/1_"):
        verify(few, tmp_path)
    (base / "T01_CN_A/Semantic/1_T01_CN_A.png").unlink()
    with pytest.raises(DataError, match=r"1 images without a label map: T01_CN_A/RGB/1_T01"):
        verify(few, tmp_path)
