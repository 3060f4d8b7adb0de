"""U-Net against a transcription into plain tensor operations, and its sizes."""

import pytest
import torch
import torch.nn.functional as F

from fedseg.batchnorm import batchnorm_layers
from fedseg.errors import DataError
from fedseg.models import UNetSegmentor
from fedseg.models.losses import CrossEntropy

CLASSES = 3
LOSS = {"type": "CrossEntropy"}
PARAMETERS = {"batch": 1_942_611, "instance": 1_939_667}


def block(x, state, name, norm):
    """Two convolutions with the batch's or the image's own statistics."""
    for conv in (0, 3):
        x = F.conv2d(x, state[f"{name}.{conv}.weight"], padding=1)
        dims = (0, 2, 3) if norm == "batch" else (2, 3)
        mean, var = x.mean(dims, keepdim=True), x.var(dims, keepdim=True, correction=0)
        x = (x - mean) / (var + 1e-5).sqrt()
        if norm == "batch":
            scale, shift = state[f"{name}.{conv + 1}.weight"], state[f"{name}.{conv + 1}.bias"]
            x = x * scale[:, None, None] + shift[:, None, None]
        x = x.relu()
    return x


def transcribed(x, state, norm):
    skips = []
    for stage in range(1, 5):
        skips.append(block(x, state, f"encoder{stage}", norm))
        x = skips[-1].unfold(2, 2, 2).unfold(3, 2, 2).amax((4, 5))
    x = block(x, state, "bottom", norm)
    for stage in range(4, 0, -1):
        weight, bias = state[f"decoder{stage}.up.weight"], state[f"decoder{stage}.up.bias"]
        up = torch.einsum("bchw,cdij->bdhiwj", x, weight).flatten(4, 5).flatten(2, 3)
        joined = torch.cat([skips[stage - 1], up + bias[:, None, None]], 1)
        x = block(joined, state, f"decoder{stage}.conv", norm)
    weight = state["classifier.weight"][:, :, 0, 0]
    return torch.einsum("bchw,dc->bdhw", x, weight) + state["classifier.bias"][:, None, None]


@pytest.mark.parametrize("norm", ["batch", "instance"])
def test_the_network_equals_plain_tensor_operations(norm):
    torch.manual_seed(0)
    model = UNetSegmentor(CLASSES, norm, loss=LOSS).double().train()
    images = torch.randn(2, 3, 32, 48, dtype=torch.float64)
    with torch.no_grad():
        for layer in batchnorm_layers(model).values():
            layer.weight.uniform_(0.5, 1.5)
            layer.bias.normal_()
        expected = transcribed(images, model.network.state_dict(), norm)
        layers = model.layers(images)
    (logits,) = layers["logits"]
    torch.testing.assert_close(logits, expected, rtol=1e-9, atol=1e-9)
    assert layers["pixel_features"].shape == (2, 16, 32, 48)
    labels = torch.randint(0, CLASSES, (2, 32, 48))
    losses = model.losses([logits], labels)
    assert losses["loss_main"] == CrossEntropy()(logits, labels)


@pytest.mark.parametrize("norm", PARAMETERS)
def test_sizes_of_the_network(norm):
    model = UNetSegmentor(CLASSES, norm, loss=LOSS)
    assert sum(p.numel() for p in model.parameters()) == PARAMETERS[norm]
    assert len(batchnorm_layers(model)) == (18 if norm == "batch" else 0)
    assert norm == "batch" or not list(model.network.buffers())


def test_an_image_that_cannot_be_halved_four_times():
    with pytest.raises(DataError, match=r"multiples of 16 for U-Net, not 32 and 40: .*resize"):
        UNetSegmentor(CLASSES)(torch.zeros(1, 3, 32, 40))
