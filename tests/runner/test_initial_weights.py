"""Where a run's first weights come from: files of timm and MMEngine, and checkpoints instead."""

import timm
import torch
import toyseg
from mmengine.config import Config
from mmseg_network import ENCODER_DECODER

from fedseg.config.check import drop_weights
from fedseg.runner.build import build_model, build_trainer, build_vectors, weights_digest
from fedseg.runner.testing import evaluate_checkpoint

URL = "https://no.where/unet.pth"
VIT = {"depth": 1, "embed_dim": 48, "num_heads": 3}


def test_a_classifier_starts_from_the_weights_of_timm(tmp_path):
    torch.manual_seed(1)
    encoder = timm.create_model("vit_small_patch14_dinov2", num_classes=0, **VIT)
    torch.save(encoder.state_dict(), tmp_path / "vit.pth")
    file = {"file": str(tmp_path / "vit.pth")}  # in place of the download
    options = {**VIT, "pretrained": True, "pretrained_cfg_overlay": file}
    model = {"type": "TimmClassifier", "num_classes": 3, "options": options}
    model["encoder"] = "vit_small_patch14_dinov2"
    cfg = Config({"model": model, "randomness": {"seed": 0}})
    weights = build_vectors(build_model(cfg), cfg).model.backbone.state_dict()
    for name, tensor in encoder.state_dict().items():
        assert torch.equal(weights[name], tensor), name


def fetched_unet(tmp_path, monkeypatch):
    """A run whose backbone has been fetched, as torch keeps it; and the backbone's weights."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    network = toyseg.merge(ENCODER_DECODER, {})
    model = {"_delete_": True, "type": "Segmentor", "network": network}
    model["loss"] = {"type": "CrossEntropy"}
    config = toyseg.settings(tmp_path, **toyseg.PLAIN, model=model, train_cfg={"max_rounds": 1})
    config["model"]["network"]["backbone"]["init_cfg"] = {"type": "Pretrained", "checkpoint": URL}
    other = toyseg.merge(config, {"randomness": {"seed": 9}})
    drop_weights(other["model"])
    weights = build_trainer(other).flat.model.network.backbone.state_dict()
    cache = tmp_path / "torch" / "hub" / "checkpoints"
    cache.mkdir(parents=True)
    torch.save(weights, cache / "unet.pth")
    return config, weights, cache / "unet.pth"


def test_a_network_starts_from_fetched_weights_and_a_checkpoint_needs_none(tmp_path, monkeypatch):
    config, weights, cached = fetched_unet(tmp_path, monkeypatch)
    flat = build_trainer(config).flat
    backbone = flat.model.network.backbone.state_dict()
    assert all(torch.equal(backbone[name], tensor) for name, tensor in weights.items())
    initial = weights_digest(flat)
    toyseg.train(config)
    assert toyseg.results(config)["initial_sha256"] == initial

    cached.unlink()
    longer = toyseg.merge(config, {"train_cfg": {"max_rounds": 2}})
    toyseg.train(longer, resume=True)
    assert toyseg.results(longer)["initial_sha256"] == initial
    path = tmp_path / "run" / "checkpoints" / "round_000001.pth"
    tested = Config(toyseg.merge(config, {"work_dir": str(tmp_path / "test")}))
    _, results = evaluate_checkpoint(tested, path)
    assert results["config_sha256"] == results["trained_config_sha256"]
    begun = build_trainer(toyseg.merge(config, {"load_from": str(path)})).flat.state_dict()
    saved = torch.load(path, weights_only=True)["state_dict"]
    assert all(torch.equal(begun[name], tensor) for name, tensor in saved.items())


def test_weights_of_a_loss_are_no_initial_weights():
    loss = {"type": "CrossEntropy", "weights": [1.0, 2.0]}
    model = {"type": "Segmentor", "loss": loss, "weights": {"path": "a.pth"}}
    model["network"] = {"type": "mmseg.TIMMBackbone", "checkpoint_path": "b.pth"}
    drop_weights(model)
    assert model["loss"] == {"type": "CrossEntropy", "weights": [1.0, 2.0]}
    assert model["weights"] is None
    assert model["network"]["checkpoint_path"] is None and not model["network"]["pretrained"]
