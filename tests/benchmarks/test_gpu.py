"""The script for a GPU, with tiny sizes on the CPU."""

from dataclasses import replace
from itertools import islice

import minibatch  # noqa: F401 (registers PixelNetwork)
import pytest
import torch
from benchmarks import gpu

CPU = torch.device("cpu")
SMALL = {"type": "ResNet20GN", "num_classes": 10}
SMALL_PIXELS = {
    "type": "Segmentor",
    "network": {"type": "PixelNetwork"},
    "num_classes": 3,
    "projection": (4,),
}


@pytest.mark.parametrize("part", ["oracles", "waits", "bits"])
def test_checks_pass_on_the_cpu(monkeypatch, part):
    methods = {name: gpu.METHODS[name] for name in ("FedAvg", "SCAFFOLD", "FedSpeed")}
    monkeypatch.setattr(gpu, "METHODS", methods)
    monkeypatch.setattr(gpu, "LOSSES", {})
    monkeypatch.setattr(gpu, "PIXEL_LOSSES", {})
    function, _ = gpu.PARTS[part]
    rows = list(function(CPU, gpu.tiny()))
    assert rows and all(row["passed"] for row in rows)
    if part != "bits":
        assert {"SCAFFOLD, SAM", "FedSpeed, SGD"} < {row["what"] for row in rows}
        assert "FedSpeed, SAM" not in {row["what"] for row in rows}, "the two exclude each other"


def test_local_losses_are_watched_with_personal_parts(monkeypatch):
    monkeypatch.setattr(gpu, "METHODS", {"FedAvg": {}})
    monkeypatch.setattr(gpu, "OPTIMIZERS", {"SAM": gpu.OPTIMIZERS["SAM"]})
    monkeypatch.setattr(gpu, "LOSSES", {"MOON": {}})
    monkeypatch.setattr(gpu, "PIXEL_LOSSES", {"ClassWeights": {}, "FedSeg": {}})
    monkeypatch.setattr(gpu, "PERSONAL", ["@head"])
    monkeypatch.setattr(gpu, "LOSS_NETWORK", replace(gpu.LOSS_NETWORK, model=SMALL))
    monkeypatch.setattr(gpu, "PIXEL_NETWORK", replace(gpu.PIXEL_NETWORK, model=SMALL_PIXELS))
    rows = list(gpu.waits(CPU, gpu.tiny()))
    assert [row["what"] for row in rows] == [
        "FedAvg, SAM",
        "MOON, @head",
        "ClassWeights, @head",
        "FedSeg, @head",
    ]
    assert all(row["passed"] for row in rows), rows


def test_a_resumed_run_has_the_same_bits():
    rows = list(gpu.resume(CPU, gpu.tiny()))
    assert len(rows) == 2 and all(row["same bits"] for row in rows)


@pytest.mark.parametrize(
    ("part", "column"),
    [
        ("clients", "ms"),
        ("graphs", "eager, ms"),
        ("loaders", "images/s"),
        ("evaluation", "images/s"),
    ],
)
def test_every_row_has_a_figure(part, column):
    function, _ = gpu.PARTS[part]
    rows = list(function(CPU, gpu.tiny()))
    assert len(rows) >= 2 and all(row[column] > 0 for row in rows)


def test_a_step_that_fails_is_a_row_of_its_own(monkeypatch):
    def wait(*_):
        raise RuntimeError("called a synchronizing CUDA operation\nand more")

    monkeypatch.setattr(gpu, "METHODS", {"FedAvg": {}})
    monkeypatch.setattr(gpu.ClientTrainer, "local_step", wait)
    row = next(gpu.waits(CPU, gpu.tiny()))
    assert not row["passed"] and row["problem"] == "called a synchronizing CUDA operation"


def test_steps_of_engine_and_loop_are_timed():
    rows = list(islice(gpu.steps(CPU, gpu.tiny()), 4))
    layouts = {row["what"] for row in rows}
    assert "CNN, bfloat16, contiguous, eager" in layouts and len(layouts) == 4
    assert all(row[f"{side}, ms"] > 0 for row in rows for side in ("engine", "loop", "loss"))


def test_the_limits_of_all_parts_are_twelve_minutes():
    assert sum(limit for _, limit in gpu.PARTS.values()) <= 12 * 60


def test_a_part_runs_in_a_process_until_its_time_is_up(monkeypatch):
    part = gpu.measure_part("bits", "cpu", gpu.tiny())
    assert part["end"] == "complete" and len(part["rows"]) == 2
    table = gpu.to_table("bits", part)
    assert table.title.startswith("bits: complete") and len(table.rows) == 2
    assert table.head == ("what", "passed", "same bits", "problem")
    monkeypatch.setitem(gpu.PARTS, "bits", (gpu.bits, 0))
    assert gpu.measure_part("bits", "cpu", gpu.tiny())["end"] == "time is up"
