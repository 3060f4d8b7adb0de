"""The small networks against their drawings: layers in a row, pixels in the order of channels."""

import pytest
import torch
import torch.nn.functional as F

from fedseg.models import CNN, MNISTCNN


def logits_by_hand(model, x):
    for layer in (model.conv1, model.conv2):
        x = F.max_pool2d(F.conv2d(x, layer.weight, layer.bias).relu(), 2)
    x = x.reshape(len(x), -1)  # channel, row, column
    for layer in (model.fc1, getattr(model, "fc2", None)):
        if layer is not None:
            x = (x @ layer.weight.T + layer.bias).relu()
    return x @ model.classifier.weight.T + model.classifier.bias


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(("cls", "shape"), [(CNN, (3, 32, 32)), (MNISTCNN, (1, 28, 28))])
def test_logits(cls, shape, memory_format):
    torch.manual_seed(0)
    model = cls(10).double()
    images = torch.randn(3, *shape, dtype=torch.float64)
    expected = logits_by_hand(model, images)
    model = model.to(memory_format=memory_format)
    torch.testing.assert_close(model(images.contiguous(memory_format=memory_format)), expected)


def test_initialization_is_pytorch_s():
    """Uniform within 1 / sqrt(fan in), weights and biases."""
    torch.manual_seed(0)
    model = CNN(10)
    model.init_weights()
    for layer in (model.conv1, model.conv2, model.fc1, model.fc2, model.classifier):
        bound = layer.weight[0].numel() ** -0.5
        largest = max(layer.weight.abs().max(), layer.bias.abs().max()).item()
        assert 0.9 * bound < largest <= bound
