"""tools/benchmark.py as a command."""

import json
from pathlib import Path

import command_line
import pytest

ROOT = Path(__file__).parents[2]


def run(*arguments):
    return command_line.run("benchmark.py", *arguments, cwd=ROOT)


def test_classification(tmp_path):
    out = tmp_path / "figures.json"
    options = ("--clients", 2, "--repeats", 1, "--threads", 1, "--samples", 6, "--test-images", 10)
    nowhere = ("--cfg-options", f"data_root={tmp_path / 'nowhere'}")
    result = run("classification", *options, "--out", out, *nowhere)
    assert result.returncode == 0, result.stderr
    assert "1 threads, float32" in result.stdout
    figures = json.loads(out.read_text())
    assert figures["clients a round"] == 2 and figures["device"] in result.stdout
    assert set(figures["engine / hand-written"]) == {"float32"}
    assert not list(tmp_path.glob("work_dirs")), "nothing is left behind"


def test_algorithms(tmp_path):
    out = tmp_path / "figures.json"
    options = ("--clients", 2, "--repeats", 1, "--threads", 1, "--samples", 6, "--markdown")
    nowhere = ("--cfg-options", f"data_root={tmp_path / 'nowhere'}")
    result = run("algorithms", *options, "--only", "FedCM", "--out", out, *nowhere)
    assert result.returncode == 0, result.stderr
    title, _, *table = result.stdout.splitlines()
    assert title == "CIFAR-10, CNN, 1 threads, float32"
    assert [line.split(" | ")[0] for line in table[2:]] == ["| FedAvg", "| FedCM"]
    assert json.loads(out.read_text())["methods"]["FedCM"]["traffic / FedAvg"] == 1.5


@pytest.mark.parametrize(
    "arguments",
    [("classification", "--repeats", 0), ("segmentation", "--threads", "two")],
)
def test_wrong_numbers(arguments):
    result = run(*arguments)
    assert result.returncode == 2
    assert "must be a positive integer" in result.stderr and "Traceback" not in result.stderr


@pytest.mark.parametrize("what", ["algorithms", "state"])
def test_a_config_that_would_not_be_read_is_refused(what):
    result = run(what, "--config", "configs/demo.py")
    assert result.returncode == 2
    assert f"--config: {what} has experiments of its own" in result.stderr


def test_state(tmp_path):
    out = tmp_path / "figures.json"
    result = run("state", "--clients", 3, "--parameters", 1000, "--vectors", 2, "--out", out)
    assert result.returncode == 0, result.stderr
    assert "states on disk" in result.stdout
    assert json.loads(out.read_text())["state of a client, MiB"] == 8000 / 2**20
