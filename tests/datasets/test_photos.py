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
    assert torch.equal(sample["inputs"], train[1, 5]["inputs"])
    assert not torch.equal(sample["inputs"], train[1, 6]["inputs"])
    val = ImageFolderDataset(root, "val", num_classes=3)
    assert torch.equal(val[0, 1]["inputs"], val[0, 2]["inputs"])
    assert val.split_checksum == train.split_checksum  # the names are alike, the folders are not
    (root / "train" / "n03" / "n03_3.JPEG").rename(root / "train" / "n01" / "n03_3.JPEG")
    write_photo(root / "train" / "n03" / "n03_9.JPEG", 9)
    assert ImageFolderDataset(root, num_classes=3).split_checksum != val.split_checksum


def test_hidden_files_are_no_images(root):
    before = ImageFolderDataset(root, num_classes=3)
    (root / "train" / "n01" / "._n01_1.JPEG").write_bytes(b"Mac OS X")
    after = ImageFolderDataset(root, num_classes=3)
    assert after.files == before.files and after.split_checksum == before.split_checksum


def test_what_is_wrong_with_a_folder(root):
    with pytest.raises(MissingDataError, match="data_root"):
        ImageFolderDataset(root, "test")
    with pytest.raises(DataError, match="num_classes"):
        ImageFolderDataset(root)
    (root / "train" / "n04").mkdir()
    with pytest.raises(DataError, match="n04"):
        ImageFolderDataset(root, num_classes=4)
    (root / "empty").mkdir()
    with pytest.raises(DataError, match="empty"):
        ImageFolderDataset(root, "empty")
