"""FedDrive's BiSeNetV2 against a transcription into plain tensor operations, and its sizes."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fedseg.batchnorm import batchnorm_layers
from fedseg.config.compose import compose, setting_file
from fedseg.models import FedDriveBiSeNetV2Segmentor
from fedseg.registry import MODELS

CLASSES = 16
DROPOUT = 0.1
PARAMETERS = {  # (classes, auxiliary heads): FedDrive's
    (16, True): 7_473_296,
    (19, True): 8_196_416,
    (16, False): 4_388_752,
    (19, False): 4_585_552,
}


def linear_map(inputs: int, outputs: int) -> torch.Tensor:
    """[outputs, inputs]: linear interpolation whose first and last points coincide."""
    position = torch.arange(outputs, dtype=torch.float64) * (inputs - 1) / (outputs - 1)
    return (1 - (position[:, None] - torch.arange(inputs)).abs()).clamp(min=0)


def enlarge(x, size):
    """Bilinear with aligned corners."""
    rows, columns = (linear_map(x.shape[axis], size[axis - 2]) for axis in (2, 3))
    return torch.einsum("yi,xj,bcij->bcyx", rows, columns, x)


def depth_to_space(x, up):
    """Channel c up^2 + i up + j of a position is pixel (i, j) of class c in its up x up block."""
    images, channels, height, width = x.shape
    blocks = x.view(images, channels // up**2, up, up, height, width)
    return blocks.permute(0, 1, 4, 2, 5, 3).reshape(images, -1, height * up, width * up)


class PlainNetwork:
    """The released code's aggregation and heads, on tensors by their names in a state dict.

    Every tensor must be asked for: one that there should not be, such as the bias of a
    convolution, stays in ``unused``.
    """

    def __init__(self, state, training):
        self.state = {name: tensor.clone() for name, tensor in state.items()}
        self.training = training
        self.unused = {name for name in state if not name.endswith("num_batches_tracked")}

    def tensor(self, name):
        self.unused.discard(name)
        return self.state[name]

    def convolution(self, x, name, **options):
        weight = self.tensor(f"{name}.weight")
        return F.conv2d(x, weight, padding=weight.shape[-1] // 2, **options)

    def block(self, x, name, relu=True, **options):
        x = self.convolution(x, f"{name}.conv", **options)
        mean, var, weight, bias = (
            self.tensor(f"{name}.bn.{part}")
            for part in ("running_mean", "running_var", "weight", "bias")
        )
        x = F.batch_norm(x, mean, var, weight, bias, self.training, momentum=0.1, eps=1e-5)
        return x.relu() if relu else x

    def keep(self, x, name):
        x = self.block(x, f"{name}.depthwise_conv", relu=False, groups=128)
        return self.convolution(x, f"{name}.pointwise_conv.conv")

    def aggregate(self, detail, semantic):
        name, size = "backbone.bga", detail.shape[2:]
        down = self.block(detail, f"{name}.detail_down.0", relu=False, stride=2)
        down = F.avg_pool2d(down, 3, stride=2, padding=1)
        up = enlarge(self.block(semantic, f"{name}.semantic_conv.0", relu=False), size)
        fine = self.keep(detail, f"{name}.detail_dwconv.0") * up.sigmoid()
        coarse = down * self.keep(semantic, f"{name}.semantic_dwconv.0").sigmoid()
        return self.block(fine + enlarge(coarse, size), f"{name}.conv")

    def head(self, x, name, up):
        x = F.dropout(self.block(x, f"{name}.conv"), DROPOUT, self.training)
        x = self.convolution(x, f"{name}.conv_seg")
        return depth_to_space(x + self.tensor(f"{name}.conv_seg.bias")[:, None, None], up)


def filled_model(seed=0):
    """Every parameter and running statistic random, in float64."""
    model = FedDriveBiSeNetV2Segmentor(CLASSES, dropout=DROPOUT).double()
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in model.network.state_dict().items():
        values = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
        if tensor.dim() == 4:
            values /= math.sqrt(tensor[0].numel())
        elif name.endswith(("running_var", "bn.weight", "gap.1.weight")):
            values = 0.5 + values.abs()
        tensor.copy_(values)
    return model


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_aggregation_and_heads_equal_plain_tensor_operations(training):
    """What differs from MMSegmentation's network, on random features."""
    model = filled_model().train(training)
    network = model.network
    state = {n: t for n, t in network.state_dict().items() if "bga" in n or "head" in n}
    plain, generator = PlainNetwork(state, training), torch.Generator().manual_seed(1)

    def features(*shape):
        return torch.randn(3, *shape, generator=generator).double()

    detail, semantic = features(128, 12, 20), features(128, 3, 5)
    with torch.no_grad():
        found, expected = network.backbone.bga(detail, semantic), plain.aggregate(detail, semantic)
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
        stages = [features(*shape) for shape in ((128, 6, 8), (16, 8, 8), (32, 4, 4))]
        stages += [features(64, 2, 2), features(128, 2, 1)]
        names = ["decode_head", *(f"auxiliary_head.{i}" for i in range(4))]
        heads = [network.decode_head, *network.auxiliary_head]
        for head, name, up in zip(heads, names, (8, 4, 8, 16, 32), strict=True):
            torch.manual_seed(2)  # of the dropout
            found = head(stages)
            torch.manual_seed(2)
            expected = plain.head(stages[head.in_index], name, up)
            torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    assert not plain.unused


