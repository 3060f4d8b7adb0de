"""What tests share: one thread, and a finished run on a data set that trains in a second."""

import functools
import gc
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported; for what tests start, too

import cv2
import numpy as np
import pytest
import torch
from named_options import unknown_options

import fedseg.mmengine_optim  # noqa: F401 (before helpers import MMEngine's models)
from fedseg.commands import main as command
from fedseg.config import compose
from fedseg.files import sha256
from fedseg.partition.split_files import Split, write_split
from fedseg.runs.schema import own_digest

# of a small run, waiting for the disk takes a third, and no test cuts the power
os.fsync = lambda descriptor: None
metadata.version = functools.cache(metadata.version)  # each run records what is installed

# Raw IDDA ids of sky, building, road and nothing, each in one color: quick to learn.
SCENE = {20: (90, 140, 200), 1: (120, 70, 60), 7: (90, 90, 100), 0: (20, 20, 20)}
SEEN, UNSEEN = ("T01_CN_A", "T02_CS_A"), ("T03_HRN_A",)

NETWORK = """
from torch import nn

from fedseg.registry import MODELS


@MODELS.register_module(force=True)
class SmallNetwork(nn.Sequential):
    def __init__(self, num_classes, width=8):
        super().__init__(
            nn.Conv2d(3, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, num_classes, 1),
        )
        self.feature_channels = width

    def forward(self, images):
        convolution, norm, relu, classifier = self
        features = relu(norm(convolution(images)))
        return {"out": classifier(features), "features": features}
"""

CONFIG = """
custom_imports = dict(imports=["small_network"], allow_failed_imports=False)
model = dict(
    type="Segmentor",
    network=dict(type="SmallNetwork"),
    num_classes=16,
    loss=dict(type="OHEMCrossEntropy", ratio=0.25),
)
__data = dict(type="IDDADataset", data_root={root!r})
__test = dict(
    split="splits/test",
    test_mode=True,
    pipeline=[dict(type="ResizeLabel", size=(72, 128))],
    **__data,
)
train_dataloader = dict(
    batch_size=2,
    num_workers=0,
    dataset=dict(split="splits/train", pipeline=[dict(type="HorizontalFlip", p=0.5)], **__data),
    partition=dict(type="NaturalPartition", key="users"),
)
val_dataloader = dict(
    unseen=dict(batch_size=4, dataset=dict(users="test_user_diff_domain", **__test)),
    seen=dict(batch_size=4, dataset=dict(users="test_user_same_domain", **__test)),
)
val_evaluator = dict(type="IoUMetric")
client_sampler = dict(type="UniformSampler", clients_per_round=2)
optim_wrapper = dict(type="ASAMOptimWrapper", rho=0.1, eta=0.1, optimizer=dict(type="SGD", lr=0.2))
averaging = dict(type="SWA", start=0.5, cycle=2, lr2=0.05)
personal = ["@batchnorm.statistics"]
train_cfg = dict(max_rounds=6, val_interval=2, val_last_rounds=4, val_last_interval=2)
default_hooks = dict(pictures=dict(type="PicturesHook", images=0))  # a second for each image
visualizer = dict(vis_backends=[])
"""


