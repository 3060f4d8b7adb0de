"""The benchmark of a segmentation round."""

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


def test_evaluation_and_loading(small_config, tmp_path):
    measured = benchmark.evaluation(tmp_path, small_config, images=2, repeats=1)
    assert set(measured["seconds per image"]) == {"forward", "evaluation", "decoded", "cached"}
    assert measured["evaluation / forward"] > 0 and measured["cached / decoded"] > 0
    assert len(list((tmp_path / "cache").iterdir())) == 2
