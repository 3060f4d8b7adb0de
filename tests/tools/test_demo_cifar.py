"""The classification demo from its command line, with few rounds, on CIFAR-10-like folders."""

import json
import subprocess
from pathlib import Path

import command_line
import numpy as np
import pytest

from fedseg.datasets.arrays import write_images

ROOT = Path(__file__).parents[2]


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)

    def images(count: int) -> tuple[np.ndarray, np.ndarray]:
        return rng.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8), np.arange(count) % 10

    write_images(tmp_path / "data", "CIFAR10", list("abcdefghij"), images(100), images(20))
    return tmp_path / "data"


def run(*arguments: str) -> subprocess.CompletedProcess:
    return command_line.run("demo_cifar.py", *arguments, cwd=ROOT)


def test_ends_with_accuracies_and_pictures(prepared, tmp_path):
    options = ("--data", str(prepared), "--work-dir", str(tmp_path / "run"), "--rounds", "2")
    done = run(*options)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["completed_rounds"] == 2
    final = results["final"]
    assert final["test"]["accuracy"] is not None
    assert len(final["corrupted"]["corruptions"]) == 19
    assert all(len(values) == 5 for values in final["corrupted"]["corruptions"].values())
    for picture in ("curves", "client_accuracy", "corruptions"):
        assert (tmp_path / "run" / "pictures" / f"{picture}.png").stat().st_size > 0
        assert f"{picture}.png" in done.stdout
    assert "under 19 corruptions" in done.stdout


def test_contradictory_options(tmp_path):
    done = run("--synthetic", "--data", str(tmp_path))
    assert done.returncode == 2
    assert "--synthetic" in done.stderr
    assert "Traceback" not in done.stderr
