"""Sub-networks against networks that were cut by hand; what they leave alone; what has none."""

import minibatch
import pytest
import torch
import torch.nn.functional as F
from mmcv.cnn.bricks import wrappers
from recording import record_calls
from torch import nn

from fedseg.batchnorm import batchnorm_layers
from fedseg.errors import ConfigError
from fedseg.models import CNN, MobileNetV2GN, ResNet20GN, ResNet56, Slim

KEPT = [  # multiple, channels, width, kept
    *((1, 64, 1.0, 64), (1, 64, 0.83, 53), (1, 64, 0.8, 51), (1, 64, 0.25, 16), (1, 64, 0.001, 1)),
    *((1, 256, 0.25, 64), (1, 10, 0.25, 3), (1, 3, 0.9, 3)),
    # to the nearest eight, but never under 90 % of the exact number
    *((8, 64, 1.0, 64), (8, 64, 0.8, 48), (8, 64, 0.25, 16), (8, 16, 0.8, 16), (8, 32, 0.8, 24)),
    *((8, 32, 0.9, 32), (8, 24, 0.8, 24), (8, 16, 0.25, 8), (8, 6, 0.5, 6)),
]


@pytest.mark.parametrize(("multiple", "channels", "width", "kept"), KEPT)
def test_kept_channels(multiple, channels, width, kept):
    slim = Slim(nn.Linear(4, 4), multiple=multiple)
    assert slim.kept(channels, width) == kept


