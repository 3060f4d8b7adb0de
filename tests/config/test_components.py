"""Mistakes of a config: keys and missing data first, then cheap components, data last."""

import copy
import pkgutil
import pydoc
import re
import sys
from importlib import import_module

import pytest
import toyseg
from command_line import python
from mmengine.config import Config

import fedseg
import fedseg.registry
from fedseg.commands.prepare import main as prepare
from fedseg.config.components import TEST, VAL
from fedseg.config.compose import known_configs
from fedseg.config.layers import find_layer, layers_of, nested
from fedseg.data_prep import feddrive, idda
from fedseg.data_prep.data_sets import DATA_SETS
from fedseg.data_prep.outcome import Outcome
from fedseg.datasets import SegmentationDataset, StoredImages
from fedseg.errors import ConfigError, DataError
from fedseg.names import MADE_BY, PREPARED_BY, made_by
from fedseg.registry import ALGORITHMS, DATASETS, LazyRegistry, build
from fedseg.runner.experiment import load_config, override, prepare_config, train

REGISTRIES = [one for one in vars(fedseg.registry).values() if isinstance(one, LazyRegistry)]
WITHOUT_IMPORTS = {
    "algoritm.x": "algoritm",
    "env_cfg.cudnn": "env_cfg.cudnn",
    "randomness.sed": "randomness.sed",
}
# told before any data are read
CHEAP = {
    "algorithm.type": "FedAvgg",
    "algorithm.server_optim.lrr": 0.1,
    "averaging.strat": 0.5,
    "averaging.start": 2.0,
    "client_sampler.clients_per_rund": 5,
    "default_hooks.checkpoint.intervl": 1,
    "executor.num_worker": 2,
    "local_loss.type": "MOONN",
    "model.widht": 1,
    "optim_wrapper.optimizer.lrr": 0.1,
    "optim_wrapper.optimizer.lr": "0.1",
    "optim_wrapper.roh": 0.1,
    "test_cfg.type": "TestLoop",
    "train_cfg.local_epochs": -1,
    "train_dataloader.batch_siz": 3,
    "train_dataloader.batch_size": True,
}
# told before training
DEAR = {
    "train_cfg.max_roundz": 3,
    "train_cfg.val_interval": 0,
    "train_dataloader.partition.ky": "users",
    "val_dataloader.seen.batch_siz": 3,
    "val_dataloader.seen.dataset.rot": "data",
    "val_evaluator.typ": "IoU",
}


class NeverRead:
    def __init__(self) -> None:
        raise AssertionError("data are read")


NO_DATA = {"_delete_": True, "type": NeverRead}


def test_tables_of_the_registries_are_complete():
    for module in pkgutil.walk_packages(fedseg.__path__, "fedseg."):
        if not module.name.startswith(("fedseg.data_prep", "fedseg.configs", "fedseg.__main__")):
            import_module(module.name)
    for registry in REGISTRIES:
        registered = {n: c.__module__ for n, c in registry.module_dict.items()}
        own = {n: m for n, m in registered.items() if m.startswith("fedseg.") and m in sys.modules}
        assert own == registry.modules, registry.name


def test_every_data_set_with_a_command_is_in_the_table():
    names = {n for n in DATASETS.modules if getattr(DATASETS.get(n), "tool", None)}
    assert names == PREPARED_BY.keys()
    for name in names:
        assert PREPARED_BY[name].startswith(DATASETS.get(name).tool)


def test_keys_and_missing_data_are_told_without_torch(tmp_path):
    code = (
        "import sys; from fedseg.runner.experiment import load_config, train\n"
        "for options in {options!r}:\n"
        "    try: train(load_config('idda_rainy', ['fedasam', 'swa'], options=options))\n"
        "    except Exception as error: print(error)\n"
        "print('torch' in sys.modules)"
    )
    options = [[f"{key}=1"] for key in WITHOUT_IMPORTS]
    options.append([f"data_root={tmp_path / 'nowhere'}"])
    code = code.format(options=options)
    *lines, root, torch = python(code).splitlines()
    assert len(lines) == len(WITHOUT_IMPORTS) and torch == "False"
    for line, field in zip(lines, WITHOUT_IMPORTS.values(), strict=True):
        assert field in line
    assert root.startswith(f"{tmp_path / 'nowhere'}: does not exist: make it with fedseg prepare")


@pytest.mark.parametrize("field", CHEAP)
def test_a_wrong_type_or_argument_is_told_before_data_are_read(tmp_path, field):
    changes = toyseg.merge({"train_dataloader": {"dataset": NO_DATA}}, nested(field, CHEAP[field]))
    if field.startswith("algorithm.server"):
        changes["algorithm"]["server_optim"]["type"] = "SGD"
    if field.startswith("executor"):
        changes["executor"]["type"] = "InProcessExecutor"
    with pytest.raises(ConfigError, match=f"^{re.escape(field)}"):
        toyseg.train(toyseg.settings(tmp_path, **changes))


@pytest.mark.parametrize("field", DEAR)
def test_a_wrong_type_or_argument_of_data_is_told_before_training(tmp_path, field):
    with pytest.raises(ConfigError, match=f"^{re.escape(field)}"):
        toyseg.train(toyseg.settings(tmp_path, **nested(field, DEAR[field])))
    assert not (tmp_path / "run" / "history.jsonl").exists()


