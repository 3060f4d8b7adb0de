"""Mistakes in names are told all at once, and without importing torch."""

import subprocess
import sys

import pytest
import toyseg
from mmengine.config import Config

from fedseg.errors import ConfigError, DataError
from fedseg.registry import MODELS
from fedseg.runner.compose import Composition, known_configs, setting_file
from fedseg.runner.config import check_config, complete_config
from fedseg.runner.experiment import check, load_config
from fedseg.runner.static_check import TEST, VAL, check_names

WRONG = {
    "algorithm.type": "FedAvgg",
    "averaging.strat": 0.5,
    "client_sampler.clients_per_rund": 5,
    "env_cfg.cudnn": True,
    "model.network.type": "BiSeNet",
    "optim_wrapper.optimizer.lrr": 0.1,
    "optim_wrapper.roh": 0.1,
    "randomness.sed": 1,
    "train_cfg.max_roundz": 3,
    "train_dataloader.partition.ky": "users",
    "val_dataloader.seen.dataset.rot": "data",
}


def test_every_mistake_is_told_at_once_without_torch():
    options = ["algoritm.x=1", *(f"{key}={value}" for key, value in WRONG.items())]
    code = (
        "import sys; from fedseg.runner.experiment import load_config, train\n"
        f"try: train(load_config('idda_rainy', ['fedasam', 'swa'], options={options!r}))\n"
        "except Exception as error: print(type(error).__name__, error, sep='\\n')\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    kind, *lines, torch = done.stdout.splitlines()
    assert (kind, torch) == ("ConfigError", "False")
    said = [line.partition("idda_rainy.py: ")[2] for line in lines]
    for key in (*WRONG, "'algoritm'"):
        assert sum(key in line for line in said) == 1, key
    assert len(said) == len(WRONG) + 1


@pytest.mark.parametrize("setting", ["idda_rainy", "cifar10_a005", "cifar100_c16", "landmarks"])
def test_methods_of_the_suite_pass(setting):
    for method in Composition(setting_file(setting)).known:
        try:
            config = load_config(setting, [method])
        except ConfigError:
            continue  # it has no meaning there
        check(config)


def test_configs_of_the_suite_pass():
    for name in known_configs():
        check(load_config(name))


def test_classes_of_a_users_own_are_left_to_the_registry(tmp_path):
    config = Config(toyseg.settings(tmp_path))
    check_names(dict(config.items()))  # registered by the module that is imported here
    config.model["type"] = "toyseg.SomeNetwork"
    check_names(dict(config.items()))


def test_arguments_of_an_imported_class_are_checked_with_all_others(tmp_path):
    config = Config(toyseg.settings(tmp_path))
    kind = config.model["type"]
    assert kind not in MODELS.sources()
    config.model["widht"] = config.optim_wrapper["roh"] = 1
    with pytest.raises(ConfigError, match=rf"(?s)model\.widht: .*{kind}.*\n.*wrapper\.roh"):
        check_names(dict(config.items()))


def test_values_of_several_components_are_told_at_once(tmp_path):
    wrong = {"client_sampler": {"clients_per_round": 0}, "averaging": {"start": 2.0}}
    config = complete_config(Config(toyseg.settings(tmp_path, **wrong)))
    with pytest.raises(ConfigError, match=r"(?s)averaging\.start.*\n.*clients_per_round"):
        check_config(config)


@pytest.mark.parametrize(
    ("setting", "fix"),
    [
        ("idda_rainy", "make it with fedseg prepare idda, or set data_root"),
        ("cifar10_a005", "make it with fedseg prepare cifar, or"),  # its base class says so
        ("landmarks", "put the data set there, or set data_root"),
    ],
)
def test_a_data_set_that_is_not_there_is_told_without_importing_it(setting, fix, tmp_path):
    root = tmp_path / "nowhere"
    config = load_config(setting, options={"data_root": str(root)})
    for loader in ("train_dataloader", VAL, TEST):
        with pytest.raises(DataError, match=f"{root}: does not exist: {fix}"):
            check(config, loader)
    check(config)  # a sweep's plan and a comparison of configs need no data
    root.mkdir()
    check(config, "train_dataloader", VAL)


def test_optional_test_sets_and_data_sets_of_a_users_own_need_no_folder(tmp_path):
    config = load_config("cifar10_a005", options={"data_root": str(tmp_path / "nowhere")})
    for loader in config.val_dataloader.values():
        loader["optional"] = True
    check(config, VAL)
    config.train_dataloader.dataset["type"] = "toyseg.SomeData"
    check(config, "train_dataloader")
