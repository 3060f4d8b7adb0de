"""Segmentors: every model config, losses by hand, predictions, weights files, foreign networks."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from minibatch import PixelNetwork
from mmengine.logging import HistoryBuffer
from mmengine.registry import DefaultScope
from mmseg_network import ENCODER_DECODER
from recording import record_calls
from torch import nn

from fedseg.batchnorm import batchnorm_layers
from fedseg.config.compose import compose, setting_file
from fedseg.errors import ConfigError
from fedseg.models import BiSeNetV2Segmentor, Segmentor
from fedseg.models.segmentor import class_map
from fedseg.registry import MODELS

CLASSES = 7


def config_of(name):
    """The network of a shipped method, on IDDA."""
    return compose(setting_file("idda_rainy"), [name]).model


def build(name, **changes):
    torch.manual_seed(0)
    model = MODELS.build(config_of(name) | {"num_classes": CLASSES, **changes})
    model.init_weights()
    return model


def raw_batch(images=2, size=(64, 96), seed=0):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, CLASSES, (images, *size), dtype=np.uint8)
    labels[:, :5] = 255
    inputs = generator.integers(0, 256, (images, 3, *size), dtype=np.uint8)
    return {"inputs": torch.from_numpy(inputs), "data_samples": torch.from_numpy(labels)}


class OneByOne(nn.Module):
    """A small network with outputs of the given kind, each half as large as the one before."""

    def __init__(self, kind="tensor", num_classes=CLASSES):
        super().__init__()
        self.main, self.aux = nn.Conv2d(3, num_classes, 1), nn.Conv2d(3, num_classes, 1, stride=2)
        self.kind = kind

    def forward(self, x):
        if self.kind == "tensor":
            return self.main(x)
        if self.kind == "tuple":
            return self.main(x), self.aux(x)
        return {"aux": self.aux(x), "out": self.main(x)}


@pytest.mark.parametrize("amp", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["feddrive_heads", "mmseg_heads", "segformer", "deeplabv3plus"])
def test_every_model_learns_a_batch(name, amp):
    model = build(name).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for _ in range(3):
        with torch.autocast("cpu", torch.bfloat16, enabled=amp):
            batch = model.data_preprocessor(raw_batch(), True)
            parts = model(**batch, mode="loss")
        assert all("loss" in name and v.dtype == torch.float32 for name, v in parts.items())
        loss = sum(parts.values())
        losses.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        assert all(p.grad is not None for p in model.parameters())
        optimizer.step()
    assert losses[-1] < losses[0]
    model.eval()
    with torch.no_grad():
        classes = model(**batch, mode="predict")
    assert classes.dtype == torch.int64 and classes.shape == (2, 64, 96)
    assert torch.isin(classes, torch.arange(CLASSES)).all()


@pytest.mark.parametrize("name", ["feddrive_heads", "mmseg_heads"])
def test_bisenetv2_losses_equal_a_computation_with_its_heads(name):
    """Main and four auxiliary heads, resized to the labels, OHEM of each by sorting."""
    model = build(name, dropout=0.0, aux_weight=0.5).double().train()
    batch = model.data_preprocessor(raw_batch())
    losses = model(**batch, mode="loss")

    network, labels = model.network, batch["data_samples"]
    features = network.extract_feat(batch["inputs"])
    heads = [network.decode_head, *network.auxiliary_head]
    expected = []
    for head in heads:
        logits = F.interpolate(head.forward(features), labels.shape[1:], mode="bilinear")
        pixels = F.cross_entropy(logits, labels, ignore_index=255, reduction="none").flatten(1)
        hardest = pixels.sort(dim=1, descending=True).values[:, : int(0.25 * pixels.shape[1])]
        expected.append(hardest.mean())
    assert list(losses) == ["loss_main", "loss_aux1", "loss_aux2", "loss_aux3", "loss_aux4"]
    for index, (value, by_hand) in enumerate(zip(losses.values(), expected, strict=True)):
        weight = 1.0 if index == 0 else 0.5
        assert value.dtype == torch.float64
        torch.testing.assert_close(value, weight * by_hand, rtol=1e-10, atol=0)


def test_losses_computed_twice_have_the_same_gradients(monkeypatch):
    model = build("mmseg_heads").train()
    batch = model.data_preprocessor(raw_batch())
    calls = []
    reduce = model.criterion.reduce
    monkeypatch.setattr(
        model.criterion, "reduce", lambda *args: calls.append(1) or reduce(*args), raising=True
    )

    def losses_and_gradients():
        calls.clear()
        torch.manual_seed(1)  # dropout
        model.zero_grad()
        losses = model(**batch, mode="loss")
        sum(losses.values()).backward()
        return losses, [parameter.grad for parameter in model.parameters()], len(calls)

    losses, gradients, count = losses_and_gradients()
    model.recompute_losses = True
    again, same_gradients, twice = losses_and_gradients()
    assert (count, twice) == (5, 10)
    assert losses.keys() == again.keys()
    assert all(torch.equal(losses[name], again[name]) for name in losses)
    assert all(map(torch.equal, gradients, same_gradients))


def test_bisenetv2_with_heads_of_mmsegmentation_has_62_batchnorm_layers():
    """53 in the backbone, one in the main head, two in each auxiliary head."""
    names = list(batchnorm_layers(build("mmseg_heads")))
    counts = {
        part: sum(name.startswith(f"network.{part}.") for name in names)
        for part in ("backbone.detail", "backbone.semantic", "backbone.bga", "decode_head")
    }
    assert list(counts.values()) == [8, 40, 5, 1]
    assert sum(name.startswith("network.auxiliary_head.") for name in names) == 8
    assert len(names) == 62
    assert len(batchnorm_layers(BiSeNetV2Segmentor(CLASSES, auxiliary=False))) == 54


def test_prediction_is_the_argmax_of_full_size_logits():
    model = build("mmseg_heads").eval()
    raw = raw_batch()
    raw["data_samples"] = torch.zeros(2, 101, 130, dtype=torch.uint8)  # larger than the images
    batch = model.data_preprocessor(raw)
    with torch.no_grad():
        logits = model(**batch, mode="tensor")
        assert logits.shape == (2, CLASSES, 101, 130)
        assert torch.equal(model(**batch, mode="predict"), logits.argmax(1))
        assert model(batch["inputs"], mode="predict").shape == (2, 64, 96)


def test_auxiliary_heads_are_not_computed_for_predictions():
    model = build("mmseg_heads").eval()

    def fail(*args):
        raise AssertionError("auxiliary head was computed")

    model.network.auxiliary_head[2].register_forward_pre_hook(fail)
    batch = model.data_preprocessor(raw_batch())
    model(**batch, mode="predict")
    with pytest.raises(AssertionError, match="auxiliary head"):
        model(**batch, mode="loss")


def test_networks_of_other_kinds():
    for kind, outputs in (("tensor", 1), ("tuple", 2), ("mapping", 2)):
        model = Segmentor(OneByOne(kind), loss={"type": "CrossEntropy"}, aux_weight=0.3)
        batch = model.data_preprocessor(raw_batch(size=(16, 16)))
        losses = model(**batch, mode="loss")
        assert list(losses) == ["loss_main", "loss_aux1"][:outputs]
        main = F.cross_entropy(
            model.network.main(batch["inputs"]), batch["data_samples"], ignore_index=255
        )
        torch.testing.assert_close(losses["loss_main"], main)
        if outputs == 2:
            aux = F.interpolate(model.network.aux(batch["inputs"]), (16, 16), mode="bilinear")
            expected = 0.3 * F.cross_entropy(aux, batch["data_samples"], ignore_index=255)
            torch.testing.assert_close(losses["loss_aux1"], expected)


def test_a_foreign_loss_gets_logits_of_the_labels_size():
    model = Segmentor(OneByOne("tuple"), loss=nn.CrossEntropyLoss(ignore_index=255))
    batch = model.data_preprocessor(raw_batch(size=(16, 16)))
    ours = Segmentor(model.network, loss={"type": "CrossEntropy"})(**batch, mode="loss")
    for name, value in model(**batch, mode="loss").items():
        torch.testing.assert_close(value, ours[name])


def test_torchvision_network():
    model = MODELS.build(
        {
            "type": "Segmentor",
            "num_classes": CLASSES,
            "network": {"type": "TorchvisionSegmentation", "name": "lraspp_mobilenet_v3_large"},
        }
    )
    batch = model.data_preprocessor(raw_batch(size=(32, 32)))
    assert model(**batch).shape == (2, CLASSES, 32, 32)


def features_by_hand(name):
    """A network, and the layer whose input are its decoder's features."""
    if name == "MMSegmentation":
        with DefaultScope.overwrite_default_scope("fedseg"):  # as in a run
            network = MODELS.build(dict(ENCODER_DECODER))
        return network, network.decode_head.conv_seg
    if name == "torchvision":
        options = {"name": "deeplabv3_mobilenet_v3_large", "num_classes": 3, "aux_loss": True}
        network = MODELS.build({"type": "TorchvisionSegmentation", **options})
        return network, network.classifier[-1]
    network = PixelNetwork(3)
    return network, network.classifier


