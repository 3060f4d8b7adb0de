"""Published data sets: rendered copies in the files of the original, ids, checks and splits."""

from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

import fedseg.datasets
from fedseg.config.compose import compose
from fedseg.config.layers import CONFIGS
from fedseg.data_prep.outcome import usual_root
from fedseg.datasets import IDDDataset, JoinedDataset
from fedseg.names import PUBLISHED
from fedseg.partition import read_split
from fedseg.registry import DATASETS, build
from fedseg.runner.experiment import load_config
from fedseg.runs.results import dataset_facts

# where images and label maps of two training and two test images are, and how maps are stored
FILES = {
    "acdc": (["fog/train/GOPR1/a", "rain/train/GOPR2/b", "night/val/GOPR3/c", "snow/val/GOPR4/d"],
             "rgb_anon/{}_rgb_anon.png", "gt/{}_gt_labelTrainIds.png", "gray"),
    "bdd100k": (["train/0a", "train/0b", "val/0c", "val/0d"],
                "images/10k/{}.jpg", "labels/sem_seg/masks/{}.png", "gray"),
    "mapillary_a": ([("training", n) for n in "ab"] + [("validation", n) for n in "cd"],
                    "{0[0]}/images/{0[1]}.jpg", "{0[0]}/v1.2/labels/{0[1]}.png", "palette"),
    "idd": (["train/0/1", "train/5/2", "val/7/3", "val/7/4"],
            "leftImg8bit/{}_leftImg8bit.png", "gtFine/{}_gtFine_labelcsTrainIds.png", "gray"),
    "gta5": (["00001", "00002", "00003", "00004"], "images/{}.png", "labels/{}.png", "palette"),
    "synthia": (["0000000", "0000001", "2", "3"], "RGB/{}.png", "GT/LABELS/{}.png", "16 bits"),
    "voc": (["2007_000032", "2007_000039", "2007_000033", "2007_000042"],
            "JPEGImages/{}.jpg", "SegmentationClass/{}.png", "palette"),
    "ade20k": (["training/ADE_train_1", "training/ADE_train_2", "validation/3", "validation/4"],
               "images/{}.jpg", "annotations/{}.png", "gray"),
}  # fmt: skip
FILES["mapillary_b"] = FILES["mapillary_a"]
# raw ids of a label file, and "raw:class" of those that are one
CITY = "7:0 8:1 11:2 12:3 13:4 17:5 19:6 20:7 21:8 22:9 23:10 24:11 25:12 26:13 27:14 28:15 31:16 "
CITY += "32:17 33:18"
MAPPED = {
    "acdc": (range(19), " ".join(f"{i}:{i}" for i in range(19))),
    "gta5": (range(35), CITY),
    "synthia": (range(23), "1:10 2:2 3:0 4:1 5:4 6:8 7:5 8:13 9:7 10:11 11:18 12:17 15:6 16:9 "
                           "17:12 18:14 19:15 20:16 21:3"),
    "mapillary_a": (range(66), "2:1 3:4 6:3 7:1 9:1 11:1 13:0 14:0 15:1 17:2 19:11 20:12 21:12 "
                               "22:12 24:0 26:9 27:10 29:9 30:8 43:0 44:5 45:5 46:5 47:5 48:6 50:7 "
                               "52:18 54:15 55:13 57:17 58:16 61:14"),
    "mapillary_b": (range(66), "13:0 24:0 41:0 2:1 15:1 17:2 6:3 3:4 45:5 47:5 48:6 50:7 30:8 29:9 "
                               "27:10 19:11 20:12 21:12 22:12 55:13 61:14 54:15 58:16 57:17 52:18"),
    "voc": (range(21), " ".join(f"{i}:{i}" for i in range(21))),
    "ade20k": (range(151), " ".join(f"{i}:{i - 1}" for i in range(1, 151))),
}  # fmt: skip
MAPPED["bdd100k"] = MAPPED["idd"] = MAPPED["acdc"]


