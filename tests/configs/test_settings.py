"""Every setting says what its name says, on its data, and holds the published values."""

import json
import re

import pytest
import torch
from config_components import SETTINGS, check_components

from fedseg.config.check import KEYS
from fedseg.core.flat import FlatModel
from fedseg.optim import build_local_optimizer
from fedseg.registry import DATASETS
from fedseg.runner.build import build_model

ALPHA = {"a0": 0, "a005": 0.05, "a01": 0.1, "a05": 0.5, "a1": 1, "a15": 1.5, "a2": 2}
ALPHA |= {"a100": 100, "a1000": 1000}
STATISTICS = {  # mean and std of the training images, units of 0..1
    "cifar10": ([0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]),
    "cifar100": ([0.5071, 0.4865, 0.4409], [0.2673, 0.2564, 0.2762]),
    "mnist": ([0.1307], [0.3081]),
}
ECCV2022 = {  # what the ECCV 2022 paper's code has instead
    "cifar10": ([0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.2010]),
    "cifar100": ([0.5071, 0.4867, 0.4408], [0.2675, 0.2565, 0.2761]),
}
CLASSES = {"cifar10": 10, "cifar100": 100, "mnist": 10, "landmarks": 2028}
SMALL = ("cifar", "mnist")
STREETS = ("idda", "cityscapes", "camvid")


def starting(*prefixes: str) -> list[str]:
    return [name for name in SETTINGS if name.startswith(prefixes)]


def dataset_of(setting: str) -> str:
    return setting.partition("_")[0]


def split_of(setting: str) -> str:
    return setting.split("_")[1]


def test_settings_are_complete_and_their_components_exist(load):
    assert len(SETTINGS) > 35
    for name in SETTINGS:
        config = load(name)
        assert set(config) <= set(KEYS), name
        federated = "centralized" not in name
        assert (config.setting, config.methods, config.experiment_name) == (name, [], name)
        check_components(config)
        alone = config.train_dataloader.partition.type == "SinglePartition"
        assert alone == (not federated) == (config.client_sampler.clients_per_round == 1), name
        assert config.algorithm == dict(type="FedAvg", server_optim=dict(type="SGD", lr=1.0))
        assert config.test_dataloader == config.val_dataloader, name
        assert "data_preprocessor" not in config, name  # the model's own would hide it


@pytest.mark.filterwarnings("ignore")
def test_the_optimizer_of_every_setting_fits_its_network(load):
    """What paramwise_cfg names is there; one of those that share network and optimizer."""
    alike = {}
    for name in SETTINGS:
        config = load(name)
        if config.optim_wrapper.get("paramwise_cfg"):
            alike.setdefault(json.dumps([config.model, config.optim_wrapper], default=str), name)
    assert len(alike) >= 4
    for name in alike.values():
        config = load(name)
        with torch.device("meta"):
            model = build_model(config)
        build_local_optimizer(config.optim_wrapper, FlatModel(model), config.train_cfg.max_rounds)


def test_small_images_are_those_of_the_name(load):
    for name in starting(*SMALL):
        config, dataset = load(name), dataset_of(name)
        train, root = config.train_dataloader, f"data/{dataset}"
        assert train.type == "ResidentData", name
        kind = f"{dataset.upper()}Dataset"
        assert train.dataset == dict(type=kind, data_root=root, split="train"), name
        mean, std = (ECCV2022 if name.endswith("eccv2022") else STATISTICS)[dataset]
        normalize = dict(type="Normalize", mean=mean, std=std)
        crop, flip = dict(type="RandomCrop", padding=4), dict(type="RandomFlip", prob=0.5)
        augmented = [normalize] if dataset == "mnist" else [crop, flip, normalize]
        assert train.transforms == augmented, name
        assert config.model.num_classes == CLASSES[dataset], name
        for domain, test in config.val_dataloader.items():
            assert test.transforms == [normalize], name
            assert test.dataset.data_root == root and domain in ("test", "corrupted"), name
        assert ("corrupted" in config.val_dataloader) == (dataset != "mnist"), name


def test_clients_of_small_images_are_those_of_the_name(load):
    for name in starting(*SMALL):
        partition, split = load(name).train_dataloader.partition, split_of(name)
        if split == "centralized":
            expected = dict(type="SinglePartition")
        elif split == "pam":
            expected = dict(type="PachinkoPartition", num_clients=500, alpha=0.1, beta=10.0)
        elif split in ("c16", "c64"):
            clients = int(split[1:])
            expected = dict(type="DirichletClassPartition", num_clients=clients, alpha=0.5)
            expected["balanced"] = True
        elif name == "mnist_a0":
            expected = dict(type="DirichletPartition", num_clients=10, alpha=0)
        elif name.startswith("mnist"):
            expected = dict(type="DirichletClassPartition", num_clients=5, alpha=ALPHA[split])
        else:
            expected = dict(type="DirichletPartition", num_clients=100, alpha=ALPHA[split])
        assert partition == expected, name


