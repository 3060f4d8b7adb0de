"""Corruptions of the demo's rendered images: the layout of CIFAR-C, and stronger by severity."""

import numpy as np
import pytest

from fedseg.config.check import complete_config
from fedseg.data_prep.demo_corruptions import CORRUPTIONS, write_corruptions
from fedseg.data_prep.synthetic_shapes import write_shapes
from fedseg.datasets import CIFAR10CDataset
from fedseg.datasets.arrays import StoredImages, write_images
from fedseg.errors import DataError
from fedseg.runner.experiment import load_config

COUNT = 20


def test_every_corruption_is_stronger_with_its_severity(tmp_path):
    write_shapes(tmp_path, train=10, test=30)
    write_corruptions(tmp_path, "demo", COUNT)
    test = StoredImages(tmp_path, "test")
    clean = test.images[:COUNT].astype(float)
    for name in CORRUPTIONS:
        dataset = CIFAR10CDataset(tmp_path, "demo", name)
        images, labels = dataset.gather(np.arange(5 * COUNT))
        assert labels.tolist() == test.labels[:COUNT].tolist() * 5
        change = np.abs(images.reshape(5, *clean.shape) - clean).mean((1, 2, 3, 4))
        assert change[0] > 0 and (np.diff(change) > 0).all(), name


def test_the_demos_config_reads_all_of_them():
    config = complete_config(load_config("demo_images"))
    dataset = config.val_dataloader.corrupted.dataset
    assert set(dataset.corruptions) == set(CORRUPTIONS)


def test_real_images_are_refused(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (2, 10, 32, 32, 3), np.uint8)
    train, test = ((part, np.arange(10)) for part in images)
    write_images(tmp_path, "Real", [str(i) for i in range(10)], train, test)
    with pytest.raises(DataError, match="must have rendered images"):
        write_corruptions(tmp_path, "demo", COUNT)
