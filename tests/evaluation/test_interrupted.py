"""What an evaluation leaves behind where an error or Ctrl-C ends it: a run as it was before."""

import pytest
import toyseg

from fedseg.batchnorm import batchnorm_layers
from fedseg.evaluation.clients import fine_tune
from fedseg.evaluation.statistics import statistics_batches, statistics_of


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    """A trained run."""
    config = toyseg.settings(
        tmp_path_factory.mktemp("run"),
        averaging=None,
        train_cfg={"max_rounds": 2, "val_interval": 2},
    )
    return toyseg.train(config)


class Stopper:
    """Ends an evaluation before its second batch."""

    def __init__(self) -> None:
        self.batches = 0

    def check(self) -> None:
        self.batches += 1
        if self.batches == 2:
            raise KeyboardInterrupt


def test_estimated_statistics(runner):
    layers = batchnorm_layers(runner.model).values()
    assert len(layers) > 0
    before = [layer.momentum for layer in layers]
    runner.model.eval()
    batches, server = list(statistics_batches(runner.data)), runner.server
    with pytest.raises(KeyboardInterrupt):
        statistics_of(runner.flat, 2 * batches, server.w, server.buffers, check=Stopper().check)
    assert [layer.momentum for layer in layers] == before
    assert not any(layer.training for layer in layers)


def test_fine_tuning(runner, monkeypatch):
    local, local_loss = runner.trainer.local, runner.trainer.local_loss
    rates = local.rates
    monkeypatch.setattr(runner, "interrupt", Stopper())
    with pytest.raises(KeyboardInterrupt):
        fine_tune(runner, runner.data.clients[0], steps=3, lr=0.7)
    assert [group["lr"] for group in local.optimizer.param_groups] == rates
    assert runner.trainer.local_loss is local_loss
    assert not runner.model.training