def test_landmarks_are_streamed_by_user(load):
    config = load("landmarks")
    train, test = config.train_dataloader, config.val_dataloader.test
    assert train.partition == dict(type="NaturalPartition", key="users")
    for loader, split in ((train, "train"), (test, "test")):
        assert "type" not in loader  # images stay on disk
        assert (loader.dataset.type, loader.dataset.split) == ("LandmarksDataset", split)
        assert loader.dataset.data_root == "data/landmarks"
        (crop,) = (s for s in loader.dataset.pipeline if "Crop" in s.type)
        assert (crop.get("size") or (crop.height, crop.width)) == (224, 224)
    assert dict(type="HorizontalFlip", p=0.5) in train.dataset.pipeline
    assert config.model.num_classes == CLASSES["landmarks"]


@pytest.mark.parametrize(("name", "classes"), [("femnist", 62), ("shakespeare", 80)])
def test_users_of_leaf_are_clients(load, name, classes):
    config = load(name)
    for loader, split in ((config.train_dataloader, "train"), (config.val_dataloader.test, "test")):
        kind = DATASETS.get(loader.dataset.type)
        assert (loader.type, loader.dataset.split) == ("ResidentData", split)
        assert (kind.num_classes, config.model.num_classes) == (classes, classes)
        assert loader.dataset.data_root == f"data/{name}"
    assert config.train_dataloader.partition == dict(type="NaturalPartition", key="users")


def test_streets_are_those_of_the_name(load):
    for name in starting(*STREETS):
        config, dataset = load(name), dataset_of(name)
        train = config.train_dataloader.dataset
        assert train.type.lower() == f"{dataset}dataset", name
        named = re.search("uniform|class_imbalance|heterogeneous", name)
        distribution = named[0] if named else "heterogeneous"
        place = ["splits"]
        if dataset == "cityscapes":
            place += ["uniform" if "centralized" in name else distribution]
        elif dataset == "idda":
            place += [distribution, name.split("_")[1]]
        folder = "/".join(place)
        assert train.split == f"{folder}/train", name
        assert {d.dataset.split for d in config.val_dataloader.values()} == {f"{folder}/test"}, name
        assert not any(d.dataset.get("style") for d in config.val_dataloader.values()), name
        assert config.model.num_classes == len(DATASETS.get(train.type).classes), name
        mean, std = STATISTICS.get(dataset, ([0.5] * 3, [0.5] * 3))
        preprocessor = config.model.data_preprocessor
        assert (preprocessor.mean, preprocessor.std) == (mean, std), name


def test_the_last_hundred_rounds_are_evaluated(load):
    for name in starting(*SMALL, "landmarks", "femnist", "shakespeare", "imagenet200"):
        train = load(name).train_cfg
        last = ("c16", "c64", "imagenet200", "landmarks_centralized")
        if name.startswith("mnist") or name.endswith(last):  # the last is reported
            assert (train.val_interval, train.val_last_rounds) == (1, 1), name
            continue
        assert (train.val_last_rounds, train.val_last_interval) == (100, 1), name
        assert train.max_rounds // train.val_interval >= 13, name
    for name in starting("idda", "cityscapes"):
        train = load(name).train_cfg
        last = (100, 20 if name.endswith("classes") else 5)
        assert (train.val_last_rounds, train.val_last_interval) == last, name


def test_clients_of_few_classes_are_as_many_as_published(load):
    published = {"cityscapes": (152, 1500), "camvid": (22, 800), "voc": (60, 1200)}
    for name, (clients, rounds) in (published | {"ade20k": (450, 800)}).items():
        config = load(f"{name}_classes")
        partition = config.train_dataloader.partition
        assert partition.clients_per_class * config.model.num_classes == clients
        assert (config.train_cfg.max_rounds, config.train_cfg.local_epochs) == (rounds, 2)
        assert config.optim_wrapper.optimizer.lr == 0.05
        assert (config.train_dataloader.batch_size, config.train_dataloader.drop_last) == (8, True)


def test_more_clients_and_fewer_rounds_are_options(load):
    config = load("cifar10_a005", "fedasam", "swa")
    config.merge_from_dict({"client_sampler.clients_per_round": 20, "train_cfg.max_rounds": 1000})
    assert config.client_sampler == dict(type="UniformSampler", clients_per_round=20)
    assert config.averaging.start * config.train_cfg.max_rounds == 750