def write_label(path: Path, ids: np.ndarray, kind: str) -> None:
    """A label map, [H, W], as the data set stores it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "16 bits":  # of three channels: class, instance and nothing
        assert cv2.imwrite(str(path), np.stack([ids * 0, ids * 0 + 300, ids], 2).astype(np.uint16))
    else:
        stored = Image.fromarray(ids.astype(np.uint8), "P" if kind == "palette" else "L")
        if kind == "palette":
            stored.putpalette([9, 80, 7] * 256)
        stored.save(path)


def write_layout(root: Path, name: str) -> np.ndarray:
    """Four images whose label maps hold all ids; returns the ids of a map."""
    keys, image, label, kind = FILES[name]
    ids = [*MAPPED[name][0], *([] if kind == "16 bits" else [255])]
    if name == "ade20k":
        ids.pop()
    raw = np.tile(np.array(ids), (6, 1))
    for key in keys:
        path = root / image.format(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((*raw.shape, 3), 90, np.uint8)).save(path)
        write_label(root / label.format(key), raw, kind)
    if name == "voc":
        (root / "ImageSets/Segmentation").mkdir(parents=True)
        (root / "ImageSets/Segmentation/val.txt").write_text("2007_000033\n2007_000042\n")
    if name == "acdc":  # public images without labels, and the same places in fair weather
        for other in ("rgb_anon/fog/test/G/e_rgb_anon.png", "rgb_anon/fog/train_ref/G/a_ref.png"):
            path = root / other
            path.parent.mkdir(parents=True)
            path.write_bytes(b"")
    return raw


def needs_clients(name: str) -> bool:
    return getattr(fedseg.datasets, PUBLISHED[name]).clients is not None


def test_every_data_set_is_here():
    medical = {"fundus", "polyps"}  # test_medical.py
    assert set(FILES) == set(MAPPED) == set(PUBLISHED) - medical


@pytest.mark.parametrize("name", FILES)
def test_a_copy_in_its_layout(name, tmp_path, prepare):
    raw = write_layout(tmp_path, name)
    error = prepare.fails(name, tmp_path)
    assert "are published: add the others" in error and "--unofficial" in error
    few = ("--clients", 2) if needs_clients(name) else ()
    out = prepare(name, tmp_path, "--unofficial", *few)
    assert f"fedseg train {name} --dry-run" in out and "not all verified" in out
    assert ("1 images without label map are left out" in out) == (name == "acdc")
    test = len(read_split(tmp_path / "splits/test"))
    assert test == (1 if name in ("gta5", "synthia") else 2)
    config = load_config(name, options={"data_root": str(tmp_path)})
    dataset = config.train_dataloader.dataset
    dataset = {**dataset, "data_root": str(tmp_path), "pipeline": []}
    built = build(DATASETS, dataset, "dataset")
    assert len(built) == 4 - test and len(built.classes) == config.model.num_classes
    classes = dict(map(int, pair.split(":")) for pair in MAPPED[name][1].split())
    expected = [classes.get(number, 255) for number in raw[0].tolist()]
    for index in range(len(built)):
        assert built[index]["data_samples"].tolist() == [expected] * 6
    for loader in config.val_dataloader.values():
        domain = loader.dataset.get("domains")
        if domain not in ("fog", "rain"):  # of which there is no test image here
            held = build(DATASETS, {**loader.dataset, "data_root": str(tmp_path)}, "dataset")
            assert set(held.domains) == ({domain} if domain else set(held.domains))


@pytest.mark.parametrize("name", FILES)
def test_the_usual_root_is_that_of_the_setting(name):
    data_root = compose(CONFIGS / "settings" / f"{name}.py").train_dataloader.dataset.data_root
    assert usual_root(name) == Path(data_root)


@pytest.mark.parametrize(("names", "wrong"), [("2007_000033\n2007_1\n", "2007_1"), ("", "nothing")])
def test_a_published_list_of_tests_names_images(tmp_path, prepare, names, wrong):
    write_layout(tmp_path, "voc")
    file = tmp_path / "ImageSets/Segmentation/val.txt"
    file.write_text(names)
    error = prepare.fails("voc", tmp_path, "--unofficial", "--clients", 2)
    assert f"{file}: must name images" in error and f"one a line, not {wrong}." in error
    file.unlink()
    assert "val.txt: cannot be read" in prepare.fails("voc", tmp_path, "--unofficial")
    prepare("voc", tmp_path, "--unofficial", "--clients", 2, "--test-share", 0.5)
    test = read_split(tmp_path / "splits/test").users
    assert {user: len(samples) for user, samples in test.items()} == {"seen": 2}


def test_streets_dg_joins_roots(tmp_path, prepare, monkeypatch):
    """Four data sets in one, a domain each; a condition of a fifth as test set."""
    for name in ("bdd100k", "mapillary_a", "idd", "acdc"):
        folder = name.removesuffix("_a")
        write_layout(tmp_path / folder, name)
        few = ("--clients", 2) if needs_clients(name) else ()
        prepare(name, tmp_path / folder, "--unofficial", *few)
    config = load_config("streets_dg")
    train = config.train_dataloader.dataset
    del train.parts["cityscapes"]  # needs an image of each city
    joined = build(DATASETS, {**train, "data_root": str(tmp_path), "pipeline": []}, "dataset")
    assert isinstance(joined, JoinedDataset) and len(joined.classes) == 19
    assert joined.domains == ["bdd100k"] * 2 + ["mapillary_a"] * 2 + ["idd"] * 2
    assert joined.users[-2:] == ["idd/0", "idd/5"] and joined.users[0].startswith("bdd100k/")
    assert not dataset_facts(joined)["synthetic"]
    (tmp_path / "idd/dataset.json").write_text('{"synthetic": true}')
    assert dataset_facts(joined)["synthetic"]
    single = IDDDataset(str(tmp_path / "idd"), "splits/train")
    assert (joined[4]["data_samples"] == single[0]["data_samples"]).all()
    test = config.val_dataloader.unseen_night.dataset
    night = build(DATASETS, {**test, "data_root": str(tmp_path)}, "dataset")
    assert [Path(image).name for image, _ in night.files] == ["c_rgb_anon.png"]
