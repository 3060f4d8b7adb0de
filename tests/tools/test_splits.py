"""fedseg splits: tables, pictures of the split, one-line errors."""

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
    code, out, err = run_tool("splits", *sorted(split_files.iterdir()), "--out", tmp_path / "out")
    assert code == 0 and err == ""
    lines = [" ".join(line.split()) for line in out.splitlines()]
    for line in (
        *("even skewed", "clients 2 4", "samples 24 40", "unused 16 0"),
        *("samples per client 8 / 12 / 16 10", "classes per client 4 1", "distance 0.000 0.750"),
        "skewed test 4 4 classes 4",
    ):
        assert line in lines
    names = ("splits.png", "even.png", "skewed.png")
    assert out.splitlines()[-3:] == [str(tmp_path / "out" / name) for name in names]
    assert all((tmp_path / "out" / name).stat().st_size > 1000 for name in names)


def test_a_config_has_pictures_of_samples_and_pixels(run_tool, small_config, tmp_path):
    code, out, _ = run_tool("splits", small_config, "--pixels", "--out", tmp_path)
    assert code == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        "splits.png",
        "small.png",
        "small_pixels.png",
    }
    assert all(str(path) in out for path in tmp_path.iterdir())


def test_errors_are_one_line(run_tool, split_files, tmp_path):
    (tmp_path / "file").write_text("")
    one = split_files / "even.json"
    for arguments, field in (
        ((tmp_path / "none.py",), "none.py"),
        ((tmp_path / "none.json",), "none.json"),
        ((one, "--pixels"), "--pixels"),
        ((one, "--cfg-options", "a=1"), "--cfg-options"),
        ((one, "--out", tmp_path / "file" / "x"), str(tmp_path / "file")),
    ):
        code, _, err = run_tool("splits", *arguments)
        assert code == 2 and field in err, err
        assert err.startswith("error: ") and len(err.splitlines()) == 1
