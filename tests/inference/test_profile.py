"""Costs of a network against closed forms, and the bytes of a round against a run's own."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

import fedseg
from fedseg.commands import main as command
from fedseg.errors import ConfigError
from fedseg.inference.profile import _measure


def test_costs_are_those_of_closed_forms(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["profile", "demo_shapes", "--batch-size", "3", "--device", "cpu", "--json"]
    monkeypatch.setattr("sys.argv", ["fedseg", *words])
    command.main()
    found = json.loads(capsys.readouterr().out)
    conv = 64 * 75 * 28**2 + 64 * 1600 * 10**2
    dense = 1600 * 384 + 384 * 192 + 192 * 10
    assert found["flops"] == 2 * (conv + dense) and found["parameters"] == 797_962
    assert sum(part["flops"] for part in found["parts"].values()) == found["flops"]
    assert found["parts"]["conv1"] == {"parameters": 64 * 76, "flops": 2 * 64 * 75 * 28**2}
    assert found["size"] == [32, 32] and found["bytes per round"] is None
    assert found["images per second"] == pytest.approx(3 / found["seconds per batch"])
    adapted = fedseg.profile("demo_shapes", ["lora"], device="cpu")  # the weights are frozen
    every = sum(part["parameters"] for part in adapted["parts"].values())
    assert adapted["parameters"] == every == 797_962 + adapted["trainable"] - 192 * 10 - 10
    assert adapted["bytes of the model"] == 4 * every
    found = fedseg.profile("shakespeare", device="cpu")  # 80 steps of two LSTM layers
    assert found["flops"] == 2 * (80 * 4 * 256 * (8 + 256 + 256 + 256) + 256 * 80)
    with pytest.raises(ConfigError, match="size: 16x16"):
        fedseg.profile("demo_shapes", size=(16, 16), device="cpu")


class OnSecondGPU:
    """What the measurement asks of a batch of images there."""

    is_cuda, device = True, torch.device("cuda", 1)


def test_memory_is_that_of_the_given_gpu(monkeypatch):
    entered: list[torch.device] = []

    @contextmanager
    def enter(device: torch.device) -> Iterator[None]:
        entered.append(device)
        yield
        entered.remove(device)

    def bytes_of_entered_gpu() -> int:
        return 100 * entered[-1].index

    monkeypatch.setattr(torch.cuda, "device", enter)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", bytes_of_entered_gpu)
    _, memory = _measure(lambda images, mode: None, OnSecondGPU())
    assert memory == 100


def test_a_cpu_has_no_peak_memory(run_tool):
    code, out, error = run_tool("profile", "demo_shapes", "--device", "cpu")
    assert code == 0, error
    assert "peak memory not measured on a CPU" in out


def test_bytes_of_a_round_are_those_that_are_sent(small_run, small_config):
    counted = fedseg.profile(small_run, trust=["small_network"], size=(36, 64))
    rehearsed = fedseg.profile(small_config)
    for call, given in (("profile", small_run), ("browse", fedseg.load_config(small_config))):
        with pytest.raises(ConfigError, match=f"{call}: methods cannot be added to a run"):
            getattr(fedseg, call)(given, ["swa"])
    run = fedseg.read_run(small_run)
    assert counted["bytes per round"]["up"] == run.history[0]["bytes_up"]
    assert rehearsed["bytes per round"] == counted["bytes per round"]
    assert counted["flops"] == 2 * (8 * 27 + 16 * 8) * 36 * 64  # of the convolutions
