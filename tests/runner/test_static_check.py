"""Mistakes in names are told all at once, and without importing torch."""

import subprocess
import sys

import pytest
import toyseg
from mmengine.config import Config

from fedseg.errors import ConfigError
from fedseg.runner.compose import Composition, known_configs, setting_file
from fedseg.runner.config import check_config, complete_config
from fedseg.runner.experiment import check, load_config
from fedseg.runner.static_check import check_names

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


def test_values_of_several_components_are_told_at_once(tmp_path):
    wrong = {"client_sampler": {"clients_per_round": 0}, "averaging": {"start": 2.0}}
    config = complete_config(Config(toyseg.settings(tmp_path, **wrong)))
    with pytest.raises(ConfigError, match=r"(?s)averaging\.start.*\n.*clients_per_round"):
        check_config(config)
