"""The table of roles covers what shipped configs say, and digests and comparisons filter it."""

from pathlib import Path

import pytest

from fedseg.config.check import KEYS, complete_config
from fedseg.config.compose import Composition, compose
from fedseg.config.layers import CONFIGS
from fedseg.config.roles import PATTERNS, ROLES, find_role, keep, role, select
from fedseg.errors import ConfigError
from fedseg.runner.experiment import load_config

SETTINGS = sorted((CONFIGS / "settings").glob("*.py"))
pytestmark = pytest.mark.usefixtures("configs_read_once")


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda path: path.stem)
def test_every_key_of_a_shipped_setting_has_a_role(setting: Path):
    config = complete_config(compose(setting)).to_dict()
    assert [key for key in select(config) if find_role(key) is None] == []


def test_every_key_that_a_method_sets_has_a_role():
    places = {
        path.stem: setting
        for setting in SETTINGS
        for path in Composition(setting).method_files.values()
    }
    for name in list(places):
        for setting in [places[name], *SETTINGS]:
            try:
                config = complete_config(compose(setting, [name])).to_dict()
            except ConfigError:  # it is for other settings
                continue
            assert [key for key in select(config) if find_role(key) is None] == [], name
            del places[name]
            break
    assert places == {}


def test_every_key_that_a_config_may_have_at_the_top_has_a_role():
    assert [key for key in KEYS if find_role(key) is None] == []
    assert set(PATTERNS.values()) == set(ROLES)


CONFIG = {
    "randomness": {"seed": 3, "deterministic": True},
    "train_dataloader": {
        "num_workers": 2,
        "batch_size": 16,
        "dataset": {"type": "IDDADataset", "data_root": "x", "pipeline": [{"size": (1, 2)}, "a"]},
    },
    "algorithm": {"type": "FedDyn", "alpha": 0.1},
    "optim_wrapper": {"optimizer": {"lr": 0.1, "momentum": 0.9}},
    "work_dir": "somewhere",
    "sizes": (1, 2),
}


def test_keys_are_selected_by_their_roles():
    assert select(CONFIG, "identity") == {"randomness.seed": 3}
    assert select(CONFIG, "protocol") == {
        "train_dataloader.batch_size": 16,
        "train_dataloader.dataset.type": "IDDADataset",
        "train_dataloader.dataset.pipeline.0.size": [1, 2],
        "train_dataloader.dataset.pipeline.1": "a",
    }
    assert set(select(CONFIG, "environment", "place")) == {
        "randomness.deterministic",
        "train_dataloader.num_workers",
        "train_dataloader.dataset.data_root",
        "work_dir",
    }
    assert find_role("sizes") is None and role("sizes") == "method"
    assert len(select(CONFIG)) == sum(len(select(CONFIG, one)) for one in ROLES)


CONTINUED = {
    "channels_last": True,
    "device": "cpu",
    "train_cfg": {"max_rounds": 3, "local_epochs": 1, "val_last_interval": 5},
    "averaging": {"start": 2, "window": 4, "priority": "LOW"},
    "param_scheduler": [{"end": 4}],
    "train_dataloader": {
        "batch_size": 8,
        "timeout": 20,
        "collate_fn": {"type": "stack"},
        "partition": {"alpha": 0.5},
    },
    "val_dataloader": {"seen": {"final_only": True, "timeout": 20}},
}


def test_a_resumed_run_may_change_some_keys():
    fixed = select({**CONFIG, **CONTINUED}, resumed=True)
    assert {"randomness.seed", "algorithm.alpha", "optim_wrapper.optimizer.lr"} <= set(fixed)
    assert set(fixed) & set(select(CONTINUED)) == {
        "channels_last",
        "train_cfg.local_epochs",
        "averaging.window",
        "train_dataloader.batch_size",
        "train_dataloader.collate_fn.type",
    }
    assert not {"work_dir", "sizes"} & set(fixed)


def test_what_is_kept_stays_nested():
    assert keep(CONFIG, "method") == {
        "algorithm": CONFIG["algorithm"],
        "optim_wrapper": CONFIG["optim_wrapper"],
        "sizes": (1, 2),
    }
    assert keep(CONFIG, *ROLES) == CONFIG


def test_runs_with_and_without_an_average_share_the_rounds_before_it():
    """As docs/reproducing.md resumes them."""

    def facts(methods):
        config = complete_config(load_config("cifar10_a005", methods))
        fixed = select(config.to_dict(), resumed=True)
        return {key: value for key, value in fixed.items() if not key.startswith("averaging")}

    assert facts(["fedavg"]) == facts(["swa"]) == facts(["wima"])
    assert facts(["fedasam"]) == facts(["fedasam", "swa"]) == facts(["fedasam", "wima"])