@pytest.mark.parametrize(
    ("setting", "fix"),
    [
        ("idda_rainy", "fedseg prepare idda --root {root}"),
        ("cifar10_a005", "fedseg prepare cifar --root {root}"),
        ("cifar100_a0", "fedseg prepare cifar --dataset cifar100 --root {root}"),
        ("landmarks", "fedseg prepare landmarks --root {root}"),
    ],
)
def test_missing_data_are_told_with_the_command_that_makes_them(setting, fix, tmp_path):
    root = tmp_path / "nowhere"
    config = load_config(setting, options={"data_root": str(root)})
    for loader in ("train_dataloader", VAL, TEST):
        message = f"{root}: does not exist: make it with {fix.format(root=root)}, or set data_root"
        with pytest.raises(DataError, match=f"{message}$"):
            prepare_config(config, loader)
    prepare_config(config)  # a sweep's plan and a comparison of configs need no data
    root.mkdir()
    prepare_config(config, "train_dataloader", VAL)
    lender = {"type": "CamVidDataset", "data_root": f"{root}/x"}
    config.train_dataloader.dataset["style"] = {"type": "LABStyle", "source": lender}
    with pytest.raises(DataError, match=r"camvid .*set train_dataloader\.dataset\.style\.source"):
        prepare_config(config, "train_dataloader")


@pytest.mark.parametrize("kind", [SegmentationDataset, StoredImages])
def test_own_data_that_are_missing_are_told_with_the_function_that_writes_them(kind, tmp_path):
    with pytest.raises(DataError, match=r"make it with fedseg\.\w+\.write_\w+, or set"):
        type("Own", (kind,), {"classes": (), "palette": []})(str(tmp_path / "nowhere"), "train")
    assert callable(pydoc.locate(kind.tool))


def test_optional_test_sets_and_data_sets_of_a_users_own_need_no_folder(tmp_path):
    config = load_config("cifar10_a005", options={"data_root": str(tmp_path / "nowhere")})
    for loader in config.val_dataloader.values():
        loader["optional"] = True
    prepare_config(config, VAL)


def test_every_setting_says_what_makes_its_data(tmp_path, monkeypatch):
    """A command of its data set for the very folder that the setting reads."""
    monkeypatch.chdir(tmp_path)
    for name, path in known_configs().items():
        config = load_config(name)
        with pytest.raises(DataError) as raised:
            prepare_config(config, "train_dataloader")
        root, _, rest = str(raised.value).partition(": does not exist: ")
        dataset = config.train_dataloader.dataset
        assert root == dataset.get("source", dataset).data_root, path
        # no preparation, or of the parts, whose roots are told later
        if root in ("data/imagenet", "data/imagenet200", "data") or dataset.type == "MMSegDataset":
            assert rest.startswith("put it there")
            continue
        command = rest.partition("make it with ")[2].removesuffix(", or set data_root")
        words = command.split()
        assert words[:2] == ["fedseg", "prepare"] and words[2] in DATA_SETS
        usual = root if words[2] == "cifar" else f"data/{words[2]}"
        if words[2] == "mapillary_a":
            usual = words[3]
        assert root == (words[words.index("--root") + 1] if "--root" in words else usual), command


def test_a_demos_streets_are_what_the_demo_renders(monkeypatch):
    calls = []

    def prepare_feddrive(_, root, *build, overwrite, **options):
        calls.append((root, options))
        return Outcome(root)

    monkeypatch.setattr(feddrive, "prepare_feddrive", prepare_feddrive)
    monkeypatch.setattr(sys, "argv", MADE_BY["data/demo_weather"].split()[1:])
    idda.prepare_demo_streets()
    prepare()
    assert calls[0] == calls[1]
    assert made_by("fedseg prepare idda", "./data/demo_weather") == MADE_BY["data/demo_weather"]
    assert made_by(PREPARED_BY["ListedDataset"], "data/segmentation").endswith("--classes FILE")


def test_names_in_another_case_are_other_names():
    with pytest.raises(ConfigError, match=r"'fedavg' \(did you mean 'FedAvg'"):
        build(ALGORITHMS, {"type": "fedavg"}, "algorithm")


def test_a_mistake_is_told_where_it_was_made(tmp_path):
    own = toyseg.write_config(tmp_path / "own.py", toyseg.settings(tmp_path))
    config = load_config(own, options=["averaging.starts=2"])
    with pytest.raises(ConfigError, match=r"^--cfg-options: averaging\.starts: "):
        train(config, dry_run=True)
    toyseg.write_config(own, toyseg.settings(tmp_path, averaging={"starts": 3}))
    with pytest.raises(ConfigError, match=rf"^{own}: averaging\.starts: "):
        train(load_config(own, options=["averaging.start=2"]), dry_run=True)
    again = copy.deepcopy(override(config, options="train_cfg.amp=1"))
    assert find_layer(layers_of(again), "train_cfg.amp").file == "--cfg-options"


def test_names_are_looked_up_in_mmsegmentation_and_never_among_files(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "BaseSegDataset.py").write_text("raise AssertionError('imported')")
    (tmp_path / "OwnConfig.py").write_text("raise AssertionError('imported')")
    for name in ("BaseSegDataset", "PascalVOCDataset"):
        assert DATASETS.get(name).__module__.startswith("mmseg.datasets.")
    assert DATASETS.get("mmseg.BaseSegDataset") is DATASETS.get("BaseSegDataset")
    assert DATASETS.get("OwnConfig") is None
    with pytest.raises(KeyError, match="MIME is already registered in algorithm at fedseg"):
        ALGORITHMS.register_module("MIME", module=Config)  # before or after the suite's is imported
