"""FedAlign's loss against a stage cut by hand and SVDs, its gradient against differences."""

import minibatch
import pytest
import torch
import torch.nn.functional as F
from recording import record_calls

from fedseg.batchnorm import batchnorm_layers
from fedseg.errors import ConfigError
from fedseg.local_losses import FedAlign, LocalLoss
from fedseg.local_losses.fedalign import join_channels, spectral_norm
from fedseg.models import CNN, MobileNetV2GN, ResNet56

NETWORKS = {
    "basic": {"widths": (4, 8, 16)},
    "bottleneck": {"widths": (4, 4, 8), "bottleneck": True},
    "groups": {"widths": (4, 8, 16), "groups": 2},
    "padded": {"widths": (4, 8, 16), "padded": True},
}


# ---------------------------------------------------------------- by hand


def first_quarter(tensor):
    return tensor[: tensor.shape[0] // 4]


def normalized(x, state, name, groups):
    """By the definition: over a batch and its pixels, or over a group of an image."""
    weight, bias = (first_quarter(state[f"{name}.{kind}"]) for kind in ("weight", "bias"))
    if groups is None:
        variance, mean = torch.var_mean(x, (0, 2, 3), unbiased=False, keepdim=True)
        x = (x - mean) / (variance + 1e-5).sqrt()
    else:
        grouped = x.reshape(len(x), groups, -1)
        variance, mean = torch.var_mean(grouped, 2, unbiased=False, keepdim=True)
        x = ((grouped - mean) / (variance + 1e-5).sqrt()).reshape(x.shape)
    return x * weight[:, None, None] + bias[:, None, None]


def quarter_stage(state, x, bottleneck, groups, padded):
    """The last stage, two blocks, from the first quarter of every weight's rows and columns."""
    kernels = (1, 3, 1) if bottleneck else (3, 3)
    for block in range(2):
        name, y = f"stages.2.{block}", x
        for i, kernel in enumerate(kernels, start=1):
            weight = first_quarter(state[f"{name}.conv{i}.weight"])[:, : y.shape[1]]
            first_of_three = kernel == 3 and 3 not in kernels[: i - 1]
            stride = 2 if block == 0 and first_of_three else 1
            y = F.conv2d(y, weight, stride=stride, padding=kernel // 2)
            y = normalized(y, state, f"{name}.bn{i}", groups)
            y = y.clamp_min(0) if i < len(kernels) else y
        if block == 0 and padded:
            x = x[:, :, ::2, ::2]
            x = torch.cat([x, torch.zeros_like(x)], 1)
        elif block == 0:
            weight = first_quarter(state[f"{name}.downsample.0.weight"])[:, : x.shape[1]]
            x = normalized(F.conv2d(x, weight, stride=2), state, f"{name}.downsample.1", groups)
        x = (x + y).clamp_min(0)
    return x


def largest_singular_value(before, after):
    """Of one image: channels against channels, the map before pooled by 2x2 means."""
    pooled = sum(before[:, i::2, j::2] for i in (0, 1) for j in (0, 1)) / 4
    pixels = after.shape[1] * after.shape[2]
    matrix = torch.einsum("chw,dhw->cd", pooled, after) / pixels
    return torch.linalg.svd(matrix).S[0]


class ByHand:
    """CE and L_lip at ``w``; what the full network gives is fixed where it was made."""

    def __init__(self, client, bottleneck=False, groups=None, padded=False, **_):
        self.client = client
        self.options = (bottleneck, groups, padded)
        with torch.no_grad(), record_calls(client.model.stages[-1]) as calls:
            client.model_loss()
        self.before, after = calls[0]
        pairs = zip(self.before, after, strict=True)
        self.full = torch.stack([largest_singular_value(x, y) for x, y in pairs])

    def lipschitz(self):
        state = {slot.name: slot.view(self.client.w) for slot in self.client.flat.slots}
        first = self.before[:, : self.before.shape[1] // 4]
        after = quarter_stage(state, first, *self.options)
        slim = torch.stack(
            [largest_singular_value(x, y) for x, y in zip(first, after, strict=True)]
        )
        return (slim - self.full).square().sum() / len(slim)


def make(network, loss):
    torch.manual_seed(0)
    return minibatch.local_client(minibatch.scrambled(minibatch.ToyResNet(**network)), loss)


# ---------------------------------------------------------------- the loss


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("relative", [False, True])
def test_loss_and_gradient(network, relative):
    client, plain = make(network, FedAlign(relative=relative)), make(network, LocalLoss())
    by_hand = ByHand(plain, **network)
    found, supervised = minibatch.gradient(client), minibatch.gradient(plain)
    lipschitz = by_hand.lipschitz()
    scale = 0.45 * (plain.loss / lipschitz if relative else 1)
    torch.testing.assert_close(client.loss, plain.loss + scale * lipschitz, rtol=1e-4, atol=0)
    places = minibatch.some_entries(found - supervised, 40)
    term = scale * minibatch.slopes(by_hand.lipschitz, plain.w, places)
    assert minibatch.relative_error((found - supervised)[places], term) < 1e-4


def test_only_the_first_quarter_of_the_last_stage_has_the_term():
    network = NETWORKS["bottleneck"]
    client, plain = make(network, FedAlign()), make(network, LocalLoss())
    term = minibatch.gradient(client) - minibatch.gradient(plain)
    for slot in client.flat.slots:
        there = slot.view(term)
        if slot.name.startswith("stages.2"):
            rows = slot.shape[0] // 4
            assert there[:rows].any() and not there[rows:].any(), slot.name
        else:
            assert not there.any(), slot.name


def test_the_last_block_of_resnet56_is_its_last_stage():
    """128 channels at 16x16 go in and 256 at 8x8 come out; the sub-block has 32 and 64 of them."""
    model = ResNet56(10).train()
    images = torch.randn(2, 3, 32, 32)
    loss = FedAlign()
    loss.setup(minibatch.FlatModel(model))
    with record_calls(model.stages[-1]) as calls:
        model(images)
    before, after = calls[0]
    assert (before.shape, after.shape) == ((2, 128, 16, 16), (2, 256, 8, 8))
    with loss._slim.at(0.25):
        assert model.stages[-1](before[:, :32]).shape == (2, 64, 8, 8)
    inside = [block.conv2.weight.shape[0] for block in model.stages[-1]]
    assert inside == [64] * 6


def test_whole_width_has_no_loss():
    client, plain = (
        make(NETWORKS["basic"], FedAlign(width=1.0)),
        make(NETWORKS["basic"], LocalLoss()),
    )
    torch.testing.assert_close(minibatch.gradient(client), minibatch.gradient(plain))
    assert client.loss == plain.loss


# ---------------------------------------------------------------- its parts


def features(seed, shape):
    """Not negative, half of them zero, as after a ReLU."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).clamp_min(0)


@pytest.mark.parametrize(
    ("before", "after"),
    [((4, 32, 16, 16), (4, 64, 8, 8)), ((4, 128, 16, 16), (4, 256, 8, 8)), ((4, 3, 4, 4),) * 2],
)
def test_spectral_norm_and_its_gradient_by_svd(before, after):
    matrix = join_channels(features(0, before), features(1, after)).requires_grad_()
    left, values, right = torch.linalg.svd(matrix.detach(), full_matrices=False)
    found = spectral_norm(matrix, 10)
    torch.testing.assert_close(found.detach(), values[:, 0], rtol=1e-4, atol=0)
    (gradient,) = torch.autograd.grad(found.sum(), matrix)
    expected = left[:, :, :1] @ right[:, :1]  # u v^T
    assert minibatch.relative_error(gradient, expected) < 1e-4


def test_dead_features_have_no_gradient_and_no_nan():
    matrix = torch.zeros(2, 3, 4, requires_grad=True)
    norm = spectral_norm(matrix, 10)
    norm.sum().backward()
    assert norm.tolist() == pytest.approx([0, 0], abs=1e-12)
    assert (matrix.grad == 0).all()
    client = make(NETWORKS["basic"], FedAlign(relative=True))
    for layer in batchnorm_layers(client.model.stages[-1]).values():
        layer.weight.data.zero_()
        layer.bias.data.zero_()
    assert torch.isfinite(minibatch.gradient(client)).all()


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize("model", [CNN(10), MobileNetV2GN(10)], ids=["CNN", "MobileNetV2GN"])
def test_needs_stages(model):
    message = f"FedAlign reads .*last_stage_input', which {type(model).__name__} does not return"
    with pytest.raises(ConfigError, match=message):
        FedAlign().setup(minibatch.FlatModel(model))
