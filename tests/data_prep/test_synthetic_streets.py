"""Rendered data on disk: layouts, names, independence of each other, resuming, refusals."""

import json

import cv2
import numpy as np
import pytest
from data_prep.embedded import write_cityscapes, write_idda

from data_prep import embedded
from fedseg.errors import DataError

SIZE = (96, 64)
QUIET = {"size": SIZE, "workers": 1, "progress": False}


def _bytes(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_idda_layout(tmp_path):
    pairs = write_idda(tmp_path, images_per_domain=2, domains=["T01_CN_A", "T07_HRN_B"], **QUIET)
    assert len(pairs) == 4
    for image, label in pairs:
        domain = image.split("/")[0]
        assert image.startswith(f"{domain}/RGB/") and image.endswith(f"_{domain}.jpg")
        assert label == image.replace("/RGB/", "/Semantic/").replace(".jpg", ".png")
        colours = cv2.imread(str(tmp_path / "IDDAsmall" / image), cv2.IMREAD_UNCHANGED)
        ids = cv2.imread(str(tmp_path / "IDDAsmall" / label), cv2.IMREAD_UNCHANGED)
        assert colours.shape == (64, 96, 3)
        assert ids.shape == (64, 96) and ids.dtype == np.uint8 and ids.max() <= 20
    declared = json.loads((tmp_path / "dataset.json").read_text())
    assert declared["embedded"] is True
    assert declared["size"] == [96, 64] and declared["seed"] == 0


def test_default_files_are_the_published_numbers():
    assert len(embedded.IDDA_DOMAINS) == 104 and "T07_CN_M" not in embedded.IDDA_DOMAINS
    assert len(embedded.idda_files()) == 6240
    files = embedded.cityscapes_files()
    assert sum(image.startswith("train/") for image, _ in files) == 2975
    assert sum(image.startswith("val/") for image, _ in files) == 500
    assert len(set(files)) == 3475


def test_asked_names_resolve_and_depend_on_nothing_else(tmp_path):
    asked = [
        ("T02_HRN_V/RGB/101708_T02_HRN_V.jpg", "T02_HRN_V/Semantic/101708_T02_HRN_V.png"),
        ("T05_CS_J/RGB/9_T05_CS_J.jpg", "T05_CS_J/Semantic/9_T05_CS_J.png"),
        ("T05_CS_J/RGB/10_T05_CS_J.jpg", "T05_CS_J/Semantic/10_T05_CS_J.png"),
    ]
    write_idda(tmp_path / "all", asked, **QUIET)
    write_idda(tmp_path / "one", asked[:1], **QUIET)
    everything, alone = _bytes(tmp_path / "all"), _bytes(tmp_path / "one")
    assert {f"IDDAsmall/{path}" for pair in asked for path in pair} <= set(everything)
    assert all(everything[name] == data for name, data in alone.items())
    assert everything[f"IDDAsmall/{asked[1][0]}"] != everything[f"IDDAsmall/{asked[2][0]}"]
    write_idda(tmp_path / "seed", asked[:1], seed=1, **QUIET)
    assert (
        _bytes(tmp_path / "seed")[f"IDDAsmall/{asked[0][0]}"] != alone[f"IDDAsmall/{asked[0][0]}"]
    )


def test_workers_do_not_change_the_bytes(tmp_path):
    files = embedded.idda_files(10, ["T03_CN_A", "T04_HRN_J"])
    write_idda(tmp_path / "one", files, **QUIET)
    write_idda(tmp_path / "two", reversed(files), **(QUIET | {"workers": 2}))
    assert _bytes(tmp_path / "one") == _bytes(tmp_path / "two")


def test_resuming_keeps_complete_pairs_and_mends_the_others(tmp_path):
    pairs = write_idda(tmp_path, images_per_domain=3, domains=["T06_CN_V"], **QUIET)
    before = _bytes(tmp_path)
    folder = tmp_path / "IDDAsmall"
    (folder / pairs[0][0]).unlink()
    (folder / pairs[1][1]).unlink()
    kept = folder / pairs[2][0]
    kept.write_bytes(b"a complete pair is not touched")
    write_idda(tmp_path, images_per_domain=3, domains=["T06_CN_V"], **QUIET)
    after = _bytes(tmp_path)
    assert kept.read_bytes() == b"a complete pair is not touched"
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {f"IDDAsmall/{pairs[2][0]}"} and before.keys() == after.keys()


def test_cityscapes_layout(tmp_path):
    pairs = write_cityscapes(tmp_path, images_per_city=2, cities=["aachen", "munster"], **QUIET)
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


def test_cityscapes_names_of_a_split(tmp_path):
    asked = [
        (
            "val/frankfurt/frankfurt_000001_055387_leftImg8bit.png",
            "val/frankfurt/frankfurt_000001_055387_gtFine_labelIds.png",
        )
    ]
    assert write_cityscapes(tmp_path, asked, **QUIET) == asked
    assert (tmp_path / "gtFine" / asked[0][1]).is_file()


@pytest.mark.parametrize(
    "pair",
    [
        ("../T01_CN_A/RGB/1.jpg", "T01_CN_A/Semantic/1.png"),
        ("/T01_CN_A/RGB/1.jpg", "T01_CN_A/Semantic/1.png"),
        ("T09_CN_A/RGB/1.jpg", "T09_CN_A/Semantic/1.png"),
        ("T01_CN_A/RGB/1.gif", "T01_CN_A/Semantic/1.png"),
    ],
)
def test_bad_names_are_refused(tmp_path, pair):
    with pytest.raises(DataError, match=r"1\.(png|jpg|gif)"):
        write_idda(tmp_path, [pair], **QUIET)
    assert not list(tmp_path.iterdir())


def test_unknown_city_is_refused():
    with pytest.raises(DataError, match="atlantis"):
        embedded.cityscapes_files(cities=["atlantis"])


def test_nothing_is_rendered_among_real_data(tmp_path):
    (tmp_path / "IDDAsmall" / "T01_CN_A").mkdir(parents=True)
    with pytest.raises(DataError, match="real data"):
        write_idda(tmp_path, images_per_domain=1, domains=["T01_CN_A"], **QUIET)


def test_other_settings_in_the_same_folder_are_refused(tmp_path):
    write_idda(tmp_path, images_per_domain=1, domains=["T01_CN_A"], **QUIET)
    with pytest.raises(DataError, match=r"dataset\.json"):
        write_idda(tmp_path, images_per_domain=1, domains=["T01_CN_A"], seed=3, **QUIET)
