"""tools/prepare_cifar_c.py by its command line."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from fedseg.data_prep.synthetic_shapes import CLASSES, labels_of, render_images
from fedseg.datasets.arrays import write_images

TOOL = Path(__file__).parents[2] / "tools" / "prepare_cifar_c.py"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    labels = labels_of(range(4))
    train, test = (render_images(range(4), split) for split in ("train", "test"))
    write_images(tmp_path, "CIFAR10", CLASSES, (train, labels), (test, labels))
    return tmp_path


def call(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", [str(TOOL), *map(str, arguments)])
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(TOOL), run_name="__main__")
    return left.value.code


def test_makes_then_verifies(root, monkeypatch, capsys):
    arguments = (root, "--corruptions", "fog", "snow", "--workers", 1)
    assert call(monkeypatch, *arguments) == 0
    told = capsys.readouterr().out
    assert "2 made: snow, fog" in told and "5 severities of 4 images" in told
    assert "official files" in told
    assert (root / "corrupted" / "contact_sheet.png").is_file()
    assert call(monkeypatch, *arguments) == 0
    assert "2 made earlier, verified: snow, fog" in capsys.readouterr().out


def test_a_file_of_the_wrong_length_is_told_without_a_traceback(root, monkeypatch, capsys):
    assert call(monkeypatch, root, "--corruptions", "fog", "--workers", 1) == 0
    np.save(root / "corrupted" / "snow.npy", np.zeros((19, 32, 32, 3), np.uint8))
    assert call(monkeypatch, root, "--corruptions", "fog", "snow", "--workers", 1) == 2
    error = capsys.readouterr().err
    assert "snow.npy: " in error and "[19, 32, 32, 3]" in error and "Traceback" not in error


@pytest.mark.parametrize("seed", [-1, 99999999999999999999])
def test_a_seed_out_of_range_is_told_before_anything_is_made(root, monkeypatch, capsys, seed):
    assert call(monkeypatch, root, "--corruptions", "fog", "--workers", 1, "--seed", seed) == 2
    assert f"--seed: must be a whole number >= 0, not {seed}" in capsys.readouterr().err
    assert not (root / "corrupted").exists()


def test_help_and_wrong_names(monkeypatch, capsys):
    assert call(monkeypatch, "--help") == 0
    assert "gaussian_noise" in capsys.readouterr().out
    assert call(monkeypatch, "--corruptions", "haze") == 2
