"""Encoders of timm: shapes, alignment of padded images, files of weights."""

import pytest
import timm
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from fedseg.config.check import complete_config
from fedseg.config.compose import compose, setting_file
from fedseg.errors import ConfigError
from fedseg.models.encoders import TimmClassifier, TimmSegmentation
from fedseg.models.weights import WeightsFile
from fedseg.runner.build import build_model, build_vectors

VIT = {"depth": 2, "embed_dim": 48, "num_heads": 3, "dynamic_img_size": True}
NEXT = {"depths": (1, 1, 2, 1), "dims": (8, 16, 24, 32)}
PRETRAINED = {
    "tiny_vit": None,
    "dinov2_small": "DINOv2",
    "convnext_tiny": "ImageNet",
    "efficientnet_lite0": "ImageNet",
}
SMALL = {"vit_small_patch14_dinov2": VIT, "convnext_tiny": NEXT, "tf_efficientnet_lite0": {}}


@pytest.mark.parametrize("setting", ["demo_shapes", "demo_weather"])
@pytest.mark.parametrize(
    "method", ["tiny_vit", "dinov2_small", "convnext_tiny", "efficientnet_lite0"]
)
def test_methods(setting, method):
    cfg = complete_config(compose(setting_file(setting), [method]))
    network = cfg.model.get("network", cfg.model)
    assert (cfg.model.get("weights") is None) == (method == "tiny_vit")
    cfg.model.weights = None
    if method in ("dinov2_small", "convnext_tiny"):
        network.options = SMALL[network.encoder]  # the same with fewer layers
    flat = build_vectors(build_model(cfg), cfg)
    trained = {slot.name.rpartition(".")[0] for slot in flat.slots}
    head = {"classifier", "network.head"}
    assert (trained <= head) == (method != "tiny_vit") and trained & head and not flat.num_counters
    model = flat.model
    assert model.lacks == PRETRAINED[method]
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
    logits = network(whole)["out"]
    assert logits.shape == (1, 5, 3, 3)
    larger = F.interpolate(logits, whole.shape[-2:], mode="bilinear")
    torch.testing.assert_close(network(image)["out"], larger[..., :height, :width])


def load(network, path, **options):
    WeightsFile.from_config({"path": str(path), **options}).load_into(network)
    return network


@pytest.mark.parametrize("kind", [TimmClassifier, TimmSegmentation])
@pytest.mark.parametrize("encoder", SMALL)
def test_weights_with_timms_names(tmp_path, monkeypatch, kind, encoder):
    notes = []
    monkeypatch.setattr("fedseg.models.weights.print_log", lambda note, logger: notes.append(note))
    source = timm.create_model(encoder, num_classes=7, **SMALL[encoder])
    save_file(source.state_dict(), tmp_path / "model.safetensors")
    network = kind(encoder=encoder, num_classes=3, options=SMALL[encoder])
    backbone = network.backbone.state_dict()
    unused = sorted(source.state_dict().keys() - backbone.keys())
    load(network, tmp_path / "model.safetensors", module="backbone", ignore=unused)
    for name, tensor in network.backbone.state_dict().items():
        assert torch.equal(tensor, source.state_dict()[name])
    assert all(name in notes[0] for name in unused)


def test_weights_that_do_not_fit(tmp_path):
    encoder = "vit_small_patch14_dinov2"
    path = tmp_path / "w.pth"
    trained = TimmClassifier(3, encoder, SMALL[encoder])
    state = trained.backbone.state_dict()
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
        network = TimmClassifier(3, encoder, SMALL[encoder])
        with pytest.raises(ConfigError, match=rf"model\.weights: .*w\.pth(?s:.)*{message}"):
            load(network, path, module="backbone")
    torch.save({"model": state}, path)
    with pytest.raises(ConfigError, match=r"w\.pth: must be a state dict, or have one under"):
        load(network, path)
    torch.save(trained.state_dict(), path)  # the whole network comes back
    assert torch.equal(load(network, path).classifier.bias, trained.classifier.bias)
    with pytest.raises(ConfigError, match="no encoder 'vit_smal'"):
        TimmClassifier(3, "vit_smal")


def test_files_that_do_not_exist():
    for path, fix in (
        ("data/weights/convnext_tiny.safetensors", "fedseg prepare weights convnext_tiny"),
        ("package:no_such_package/x.pth", "install the package"),
        ("x.pth", "give the path of a file"),
    ):
        with pytest.raises(ConfigError, match=rf"model\.weights: {path} does not exist: .*{fix}"):
            WeightsFile.from_config(path)
