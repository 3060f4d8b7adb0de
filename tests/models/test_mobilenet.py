"""MobileNetV2 with GroupNorm: torchvision's network, and ImageNet weights made for BatchNorm."""

import pytest
import torch
from torch import nn
from torchvision.models import mobilenet_v2

from fedseg.batchnorm import batchnorm_layers
from fedseg.errors import ConfigError
from fedseg.models import MobileNetV2GN


@pytest.fixture(scope="module")
def imagenet(tmp_path_factory):
    """A file as torchvision's, with BatchNorm and 1000 classes, and its content."""
    torch.manual_seed(1)
    network = mobilenet_v2()
    for layer in batchnorm_layers(network).values():
        nn.init.uniform_(layer.weight, 0.5, 1.5)
        nn.init.uniform_(layer.bias, -0.5, 0.5)
        layer.running_mean.uniform_(-1, 1)
    path = tmp_path_factory.mktemp("imagenet") / "mobilenet_v2.pth"
    torch.save(network.state_dict(), path)
    return path, network.state_dict()


def from_file(path, num_classes=5, ignore=("classifier.",)):
    weights = {"path": str(path), "module": "backbone", "ignore": ignore}
    torch.manual_seed(2)
    model = MobileNetV2GN(num_classes, weights=weights)
    model.init_weights()
    return model


def test_is_torchvision_s_with_groupnorm():
    torch.manual_seed(0)
    model = MobileNetV2GN(10).double().eval()
    other = mobilenet_v2(norm_layer=lambda channels: nn.GroupNorm(8, channels), num_classes=10)
    weights = model.state_dict().values()
    other.load_state_dict(dict(zip(other.state_dict(), weights, strict=True)))
    images = torch.randn(2, 3, 64, 64, dtype=torch.float64)
    torch.testing.assert_close(model(images), other.double().eval()(images))


def test_imagenet_weights(imagenet, monkeypatch):
    """Weights, scales and shifts are the file's; the classifier is the one of the seed."""
    path, content = imagenet
    logged = []
    monkeypatch.setattr("fedseg.models.weights.print_log", lambda line, **_: logged.append(line))
    model = from_file(path)
    torch.manual_seed(2)
    untouched = MobileNetV2GN(5)
    for name, tensor in model.backbone.state_dict().items():
        assert torch.equal(tensor, content[name]), name
    assert len(model.backbone.state_dict()) == 52 * 3  # 52 convolutions, each with scale and shift
    assert torch.equal(model.classifier.weight, untouched.classifier.weight)
    (line,) = logged
    assert "classifier.1.weight, classifier.1.bias" in line and "156 running statistics" in line


def test_prefixes_as_a_list_or_one_text(imagenet):
    path, _ = imagenet
    for ignore in (["classifier."], "classifier.", ["fc.", "classifier."]):
        from_file(path, ignore=ignore)
    for ignore in ([], ["fc."], "fc."):  # a text is no list of letters
        with pytest.raises(ConfigError, match=r"classifier\.1\.weight.*model\.weights\.ignore"):
            from_file(path, ignore=ignore)
    with pytest.raises(ConfigError, match=r"model\.weights\.ignore: must be a valid string or"):
        from_file(path, ignore=3)


def test_statistics_without_a_layer_are_an_error(imagenet, tmp_path):
    """Only running statistics of layers that the network has are skipped."""
    _, content = imagenet
    path = tmp_path / "odd.pth"
    torch.save(content | {"features.99.1.running_mean": torch.zeros(3)}, path)
    with pytest.raises(ConfigError, match=r"features\.99\.1\.running_mean"):
        from_file(path)


def test_a_checkpoint_of_this_network_with_other_classes(tmp_path):
    """Of the whole network's names those of the backbone are taken; one that is missing is told."""
    torch.manual_seed(1)
    content = MobileNetV2GN(7).state_dict()
    path = tmp_path / "round_000001.pth"
    torch.save({"state_dict": content, "round": 1}, path)
    model = MobileNetV2GN(5, weights={"path": str(path), "module": "backbone"})
    model.init_weights()
    for name, tensor in model.backbone.state_dict().items():
        assert torch.equal(tensor, content[f"backbone.{name}"]), name
    content.pop("backbone.features.0.0.weight")
    torch.save({"state_dict": content}, path)
    with pytest.raises(ConfigError, match=r"features\.0\.0\.weight"):
        model.init_weights()