@pytest.mark.parametrize("name", ["MMSegmentation", "torchvision", "own"])
def test_the_decoders_features_are_returned(name):
    network, layer = features_by_hand(name)
    model = Segmentor(network, num_classes=None, projection=(6,)).eval()
    images = torch.randn(2, 3, 32, 32)
    with record_calls(layer) as calls:
        layers = model(images, mode="layers")
    assert torch.equal(layers["pixel_features"], calls[0].input)
    assert model.projection(layers["pixel_features"]).shape[1] == 6
    for found, expected in zip(layers["logits"], model.outputs(images), strict=True):
        assert torch.equal(found, expected)
    assert model._kept_features is None


def test_bisenetv2_returns_what_its_branches_give_together():
    model = build("mmseg_heads").eval()
    images = torch.randn(2, 3, 64, 96)
    with record_calls(model.network.backbone.bga) as calls:
        layers = model(images, mode="layers")
    assert torch.equal(layers["pixel_features"], calls[0].output)


def test_a_network_that_does_not_return_its_features_says_how():
    network = nn.Conv2d(3, 3, 1)
    assert Segmentor(network, num_classes=None).layer_names == ("logits",)
    with pytest.raises(ConfigError, match=r"model\.projection: .*Conv2d does not return: let its"):
        Segmentor(network, num_classes=None, projection=(4,))
    network.feature_channels = 3
    model = Segmentor(network, num_classes=None)
    with pytest.raises(ConfigError, match=r"model\.network: Conv2d has feature_channels, and its"):
        model(torch.randn(1, 3, 4, 4), mode="layers")


