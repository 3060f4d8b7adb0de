"""Mistakes in names are told all at once, and without importing torch."""

import subprocess
import sys
from dataclasses import replace
from importlib import import_module

import pytest
import toyseg
from mmengine.config import Config

from fedseg.commands.main import DATA_SETS
from fedseg.commands.prepare_idda import main as prepare_idda
from fedseg.data_prep import demo_streets
from fedseg.errors import ConfigError, DataError
from fedseg.names import MADE_BY, made_by
from fedseg.registry import MODELS
from fedseg.runner.compose import Composition, known_configs, setting_file
from fedseg.runner.config import check_config, complete_config
from fedseg.runner.experiment import check, load_config, override
from fedseg.runner.static_check import TEST, VAL, check_names

WRONG = {
    "algorithm.type": "FedAvgg",
    "averaging.strat": 0.5,
    "client_sampler.clients_per_rund": 5,
    "default_hooks.progress.metrc": "mIoU",
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
    said = [line.removeprefix("--cfg-options: ") for line in lines]
    assert sum("idda_rainy.py: " in line and "'algoritm'" in line for line in said) == 1
    for key in WRONG:
        assert sum(line.startswith(key) for line in said) == 1, key
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
        ("idda_rainy", "fedseg prepare idda --root {root}"),
        ("cifar10_a005", "fedseg prepare cifar --root {root}"),  # its base class says so
        ("cifar100_a0", "fedseg prepare cifar --dataset cifar100 --root {root}"),
        ("landmarks", "fedseg prepare landmarks --root {root}"),
    ],
)
def test_a_data_set_that_is_not_there_is_told_without_importing_it(setting, fix, tmp_path):
    root = tmp_path / "nowhere"
    config = load_config(setting, options={"data_root": str(root)})
    for loader in ("train_dataloader", VAL, TEST):
        told = f"{root}: does not exist: make it with {fix.format(root=root)}, or set data_root"
        with pytest.raises(DataError, match=f"{told}$"):
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


def test_every_setting_says_what_makes_its_data(tmp_path, monkeypatch):
    """A command of its data set for the very folder that the setting reads."""
    monkeypatch.chdir(tmp_path)
    for name, path in known_configs().items():
        config = load_config(name)
        with pytest.raises(DataError) as raised:
            check(config, "train_dataloader")
        root, _, rest = str(raised.value).partition(": does not exist: ")
        assert root == config.train_dataloader.dataset.data_root, path
        if root == "data/imagenet":  # of which there is no preparation
            assert rest.startswith("put it there")
            continue
        command = rest.partition("make it with ")[2].removesuffix(", or set data_root")
        words = command.split()
        assert words[:2] == ["fedseg", "prepare"] and words[2] in DATA_SETS
        usual = root if words[2] == "cifar" else f"data/{words[2]}"
        assert root == (words[words.index("--root") + 1] if "--root" in words else usual), command


def test_a_demos_streets_are_what_the_demo_renders(monkeypatch):
    made = []
    for module in ("demo_streets", "segmentation"):
        place = import_module(f"fedseg.data_prep.{module}")
        monkeypatch.setattr(place, "prepare", lambda _, options: made.append(options))
    monkeypatch.setattr("fedseg.data_prep.segmentation.show_summary", lambda *_: None)
    monkeypatch.setattr(sys, "argv", MADE_BY["data/demo_weather"].split()[2:])
    demo_streets.prepare_demo_streets()
    prepare_idda()
    assert replace(made[0], overwrite=False) == made[1]
    assert made_by("fedseg prepare idda", "./data/demo_weather") == MADE_BY["data/demo_weather"]


def test_types_in_another_case_are_replaced():
    options = {"algorithm.type": "fedavg", "optim_wrapper.optimizer.type": "sgd"}
    config = load_config("idda_rainy", options=options)
    check(config)
    assert config.algorithm.type == "FedAvg" and config.optim_wrapper.optimizer.type == "SGD"


def test_a_mistake_is_told_where_it_was_made(tmp_path):
    own = tmp_path / "own.py"
    own.write_text("_base_ = 'fedseg::settings/demo_shapes.py'\n"
                   "averaging = dict(type='WIMA', starts=3)\n")  # fmt: skip
    config = load_config(own, options=["averaging.start=2", "model.loss.x=1"])
    with pytest.raises(ConfigError) as raised:
        check(config)
    lines = sorted(line.split(": ")[:2] for line in str(raised.value).split("\n"))
    assert lines == [["--cfg-options", "model.loss"], [str(own), "averaging.starts"]]
    again = override(override(config, options="train_cfg.amp=1"), options=[])
    assert vars(again)["overridden"] == ("averaging.start", "model.loss.x", "train_cfg.amp")


def test_numbers_are_told_with_names_and_where_they_were_given():
    options = ["train_cfg.local_epochs=-1", "train_dataloader.batch_size=0", "algorithm.typ=3"]
    config = load_config("idda_rainy", options=options)
    config.train_cfg["max_round"] = 3
    with pytest.raises(ConfigError) as raised:
        check(config)
    lines = str(raised.value).split("\n")
    assert [line.split(": ")[:2] for line in lines[:3]] == [
        ["--cfg-options", "train_cfg.local_epochs"],
        ["--cfg-options", "train_dataloader.batch_size"],
        ["--cfg-options", "algorithm.typ"],
    ]
    assert lines[3].startswith(f"{config.filename}: train_cfg.max_round: unknown")
    assert "did you mean 'type'?" in lines[2] and "did you mean 'max_rounds'?" in lines[3]
