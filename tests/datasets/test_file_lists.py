"""Lists of files below a folder."""

import os
from pathlib import Path

import pytest

from fedseg.datasets.file_lists import existing_files
from fedseg.errors import DataError


def test_a_pipe_is_no_image(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jpg")
    with pytest.raises(DataError, match=r"a\.jpg: .*regular"):
        existing_files([str(tmp_path / "a.jpg")])


def test_links_are_followed(tmp_path: Path) -> None:
    root, secret = tmp_path / "root", tmp_path / "secret"
    for folder in (root, secret):
        folder.mkdir()
        (folder / "1.jpg").touch()
    (root / "2.jpg").symlink_to(root / "1.jpg")
    (tmp_path / "linked").symlink_to(root)
    inside = [str(tmp_path / "linked" / name) for name in ("1.jpg", "2.jpg")]
    absent = [str(tmp_path / "linked" / name) for name in ("3.jpg", "no/1.jpg")]
    assert existing_files(inside + absent) == set(inside)
    (root / "circle.jpg").symlink_to(root / "circle.jpg")
    with pytest.raises(DataError, match=r"circle\.jpg: "):
        existing_files([str(root / "circle.jpg")])
    (root / "3.jpg").symlink_to(secret / "1.jpg")
    (root / "more").symlink_to(secret)
    outside = {str(root / name) for name in ("3.jpg", "more/1.jpg")}
    assert existing_files(outside) == outside
