"""Residual networks against torchvision's and against plain functions; their building blocks."""

import minibatch
import pytest
import torch
import torch.nn.functional as F
import torchvision
from torch import nn

from fedseg.models import ResNet18GN, ResNet20GN, ResNet56


def scrambled(model):
    torch.manual_seed(0)
    return minibatch.scrambled(model)


def test_resnet18_is_torchvision_s():
    model = scrambled(ResNet18GN(10))
    other = torchvision.models.resnet18(
        num_classes=10, norm_layer=lambda channels: nn.GroupNorm(2, channels)
    )
    other.conv1, other.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
    weights = model.state_dict().values()
    other.load_state_dict(dict(zip(other.state_dict(), weights, strict=True)))
    images = torch.randn(2, 3, 32, 32, dtype=torch.float64)
    torch.testing.assert_close(model(images), other.double()(images))


def logits_by_hand(state, x, depths, kernels, groups=None):
    """From a state dict, by the drawings of He et al.; ``kernels`` of a block's convolutions."""

    def norm(x, name):
        weight, bias = state[f"{name}.weight"], state[f"{name}.bias"]
        if groups is None:
            return F.batch_norm(x, None, None, weight, bias, training=True)
        return F.group_norm(x, groups, weight, bias)

    x = norm(F.conv2d(x, state["stem.0.weight"], padding=1), "stem.1").relu()
    for stage, depth in enumerate(depths):
        for block in range(depth):
            name = f"stages.{stage}.{block}"
            stride = 2 if stage > 0 and block == 0 else 1
            y = x
            for i, kernel in enumerate(kernels, start=1):
                weight = state[f"{name}.conv{i}.weight"]
                assert weight.shape[2:] == (kernel, kernel)
                # The first 3x3 convolution of a block is the one that moves by two pixels.
                step = stride if kernel == 3 and 3 not in kernels[: i - 1] else 1
                y = norm(F.conv2d(y, weight, stride=step, padding=kernel // 2), f"{name}.bn{i}")
                y = y.relu() if i < len(kernels) else y
            if f"{name}.downsample.0.weight" in state:
                x = F.conv2d(x, state[f"{name}.downsample.0.weight"], stride=stride)
                x = norm(x, f"{name}.downsample.1")
            elif stride == 2:
                x = torch.cat([x[:, :, ::2, ::2], torch.zeros_like(x[:, :, ::2, ::2])], dim=1)
            x = (x + y).relu()
    pixels = x.flatten(2)
    return pixels.mean(2) @ state["classifier.weight"].T + state["classifier.bias"]


def test_resnet20_by_hand():
    for size in ((8, 8), (32, 32), (9, 13)):
        model = scrambled(ResNet20GN(10))
        images = torch.randn(2, 3, *size, dtype=torch.float64)
        expected = logits_by_hand(model.state_dict(), images, (3, 3, 3), (3, 3), groups=2)
        torch.testing.assert_close(model(images), expected)


def test_resnet56_by_hand():
    for groups in (None, 2):
        model = scrambled(ResNet56(100, groups=groups)).train()
        images = torch.randn(2, 3, 16, 16, dtype=torch.float64)
        expected = logits_by_hand(model.state_dict(), images, (6, 6, 6), (1, 3, 1), groups=groups)
        torch.testing.assert_close(model(images), expected)


def test_initialization():
    torch.manual_seed(0)
    model = ResNet18GN(10)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            fan_out = module.weight.shape[0] * module.kernel_size[0] ** 2
            expected = (2 / fan_out) ** 0.5
            assert module.weight.std().item() == pytest.approx(expected, rel=0.05)
        elif isinstance(module, nn.GroupNorm):
            assert (module.weight == 1).all() and (module.bias == 0).all()


# ---------------------------------------------------------------- stochastic depth


def test_probabilities_fall_from_block_to_block():
    """p_l = 1 - l/L (1 - p_L): half a hundredth less with every block of ResNet56."""
    keep = [block.keep for block in ResNet56(10, stochastic_depth=0.9).blocks]
    assert keep == pytest.approx([1 - 0.1 * number / 18 for number in range(1, 19)])
    assert [block.keep for block in ResNet56(10).blocks] == [1.0] * 18
    names = ResNet56(10).state_dict().keys()
    assert ResNet56(10, stochastic_depth=0.9).state_dict().keys() == names


@pytest.mark.parametrize("model", [ResNet20GN, ResNet56])
@torch.no_grad()
def test_a_block_is_there_or_not(model):
    """For a whole batch: its output is that of both paths, or of the shortcut alone."""
    network = model(10, stochastic_depth=0.5).train()
    block = network.blocks[-1]
    x = torch.randn(2, next(block.children()).weight.shape[1], 2, 2)
    both, alone = (block.residual(x) + block.shortcut(x)).relu(), block.shortcut(x).relu()
    torch.manual_seed(0)
    there = 0
    for _ in range(400):
        y = block(x)
        assert torch.equal(y, alone) or torch.allclose(y, both, atol=1e-6)
        there += not torch.equal(y, alone)
    assert 150 < there < 250  # five standard deviations


def test_in_evaluation_the_residual_path_is_scaled():
    network = scrambled(ResNet20GN(10, stochastic_depth=0.4)).eval()
    x = torch.randn(2, 64, 4, 4, dtype=torch.float64)
    for number, block in enumerate(network.blocks[6:], start=7):
        y = block.shortcut(x[:, :32]) if number == 7 else x
        y = y + (1 - number / 9 * 0.6) * block.residual(x[:, :32] if number == 7 else x)
        torch.testing.assert_close(block(x[:, :32] if number == 7 else x), y.relu())


def test_a_block_that_is_out_has_no_gradient():
    network = scrambled(ResNet20GN(10, stochastic_depth=1e-9)).train()
    network(torch.randn(2, 3, 8, 8, dtype=torch.float64)).sum().backward()
    last = network.blocks[-1]
    assert all((parameter.grad == 0).all() for parameter in last.parameters())
    assert (network.stem[0].weight.grad != 0).any()
