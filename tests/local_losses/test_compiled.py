"""A compiled network returns the layers that local losses read: the gradients are the same."""

import minibatch
import pytest
import torch
from mmengine.registry import DefaultScope
from mmseg_network import ENCODER_DECODER

from fedseg.core.local_loss import LocalLoss
from fedseg.local_losses import MOON, FedAlign, GradAug
from fedseg.models import Segmentor

LOSSES = {
    "MOON": MOON(),
    "FedAlign": FedAlign(relative=True),
    "GradAug": GradAug(n=1, width=0.5, resolutions=(8, 7)),
    "plain": LocalLoss(),
}


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_of_images(name):
    """After passes without the loss: nothing that is compiled before may hide a layer."""
    gradients = []
    for compiled in (False, True):
        network = minibatch.scrambled(minibatch.ToyResNet(projection=(6, 5)))
        client = minibatch.local_client(network, LOSSES[name])
        if compiled:
            network.compile(backend="eager")
            client.model_loss()
        client.state["moon_previous"] = client.start + 0.1
        client.w.mul_(0.9)
        torch.manual_seed(5)
        gradients.append(minibatch.gradient(client))
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("kind", ["MMSegmentation", "own"])
def test_features_of_pixels(kind):
    """What comes out of a compiled network is what its decoder had, with a gradient."""
    network = ENCODER_DECODER if kind == "MMSegmentation" else minibatch.PixelNetwork(3)
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope("fedseg"):  # as in a run
        model = Segmentor(network, loss={"type": "CrossEntropy"}, projection=(5,))
    model.eval()  # a head of MMSegmentation drops channels at random in training
    images = torch.randn(2, 3, 8, 8)
    labels = torch.randint(3, (2, 8, 8))
    eager = model(images, labels, mode="layers")
    model.compile(backend="eager")
    model(images, labels, mode="loss")
    compiled = model(images, labels, mode="layers")
    assert set(compiled) == {"loss_main", "logits", "pixel_features"}
    torch.testing.assert_close(compiled["pixel_features"], eager["pixel_features"])
    torch.testing.assert_close(compiled["logits"], eager["logits"])
    first = next(model.network.parameters())
    (expected,) = torch.autograd.grad(eager["pixel_features"].square().mean(), first)
    (found,) = torch.autograd.grad(compiled["pixel_features"].square().mean(), first)
    assert expected.any()
    torch.testing.assert_close(found, expected)
