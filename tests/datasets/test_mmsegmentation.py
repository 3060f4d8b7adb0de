"""Data sets that a class of MMSegmentation lists: their files, classes, ids and domains."""

import pickle
from pathlib import Path

import cv2
import numpy as np
import pytest
from faults import Payload
from PIL import Image

from fedseg.datasets.mmsegmentation import MMSegDataset, is_source
from fedseg.errors import ConfigError, DataError, UserError
from fedseg.registry import DATASETS

CLASSES, COLORS = ["soil", "tree", "sky"], [[150, 100, 60], [30, 120, 40], [120, 170, 220]]


def write_pair(image: Path, label: Path, ids: list[int], colors: list | None = None) -> None:
    """An image of one row, and its label map: with ``colors`` as a palette."""
    for path in (image, label):
        path.parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(str(image), np.full((1, len(ids), 3), 90, np.uint8))
    stored = Image.fromarray(np.array([ids], np.uint8), "P" if colors else "L")
    if colors:
        stored.putpalette(np.array(colors, np.uint8).tobytes())
    stored.save(label)


@pytest.fixture
def own(tmp_path: Path) -> dict:
    """A source with two sites of two images each in ``img_dir/train`` and ``ann_dir/train``."""
    for site in ("east", "north"):
        for n in range(2):
            name = f"train/{site}/{n}"
            image, label = tmp_path / f"img_dir/{name}.jpg", tmp_path / f"ann_dir/{name}.png"
            write_pair(image, label, [0, 1, 2, 255])
    return {
        "type": "BaseSegDataset",
        "data_root": str(tmp_path),
        "data_prefix": {"img_path": "img_dir/train", "seg_map_path": "ann_dir/train"},
        "metainfo": {"classes": CLASSES, "palette": COLORS},
    }


def labels(dataset: MMSegDataset, index: int = 0) -> list[int]:
    return dataset[index]["data_samples"][0].tolist()


def test_a_layout_of_ones_own(own: dict) -> None:
    dataset = MMSegDataset(own, domain="img_dir/train/{domain}/{name}.jpg")
    assert dataset.domains == dataset.users == ["east"] * 2 + ["north"] * 2
    assert dataset.positions == [0, 1, 0, 1]
    assert dataset.metainfo == {"classes": tuple(CLASSES), "palette": COLORS, "ignore_index": 255}
    image, label = map(Path, dataset.files[3])
    assert image.parts[-4:] == ("img_dir", "train", "north", "1.jpg") and label.name == "1.png"
    assert labels(dataset) == [0, 1, 2, 255]
    assert dataset[0]["inputs"].shape == (3, 1, 4)
    north = MMSegDataset(
        own, domain="img_dir/train/{domain}/{name}.jpg", domains="north", mirror=True
    )
    assert set(north.domains) == {"north"} and len(north) == 4
    assert labels(north, 2) == [255, 2, 1, 0]
    assert north.split_checksum == dataset.split_checksum
    assert set(MMSegDataset(own).domains) == {"all"}
    Path(own["data_root"], "list.txt").write_text("\ufeffeast/0\n\n \r\nnorth/1\n\n", newline="")
    listed = MMSegDataset({**own, "ann_file": "list.txt"})
    assert listed.files == [dataset.files[0], dataset.files[3]]


def test_ids_follow_the_source(own: dict) -> None:
    zero = MMSegDataset({**own, "reduce_zero_label": True})
    assert labels(zero) == [255, 0, 1, 255]
    assert labels(MMSegDataset(own, ids=[255, 2, 0])) == [255, 2, 0, 255]
    assert labels(MMSegDataset({**own, "ignore_index": 1})) == [0, 255, 2, 255]
    with pytest.raises(ConfigError, match=r"dataset\.ids: .*reduce_zero_label=False"):
        MMSegDataset({**own, "reduce_zero_label": True}, ids=[0])
    write_pair(*map(Path, zero.files[0]), [0, 4, 9])
    with pytest.raises(DataError, match=rf"{zero.files[0][1]}: has ids \[4, 9\], which"):
        zero[0]


def test_ids_by_a_list(own: dict) -> None:
    dataset = MMSegDataset(own, ids=[2, 255, 0, 255])
    assert labels(dataset) == [2, 255, 0, 255]
    write_pair(*map(Path, dataset.files[0]), [3, 4])
    with pytest.raises(DataError, match=r"has ids \[4\], which"):
        dataset[0]


def test_ade20k(tmp_path: Path) -> None:
    source = {"type": "ADE20KDataset", "data_root": str(tmp_path)}
    source["data_prefix"] = {"img_path": "images/training", "seg_map_path": "annotations/training"}
    name = "training/ADE_train_00000001"
    image, label = tmp_path / f"images/{name}.jpg", tmp_path / f"annotations/{name}.png"
    write_pair(image, label, [0, 1, 2, 150])
    dataset = MMSegDataset(source)
    assert labels(dataset) == [255, 0, 1, 149]
    assert len(dataset.metainfo["classes"]) == len(dataset.metainfo["palette"]) == 150
    few = MMSegDataset({**source, "metainfo": {"classes": ("building", "wall")}})
    assert labels(few) == [255, 1, 0, 255] and few.metainfo["classes"] == ("building", "wall")