def test_groups_stay_and_divide():
    network = nn.Sequential(nn.Conv2d(3, 12, 1), nn.GroupNorm(4, 12), nn.GroupNorm(6, 12))
    slim = Slim(network, multiple=2)
    assert slim.multiple == 12
    assert Slim(network[:2]).kept(64, 0.8) == 52
    x = torch.randn(2, 3, 4, 4)
    with Slim(network[:2]).at(0.6):  # 8 channels in 4 groups of 2
        found = network[:2](x)
    y = F.conv2d(x, network[0].weight[:8], network[0].bias[:8]).reshape(2, 4, -1)
    y = (y - y.mean(2, keepdim=True)) / (y.var(2, unbiased=False, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(found, y.reshape(2, 8, 4, 4))


def cut(network, kept):
    """The weights of a network as a narrower one's: ``kept[channels]`` of every dimension."""
    return {
        name: tensor[tuple(slice(kept.get(size, size)) for size in tensor.shape[:2])]
        for name, tensor in network.state_dict().items()
    }


def test_resnet_is_a_narrower_resnet():
    for groups in (None, 2):
        for bottleneck in (False, True):
            options = {"groups": groups, "bottleneck": bottleneck}
            full = minibatch.scrambled(minibatch.ToyResNet(widths=(8, 16, 32), **options))
            narrow = minibatch.ToyResNet(widths=(4, 8, 16), **options).double().train()
            narrow.load_state_dict(cut(full, {size: size // 2 for size in (8, 16, 32, 64, 128)}))
            images = minibatch.batch()["inputs"]
            with Slim(full, whole=[full.classifier]).at(0.5):
                found = full(images)
            torch.testing.assert_close(found, narrow(images))
            assert found.shape == (minibatch.BATCH, minibatch.CLASSES)


def test_padded_shortcuts_are_narrower():
    full = minibatch.scrambled(ResNet20GN(5))
    images = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    with Slim(full, whole=[full.classifier]).at(0.5), record_calls(full.stages[1]) as calls:
        logits = full(images)
    assert calls[0].input.shape[1] == 8 and calls[0].output.shape[1] == 16
    # the channels that a shortcut adds are the residual path's alone
    block = full.stages[1][0]
    with Slim(full).at(0.5):
        x = torch.randn(2, 8, 8, 8, dtype=torch.float64)
        alone = block.residual(x)
        torch.testing.assert_close(block(x)[:, 8:], alone[:, 8:].relu())
        torch.testing.assert_close(block(x)[:, :8], (alone[:, :8] + x[:, :, ::2, ::2]).relu())
    assert logits.shape == (2, 5)


def test_cnn_by_hand():
    """A linear layer takes the pixels of the first channels, which are the first of its inputs."""
    model = minibatch.scrambled(CNN(10))
    images = torch.randn(2, 3, 32, 32, dtype=torch.float64)
    with Slim(model, whole=[model.classifier]).at(0.8):
        found = model(images)
    x = images
    for layer, inside in ((model.conv1, 3), (model.conv2, 51)):
        x = F.max_pool2d(F.conv2d(x, layer.weight[:51, :inside], layer.bias[:51]), 2).relu()
    pixels = model.fc1.weight.reshape(384, 64, 5, 5)[:307, :51]
    x = torch.einsum("bchw,ochw->bo", x, pixels) + model.fc1.bias[:307]
    x = x.relu() @ model.fc2.weight[:154, :307].T + model.fc2.bias[:154]
    x = x.relu() @ model.classifier.weight[:, :154].T + model.classifier.bias
    torch.testing.assert_close(found, x)


def test_depthwise_convolutions():
    model = minibatch.scrambled(MobileNetV2GN(5))
    block = model.backbone.features[3]  # 24 to 24 channels, 144 inside
    x = torch.randn(2, 16, 6, 6, dtype=torch.float64)
    expand, depthwise, project, norm = block.conv
    with Slim(model, whole=[model.classifier]).at(0.6):
        found = block(x)
        assert model(torch.randn(1, 3, 32, 32, dtype=torch.float64)).shape == (1, 5)

    def normal(x, layer):
        return F.group_norm(x, 8, layer.weight[: x.shape[1]], layer.bias[: x.shape[1]])

    y = F.relu6(normal(F.conv2d(x, expand[0].weight[:88, :16]), expand[1]))
    y = F.conv2d(y, depthwise[0].weight[:88], padding=1, groups=88)
    y = F.relu6(normal(y, depthwise[1]))
    y = normal(F.conv2d(y, project.weight[:16, :88]), norm)
    torch.testing.assert_close(found, x + y)


def test_full_width_is_the_network():
    for model in (ResNet56(5), ResNet20GN(5), CNN(5)):
        model.train()
        images = torch.randn(3, 3, 32, 32)
        with Slim(model, multiple=8, whole=[model.classifier]).at(1.0):
            found = model(images)
        torch.testing.assert_close(found, model(images))


def test_running_statistics_are_left_alone_also_in_eval_mode():
    model = minibatch.scrambled(minibatch.ToyResNet())
    layers = batchnorm_layers(model).values()
    for layer in layers:
        layer.running_mean.normal_()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    images = minibatch.batch()["inputs"]
    with Slim(model, whole=[model.classifier]).at(0.5):
        trained = model.train()(images)
        assert torch.equal(model.eval()(images), trained)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_the_network_is_itself_again():
    model = minibatch.ToyResNet().eval()
    images = minibatch.batch(dtype=torch.float32)["inputs"]
    expected = model(images)
    slim = Slim(model, whole=[model.classifier])
    with pytest.raises(RuntimeError, match="stop"), slim.at(0.5):
        raise RuntimeError("stop")
    assert torch.equal(model(images), expected)
    assert not any("forward" in vars(module) for module in model.modules())


class Standardized(nn.Conv2d):
    """Weight standardization."""

    def forward(self, x):
        mean = self.weight.mean((1, 2, 3), keepdim=True)
        return F.conv2d(x, self.weight - mean, self.bias)


class NormAct(nn.BatchNorm2d):
    """BatchNorm with its activation in it, as timm's."""

    def forward(self, x):
        return super().forward(x).relu()


class Named(nn.Linear):
    """Computes what it inherits."""


def test_a_layer_that_inherits_its_forward_is_one_of_its_kind():
    for layer in (Named(4, 8), wrappers.Linear(4, 8)):
        with Slim(layer).at(0.5):
            assert layer(torch.ones(1, 4)).shape == (1, 4)
    for layer in (wrappers.Conv2d(4, 8, 1), nn.SyncBatchNorm(8)):
        with Slim(layer).at(0.5):
            assert layer(torch.ones(1, 4, 2, 2)).shape == (1, 4, 2, 2)


def test_layers_without_a_sub_network():
    for layer in (
        Standardized(4, 8, 1),
        NormAct(4),
        NormAct(4, affine=False),
        nn.LayerNorm(4),
        nn.Conv2d(4, 8, 1, groups=2),
        nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect"),
        nn.ConvTranspose2d(4, 4, 1),
        nn.PReLU(),
    ):
        with pytest.raises(ConfigError, match=rf"layer 1 \({type(layer).__name__}\)"):
            Slim(nn.Sequential(nn.ReLU(), layer))
