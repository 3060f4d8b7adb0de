"""fedseg splits: a table, a picture of the splits, one-line errors."""

import json
from pathlib import Path

import numpy as np
import pytest

from fedseg.datasets.arrays import write_images


@pytest.fixture
def split_files(tmp_path) -> Path:
    """A folder of two splits of 40 images: one class a client, and two of all classes."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (44, 4, 4, 1), dtype=np.uint8)
    labels = np.arange(44) % 4
    write_images(
        tmp_path / "d", "Toy", list("abcd"), (images[:40], labels[:40]), (images[40:], labels[40:])
    )
    folder = tmp_path / "d" / "splits"
    folder.mkdir()
    skewed = {str(k): list(range(k, 40, 4)) for k in range(4)}
    even = {"0": list(range(16)), "1": list(range(16, 24))}
    (folder / "skewed.json").write_text(json.dumps(skewed))
    (folder / "even.json").write_text(json.dumps(even))
    return folder


def test_two_splits_side_by_side(run_tool, split_files, tmp_path):
    picture = tmp_path / "out" / "both.pdf"
    code, out, _ = run_tool("splits", *sorted(split_files.iterdir()), "--out", picture)
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    expected = (
        "even skewed",
        "clients 2 4",
        "samples 24 40",
        "unused 16 0",
        "samples per client 8 / 12 / 16 10",
        "classes per client 4 1",
        "distance 0.000 0.750",
    )
    for line in expected:
        assert line in lines
    (test,) = [line for line in lines if line.startswith("test set test")]
    assert test.count("4 samples; 4 classes, clients have 4 of them") == 2
    assert lines[-1] == str(picture)
    assert [path.name for path in picture.parent.iterdir()] == ["both.pdf"]


def test_pixels_of_a_config(run_tool, small_config, tmp_path):
    picture = tmp_path / "small.png"
    code, out, _ = run_tool("splits", small_config, "--pixels", "--out", picture)
    assert code == 0
    assert "classes per client" in out and picture.stat().st_size > 1000


def test_errors_are_one_line(run_tool, split_files, tmp_path):
    (tmp_path / "file").write_text("")
    one = split_files / "even.json"
    for arguments, field in (
        ((tmp_path / "none.py",), "none.py"),
        ((tmp_path / "none.json",), "none.json"),
        ((one, "--pixels"), "--pixels"),
        ((one, "--cfg-options", "a=1"), "--cfg-options"),
    ):
        code, _, err = run_tool("splits", *arguments)
        assert code == 2 and field in err, err
        assert err.startswith("error: ") and len(err.splitlines()) == 1
    code, _, err = run_tool("splits", one, "--out", tmp_path / "file" / "x.png")
    assert code == 2 and str(tmp_path / "file") in err
