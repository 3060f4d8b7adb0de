"""Passes of a client besides its local steps."""

import pytest
import torch
import toyalgorithms
import toyseg
from algorithm_table import ENTRIES, PIXEL_LOSSES
from minibatch import PixelNetwork

from fedseg.core.hook import FederatedHook
from fedseg.registry import HOOKS

PASSES: list[bool] = []  # of every layer in every forward pass: whether it was under autocast


@HOOKS.register_module()
class RecordAutocast(FederatedHook):
    """Notes for each pass through a convolution whether autocast is on."""

    def bind(self, flat):
        for layer in flat.model.modules():
            if isinstance(layer, torch.nn.Conv2d):
                layer.register_forward_pre_hook(self.note)

    def before_train(self, runner):
        PASSES.clear()

    def note(self, *_):
        PASSES.append(torch.is_autocast_enabled("cpu"))


AMP = {
    "custom_hooks": [{"type": "RecordAutocast"}],
    "train_cfg": {"amp": True, "max_rounds": 2, "local_epochs": 1},
    "client_sampler": toyseg.fixed("ab", "ab"),
}


@pytest.mark.parametrize("name", ["FedAvg", "FedDGGA", "MIME", "FedSpeed", "Ditto"])
def test_passes_of_algorithms_run_under_the_runs_autocast(tmp_path, name):
    algorithm = {"type": name, **ENTRIES[name].options}
    toyalgorithms.run(tmp_path, algorithm, **AMP)
    assert PASSES and all(PASSES)


@pytest.mark.parametrize("name", PIXEL_LOSSES)
def test_passes_of_local_losses_run_under_the_runs_autocast(tmp_path, name):
    network = PixelNetwork(num_classes=3)
    model = {"_delete_": True, "type": "Segmentor", "network": network, "num_classes": None}
    toyalgorithms.run(
        tmp_path,
        {"type": "FedAvg"},
        model={**model, "loss": {"type": "CrossEntropy"}},
        local_loss={"type": name, **PIXEL_LOSSES[name]},
        **AMP,
    )
    assert PASSES and all(PASSES)