def test_pascal_voc(tmp_path: Path) -> None:
    for name in ("2007_000032", "2008_000008", "2008_000015"):
        image, label = f"JPEGImages/{name}.jpg", f"SegmentationClass/{name}.png"
        write_pair(
            tmp_path / image, tmp_path / label, [0, 1, 20, 255], [[7, n, 9] for n in range(256)]
        )
    (tmp_path / "train.txt").write_text("2007_000032\n2008_000015\n")
    source = {"type": "PascalVOCDataset", "data_root": str(tmp_path), "ann_file": "train.txt"}
    source["data_prefix"] = {"img_path": "JPEGImages", "seg_map_path": "SegmentationClass"}
    dataset = MMSegDataset(source, domain="JPEGImages/{domain}_{name}.jpg")
    assert dataset.domains == ["2007", "2008"] and labels(dataset) == [0, 1, 20, 255]


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"data_prefix": {"img_path": "no"}}, {}, r"no: does not exist: .*data_prefix\.img_path"),
        ({"ann_file": "no.txt"}, {}, r"no\.txt: does not exist: set dataset\.source\.ann_file"),
        ({"data_root": "no"}, {}, r"no: does not exist: set dataset\.source\.data_root"),
        ({"data_root": "http://a.b"}, {}, r"dataset\.source: has an address"),
        ({"img_suffix": ".bmp"}, {}, r"dataset\.source: BaseSegDataset lists no images"),
        ({"metainfo": None}, {}, r"source\.metainfo: has no classes"),
        ({"metainfo": {"classes": "no.txt"}}, {}, r"source\.metainfo: has no classes"),
        (
            {"metainfo": {"classes": CLASSES, "label_map": {1: 0}}},
            {},
            r"label_map: set dataset\.ids",
        ),
        ({"ann_file": "wide.txt"}, {}, r"wide\.txt: cannot be read as UTF-8 text"),
        ({"ann_file": "blank.txt"}, {}, r"dataset\.source: BaseSegDataset lists no images"),
        ({"data_prefix": {"img_dir": "img_dir/train"}}, {}, r"source\.data_prefix: must have img_"),
        ({"ann_file": "list.txt"}, {}, r"0\.jpg: is listed twice: correct"),
        ({"pipeline": []}, {}, r"source\.pipeline: is set by the run itself"),
        ({"type": "IDDADataset"}, {}, r"source\.type: IDDADataset is not a BaseSegDataset"),
        ({"type": "PascalVOCDataset"}, {}, r"dataset\.source: .*'ann_file' is missing"),
        (
            {},
            {"domain": "site_{domain}"},
            r"dataset\.domain: must be .*, not 'site_.domain.', which",
        ),
        (
            {},
            {"domain": "img_dir/train/{site}/{name}.jpg"},
            r"dataset\.domain: must be .* .domain.",
        ),
        ({}, {"domains": "south"}, r"dataset\.domains: must be .*\(all\), not \['south'\]"),
        ({}, {"ids": [0, 3]}, r"dataset\.ids: must be classes 0 to 2, .* not 3"),
    ],
)
def test_a_source_that_does_not_fit(own: dict, change: dict, options: dict, message: str) -> None:
    Path(own["data_root"], "list.txt").write_text("east/0\neast/0\n")
    Path(own["data_root"], "blank.txt").write_text("\n")
    Path(own["data_root"], "wide.txt").write_text("east/0\n", "utf-16")
    with pytest.raises(UserError, match=message):
        MMSegDataset({**own, **change}, **options)


def test_missing_files_are_named(own: dict) -> None:
    dataset = MMSegDataset({**own, "seg_map_suffix": "_x.png"})
    with pytest.raises(DataError, match=r"4 of 8 files are missing .*dataset\.source"):
        dataset.check_files()


def test_a_class_that_would_unpickle_its_list_is_refused(tmp_path: Path) -> None:
    """A stranger's run may name any source: no file that it brings is executed."""
    (tmp_path / "list.pkl").write_bytes(pickle.dumps(Payload(tmp_path / "ran")))
    source = {"type": "DecathlonDataset", "data_root": str(tmp_path), "ann_file": "list.pkl"}
    with pytest.raises(ConfigError, match=r"source\.type: DecathlonDataset .*BaseSegDataset"):
        MMSegDataset(source)
    assert not (tmp_path / "ran").exists()
    assert not is_source(DATASETS.get("DecathlonDataset"))
    assert is_source(DATASETS.get("mmseg.ADE20KDataset"))
