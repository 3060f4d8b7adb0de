"""Synthetic data are marked as such; folders and configs with the old names stay valid."""

import json

import pytest

from fedseg.datasets import SyntheticShapesDataset
from fedseg.datasets.synthetic import is_synthetic
from fedseg.errors import DataError
from fedseg.registry import DATASETS


def test_both_names_build_the_same_data_set():
    for name in ("SyntheticShapesDataset", "EmbeddedImagesDataset"):
        assert DATASETS.get(name) is SyntheticShapesDataset


def test_the_marker_under_both_keys(tmp_path):
    assert not is_synthetic(tmp_path)
    for key in ("synthetic", "embedded"):
        for value in (True, False):
            (tmp_path / "dataset.json").write_text(json.dumps({key: value}))
            assert is_synthetic(tmp_path) == value
    for damaged in ("", "[]", "{"):
        (tmp_path / "dataset.json").write_text(damaged)
        assert not is_synthetic(tmp_path)
        with pytest.raises(DataError, match=r"dataset\.json"):
            is_synthetic(tmp_path, strict=True)
