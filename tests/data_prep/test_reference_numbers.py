"""What is in the package is what the transcriptions give today."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from data_prep.reference_numbers import TARGET, feddrive, files, partition_checksum
from fedseg.errors import DataError
from fedseg.loaders.partitioned import PartitionedData

SHARED = Path(__file__).parents[3] / "shared"


@pytest.mark.skipif(
    not (SHARED / "reference").is_dir(), reason="needs the papers' tables, ../shared/reference"
)
def test_the_package_holds_what_the_conversion_gives():
    pytest.importorskip("yaml")
    for name, text in files(SHARED).items():
        assert (TARGET / name).read_text(encoding="utf-8") == text, name


def test_another_form_of_the_page_is_told(tmp_path):
    page = tmp_path / "feddrive.md"
    page.write_text(
        "## Published mIoU\nCityscapes: uniform FedProx 45.62\n\n| IDDA | country |\n|-|-|"
    )
    with pytest.raises(DataError, match="not of a known form"):
        feddrive(tmp_path)


def test_partitions_have_the_checksum_that_a_run_computes():
    files_ = [(f"root/IDDAsmall/{name}.jpg", f"{name}.png") for name in "abcd"]
    data = SimpleNamespace(
        dataset=SimpleNamespace(files=files_, data_root="root", split_checksum="x"),
        indices={"one": np.array([2, 0]), "two": np.array([3])},
    )
    users = {"one": ["IDDAsmall/c.jpg", "IDDAsmall/a.jpg"], "two": ["IDDAsmall/d.jpg"]}
    assert partition_checksum(users) == PartitionedData.checksum(data)
