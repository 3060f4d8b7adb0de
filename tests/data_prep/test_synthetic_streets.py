"""Synthetic streets on disk: layouts, names, independence of each other, resuming, refusals."""

import json
from functools import partial

import cv2
import numpy as np
import pytest
from prepare_tools import snapshot

from fedseg.data_prep.paired_images import rendered_files
from fedseg.data_prep.street_sets import CITYSCAPES, IDDA
from fedseg.data_prep.synthetic_streets import write_streets
from fedseg.errors import DataError

SIZE = (96, 64)
QUIET = {"size": SIZE, "workers": 1}
content_of = partial(snapshot, leaving=())


def pairs_of(domain, count):
    return rendered_files(IDDA)[domain][:count]


def test_idda_layout(tmp_path):
    asked = pairs_of("T01_CN_A", 2) + pairs_of("T07_HRN_B", 2)
    pairs = write_streets(IDDA, tmp_path, asked, **QUIET)
    assert pairs == sorted(asked)
    assert len(pairs) == 4
    for image, label in pairs:
        domain = image.split("/")[0]
        assert image.startswith(f"{domain}/RGB/") and image.endswith(f"_{domain}.jpg")
        assert label == image.replace("/RGB/", "/Semantic/").replace(".jpg", ".png")
        colors = cv2.imread(str(tmp_path / "IDDAsmall" / image), cv2.IMREAD_UNCHANGED)
        ids = cv2.imread(str(tmp_path / "IDDAsmall" / label), cv2.IMREAD_UNCHANGED)
        assert colors.shape == (64, 96, 3)
        assert ids.shape == (64, 96) and ids.dtype == np.uint8 and ids.max() <= 20
    declared = json.loads((tmp_path / "dataset.json").read_text())
    assert declared["synthetic"] is True
    assert declared["size"] == [96, 64] and declared["seed"] == 0


def test_asked_names_resolve_and_depend_on_nothing_else(tmp_path):
    asked = [
        ("T02_HRN_V/RGB/101708_T02_HRN_V.jpg", "T02_HRN_V/Semantic/101708_T02_HRN_V.png"),
        ("T05_CS_J/RGB/9_T05_CS_J.jpg", "T05_CS_J/Semantic/9_T05_CS_J.png"),
        ("T05_CS_J/RGB/10_T05_CS_J.jpg", "T05_CS_J/Semantic/10_T05_CS_J.png"),
    ]
    write_streets(IDDA, tmp_path / "all", asked, **QUIET)
    write_streets(IDDA, tmp_path / "one", asked[:1], **QUIET)
    everything, alone = content_of(tmp_path / "all"), content_of(tmp_path / "one")
    assert {f"IDDAsmall/{path}" for pair in asked for path in pair} <= set(everything)
    assert all(everything[name] == data for name, data in alone.items())
    assert everything[f"IDDAsmall/{asked[1][0]}"] != everything[f"IDDAsmall/{asked[2][0]}"]
    write_streets(IDDA, tmp_path / "seed", asked[:1], seed=1, **QUIET)
    image = f"IDDAsmall/{asked[0][0]}"
    assert content_of(tmp_path / "seed")[image] != alone[image]


def test_workers_do_not_change_the_bytes(tmp_path):
    files = pairs_of("T03_CN_A", 4) + pairs_of("T04_HRN_J", 4)
    write_streets(IDDA, tmp_path / "one", files, **QUIET)
    write_streets(IDDA, tmp_path / "two", reversed(files), **(QUIET | {"workers": 2}))
    assert content_of(tmp_path / "one") == content_of(tmp_path / "two")


def test_resuming_keeps_complete_pairs_and_mends_the_others(tmp_path):
    pairs = write_streets(IDDA, tmp_path, pairs_of("T06_CN_V", 3), **QUIET)
    before = content_of(tmp_path)
    folder = tmp_path / "IDDAsmall"
    (folder / pairs[0][0]).unlink()
    (folder / pairs[1][1]).unlink()
    kept = folder / pairs[2][0]
    kept.write_bytes(b"a complete pair is not touched")
    write_streets(IDDA, tmp_path, pairs_of("T06_CN_V", 3), **QUIET)
    after = content_of(tmp_path)
    assert kept.read_bytes() == b"a complete pair is not touched"
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {f"IDDAsmall/{pairs[2][0]}"} and before.keys() == after.keys()


def test_cityscapes_layout(tmp_path):
    images = rendered_files(CITYSCAPES)
    asked = images["aachen"][:2] + images["munster"][:2]
    pairs = write_streets(CITYSCAPES, tmp_path, asked, **QUIET)
    assert pairs[0] == (
        "train/aachen/aachen_000000_000019_leftImg8bit.png",
        "train/aachen/aachen_000000_000019_gtFine_labelIds.png",
    )
    assert {image.split("/")[0] for image, _ in pairs} == {"train", "val"}
    seen = set()
    for image, label in pairs:
        assert cv2.imread(str(tmp_path / "leftImg8bit" / image)).shape == (64, 96, 3)
        seen |= set(np.unique(cv2.imread(str(tmp_path / "gtFine" / label), cv2.IMREAD_UNCHANGED)))
    assert {7, 23, 26} <= seen and max(seen) <= 33


def test_bad_names_are_refused(tmp_path):
    label = "T01_CN_A/Semantic/1.png"
    for image in (
        "../T01_CN_A/RGB/1.jpg",
        "/T01_CN_A/RGB/1.jpg",
        "T09_CN_A/RGB/1.jpg",
        "T01_CN_A/RGB/1.gif",
    ):
        with pytest.raises(DataError, match=image):
            write_streets(IDDA, tmp_path, [(image, label)], **QUIET)
    with pytest.raises(DataError, match="aachen_1"):
        write_streets(CITYSCAPES, tmp_path, [("aachen/aachen_1.png",) * 2], **QUIET)
    assert not list(tmp_path.iterdir())


def test_what_a_folder_declares(tmp_path):
    write_streets(IDDA, tmp_path, pairs_of("T01_CN_A", 1), **QUIET)
    marker = tmp_path / "dataset.json"
    with pytest.raises(DataError, match=r"dataset\.json"):
        write_streets(IDDA, tmp_path, pairs_of("T01_CN_A", 1), seed=3, **QUIET)
    write_streets(IDDA, tmp_path, pairs_of("T01_CN_A", 2), **QUIET)
    marker.write_text("[")
    with pytest.raises(DataError, match=r"dataset\.json"):
        write_streets(IDDA, tmp_path, pairs_of("T01_CN_A", 1), **QUIET)
