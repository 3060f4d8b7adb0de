"""What a config is refused for before anything is built, and what it may leave out."""

import pytest
import toyseg
from mmengine.config import Config

from fedseg.config.check import complete_config
from fedseg.config.compose import known_configs
from fedseg.errors import ConfigError
from fedseg.registry import DATASETS, build
from fedseg.runner.experiment import load_config
from fedseg.runner.work_dir import write_config
from fedseg.runs.history import plain


def minimal(**changes):
    config = {
        "model": {"type": "Net"},
        "train_dataloader": {"dataset": {"type": "Data", "data_root": "a"}},
        "val_dataloader": {"seen": {"dataset": {"type": "Data", "data_root": "a"}}},
        "val_evaluator": {"type": "Metric"},
        "train_cfg": {"max_rounds": 3},
        "optim_wrapper": {"optimizer": {"type": "SGD", "lr": 0.1}},
        "client_sampler": {"type": "UniformSampler", "clients_per_round": 1},
    }
    return Config({**config, **changes})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("/a b/c  d", "/a b/c  d"),
        ("'/a b'", "/a b"),
        ("3", 3),
        ("0.5", 0.5),
        ("True", True),
        ("None", None),
        ("[1, 2]", [1, 2]),
        ("(1, 2)", (1, 2)),
        ("['a', 'b']", ["a", "b"]),
        ("1.2.3", "1.2.3"),
        ("runs/demo,lr=0.1/seed0", "runs/demo,lr=0.1/seed0"),
        ("'/a, (b)'", "/a, (b)"),
    ],
)
def test_overrides_of_the_command_line(tmp_path, text, value):
    path = tmp_path / "config.py"
    path.write_text("data_root = 1")
    assert load_config(path, options=[f"data_root={text}"]).data_root == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("true", "must be True, not true"),
        ("FALSE", "must be False, not FALSE"),
        ("none", "must be None, not none"),
        ("null", "must be None, not null"),
        ("1,2", r"a list needs brackets: \[1,2\]$"),
        ("'a','b'", r"a list needs brackets: \['a','b'\]$"),
        ("[a, b]", r"must be a Python value such as .*\['a', 'b'\].*, not \[a, b\]"),
        ("[(1,2],3)", "must be a Python value"),
        ("'a", "must be a Python value"),
    ],
)
def test_a_value_that_may_be_meant_otherwise_is_refused(tmp_path, text, words):
    path = tmp_path / "config.py"
    path.write_text("data_root = 1")
    with pytest.raises(ConfigError, match=rf"^--cfg-options: data_root: .*{words}"):
        load_config(path, options=[f"data_root={text}"])


@pytest.mark.parametrize("key", ["setting", "methods", "methods.0", "slot", "values", "append"])
def test_what_is_composed_cannot_be_overridden(tmp_path, key):
    path = tmp_path / "config.py"
    path.write_text("data_root = 1")
    with pytest.raises(ConfigError, match=rf"^--cfg-options: {key}: .*--with"):
        load_config(path, options=[f"{key}=swa"])


def test_an_override_below_one_that_is_no_section_is_named(tmp_path):
    path = tmp_path / "config.py"
    path.write_text("averaging = dict(type='SWA')")
    with pytest.raises(ConfigError, match=r"^--cfg-options: averaging\.start: "):
        load_config(path, options=["averaging=None", "averaging.start=0.5"])
    assert load_config(path, options=["averaging.start=0.5", "averaging=None"]).averaging is None


def test_a_data_root_on_top_replaces_every_other():
    config = complete_config(minimal(data_root="b"))
    assert config.train_dataloader.dataset.data_root == "b"
    assert config.val_dataloader.seen.dataset.data_root == "b"
    assert config.test_dataloader.seen.dataset.data_root == "b"
    assert complete_config(minimal()).train_dataloader.dataset.data_root == "a"
    loader = {"dataset": {"type": "MMSegDataset", "source": {"data_root": "a"}}}
    config = complete_config(minimal(train_dataloader=loader, data_root="b"))
    assert config.train_dataloader.dataset.source.data_root == "b"


@pytest.mark.parametrize("source", [{}, {"source": None}, {"source": "data/ade"}])
def test_a_data_root_on_top_leaves_a_lack_of_a_source_to_its_own_message(source):
    loader = {"dataset": {"type": "MMSegDataset", **source}}
    config = complete_config(minimal(data_root="b", train_dataloader=loader))
    with pytest.raises(
        ConfigError, match=r"train_dataloader\.dataset(: .*'source' is missing|\.source: )"
    ):
        build(DATASETS, config.train_dataloader.dataset, "train_dataloader.dataset")


def test_epochs_and_steps_contradict_each_other():
    with pytest.raises(ConfigError, match=r"train_cfg: local_epochs and local_steps.*None"):
        complete_config(minimal(train_cfg={"max_rounds": 3, "local_epochs": 2, "local_steps": 5}))
    complete_config(minimal(train_cfg={"max_rounds": 3, "local_epochs": None, "local_steps": 5}))


def window_of(config) -> int | None:
    """The number of rounds at the end whose mean is reported."""
    return complete_config(config).train_cfg.get("val_last_rounds")


