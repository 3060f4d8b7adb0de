"""The figures that docs/results.md gives for the demos are what a seed of them gives.

``make figures`` trains the demos for it, which takes some five minutes of a core.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fedseg.commands.demo import METHODS, SETTING
from fedseg.data_prep.idda import prepare_demo_streets
from fedseg.runs.schema import FILE_NAME, Results, read_results

pytestmark = pytest.mark.figures

PAGE = (Path(__file__).parents[2] / "docs" / "results.md").read_text(encoding="utf-8")
DEMOS = PAGE[
    PAGE.index("## Synthetic streets: the demo") : PAGE.index("## Synthetic streets: the w")
]


def documented(row: str) -> list[tuple[float, float]]:
    """(mean, standard deviation) of each such cell of a table's row."""
    (line,) = re.findall(rf"^\| {re.escape(row)} \|.*$", DEMOS, re.M)
    return [(float(m), float(s)) for m, s in re.findall(r"([\d.]+) ± ([\d.]+)", line)]


def trained(folder: Path, *words: str) -> Results:
    """A run of seed 0, in a process of its own with one thread, as the demo starts it."""
    command = [sys.executable, "-m", "fedseg", "train", *words, "--quiet", "--work-dir", "run"]
    subprocess.run(command, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True)
    return read_results(folder / "run" / FILE_NAME)


@pytest.fixture(scope="module")
def streets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streets")
    prepare_demo_streets(folder / "data" / "demo_weather")
    return folder


@pytest.mark.parametrize(("number", "row"), [(0, "FedAvg"), (1, "FedASAM + SWA + SiloBN")])
def test_the_streets(number, row, streets, tmp_path):
    (tmp_path / "data").symlink_to(streets / "data")
    setting, methods = SETTING, METHODS
    results = trained(tmp_path, setting, "--with", *methods[number])
    means = results.last_rounds.mean
    figures = [means["seen/mIoU"], means["unseen/mIoU"]]
    for value, (mean, deviation) in zip(figures, documented(row), strict=True):
        assert abs(value - mean) < 4 * deviation
    start = results.curves.figures["seen/mIoU"][0]
    assert means["seen/mIoU"] > start + 8
    rare = [results.final["seen"]["IoU"][n] for n in ("pole", "traffic light", "traffic sign")]
    assert min(rare) > 0


def test_the_images(tmp_path):
    shapes = [sys.executable, "-m", "fedseg", "prepare", "cifar", "--synthetic"]
    subprocess.run(shapes, cwd=tmp_path, check=True)
    without = ("val_dataloader.corrupted=None", "test_dataloader.corrupted=None")
    results = trained(tmp_path, "demo_images", "--cfg-options", *without)
    ((mean, deviation),) = documented("synthetic shapes, 50 clients")
    assert abs(results.final["test"]["accuracy"] - mean) < 4 * deviation