@pytest.mark.parametrize("size", [(64, 96), (75, 101)])
def test_logits_have_the_size_of_the_images_or_a_little_more(size):
    model = FedDriveBiSeNetV2Segmentor(CLASSES).eval()
    with torch.no_grad():
        outputs = model.outputs(torch.randn(3, 3, *size))
    for logits, up in zip(outputs, (8, 4, 8, 16, 32), strict=True):
        assert logits.shape == (3, CLASSES, *(math.ceil(side / up) * up for side in size))


def test_sizes_of_the_network():
    for (classes, auxiliary), parameters in PARAMETERS.items():
        model = FedDriveBiSeNetV2Segmentor(classes, auxiliary=auxiliary)
        assert sum(p.numel() for p in model.parameters()) == parameters
        assert len(batchnorm_layers(model)) == (58 if auxiliary else 54)


def test_convolutions_start_from_kaiming_normal_by_fan_out():
    torch.manual_seed(0)
    model = FedDriveBiSeNetV2Segmentor(CLASSES)
    model.init_weights()
    standard = []
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            out_channels, _, height, width = layer.weight.shape
            standard.append(
                layer.weight.detach().flatten() * math.sqrt(out_channels * height * width / 2)
            )
            size = standard[-1].numel()
            assert abs(standard[-1].std() - 1) < 5 / math.sqrt(2 * size)
            assert abs(standard[-1].mean()) < 5 / math.sqrt(size)
            assert layer.bias is None or not layer.bias.any()
    assert float(torch.cat(standard).pow(4).mean()) == pytest.approx(3, abs=0.02)  # of a normal
    zero = []
    for name, layer in batchnorm_layers(model).items():
        assert not layer.bias.any()
        if not (layer.weight == 1).all():
            assert not layer.weight.any()
            zero.append(name)
    assert len(zero) == 8 and all(".conv2." in name for name in zero)  # each ends a GE layer


def test_the_settings_of_feddrive_have_its_network():
    for name, classes in (("idda_rainy", 16), ("cityscapes_uniform", 19)):
        model = MODELS.build(compose(setting_file(name)).model)
        assert sum(p.numel() for p in model.parameters()) == PARAMETERS[classes, True]


def test_predictions_are_resized_with_aligned_corners():
    torch.manual_seed(0)
    model = FedDriveBiSeNetV2Segmentor(CLASSES).eval()
    images, labels = torch.randn(2, 3, 64, 96), torch.zeros(2, 128, 192, dtype=torch.int64)
    with torch.no_grad():
        logits = model.outputs(images, auxiliary=False)[0]
        expected = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)(logits)
        torch.testing.assert_close(model(images, labels), expected)
        assert torch.equal(model(images, labels, mode="predict"), expected.argmax(1))
