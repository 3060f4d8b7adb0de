"""Commands in a folder of somebody else's: no module in it is executed, by none of their processes.

A helper process that starts with ``python -c`` has the current folder first on its path.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from fedseg.datasets.arrays import write_images

SHADOWED = (
    *("multiprocessing", "json", "os", "re", "ast", "abc", "socket", "signal", "pickle", "struct"),
    *("random", "logging", "threading", "tempfile", "pathlib", "typing", "inspect", "dataclasses"),
    *("encodings", "zipfile", "numpy", "torch", "torchvision", "cv2", "PIL", "mmengine", "mmcv"),
    *("mmseg", "albumentations", "timm", "ray", "rich", "pandas", "matplotlib", "plotly"),
    *("fedseg", "data_prep", "sitecustomize", "usercustomize", "toyseg"),
)
MODULE = "import os\nwith open({!r}, 'a') as file:\n    file.write(f'{{__name__}}, {{os.getpid()}}\\n')\n"
SMALL = (
    *("train_cfg.max_rounds=1", "client_sampler.clients_per_round=2", "train_dataloader.partition.num_clients=4"),
    "train_dataloader.dataset.type=StoredImages",
    *(f"{kind}_dataloader.test.dataset.type=StoredImages" for kind in ("val", "test")),
)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    images = np.random.default_rng(0).integers(0, 256, (2, 80, 32, 32, 3), dtype=np.uint8)
    train, test = ((part, np.arange(80) % 10) for part in images)
    write_images(root, "Noise", [f"class {i}" for i in range(10)], train, test, synthetic=True)
    return root


@pytest.fixture(scope="module")
def call(tmp_path_factory, data):
    """Run a command in the folder; fails if it fails, or if a module of the folder is executed."""
    folder = tmp_path_factory.mktemp("foreign")
    marks = folder / "executed.txt"
    for name in SHADOWED:
        (folder / f"{name}.py").write_text(MODULE.format(str(marks)))
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
    environment["OMP_NUM_THREADS"] = "1"

    def call(*words: str) -> None:
        program = Path(sys.executable).with_name("fedseg")
        done = subprocess.run([program, *words], cwd=folder, env=environment, capture_output=True)
        executed = marks.read_text() if marks.exists() else ""
        marks.unlink(missing_ok=True)
        assert executed == "" and done.returncode == 0, executed + done.stderr.decode()

    return call


def train(data: Path, run: str, *options: str) -> tuple[str, ...]:
    settings = ("--cfg-options", f"data_root={data}", *SMALL)
    return ("train", "demo_shapes", "--work-dir", run, "--quiet", *options, *settings)


@pytest.fixture(scope="module")
def run(call, data):
    call(*train(data, "run"))
    return "run"


COMMANDS = {
    "test": ("test", "{run}"),
    "curvature": ("curvature", "{run}", "--samples", "20"),
    "landscape": ("landscape", "random", "{run}", "--points", "3", "--samples", "20", "--jobs", "2"),
    "compare": ("compare", "{run}", "{run}"),
    "leaderboard": ("leaderboard", "{run}"),
    "verify": ("leaderboard", "verify", "{run}"),
    "splits": ("splits", "demo_shapes", "--cfg-options", "data_root={data}", *SMALL),
    "prepare": ("prepare", "cifar-c", "{data}", "--corruptions", "fog", "--limit", "20", "--workers", "2"),
    "sweep": ("sweep", "demo_shapes", "--seeds", "1", "--work-dir", "sweep", "--cfg-options", "data_root={data}", *SMALL),
    "list": ("list", "demo_shapes"),
    "show": ("show", "demo_shapes"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_module_of_the_current_folder_is_executed(call, run, data, name):
    call(*(word.format(run=run, data=data) for word in COMMANDS[name]))


@pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray")
def test_nor_by_workers_of_ray(call, data):
    call(*train(data, "parallel", "--workers", "2"))
    call("landscape", "random", "parallel", "--points", "3", "--samples", "20", "--jobs", "2")
