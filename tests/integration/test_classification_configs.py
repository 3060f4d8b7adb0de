"""A setting of each data set with methods of each kind trains a round on a handful of images."""

import json
from collections.abc import Callable
from pathlib import Path

import cv2
import leaf_files
import numpy as np
import pytest
import torch
from image_files import image_set
from landmark_files import image_id, write_annotations, write_photo

import fedseg
from fedseg.config.check import complete_config
from fedseg.config.compose import setting_file
from fedseg.datasets import write_images
from fedseg.errors import ConfigError
from fedseg.runner.build import build_trainer
from fedseg.runner.experiment import load_config, train
from fedseg.runs.config import config_digest

TRAIN, TEST = 500, 10  # 500 clients of PAM with an image each


def write_small_images(root: Path, name: str, classes: int, shape: tuple[int, int, int]) -> None:
    """A prepared folder of noise; every class occurs among the training images."""
    coarse = [label // 5 for label in range(classes)] if classes == 100 else None
    names = [f"class {label}" for label in range(classes)]
    images = image_set(classes, TRAIN // classes, 1, shape).values()
    write_images(root, name, names, *images, coarse_labels=coarse, synthetic=True)


def write_landmarks(root: Path) -> None:
    """Annotations and photographs of twelve users, who have one or two each."""
    train = [(number % 12, image_id(number), 96 * number) for number in range(18)]
    test = [(image_id(number), 96 * number) for number in range(18, 21)]
    write_annotations(root, train, test)
    for number in range(21):
        image = image_id(number)
        path = (root / "images").joinpath(*image[:3], f"{image}.jpg")
        write_photo(path, number, 240 + number, 320)


def write_photos(root: Path) -> None:
    """An image of each of 200 classes in train, and of ten in val."""
    for number in range(210):
        path = root / ("val" if number >= 200 else "train") / f"n{number % 200:03d}" / "a.JPEG"
        path.parent.mkdir(parents=True, exist_ok=True)
        assert cv2.imwrite(str(path), np.full((40, 50, 3), number, np.uint8))


def write_leaf(root: Path) -> None:
    """FEMNIST and Shakespeare of twelve users."""
    for name, write in (
        ("femnist", leaf_files.write_femnist),
        ("shakespeare", leaf_files.write_shakespeare),
    ):
        fedseg.prepare(name, root / name, source=write(root / "leaf" / name, TRAIN, TEST))


@pytest.fixture(scope="module")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a data set's few images."""
    root = tmp_path_factory.mktemp("data")
    write_small_images(root / "cifar10", "CIFAR10", 10, (32, 32, 3))
    write_small_images(root / "cifar100", "CIFAR100", 100, (32, 32, 3))
    write_small_images(root / "mnist", "MNIST", 10, (28, 28, 1))
    write_landmarks(root / "landmarks")
    write_photos(root / "imagenet200")
    write_leaf(root)
    return root.joinpath


# setting, methods, number of clients: the partition is the setting's own
RUNS = [
    ("cifar10_a0", "mixup", 100),
    ("cifar10_a005", "fedasam swa", 100),
    ("cifar10_a100", "fedgloss_sam", 100),
    ("cifar10_a0_resnet20", "wima", 100),
    ("cifar10_a005", "moon feddyn fedasam", 100),
    ("cifar10_a005", "gradaug resnet56", 100),
    ("cifar10_centralized", "fedsam swa cutout", 1),
    ("cifar10_c16", "moon silobn", 16),
    ("cifar100_a05_eccv2022", "fedsam cutout", 100),
    ("cifar100_a1000", "fedavgm wima", 100),
    ("cifar100_pam", "fedasam mixup", 500),
    ("mnist_a0", "", 10),
    ("mnist_a01_fedsam", "fedsam", 5),
    ("mnist_a01_scaffold", "scaffold", 5),
    ("landmarks", "", 12),
    ("imagenet200", "fedalign silobn", 16),
    ("femnist", "fedasam wima", 12),
    ("shakespeare", "scaffold swa", 12),
]


@pytest.mark.parametrize(("setting", "methods", "holders"), RUNS)
def test_a_round_of_the_config(setting, methods, holders, data_root, tmp_path):
    dataset = setting.partition("_")[0]
    config = load_config(setting_file(setting), methods.split(), work_dir=tmp_path)
    clients = min(2, config.client_sampler.clients_per_round)
    config.merge_from_dict(
        {
            "data_root": str(data_root(dataset)),
            "client_sampler.clients_per_round": clients,
            "train_cfg.max_rounds": 1,
            "train_cfg.local_epochs": 1,
            "default_hooks.pictures": None,
        }
    )
    if dataset in ("landmarks", "imagenet200"):
        config.merge_from_dict({"train_dataloader.num_workers": 0})
        config.merge_from_dict({"val_dataloader.test.num_workers": 0})
    for part in (config.algorithm, config.optim_wrapper):
        if "rho_rounds" in part:
            part["rho_rounds"] = 1
    train(config)
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert results["name"] == config.experiment_name
    assert results["data"]["train"]["clients"] == holders
    samples = {"landmarks": 18, "imagenet200": 200}.get(dataset, TRAIN)
    assert results["data"]["train"]["samples"] == samples
    assert set(results["final"]) == {"test"}  # there are no corrupted images
    assert 0 <= results["final"]["test"]["accuracy"] <= 100
    record = json.loads((tmp_path / "history.jsonl").read_text(encoding="utf-8"))
    assert len(record["participants"]) == clients
    assert not record["rejected"]
    assert np.isfinite(record["loss"])
    copy = load_config(tmp_path / f"{config.experiment_name}.py", work_dir=tmp_path)
    assert config_digest(complete_config(copy)) == results["config_sha256"]
    if setting == "shakespeare":
        with pytest.raises(ConfigError, match="preprocessing of ShakespeareDataset"):
            fedseg.read_run(tmp_path).predict([np.zeros((80, 1, 3), np.uint8)])


def test_landmarks_without_weights_are_warned_of(data_root, tmp_path, recwarn):
    config = load_config(setting_file("landmarks"), work_dir=tmp_path)
    config.merge_from_dict({"data_root": str(data_root("landmarks"))})
    config.merge_from_dict({"train_dataloader.num_workers": 0})
    with pytest.warns(UserWarning, match=r"model\.weights"):
        trainer = build_trainer(config)
    path = tmp_path / "round_000001.pth"
    content = trainer.flat.state_dict() | {"classifier.weight": torch.zeros(1000, 1280)}
    torch.save({"state_dict": content}, path)
    config.merge_from_dict({"model.weights": {"path": str(path), "module": "backbone"}})
    recwarn.clear()
    started = build_trainer(config).flat.state_dict()
    assert not [w for w in recwarn if "model.weights" in str(w.message)]
    assert torch.equal(
        started["backbone.features.0.0.weight"], content["backbone.features.0.0.weight"]
    )
    assert started["classifier.weight"].shape == (2028, 1280)