def street(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Sky, a building, road, the hood (ignored): RGB uint8 [36, 64, 3] and raw ids [36, 64]."""
    rng = np.random.default_rng(seed)
    ids = np.full((36, 64), 20, np.uint8)
    left = int(rng.integers(5, 30))
    ids[8:22, left : left + 25] = 1
    ids[22:] = 7
    ids[33:] = 0
    image = np.zeros((36, 64, 3), np.uint8)
    for raw, color in SCENE.items():
        image[ids == raw] = color
    return image + rng.integers(0, 12, image.shape, dtype=np.uint8), ids


def write_streets(root: Path) -> None:
    """An IDDA root with two training clients, four seen and five unseen test images."""
    train, test = {}, {"test_user_diff_domain": [], "test_user_same_domain": []}
    for number, domain in enumerate((*SEEN, *UNSEEN)):
        for i in range(6 if domain in SEEN else 5):
            pair = (f"{domain}/RGB/{i}_{domain}.jpg", f"{domain}/Semantic/{i}_{domain}.png")
            image, ids = street(100 * number + i)
            for name, array in zip(pair, (image[..., ::-1], ids), strict=True):
                path = root / "IDDAsmall" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                assert cv2.imwrite(str(path), array)
            if domain in UNSEEN:
                test["test_user_diff_domain"].append(pair)
            elif i >= 4:
                test["test_user_same_domain"].append(pair)
            else:
                train.setdefault(domain, []).append(pair)
    write_split(root / "splits" / "train", Split(train))
    write_split(root / "splits" / "test", Split(test))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what .ci/run could not install, above the list of skipped tests."""
    for line in os.environ.get("FEDSEG_LEFT_OUT", "").splitlines():
        terminalreporter.write_line(f"LEFT OUT {line}")


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """The problems are tiny: threads would only wait for one another."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def small_config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A config with its network and data: FedASAM, SWA and SiloBN for six rounds."""
    folder = tmp_path_factory.mktemp("small")
    write_streets(folder / "data")
    (folder / "small_network.py").write_text(NETWORK)
    path = folder / "small.py"
    path.write_text(CONFIG.format(root=str(folder / "data")))
    return path


@pytest.fixture(scope="session")
def small_run(small_config: Path) -> Path:
    from fedseg.runner.experiment import load_config, train

    work_dir = small_config.parent / "run"
    train(load_config(small_config, work_dir=work_dir))
    return work_dir


@pytest.fixture
def run_copy(small_run: Path, tmp_path: Path) -> Path:
    """A copy of that run without tests, to be changed."""
    ignored = shutil.ignore_patterns("test")
    return Path(shutil.copytree(small_run, tmp_path / "run", ignore=ignored))


@pytest.fixture
def wide_run(run_copy: Path) -> Path:
    """The copy as if two evaluations were reported, those of its last four rounds."""
    path = run_copy / "config.json"
    config = json.loads(path.read_text())
    config["train_cfg"]["val_last_rounds"] = 4
    path.write_text(json.dumps(config))
    results = json.loads((run_copy / "results.json").read_text())
    results["config_json_sha256"] = sha256(path)
    results["results_sha256"] = own_digest(results)
    (run_copy / "results.json").write_text(json.dumps(results))
    return run_copy


@pytest.fixture(scope="module")
def configs_read_once() -> Iterator[None]:
    """Config files, which do not change, are read once: thousands of experiments are composed."""
    with pytest.MonkeyPatch.context() as patch:
        names = ("read_file", "inherited_files", "method_files", "read_method", "setting_file")
        for name in names:
            patch.setattr(compose, name, functools.cache(getattr(compose, name)))
        yield


@pytest.fixture(autouse=True)
def collect_garbage() -> Iterator[None]:
    """A dry run's command leaves that to the end of its process, which goes on here."""
    yield
    gc.enable()


@pytest.fixture
def run_tool(monkeypatch, capsys) -> Callable[..., tuple[int, str, str]]:
    """Runs a command in this process: name, arguments -> exit code, standard output and error.

    The options that a message names are some that a command has.
    """
    monkeypatch.delenv("COLUMNS", raising=False)

    def run(name: str, *arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fedseg", name, *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            command.run()
        out, err = capsys.readouterr()
        if stop.value.code:
            verifies = name == "leaderboard" and "verify" in arguments
            assert not unknown_options("leaderboard verify" if verifies else name, err), err
        return stop.value.code, out, err

    return run


@pytest.fixture(autouse=True)
def own_path() -> Iterator[None]:
    """A config's folder, which loading makes importable, is not searched by later tests.

    Their processes would import a config of the name ``copy`` in the place of Python's module.
    """
    before = list(sys.path)
    yield
    sys.path[:] = before
