"""The recorded config is read without being executed."""

import pytest

from fedseg.runs.config import CONFIG_FILE, config_json, recorded_config


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
