"""Synthetic data are marked as such."""

import json

import pytest

from fedseg.datasets.synthetic import is_synthetic
from fedseg.errors import DataError


def test_the_marker(tmp_path):
    assert not is_synthetic(tmp_path)
    for value in (True, False):
        (tmp_path / "dataset.json").write_text(json.dumps({"synthetic": value}))
        assert is_synthetic(tmp_path) == value
    for damaged in ("", "[]", "{"):
        (tmp_path / "dataset.json").write_text(damaged)
        assert not is_synthetic(tmp_path)
        with pytest.raises(DataError, match=r"dataset\.json"):
            is_synthetic(tmp_path, strict=True)
