"""Data sets whose images and label maps a split lists."""

from pathlib import Path

import numpy as np
import pytest

from fedseg.datasets import ListedDataset
from fedseg.errors import UserError
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
    templates = dict(image_path="{domain}/{name}.{ending}", label_path="maps/{domain}_{name}.png")
    options = dict(data_root=str(tmp_path), split="splits/train", classes=CLASSES)
    return {**options, **templates}


def test_templates_say_which_label_map_and_domain_an_image_has(listed):
    dataset = ListedDataset(**listed)
    assert dataset.users == ["a", "a", "b", "b"] and dataset.domains == ["east", "north"] * 2
    assert dataset.metainfo["palette"] == [[0, 0, 0], [128, 0, 0]]
    assert dataset[0]["data_samples"].tolist() == [[0, 1, 1, 255]] * 2
    north = ListedDataset(**listed, domains="north", mirror=True)
    assert north.users == ["a", "b"] * 2 and set(north.domains) == {"north"}
    assert north[2]["data_samples"][0].tolist() == [255, 1, 1, 0]
    one = ListedDataset(**{**listed, "image_path": "{domain}/{name}.png", "classes": [*"abc"]})
    assert one.has_labels() and one[0]["data_samples"].unique().tolist() == [0, 1, 255]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": []}, r"classes: must be 1 to 255 names"),
        ({"classes": [*"aba"]}, r"classes: must .* once, not \['a', 'b', 'a'\]"),
        ({"classes": [*map(str, range(256))]}, r"classes: must be 1 to 255 names"),
        ({"split": "splits/train/clients.json"}, r"clients\.json: is no folder"),
        ({"domains": ["south"]}, r"dataset\.domains: must be .*\(east, north\), not \['south'\]"),
        ({"image_path": "x/{domain}/{name}.png"}, r"a\.png is not of ListedDataset's layout x/"),
        ({"label_path": "other/{name}.png"}, r"the label of east/a\.png is other/a\.png, not maps"),
        (
            {"label_path": "maps/{site}.png"},
            r"dataset\.label_path: must have fields of .*\['site'\]",
        ),
        ({"image_path": "*/{name}.png"}, r"template: must be a path with fields such as"),
        (
            {"data_root": "no"},
            r"no: does not exist: make it with fedseg prepare segmentation no --images 'TEMPLATE'",
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
