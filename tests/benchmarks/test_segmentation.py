"""The benchmark of a segmentation round gives its figures."""

from benchmarks import segmentation as benchmark

from fedseg.runner.experiment import load_config


def test_figures(small_config, tmp_path):
    config = load_config(small_config, work_dir=tmp_path / "run")
    figures = benchmark.segmentation(config, repeats=1, clients=2, local_steps=2)
    assert figures["steps"] == 4
    assert set(figures["seconds a step"]) == {"hand-written loop", "engine, SGD", "engine, SAM"}
    assert figures["engine / hand-written"] > 0 and figures["SAM / SGD"] > 0
    assert 0 <= figures["waiting for data / training"] < 1


def test_memory_of_a_round(small_config, tmp_path):
    config = load_config(small_config, work_dir=tmp_path / "run")
    assert benchmark.peak_of_round(config, clients=2) > 1
