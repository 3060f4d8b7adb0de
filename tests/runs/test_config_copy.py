"""The recorded config is read without being executed."""

import math
import os

import pytest
from mmengine.config import Config

from fedseg.errors import DataError
from fedseg.runs.config import CONFIG_FILE, config_digest, config_json, recorded_config


@pytest.mark.parametrize("value", ["null", "[1]", "{}", '"1"', '"infinity"', "1e999"])
def test_a_float_that_no_run_writes_is_the_files_fault(tmp_path, value):
    (tmp_path / CONFIG_FILE).write_text(f'{{"a": [{{"__float__": {value}}}]}}')
    with pytest.raises(DataError, match=r"config\.json: .*__float__"):
        recorded_config(tmp_path)


def test_keys_that_are_no_text_are_kept(tmp_path):
    """Such as raw label ids; the checksum of a config depends on the order that they sort in."""
    config = Config({"dataset": {"label_ids": {2: 0, 10: [{1.5: math.inf}]}, "x": {None: {}}}})
    (tmp_path / CONFIG_FILE).write_text(config_json(config.to_dict()))
    read = recorded_config(tmp_path)
    assert read == config.to_dict() and config_digest(Config(read)) == config_digest(config)


@pytest.mark.parametrize("value", ["null", "{}", "[1]", "[[1]]", "[[[1], 2]]", "[[1, 2], [1, 3]]"])
def test_items_that_no_run_writes_are_the_files_fault(tmp_path, value):
    path = tmp_path / CONFIG_FILE
    path.write_text(f'{{"a": {{"__items__": {value}}}}}')
    with pytest.raises(DataError, match=r"config\.json: .*__items__"):
        recorded_config(tmp_path)
    path.write_text('{"__items__": [[1, 2]]}')
    with pytest.raises(DataError, match=r"config\.json: is not the config of a run"):
        recorded_config(tmp_path)


@pytest.mark.parametrize("checksum", [None, "0" * 64])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, checksum):
    os.mkfifo(tmp_path / CONFIG_FILE)
    with pytest.raises(DataError, match=r"config\.json: .*not a regular file"):
        recorded_config(tmp_path, checksum)


@pytest.mark.parametrize(
    ("recorded", "personal"),
    [
        ({"batchnorm": None, "personal": "@head"}, "@head"),
        ({"batchnorm": {"type": "SiloBN"}}, ["@batchnorm.statistics"]),
        ({"batchnorm": {"type": "FedBN"}, "personal": ["@head"]}, ["@batchnorm", "@head"]),
    ],
)
def test_batchnorm_of_an_earlier_version_is_part_of_personal(tmp_path, recorded, personal):
    (tmp_path / CONFIG_FILE).write_text(config_json(recorded))
    assert recorded_config(tmp_path) == {"personal": personal}


@pytest.mark.parametrize(
    "batchnorm", [{"type": "SiloBN", "layers": "bn"}, {"type": ["SiloBN"]}, {}, 3, {"type": "Own"}]
)
def test_a_batchnorm_key_without_a_counterpart_stays(tmp_path, batchnorm):
    (tmp_path / CONFIG_FILE).write_text(config_json({"batchnorm": batchnorm}))
    assert recorded_config(tmp_path) == {"batchnorm": batchnorm}
