"""Folders of classes, as ImageNet's."""

import numpy as np
import pytest
import torch
from landmark_files import write_photo

from fedseg.datasets import ImageFolderDataset
from fedseg.errors import DataError, MissingDataError


@pytest.fixture
def root(tmp_path):
    for number, name in enumerate(("n02", "n01", "n02", "n03")):
        write_photo(tmp_path / "train" / name / f"{name}_{number}.JPEG", number)
        write_photo(tmp_path / "val" / name / f"{name}_{number}.JPEG", 10 + number)
    return tmp_path


def test_what_it_holds(root):
    train = ImageFolderDataset(root, num_classes=3)
    assert train.metainfo["classes"] == ("n01", "n02", "n03")
    assert train.labels.tolist() == [0, 1, 1, 2] and train.labels.dtype == np.int64
    assert train.files[0] == (str(root / "train" / "n01" / "n01_1.JPEG"),)
    sample = train[1, 5]
    assert sample["inputs"].shape == (3, 224, 224) and sample["inputs"].dtype == torch.uint8
    assert sample["data_samples"] == 1
    assert sample["data_samples"].dtype == torch.int64
    assert torch.equal(sample["inputs"], train[1, 5]["inputs"])
    assert torch.equal(train[1]["inputs"], train[1, 0]["inputs"])
    assert not torch.equal(sample["inputs"], train[1, 6]["inputs"])
    val = ImageFolderDataset(root, "val", num_classes=3)
    assert torch.equal(val[0, 1]["inputs"], val[0, 2]["inputs"])
    assert val.split_checksum == train.split_checksum  # the names are alike, the folders are not
    (root / "train" / "n03" / "n03_3.JPEG").rename(root / "train" / "n01" / "n03_3.JPEG")
    write_photo(root / "train" / "n03" / "n03_9.JPEG", 9)
    assert ImageFolderDataset(root, num_classes=3).split_checksum != val.split_checksum


def test_what_is_wrong_with_a_folder(root):
    with pytest.raises(MissingDataError, match="data_root"):
        ImageFolderDataset(root, "test")
    with pytest.raises(DataError, match="num_classes"):
        ImageFolderDataset(root)
    (root / "train" / "n04").mkdir()
    with pytest.raises(DataError, match="n04"):
        ImageFolderDataset(root, num_classes=4)
    (root / "empty").mkdir()
    with pytest.raises(DataError, match="empty: Couldn't find any class folder"):
        ImageFolderDataset(root, "empty")


def test_class_folders_may_be_links(root):
    """As where two hundred classes are linked out of ImageNet."""
    some = root.parent / "some"
    for split in ("train", "val"):
        (some / split).mkdir(parents=True)
        for name in ("n01", "n02"):
            if (root / split / name).is_dir():
                (some / split / name).symlink_to(root / split / name)
    linked = ImageFolderDataset(some, num_classes=2, pipeline=[])
    assert linked.metainfo["classes"] == ("n01", "n02")
    assert linked.labels.tolist() == [0, 1, 1] and linked[2]["inputs"].shape[0] == 3


def test_classes_are_those_of_training(root):
    (root / "val" / "n01" / "n01_1.JPEG").unlink()
    for _ in range(2):  # an empty folder, then none
        val = ImageFolderDataset(root, "val", num_classes=3)
        assert val.metainfo["classes"] == ("n01", "n02", "n03")
        assert val.labels.tolist() == [1, 1, 2]
        if (root / "val" / "n01").exists():
            (root / "val" / "n01").rmdir()
    for path in (root / "val").rglob("*.JPEG"):
        path.unlink()
    with pytest.raises(DataError, match=r"val: has no images: they end in .*\.png"):
        ImageFolderDataset(root, "val", num_classes=3)
    (root / "val" / "n00").mkdir()
    with pytest.raises(DataError, match=r"n00: must be a class of .*train"):
        ImageFolderDataset(root, "val", num_classes=3)
