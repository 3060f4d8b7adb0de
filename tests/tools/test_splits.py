"""tools/splits.py: tables, pictures of the split, one-line errors."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedseg.datasets.arrays import write_images
from fedseg.report.drawing import COLORS

FULL = (8, 29, 88)  # a share of 1


@pytest.fixture
def tool(run_tool, monkeypatch):
    """Runs the tool; returns (exit code, standard output, standard error)."""
    monkeypatch.delenv("COLUMNS", raising=False)
    return partial(run_tool, "splits")


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


def pixels(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB"))


def count(picture: np.ndarray, color: tuple[int, ...]) -> int:
    return int((picture == np.array(color, np.uint8)).all(-1).sum())


def test_two_splits_side_by_side(tool, split_files, tmp_path):
    code, out, err = tool(*sorted(split_files.iterdir()), "--out", tmp_path / "out")
    assert code == 0 and err == ""
    lines = [" ".join(line.split()) for line in out.splitlines()]
    for line in (
        "even skewed",
        "clients 2 4",
        "samples 24 40",
        "unused 16 0",
        "samples per client 8 / 12 / 16 10",
        "classes per client 4 1",
        "distance 0.000 0.750",
        "skewed test 4 4 classes 4",
    ):
        assert line in lines
    names = ("splits.png", "even.png", "skewed.png")
    assert out.splitlines()[-3:] == [str(tmp_path / "out" / name) for name in names]
    picture = pixels(tmp_path / "out" / "splits.png")
    middle = int(0.45 * picture.shape[1])  # the scale is on the right
    left, right = picture[:, :middle], picture[:, middle:]
    # one scale for both maps: shares of 1 are in the right one only
    assert count(left, FULL) == 0 < count(right, FULL)
    blue = tuple(int(COLORS[0][i : i + 2], 16) for i in (1, 3, 5))
    assert count(left, blue) > 500 and count(right, blue) > 500
    alone = pixels(tmp_path / "out" / "even.png")
    assert count(alone[:, :1300], FULL) > 1000  # its own scale ends at a quarter


def test_test_sets_stand_beside_the_clients(tool, small_config, tmp_path):
    code, out, _ = tool(small_config, "--pixels", "--out", tmp_path)
    assert code == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        "splits.png",
        "small.png",
        "small_pixels.png",
    }
    assert all(str(path) in out for path in tmp_path.iterdir())
    picture = pixels(tmp_path / "small.png")
    rows, columns = np.nonzero((picture == FULL).all(-1)[:, : int(0.93 * picture.shape[1])])
    # the unseen domain is the last of three rows: held by none, all of a test set on the right
    last = rows > rows.min() + np.ptp(rows) * 0.7
    clients = rows < rows.min() + np.ptp(rows) * 0.6
    assert last.any() and columns[last].min() > columns[clients].max()


def test_many_clients_can_be_drawn(tool, tmp_path):
    ends = np.cumsum(np.random.default_rng(0).integers(5, 300, 1262))
    held = {str(k): list(range(k and int(ends[k - 1]), int(e))) for k, e in enumerate(ends)}
    path = tmp_path / "users.json"
    path.write_text(json.dumps(held))
    code, out, _ = tool(path, "--out", tmp_path / "out")
    assert code == 0 and "1,262" in out
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["splits.png"]


def test_errors_are_one_line(tool, split_files, tmp_path):
    (tmp_path / "file").write_text("")
    one = split_files / "even.json"
    for arguments, field in (
        ((tmp_path / "none.py",), "none.py"),
        ((tmp_path / "none.json",), "none.json"),
        ((one, "--pixels"), "--pixels"),
        ((one, "--cfg-options", "a=1"), "--cfg-options"),
        ((one, "--out", tmp_path / "file" / "x"), str(tmp_path / "file")),
    ):
        code, _, err = tool(*arguments)
        assert code == 2 and field in err, err
        assert err.startswith("error: ") and len(err.splitlines()) == 1
