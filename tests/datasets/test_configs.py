"""The base configs of the data sets build, and give what is published."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from mmengine.config import Config

from fedseg.datasets import CamVidDataset, CityscapesDataset, IDDADataset
from fedseg.partition.split_files import Split, write_split
from fedseg.registry import DATASETS, PARTITIONS

CONFIGS = Path(__file__).parents[2] / "configs" / "_base_" / "datasets"
DISTRIBUTIONS = ("uniform", "heterogeneous", "class_imbalance")


def config_of(name: str) -> Config:
    return Config.fromfile(CONFIGS / f"{name}.py")


@pytest.mark.parametrize(
    ("setting", "distribution"),
    list(itertools.product(("country", "rainy", "bus"), DISTRIBUTIONS)),
)
def test_idda_splits(setting: str, distribution: str) -> None:
    config = config_of(f"idda_{setting}_{distribution}")
    folder = f"splits/{distribution}/{setting}"
    assert config.train_dataloader.dataset.split == f"{folder}/train"
    for loaders in (config.val_dataloader, config.test_dataloader):
        assert {name: loader.dataset.split for name, loader in loaders.items()} == {
            "unseen": f"{folder}/test",
            "seen": f"{folder}/test",
        }
        assert loaders.unseen.dataset.users == "test_user_diff_domain"
        assert loaders.seen.dataset.users == "test_user_same_domain"


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_cityscapes_splits(distribution: str) -> None:
    config = config_of(f"cityscapes_{distribution}")
    assert config.train_dataloader.dataset.split == f"splits/{distribution}/train"
    assert config.val_dataloader.test.dataset.split == f"splits/{distribution}/test"
    assert config.test_dataloader == config.val_dataloader


def build(config: dict, root: Path):
    return DATASETS.build({**config, "data_root": str(root)})


def shapes(item: dict) -> list[tuple[int, ...]]:
    return [tuple(item["inputs"].shape), tuple(item["data_samples"].shape)]


def test_idda_sizes(tmp_path: Path, save_image) -> None:
    samples = [("T01_CN_A/RGB/1_T01_CN_A.jpg", "T01_CN_A/Semantic/1_T01_CN_A.png")]
    save_image(tmp_path / "IDDAsmall" / samples[0][0], np.zeros((1080, 1920, 3), np.uint8))
    save_image(tmp_path / "IDDAsmall" / samples[0][1], np.full((1080, 1920), 6, np.uint8))
    folder = tmp_path / "splits/heterogeneous/rainy"
    write_split(folder / "train", Split({"T01_CN_A": samples}))
    write_split(folder / "test", Split({"test_user_diff_domain": samples}))
    config = config_of("idda_rainy_heterogeneous")
    train = build(config.train_dataloader.dataset, tmp_path)
    assert isinstance(train, IDDADataset)
    for seed in range(8):
        item = train[0, seed]
        assert shapes(item) == [(3, 512, 928), (512, 928)]
        assert (item["data_samples"] == 0).all()  # nothing is padded at the published sizes
    assert list(PARTITIONS.build(config.train_dataloader.partition)(train)) == ["T01_CN_A"]
    test = build(config.val_dataloader.unseen.dataset, tmp_path)
    assert shapes(test[0]) == [(3, 512, 928), (1024, 1856)]


def test_cityscapes_sizes(tmp_path: Path, save_image) -> None:
    samples = [("train/ulm/a_leftImg8bit.png", "train/ulm/a_gtFine_labelIds.png")]
    save_image(tmp_path / "leftImg8bit" / samples[0][0], np.zeros((1024, 2048, 3), np.uint8))
    save_image(tmp_path / "gtFine" / samples[0][1], np.full((1024, 2048), 7, np.uint8))
    write_split(tmp_path / "splits/uniform/train", Split({"0": samples}))
    write_split(tmp_path / "splits/uniform/test", Split({"test_user": samples}))
    config = config_of("cityscapes_uniform")
    train = build(config.train_dataloader.dataset, tmp_path)
    assert isinstance(train, CityscapesDataset)
    for seed in range(4):
        assert shapes(train[0, seed]) == [(3, 512, 1024), (512, 1024)]
        assert (train[0, seed]["data_samples"] == 0).all()
    test = build(config.val_dataloader.test.dataset, tmp_path)
    assert shapes(test[0]) == [(3, 1024, 2048), (1024, 2048)]


def test_camvid_sizes(tmp_path: Path, save_image) -> None:
    samples = [("test/0001TP_1.jpg", "testannot/0001TP_1.png")]
    save_image(tmp_path / samples[0][0], np.zeros((360, 480, 3), np.uint8))
    save_image(tmp_path / samples[0][1], np.full((360, 480), 3, np.uint8))
    write_split(tmp_path / "splits/train", Split({"0001TP": samples}))
    write_split(tmp_path / "splits/test", Split({"test_user_0001TP": samples}))
    config = config_of("camvid")
    train = build(config.train_dataloader.dataset, tmp_path)
    assert isinstance(train, CamVidDataset)
    assert shapes(train[0]) == [(3, 192, 256), (192, 256)]
    test = build(config.val_dataloader.unseen_0001TP.dataset, tmp_path)
    assert shapes(test[0]) == [(3, 360, 480), (360, 480)]
    assert list(config.val_dataloader) == ["seen", "unseen_0001TP", "unseen_Seq05VD"]