def test_unsupported_heads_are_named():
    network = config_of("segformer").network
    network.decode_head.align_corners = True
    with pytest.raises(ConfigError, match=r"model\.network: SegformerHead .*align_corners"):
        Segmentor(network, num_classes=CLASSES)


def test_weights_file_for_a_part_of_the_network(tmp_path):
    source = build("deeplabv3plus").network.backbone.timm_model
    with torch.no_grad():
        for tensor in source.state_dict().values():
            tensor.add_(1)
    path = tmp_path / "resnet18.pth"
    torch.save(source.state_dict() | {"fc.weight": torch.zeros(3)}, path)
    weights = {"path": str(path), "module": "backbone.timm_model", "ignore": ("fc.",)}
    loaded = build("deeplabv3plus", weights=weights).network.backbone.timm_model
    for name, tensor in loaded.state_dict().items():
        assert torch.equal(tensor, source.state_dict()[name]), name


def test_weights_file_missing_or_not_weights(tmp_path):
    with pytest.raises(ConfigError, match=r"model\.weights: .*none\.pth"):
        Segmentor(OneByOne(), weights=str(tmp_path / "none.pth"))
    path = tmp_path / "w.pth"
    path.write_text("not a checkpoint")
    with pytest.raises(ConfigError, match=r"model\.weights: .*w\.pth"):
        Segmentor(OneByOne(), weights=str(path)).init_weights()
    buffer = HistoryBuffer([1.0], [1])  # as in MMEngine's checkpoints
    torch.save({"state_dict": OneByOne().state_dict(), "message_hub": {"loss": buffer}}, path)
    with pytest.raises(ConfigError, match=r"w\.pth .*torch\.save\(.*\['state_dict'\], new_path\)"):
        Segmentor(OneByOne(), weights=str(path)).init_weights()
    torch.save({"model": OneByOne()}, path)  # a pickled module could run code
    with pytest.raises(ConfigError, match=r"model\.weights: .*w\.pth"):
        Segmentor(OneByOne(), weights=str(path)).init_weights()


def test_class_maps_in_four_threads_are_those_of_their_logits():
    logits = [torch.randn(1, CLASSES, 40, 60) for _ in range(16)]
    size = torch.Size([240, 360])

    @torch.no_grad()
    def predict(one):
        return class_map(one, size)

    expected = list(map(predict, logits))
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(predict, logits))
    assert all(map(torch.equal, found, expected))