@pytest.mark.parametrize(
    ("options", "window"),
    [
        ([], 20),  # of 100 rounds
        (["train_cfg.max_rounds=90"], 20),
        (["train_cfg.max_rounds=20"], 5),
        (["train_cfg.max_rounds=3"], 1),
        (["train_cfg.val_last_rounds=26"], 25),
    ],
)
def test_a_window_is_at_most_a_quarter_of_the_rounds_of_a_user(tmp_path, options, window):
    assert window_of(load_config("segmentation", options=options)) == window
    path = tmp_path / "own.py"
    values = [option.removeprefix("train_cfg.") for option in options]
    base = 'setting = "segmentation"\n'
    path.write_text(f"{base}train_cfg = dict({', '.join(values)})\n")
    assert window_of(load_config(path)) == window
    in_python = load_config("segmentation")
    for value in values:
        name, _, number = value.partition("=")
        in_python.train_cfg[name] = int(number)
    assert window_of(in_python) == window


def test_without_a_window_the_default_is_cut(tmp_path):
    path = tmp_path / "own.py"
    values = minimal(train_cfg={"max_rounds": 40}).to_dict()
    path.write_text("\n".join(f"{key} = {value!r}" for key, value in values.items()))
    assert window_of(load_config(path)) == 10
    assert window_of(load_config(path, options=["train_cfg.max_rounds=400"])) is None  # 100


def test_a_recorded_config_keeps_its_window(tmp_path):
    config = load_config("demo_weather")
    assert (config.train_cfg.max_rounds, config.train_cfg.val_last_rounds) == (28, 16)
    assert window_of(Config(config.to_dict())) == 16  # as config.json is read
    config.work_dir = str(tmp_path)
    write_config(config, "copy")
    assert window_of(load_config(tmp_path / "copy.py")) == 16
    assert window_of(load_config(tmp_path / "copy.py", options=["train_cfg.max_rounds=32"])) == 8


@pytest.mark.parametrize("name", sorted(known_configs()))
def test_shipped_settings_keep_their_window(name, configs_read_once):
    config = load_config(name)
    assert window_of(config) == config.train_cfg.get("val_last_rounds")


@pytest.mark.parametrize("seed", [-1, 2**32, 0.5, True, "0"])
def test_seeds_that_no_generator_takes(seed):
    with pytest.raises(ConfigError, match=r"randomness\.seed"):
        complete_config(minimal(randomness={"seed": seed}))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("experiment_name", "a\0b"),
        ("experiment_name", "ü" * 120),
        ("experiment_name", "a/b"),
        ("experiment_name", "..\\b"),
        ("experiment_name", ".."),
        ("val_dataloader", {"": {}}),
        ("test_dataloader", {5: {}}),
        ("val_dataloader", {"seen": {"dataset": {}}, "sen": {"batch_size": 3}}),
    ],
)
def test_names_that_cannot_be_used(field, value):
    with pytest.raises(
        ConfigError, match=rf"{field}(\[5\])?: |{field}\.sen: .*did you mean 'seen'"
    ):
        complete_config(minimal(**{field: value}))


@pytest.mark.parametrize("name", ["seen_by_domain", "global:seen", "global:seen_by_domain"])
def test_a_test_set_with_the_name_of_a_further_evaluation(name):
    test = {"dataset": {"type": "Data", "data_root": "a"}}
    both = {"seen": test, name: test}
    with pytest.raises(ConfigError, match=f"^val_dataloader: '{name}' is also the name .*'seen'"):
        complete_config(minimal(val_dataloader=both))
    complete_config(minimal(val_dataloader={name: test}))
    complete_config(minimal(val_dataloader={**both, "seen": None}))


def test_a_config_that_ends_the_program_is_told(tmp_path):
    path = tmp_path / "config.py"
    path.write_text("import sys\nsys.exit(0)\n")
    with pytest.raises(ConfigError, match=r"config\.py: .*SystemExit"):
        load_config(path)


@pytest.mark.parametrize("device", ["cudaa", "mps", "xpu:0"])
def test_an_unknown_device_is_told(tmp_path, device):
    """Apple's too: it has no double precision, in which sums over clients are exact."""
    with pytest.raises(ConfigError, match=f"device: must be cpu or cuda .*not {device}"):
        toyseg.runner({**toyseg.settings(tmp_path), "device": device})


def test_history_takes_arrays_and_names_what_it_cannot_take():
    import numpy as np
    import torch

    assert plain({"a": torch.tensor([1.0, float("nan")]), "b": np.float64(2)}) == {
        "a": [1.0, None],
        "b": 2.0,
    }
    with pytest.raises(ConfigError, match="set in the history"):
        plain({"a": {1, 2}})


@pytest.mark.parametrize("section", ["val_cfg", "test_cfg"])
@pytest.mark.parametrize("option", ["fine_tune_steps", "fine_tune_lr"])
def test_options_of_fine_tuning_need_its_view(section, option):
    config = minimal(**{section: {option: 5}})
    message = rf"^{section}\.{option}: has no effect without the view 'fine_tuned'"
    with pytest.raises(ConfigError, match=message):
        complete_config(config)
    config = minimal(val_cfg={"views": ["fine_tuned"], "fine_tune_steps": 5})
    assert complete_config(config).test_cfg.fine_tune_steps == 5
    config.test_cfg = {"views": ["by_domain"]}
    assert complete_config(config).test_cfg.views == ["by_domain"]
