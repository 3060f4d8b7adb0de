"""The benchmark of a segmentation round."""

import shutil

import pytest
from benchmarks import engine
from benchmarks import segmentation as benchmark

from fedseg.runner.experiment import load_config


def test_everything_is_measured(small_config, tmp_path):
    config = load_config(small_config, work_dir=tmp_path / "run")
    measured = benchmark.measure(config, repeats=1, clients=2, local_steps=2)
    assert measured["steps"] == 4
    assert set(measured["seconds per step"]) == {"hand-written loop", "engine, SGD", "engine, SAM"}
    assert measured["engine / hand-written"] > 0 and measured["SAM / SGD"] > 0
    assert 0 <= measured["waiting for data / training"] < 1


def test_memory_of_a_round(small_config, tmp_path):
    config = load_config(small_config, work_dir=tmp_path / "run")
    assert benchmark.peak_of_round(config, clients=2) > 1


def test_memory_of_several_numbers_of_clients(small_config, tmp_path, monkeypatch):
    """Each number's round is a run of its own."""
    monkeypatch.setattr(benchmark, "MEMORY_CLIENTS", (1, 2))
    monkeypatch.setattr(benchmark, "in_own_process", lambda peak, cfg, n: peak(cfg.copy(), n))
    monkeypatch.setattr(benchmark, "measure", lambda config, *sizes: {"steps": 1})
    measured = benchmark.segmentation(tmp_path, small_config)
    assert set(measured["peak memory, MiB"]) == {"1 clients", "2 clients"}


def test_evaluation_and_loading(small_config, tmp_path):
    measured = benchmark.evaluation(tmp_path, small_config, images=2, repeats=1)
    assert set(measured["seconds per image"]) == {"forward", "evaluation", "loading"}
    assert measured["evaluation / forward"] > 0


@pytest.fixture
def rendered(small_config, tmp_path, monkeypatch):
    """A fresh clone's folder; the sizes of the streets that are rendered in it."""
    sizes = []

    def render(root, size):
        sizes.append((str(root), size))
        data = small_config.parent / "data"
        shutil.copytree(data / "IDDAsmall", root / "IDDAsmall")
        shutil.copytree(data / "splits", root / "splits" / "heterogeneous" / "rainy")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(engine, "prepare_demo_streets", render)
    return sizes


def test_an_evaluation_is_measured_on_a_fresh_clone(rendered, tmp_path):
    options = ["model.type=BiSeNetV2Segmentor", "train_dataloader.batch_size=2"]
    measured = benchmark.evaluation(tmp_path, images=1, repeats=1, cfg_options=options)
    assert measured["evaluation / forward"] > 0
    assert rendered == [("data/demo", (464, 256))]


def test_steps_are_measured_on_a_fresh_clone(rendered, tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark, "in_own_process", lambda function, config, clients: 1.0)
    monkeypatch.setattr(benchmark, "measure", lambda config, *sizes: {"steps": 1})
    for _ in range(2):  # the second time they are there
        assert benchmark.segmentation(tmp_path)["steps"] == 1
    assert rendered == [("data/demo", (464, 256))]
