"""Commands in a folder of somebody else's: no module in it is executed, by none of their processes.

A helper process that starts with ``python -c`` has the current folder first on its path.
"""

import os
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import command_line
import numpy as np
import pytest

from fedseg.datasets.arrays import write_images

SHADOWED = (
    *("multiprocessing", "json", "os", "re", "ast", "abc", "socket", "signal", "pickle", "struct"),
    *("random", "logging", "threading", "tempfile", "pathlib", "typing", "inspect", "dataclasses"),
    *("encodings", "zipfile", "numpy", "torch", "torchvision", "cv2", "PIL", "mmengine", "mmcv"),
    *("mmseg", "albumentations", "timm", "ray", "rich"),
    *("pandas", "seaborn", "tabulate", "matplotlib", "plotly"),
    *("fedseg", "data_prep", "sitecustomize", "usercustomize", "toyseg"),
)
MODULE = """\
with open({!r}, "a") as file:
    file.write(__name__ + "\\n")
"""
DATA = """--cfg-options data_root={data} train_dataloader.dataset.type=StoredImages
    train_dataloader.partition.num_clients=4 client_sampler.clients_per_round=2
    val_dataloader.test.dataset.type=StoredImages test_dataloader.test.dataset.type=StoredImages
    train_cfg.max_rounds=1"""
TRAIN = f"train demo_shapes --quiet {DATA}"
COMMANDS = [
    "test run",
    "landscape random run --points 3 --samples 20",
    "compare run run",
    "leaderboard run",
    "leaderboard verify run",
    f"splits demo_shapes {DATA}",
    f"sweep demo_shapes --seeds 1 --work-dir sweep {DATA}",
    "list demo_shapes",
    "show demo_shapes",
]


@pytest.fixture(scope="module")
def call(tmp_path_factory):
    """Run commands in the folder; fails if one fails, or if a module of the folder is executed."""
    data, folder = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("foreign")
    images = np.random.default_rng(0).integers(0, 256, (2, 80, 32, 32, 3), dtype=np.uint8)
    train, test = ((part, np.arange(80) % 10) for part in images)
    write_images(data, "Noise", [f"class {i}" for i in range(10)], train, test, synthetic=True)
    executed, elsewhere = folder / "executed.txt", tmp_path_factory.mktemp("bin")
    several = shutil.copy(Path(command_line.__file__).with_name("several_commands.py"), elsewhere)
    for name in SHADOWED:
        (folder / f"{name}.py").write_text(MODULE.format(str(executed)))
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
    options = {"cwd": folder, "capture_output": True, "text": True}

    def call(*lines: str) -> None:
        lines = [" ".join(line.format(data=data).split()) for line in lines]
        command = [Path(sys.executable).with_name("fedseg"), *shlex.split(lines[0])]
        if len(lines) > 1:
            (elsewhere / "lines").write_text("\n".join(lines))
            command = [sys.executable, several, elsewhere / "lines", executed]
        done = subprocess.run(command, env=environment, **options)
        assert done.returncode == 0 and not executed.exists(), done.stderr

    return call


def test_no_module_of_the_current_folder_is_executed(call):
    """Training, with workers of Ray, as the installed program, then the others in one process."""
    workers = "" if find_spec("ray") is None else "--workers 2"
    call(f"{TRAIN} --work-dir run {workers}")
    call(*COMMANDS)
