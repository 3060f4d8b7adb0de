"""Several data sets as one."""

import pickle
from pathlib import Path

import pytest
import torch

from fedseg.datasets import IDDADataset, JoinedDataset
from fedseg.errors import ConfigError, DataError

NORTH, SOUTH = "T01_CN_A", ["T01_HRN_A", "T02_CS_B"]


def test_joined_data_sets_have_the_classes_of_the_first(idda):
    part = dict(type="IDDADataset", data_root="", split="train")
    parts = {"south": {**part, "users": SOUTH}, "north": {**part, "users": NORTH}}
    joined = JoinedDataset(parts, data_root=str(idda), mirror=True)
    south = IDDADataset(str(idda), "train", users=SOUTH)
    north = IDDADataset(str(idda), "train", users=NORTH)
    assert joined.classes == south.classes and len(joined) == 2 * 12
    assert joined.users[0] == "south/T01_HRN_A" and joined.users[8] == "north/T01_CN_A"
    assert joined.domains == 2 * (["south"] * 8 + ["north"] * 4)
    for index in range(12):
        single = south[index] if index < 8 else north[index - 8]
        for key, tensor in single.items():
            assert torch.equal(joined[index][key], tensor)
            assert torch.equal(joined[index + 12][key], tensor.flip(-1))
    copied = pickle.loads(pickle.dumps(joined))[13]  # as a spawned worker gets it
    assert all(torch.equal(copied[key], joined[13][key]) for key in copied)
    pixels = [*south.class_pixels().tolist(), *north.class_pixels().tolist()]
    assert joined.class_pixels().tolist() == 2 * pixels
    Path(north.files[1][1]).unlink()
    with pytest.raises(DataError, match="1 of 8 files are missing"):
        JoinedDataset(parts, data_root=str(idda)).check_files()


def test_parts_of_other_classes_are_refused(idda):
    part = dict(type="IDDADataset", data_root=str(idda), split="train")
    templates = dict(
        image_path="{domain}/RGB/{name}.jpg", label_path="{domain}/Semantic/{name}.png"
    )
    other = {**part, **templates, "type": "ListedDataset", "classes": ["road", "sidewalk"]}
    with pytest.raises(ConfigError, match=r"dataset\.parts\.b: must have the classes of the first"):
        JoinedDataset({"a": part, "b": other})
