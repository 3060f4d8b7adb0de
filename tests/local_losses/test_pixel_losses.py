"""What FedSeg, ClassWeights and SelfTraining have in common: algorithms, no labels, resuming."""

import numpy as np
import pytest
import torch
import toyseg
from algorithm_table import ENTRIES, PIXEL_LOSSES
from pixel_runs import ERASED, IGNORED, changed
from toyalgorithms import train_stopped


@pytest.mark.parametrize("name", PIXEL_LOSSES)
def test_resumed_bit_for_bit(small_config, tmp_path, name):
    """With SAM, SWA and SiloBN, stopped within a client."""
    train = {"max_rounds": 3, "local_epochs": 2}  # a client has three images: one batch of two
    options = {"local_loss": {"type": name, **PIXEL_LOSSES[name]}, "train_cfg": train}
    whole, stopped = (changed(small_config, tmp_path / f, **options) for f in ("one", "two"))
    toyseg.train(whole)
    assert min(train_stopped(stopped, 7)) > 0
    assert toyseg.run_differences(whole, stopped) == []


@pytest.mark.parametrize("name", PIXEL_LOSSES)
@pytest.mark.parametrize("empty", [ERASED, IGNORED])
def test_batches_without_a_label(small_config, tmp_path, monkeypatch, name, empty):
    """Whether the labels are erased or void: the updates are finite, and so is the loss."""
    monkeypatch.setattr("fedseg.datasets.segmentation.ERASED", empty)
    config = changed(
        small_config,
        tmp_path,
        local_loss={"type": name, **PIXEL_LOSSES[name]},
        train_dataloader={
            "partition": {"_delete_": True, "type": "NaturalPartition", "unlabelled": True}
        },
    )
    toyseg.train(config)
    for line in toyseg.history(config):
        assert line["rejected"] == [] and np.isfinite(line["loss"])


@pytest.mark.filterwarnings("ignore:partition", "ignore:algorithm")
@pytest.mark.parametrize("algorithm", ["SCAFFOLD", "FedGloSS", "FedSMOO", "MIME", "MIMELite"])
def test_with_other_algorithms(small_config, tmp_path, algorithm):
    sgd = {"_delete_": True, "type": "OptimWrapper", "optimizer": {"type": "SGD", "lr": 0.05}}
    for name, options in PIXEL_LOSSES.items():
        config = changed(
            small_config,
            tmp_path / name,
            local_loss={"type": name, **options},
            algorithm={"type": algorithm, **ENTRIES[algorithm].options},
            optim_wrapper=sgd,
            train_cfg={"amp": algorithm == "MIMELite"},
        )
        assert torch.isfinite(toyseg.train(config).server.w).all()
        assert all(line["rejected"] == [] for line in toyseg.history(config))
