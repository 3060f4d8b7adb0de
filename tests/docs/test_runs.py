"""The runs in docs/runs: on the board with the figures that the page says, and their commands."""

import csv
import json
import lzma
import re
import runpy
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mmengine.config import Config

from fedseg.leaderboard.reference import read_json
from fedseg.loaders.partitioned import PartitionedData
from fedseg.partition.natural import divide
from fedseg.runner.experiment import load_config
from fedseg.runs.run_files import read_run

DOCS = Path(__file__).resolve().parents[2] / "docs"
README = DOCS.parent / "README.md"
TABLE_ROW = re.compile(r"^\| ([^|]+) \|[^|]+\| ([\d.]+) \| `([^`]+)` \|$", re.M)
# what a command may change without changing the figure: when to evaluate and to save, and from
# which round on WIMA keeps models of its window
WITHOUT_EFFECT = (
    "train_cfg.val_interval",
    "default_hooks.checkpoint.keep_every",
    "averaging.start",
    "executor.type",
    "default_scope",  # of earlier versions
)


def test_runs_in_published_length_are_comparable_and_as_told(run_tool, tmp_path):
    code, _, err = run_tool("leaderboard", DOCS / "runs", "--out", tmp_path)
    assert code == 0, err
    rows = list(csv.DictReader((tmp_path / "leaderboard.csv").open(encoding="utf-8")))
    ranked = {
        row["experiment"]: float(row["value"])
        for row in rows
        if row["rank"] and row["experiment"] and row["column"] == "test"
    }
    own = list(csv.DictReader((tmp_path / "your_runs.csv").open(encoding="utf-8")))
    assert own and not any(row["reasons"] for row in own)
    folders = [file.parent for file in (DOCS / "runs").glob("*/seed*/results.json")]
    assert ranked.keys() == {folder.parent.name for folder in folders}
    page = (DOCS / "results.md").read_text(encoding="utf-8")
    for folder in folders:
        copy = shutil.copytree(folder, tmp_path / folder.parent.name)
        for packed in copy.glob("history.jsonl.xz"):
            packed.with_suffix("").write_bytes(lzma.decompress(packed.read_bytes()))
        run = read_run(copy)  # its history must be that of the results
        assert run.history and run.config
        assert f"{ranked[run.results.name]:.2f}" in page


def test_the_rows_that_every_board_has_are_these_runs():
    tool = runpy.run_path(str(DOCS / "site/reproduced_rows.py"))
    assert tool["FILE"].read_text(encoding="utf-8") == tool["text"]()


# ---------------------------------------------------------------- README's table of results


@dataclass
class Images:
    """CIFAR-10's training images as far as a partition sees them: 5,000 of each class in order."""

    split_checksum: str

    @property
    def labels(self) -> np.ndarray:
        return np.arange(len(self)) // 5000

    def __len__(self) -> int:
        return 50_000


@dataclass
class Clients:
    """What the checksum of a partition covers."""

    dataset: Images
    indices: dict[str, np.ndarray]
    held_out: dict[str, np.ndarray]

    def checksum(self) -> str:
        return PartitionedData.checksum(self)


def table_rows() -> list[tuple[str, str, str]]:
    """(method, our figure, arguments of fedseg train) of README's table of results."""
    return TABLE_ROW.findall(README.read_text(encoding="utf-8"))


def arguments_in_shell(command: str) -> list[str]:
    """The arguments with README's variables in their places."""
    definition = re.search(r'^CLIENTS="[^"]*"$', README.read_text(encoding="utf-8"), re.M)
    script = f"{definition[0]}\nprintf '%s\\n' {command}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def composed(command: str) -> Config:
    """The config of ``SETTING [--with METHOD ...] [--seed 0] [--amp] [--cfg-options ...]``."""
    setting, *rest = arguments_in_shell(command)
    given: dict[str, list[str]] = {}
    for argument in rest:
        if argument.startswith("--"):
            values = given.setdefault(argument, [])
        else:
            values.append(argument)
    assert given.keys() <= {"--with", "--seed", "--amp", "--cfg-options"}
    return load_config(
        setting,
        methods=given.get("--with", ()),
        options=given.get("--cfg-options", ()),
        amp="--amp" in given,
    )


def leaves(config: Any, key: str = "") -> dict[str, Any]:
    """``{"train_cfg.max_rounds": 10000}``: every value of a config by its key."""
    if not isinstance(config, dict):
        return {key: json.loads(json.dumps(config))}
    values: dict[str, Any] = {}
    for name, value in config.items():
        values |= leaves(value, f"{key}.{name}" if key else name)
    return values


@pytest.fixture
def clients_unpacked(tmp_path, monkeypatch):
    """The folder that README's ``xz`` leaves, in an empty one."""
    folder = tmp_path / "docs" / "runs" / "clients"
    shutil.copytree(DOCS / "runs" / "clients", folder)
    packed = folder / "cifar10_a005.json.xz"
    packed.with_suffix("").write_bytes(lzma.decompress(packed.read_bytes()))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("method", "ours", "command"), table_rows(), ids=lambda text: text)
@pytest.mark.usefixtures("clients_unpacked")
def test_a_command_of_the_results_table_is_that_of_the_run_beside_it(method, ours, command):
    config = composed(command)
    check_that_it_trains(config, config.experiment_name)
    curves = recorded_results(config.experiment_name)["curves"]
    last_hundred = np.array(curves["rounds"]) > 9900
    assert f"{np.array(curves['figures']['test/accuracy'])[last_hundred].mean():.1f}" == ours


@pytest.mark.usefixtures("clients_unpacked")
def test_the_commands_of_the_rows_on_every_board_are_those_of_their_runs():
    rows = read_json("reproduced.json")["rows"]
    commands = {row["name"]: row["command"] for row in rows if row["name"].startswith("cifar10_")}
    assert len(commands) == 7
    for name, command in commands.items():
        check_that_it_trains(composed(command.removeprefix("fedseg train ")), name)


def recorded_results(name: str) -> dict[str, Any]:
    """The ``results.json`` of a run of docs/runs."""
    file = DOCS / "runs" / name / "seed0" / "results.json"
    return json.loads(file.read_text(encoding="utf-8"))


def check_that_it_trains(config: Config, name: str) -> None:
    """Assert that a config trains a run of docs/runs: the same values, on the same clients."""
    file = DOCS / "runs" / name / "seed0" / "config.json"
    wanted = leaves(config.to_dict())
    recorded = leaves(json.loads(file.read_text(encoding="utf-8")))
    different = {key for key in wanted | recorded if wanted.get(key) != recorded.get(key)}
    different -= {"work_dir", "dtype", *WITHOUT_EFFECT}
    assert {key for key in different if not key.startswith("train_dataloader.partition.")} == set()

    train = recorded_results(name)["data"]["train"]
    images = Images(train["split_checksum"])
    clients = Clients(images, *divide(config.train_dataloader.partition, images))
    assert clients.checksum() == train["partition_sha256"]


def test_the_results_table_has_every_run_on_cifar10():
    names = {composed(command).experiment_name for _, _, command in table_rows()}
    assert names == {folder.name for folder in (DOCS / "runs").glob("cifar10_*")}
    (fedgloss,) = (method for method, _, _ in table_rows() if method.startswith("FedGloSS"))
    assert "not the paper's rule" in fedgloss
