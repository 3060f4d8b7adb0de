"""Data sets whose images and label maps a split lists, and several of them joined."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from fedseg.datasets import CamVidDataset, IDDADataset, JoinedDataset, ListedDataset
from fedseg.errors import ConfigError, DataError, UserError
from fedseg.partition.split_files import Split, write_split
from fedseg.registry import DATASETS, build

CLASSES = ["road", "tree"]


@pytest.fixture
def listed(tmp_path: Path, save_image, make_picture) -> dict:
    """Two users with one image of each of two domains."""
    users = {}
    for user in ("a", "b"):
        for domain in ("east", "north"):
            x, y = f"{domain}/{user}.png", f"maps/{domain}_{user}.png"
            save_image(tmp_path / x, make_picture(1, 2, 4))
            save_image(tmp_path / y, np.array([[0, 1, 1, 255]] * 2, np.uint8))
            users.setdefault(user, []).append((x, y))
    write_split(tmp_path / "splits/train", Split(users))
    options = dict(data_root=str(tmp_path), split="splits/train", domain="{domain}/*")
    return {**options, "classes": CLASSES}


def test_a_split_says_which_label_map_an_image_has(listed):
    dataset = ListedDataset(**listed)
    assert dataset.users == ["a", "a", "b", "b"] and dataset.domains == ["east", "north"] * 2
    assert dataset.metainfo["palette"] == [[0, 0, 0], [128, 0, 0]]
    assert dataset[0]["data_samples"].tolist() == [[0, 1, 1, 255]] * 2
    north = ListedDataset(**listed, domains="north", mirror=True)
    assert north.users == ["a", "b"] * 2 and set(north.domains) == {"north"}
    assert north[2]["data_samples"][0].tolist() == [255, 1, 1, 0]
    zero = ListedDataset(**{**listed, "classes": CLASSES[:1]}, reduce_zero_label=True)
    assert zero[0]["data_samples"][0].tolist() == [255, 0, 0, 255]
    mapped = ListedDataset(**{**listed, "classes": ()}, ids="gta5")
    assert len(mapped.classes) == 19 and mapped[0]["data_samples"].unique().tolist() == [255]
    own = ListedDataset(**listed, ids=[1, 255])
    assert own[0]["data_samples"][0].tolist() == [1, *[255] * 3]
    assert dataset.has_labels() and own.has_labels() and not mapped.has_labels()


LAYOUTS_OWN = {
    "classes": CLASSES,
    "palette": [[1, 2, 3]] * 19,
    "ids": "gta5",
    "domain": "{domain}/*",
    "reduce_zero_label": True,
}


@pytest.mark.parametrize("field", LAYOUTS_OWN)
def test_a_layout_takes_nothing_that_it_defines(field):
    options = {"data_root": "data/acdc", "split": "splits/train", "layout": "acdc"}
    with pytest.raises(ConfigError, match=rf"dataset\.{field}: acdc has its own: leave it out"):
        ListedDataset(**options, **{field: LAYOUTS_OWN[field]})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": ()}, r"dataset\.classes: is empty"),
        ({"classes": [*"aba"]}, r"classes: must .* once, not \['a', 'b', 'a'\]"),
        ({"classes": [*map(str, range(256))]}, r"classes: must be 1 to 255 names"),
        ({"classes": [*map(str, range(255))], "reduce_zero_label": True}, r"1 to 254 names"),
        ({"split": "splits/train/clients.json"}, r"clients\.json: is no folder"),
        ({"layout": "acdc"}, r"dataset\.classes: acdc has its own: leave it out"),
        ({"layout": "acdx"}, r"dataset\.layout: must be 'acdc', 'bdd100k',"),
        ({"domains": ["south"]}, r"dataset\.domains: has \['south'\], .* are east, north"),
        ({"domain": "x{domain}"}, r"does not match"),
        ({"ids": [0, 2]}, r"label_ids: has 1: 2"),
        (
            {"data_root": "no"},
            r"no: does not exist: make it with fedseg prepare segmentation no --images 'GLOB'",
        ),
    ],
)
def test_options_that_do_not_fit(listed, change, message):
    with pytest.raises(UserError, match=message):
        build(DATASETS, {"type": "ListedDataset", **listed, **change}, "dataset")


def test_pixels_of_classes_are_counted_and_nothing_is_written(listed):
    files = sorted(Path(listed["data_root"]).rglob("*"))
    dataset = ListedDataset(**listed, mirror=True)
    assert dataset.class_pixels().tolist() == [[2, 4]] * 8
    assert dataset.originals().class_pixels().tolist() == [[2, 4]] * 4
    assert sorted(Path(listed["data_root"]).rglob("*")) == files


def test_joined_data_sets_have_classes_by_name(idda, camvid_in, tmp_path):
    parts = {
        "idda": dict(type="IDDADataset", data_root="", split="train"),
        "camvid": dict(type="ListedDataset", data_root="camvid", split="train"),
    }
    parts["camvid"] |= dict(
        classes=["sky", "building", "pole", "road"], ids=[0, 1, 2, 3, *[255] * 8]
    )
    joined = JoinedDataset(parts, data_root=str(idda), mirror=True)
    single = IDDADataset(str(idda), "train")
    other = CamVidDataset(str(camvid_in), "train")
    assert joined.classes == single.classes and len(joined) == 2 * (12 + 2)
    assert joined.users[0] == "idda/T01_CN_A" and joined.users[12:14] == [
        "camvid/client_0",
        "camvid/client_1",
    ]
    assert set(joined.domains) == {"idda", "camvid"}
    for index, image in enumerate([*range(12), 14, 15]):
        of, at = (single, index) if index < 12 else (other, index - 12)
        inputs, label = joined[index]["inputs"], joined[index]["data_samples"].numpy()
        assert (inputs == of[at]["inputs"]).all()
        raw = of[at]["data_samples"].numpy()
        if of is other:  # the four classes by name; the others are ignored
            order = [single.classes.index(name) for name in ("sky", "building", "pole", "road")]
            raw = np.array([*order, *[255] * 252], np.uint8)[raw]
        assert (label == raw).all(), image
        assert (joined[index + 14]["data_samples"].numpy() == label[:, ::-1]).all()
    copied = pickle.loads(pickle.dumps(joined))[27]  # as a spawned worker gets it
    assert all(torch.equal(copied[key], joined[27][key]) for key in copied)
    pixels = [[(joined[i]["data_samples"] == c).sum() for c in range(16)] for i in range(28)]
    assert (joined.class_pixels() == pixels).all()
    with pytest.raises(ConfigError, match=r"dataset\.parts\.idda: its classes sidewalk"):
        JoinedDataset(parts, ["road"], str(idda))
    Path(other.files[1][1]).unlink()
    with pytest.raises(DataError, match="1 of 4 files are missing"):
        JoinedDataset(parts, data_root=str(idda))


@pytest.fixture
def camvid_in(idda, save_image, make_picture) -> Path:
    """CamVid below the root of IDDA."""
    users = {}
    for i in range(2):
        x, y = f"train/0006R0_{i}.png", f"trainannot/0006R0_{i}.png"
        save_image(idda / "camvid" / x, make_picture(i))
        label = np.random.default_rng(i).integers(0, 12, (36, 64), np.uint8)
        save_image(idda / "camvid" / y, label)
        users[f"client_{i}"] = [(x, y)]
    write_split(idda / "camvid/train", Split(users))
    return idda / "camvid"
