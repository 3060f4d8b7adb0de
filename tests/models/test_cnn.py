"""The small networks against a computation that shares no layer with them."""

import torch

from fedseg.models import CNN, MNISTCNN


def convolution(x, layer):
    """Sum over the window, offset by offset."""
    size = layer.weight.shape[-1]
    out = x.shape[-1] - size + 1
    y = layer.bias[None, :, None, None].expand(len(x), -1, out, out).clone()
    for i in range(size):
        for j in range(size):
            window = x[:, :, i : i + out, j : j + out]
            y += torch.einsum("bchw,oc->bohw", window, layer.weight[:, :, i, j])
    return y


def relu(x):
    return torch.where(x > 0, x, torch.zeros_like(x))


def pooled(x):
    """The largest of every 2x2 square."""
    corners = [x[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1)]
    return torch.stack(corners).amax(0)


def reference(model, x):
    x = pooled(relu(convolution(x, model.conv1)))
    x = pooled(relu(convolution(x, model.conv2)))
    x = x.reshape(len(x), -1)  # channel, row, column
    for layer in (model.fc1, getattr(model, "fc2", None)):
        if layer is not None:
            x = relu(x @ layer.weight.T + layer.bias)
    return x @ model.classifier.weight.T + model.classifier.bias


def test_logits_and_gradients():
    for model_class, shape in ((CNN, (3, 32, 32)), (MNISTCNN, (1, 28, 28))):
        for memory_format in (torch.contiguous_format, torch.channels_last):
            torch.manual_seed(0)
            model = model_class(10).double()
            images = torch.randn(3, *shape, dtype=torch.float64)
            expected = reference(model, images)
            expected_grads = torch.autograd.grad(expected.square().sum(), list(model.parameters()))
            model = model.to(memory_format=memory_format)
            found = model(images.contiguous(memory_format=memory_format))
            torch.testing.assert_close(found, expected)
            grads = torch.autograd.grad(found.square().sum(), list(model.parameters()))
            torch.testing.assert_close(grads, expected_grads)


def test_initialization_is_pytorch_s():
    """Uniform within 1 / sqrt(fan in), weights and biases."""
    torch.manual_seed(0)
    model = CNN(10)
    model.init_weights()
    for layer in (model.conv1, model.conv2, model.fc1, model.fc2, model.classifier):
        bound = layer.weight[0].numel() ** -0.5
        largest = max(layer.weight.abs().max(), layer.bias.abs().max()).item()
        assert 0.9 * bound < largest <= bound
