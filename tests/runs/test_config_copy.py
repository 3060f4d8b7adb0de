"""The recorded config is read without being executed."""

import os

import pytest

from fedseg.errors import DataError
from fedseg.runs.config_copy import CONFIG_FILE, recorded_config


@pytest.mark.parametrize("value", ["null", "[1]", "{}", '"1"', '"infinity"', "1e999"])
def test_a_float_that_no_run_writes_is_the_files_fault(tmp_path, value):
    (tmp_path / CONFIG_FILE).write_text(f'{{"a": [{{"__float__": {value}}}]}}')
    with pytest.raises(DataError, match=r"config\.json: .*__float__"):
        recorded_config(tmp_path)


@pytest.mark.parametrize("checksum", [None, "0" * 64])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, checksum):
    os.mkfifo(tmp_path / CONFIG_FILE)
    with pytest.raises(DataError, match=r"config\.json: .*no regular file"):
        recorded_config(tmp_path, checksum)
