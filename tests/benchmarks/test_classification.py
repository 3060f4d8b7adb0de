"""The benchmark of a classification round: all sides do the same work, everything is measured."""

import pytest
import torch
from benchmarks import classification as benchmark
from benchmarks.engine import build

from fedseg.runner.experiment import load_config
from tests.test_docs import ROOT

CONFIG = ROOT / "configs" / "settings" / "cifar10_a005.py"


def config_of(folder, clients=2, samples=70, options=()):
    options = [f"data_root={folder / 'nowhere'}", *options]
    config = load_config(CONFIG, work_dir=folder / "run", options=options)
    return benchmark.adapt(config, clients, samples, test_images=20)


def test_the_hand_written_loop_ends_where_the_engine_does(tmp_path):
    """Batches of 64 and 6, or of 24, with and without momentum; two rounds of two clients."""
    momentum = "optim_wrapper.optimizer.momentum=0.9", "train_dataloader.batch_size=24"
    for options in ((), momentum):
        runner = build(config_of(tmp_path, options=options))
        sides = benchmark.make_sides(runner, amp=False)
        engine, loop = sides["FedAvg, float32"], sides["hand-written, float32"]
        start = engine.w.clone()
        for number in (1, 2):
            engine()
            loop()
            assert engine.round == loop.round == number
            assert benchmark.largest_difference(engine.weights(), loop.w) < 1e-6
            line = runner.history.read()[-1]
            assert line["round"] == number
            assert line["loss"] == pytest.approx(loop.loss, abs=1e-5)
        assert float((engine.w - start).abs().max()) > 1e-3, "there was something to compare"


def test_engine_rounds_do_not_disturb_one_another(tmp_path):
    """FedAvg's second round is the same with FedSAM's rounds in between."""
    runner = build(config_of(tmp_path, samples=10))
    sides = benchmark.make_sides(runner, amp=False)
    alone = benchmark.make_sides(build(config_of(tmp_path / "b", samples=10)), amp=False)
    for name in ("FedAvg, float32", "FedSAM, float32", "FedSAM, float32", "FedAvg, float32"):
        sides[name]()
    for _ in range(2):
        alone["FedAvg, float32"]()
    assert torch.equal(sides["FedAvg, float32"].w, alone["FedAvg, float32"].w)
    assert not torch.equal(sides["FedAvg, float32"].w, sides["FedSAM, float32"].w)


def test_everything_is_measured(tmp_path):
    for amp, precisions in ((False, {"float32"}), (True, {"float32", "bfloat16"})):
        config = config_of(tmp_path, clients=1, samples=6)
        measured = benchmark.measure(config, repeats=1, amp=amp)
        sides = {f"{s}, {p}" for s in ("hand-written", "FedAvg", "FedSAM") for p in precisions}
        assert set(measured["seconds per round"]) == sides
        for name in (
            "engine / hand-written",
            "FedSAM / FedAvg",
            "seconds per evaluation of 20 images",
        ):
            assert set(measured[name]) == precisions
            assert all(value > 0 for value in measured[name].values())
        shares = measured["outside of clients' training / round"]
        assert len(shares) == 2 * len(precisions) and all(0 < s < 1 for s in shares.values())
        assert measured["steps per round"] == 1 and measured["clients per round"] == 1


def test_sides_that_do_other_work_are_not_timed(tmp_path):
    runner = build(config_of(tmp_path, samples=10))
    sides = benchmark.make_sides(runner, amp=False)
    sides["hand-written, float32"].sgd.param_groups[0]["lr"] = 0.3
    with pytest.raises(RuntimeError, match="float32"):
        benchmark.check_first_round(sides, "float32")


def test_prepared_images_are_used_where_they_are(tmp_path):
    benchmark.write_noise(tmp_path / "data", train=200, test=20)
    config = load_config(
        CONFIG, work_dir=tmp_path / "run", options=[f"data_root={tmp_path / 'data'}"]
    )
    config = benchmark.adapt(config, clients=3, samples=9, test_images=9)
    assert config.data_root == str(tmp_path / "data")
    assert config.train_dataloader.partition.type == "DirichletPartition"
    assert list(config.val_dataloader) == ["test"], "corrupted images are for the end of a run"
