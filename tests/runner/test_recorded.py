"""What the suite's own configs record can be read, and built, as data."""

import json

import pytest

from fedseg.config.check import complete_config
from fedseg.config.compose import Composition
from fedseg.config.layers import CONFIGS
from fedseg.errors import ConfigError
from fedseg.files import write_text
from fedseg.runner.recorded import TRAINED, evaluated, read_recorded
from fedseg.runs.config import (
    CONFIG_FILE,
    config_digest,
    config_facts,
    config_json,
    recorded_config,
)


@pytest.mark.usefixtures("configs_read_once")
def test_every_setting_and_method_is_of_the_suite(tmp_path):
    seen = set()
    one_each = {path.stem.split("_")[0]: path for path in sorted(CONFIGS.glob("settings/*.py"))}
    for path in one_each.values():
        for method in ("", *(Composition(path).method_files.keys() - seen)):
            try:
                config = Composition(path, [method] if method else []).compose()
            except ConfigError:  # no meaning in this setting
                continue
            seen.add(method)
            config["work_dir"] = "work_dirs/run"
            complete = complete_config(config)
            write_text(tmp_path / CONFIG_FILE, config_json(complete.to_dict()))
            read = read_recorded(tmp_path)
            assert config_digest(read) == config_digest(complete)
            assert config_facts(read) == json.loads(json.dumps(config_facts(complete)))
            kept = evaluated(read, tmp_path, (), TRAINED)
            assert kept.val_dataloader == read.val_dataloader and "custom_hooks" not in kept
    assert {"", "fedavg", "silobn", "segformer", "deeplabv3plus", "resnet18"} <= seen


def test_a_tuple_is_recorded_as_a_list_and_a_class_as_text(tmp_path):
    values = {"a": 1e-3, "b": [0, (1, 2.5)], "c": {"d": None, "e": "x"}}
    write_text(tmp_path / CONFIG_FILE, config_json(values | {"f": type}))
    read = recorded_config(tmp_path)
    assert read == values | {"b": [0, [1, 2.5]], "f": str(type)}
