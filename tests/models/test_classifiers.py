"""What every classifier keeps to: sizes, modes, losses, precision, memory format, bad input."""

from math import prod

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fedseg.core.flat import FlatModel
from fedseg.errors import ConfigError, DataError
from fedseg.models import Classifier
from fedseg.registry import MODELS, build

CLASSES = 7
# Small images where the network takes any size.
SHAPES = {
    "CNN": (3, 32, 32),
    "MNISTCNN": (1, 28, 28),
    "FEMNISTCNN": (1, 28, 28),
    "ResNet18": (3, 64, 64),
    "ResNet18GN": (3, 8, 8),
    "ResNet20GN": (3, 8, 8),
    "ResNet56": (3, 8, 8),
    "MobileNetV2GN": (3, 64, 64),
}
# no BatchNorm and no dropout
SINGLE = [name for name in SHAPES if name not in ("ResNet56", "ResNet18", "FEMNISTCNN")]


def make(name, num_classes=CLASSES, **arguments):
    torch.manual_seed(0)
    model = build(MODELS, {"type": name, "num_classes": num_classes, **arguments}, "model")
    model.init_weights()
    return model


def batch(name, images=3, dtype=torch.float32, classes=CLASSES):
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(images, *SHAPES[name], generator=generator, dtype=dtype)
    return inputs, torch.randint(classes, (images,), generator=generator)


def loss_of(model, inputs, labels):
    torch.manual_seed(2)  # of dropout
    losses = model(inputs, labels, mode="loss")
    assert list(losses) == ["loss"] and losses["loss"].dim() == 0
    return losses["loss"]


# ---------------------------------------------------------------- sizes


PUBLISHED = [
    ("CNN", 10, 797_962),
    ("CNN", 100, 815_332),
    ("MNISTCNN", 10, 431_080),
    ("FEMNISTCNN", 62, 1_206_590),
    ("ResNet18", 200, 11_279_112),
    ("CharLSTM", 80, 819_920),
    ("ResNet18GN", 10, 11_173_962),
    ("ResNet18GN", 100, 11_220_132),
    ("ResNet20GN", 10, 269_722),
    ("ResNet20GN", 100, 275_572),
    ("ResNet56", 100, 614_452),
    ("MobileNetV2GN", 1000, 3_504_872),
    ("MobileNetV2GN", 2028, 4_821_740),
]


@pytest.mark.parametrize(("name", "classes", "parameters"), PUBLISHED)
def test_number_of_parameters(name, classes, parameters):
    model = make(name, classes)
    assert sum(p.numel() for p in model.parameters()) == parameters
    assert FlatModel(model).num_parameters == parameters


# ---------------------------------------------------------------- forward


def test_modes():
    for name in SHAPES:
        model = make(name).eval()
        inputs, labels = batch(name)
        logits = model(inputs)
        assert isinstance(model, Classifier) and logits.shape == (3, CLASSES)
        assert torch.equal(logits, model(inputs, labels, mode="tensor"))
        features = model.features(inputs)
        assert isinstance(model.classifier, nn.Linear)
        assert features.shape == (3, model.classifier.in_features)
        assert torch.equal(
            logits, F.linear(features, model.classifier.weight, model.classifier.bias)
        )
        classes = model(inputs, mode="predict")
        assert classes.dtype == torch.int64 and classes.tolist() == logits.argmax(1).tolist()
        log_probabilities = logits.log_softmax(1)
        expected = -sum(log_probabilities[i, labels[i]] for i in range(3)) / 3
        torch.testing.assert_close(loss_of(model, inputs, labels), expected)
        with pytest.raises(ValueError, match="train"):
            model(inputs, labels, mode="train")


def test_mixed_labels_give_the_mixture_of_losses():
    for name in SHAPES:
        model = make(name).double().eval()
        inputs, first = batch(name, dtype=torch.float64)
        second, share = first.roll(1), 0.3
        one_hot = torch.eye(CLASSES, dtype=torch.float64)
        mixed = share * one_hot[first] + (1 - share) * one_hot[second]
        expected = share * loss_of(model, inputs, first) + (1 - share) * loss_of(
            model, inputs, second
        )
        torch.testing.assert_close(loss_of(model, inputs, mixed), expected)
        torch.testing.assert_close(
            loss_of(model, inputs, one_hot[first]), loss_of(model, inputs, first)
        )


def test_an_image_s_logits_do_not_depend_on_the_others():
    for name in SINGLE:
        for training in (False, True):
            model = make(name).double().train(training)
            inputs, _ = batch(name, dtype=torch.float64)
            together = model(inputs)
            alone = torch.cat([model(inputs[i : i + 1]) for i in range(3)])
            torch.testing.assert_close(alone, together)


def test_batchnorm_uses_the_batch_in_training_only():
    model = make("ResNet56").double()
    inputs, labels = batch("ResNet56", dtype=torch.float64)
    for _ in range(3):  # away from the initial statistics
        model.train()(inputs, labels, mode="loss")
    together = model.eval()(inputs)
    torch.testing.assert_close(model(inputs[:1]), together[:1])
    assert not torch.allclose(model.train()(inputs[:1]), model(inputs)[:1])


def test_flat_vectors_and_channels_last_change_nothing():
    for name in SHAPES:
        plain, model = make(name).double(), make(name).double()
        inputs, labels = batch(name, dtype=torch.float64)
        expected = loss_of(plain, inputs, labels)
        expected.backward()

        flat = FlatModel(model, channels_last=True)
        found = loss_of(model, inputs.contiguous(memory_format=torch.channels_last), labels)
        found.backward()
        flat.check_views()
        torch.testing.assert_close(found, expected)
        for slot in flat.slots:
            expected_grad = plain.get_parameter(slot.name).grad
            scale = expected_grad.abs().max().item()
            torch.testing.assert_close(
                slot.view(flat.grad), expected_grad, rtol=1e-6, atol=1e-9 + 1e-9 * scale
            )
        assert prod(flat.buffers.shape) == 0 or name in ("ResNet56", "ResNet18")


def test_bfloat16():
    for name in SHAPES:
        model = make(name).train()
        flat = FlatModel(model)
        inputs, labels = batch(name)
        inputs = inputs.contiguous(memory_format=torch.channels_last)
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(model, inputs, labels)
            one_hot = F.one_hot(labels, CLASSES).float()
            soft = loss_of(model, inputs, one_hot)
        loss.backward()
        assert loss.dtype == soft.dtype == torch.float32
        torch.testing.assert_close(loss, loss_of(model, inputs, labels), rtol=0.1, atol=0)
        torch.testing.assert_close(loss, soft, rtol=0.01, atol=0)
        for parameter in model.parameters():
            assert parameter.grad.dtype == torch.float32 and parameter.grad.isfinite().all()
        flat.check_views()


# ---------------------------------------------------------------- weights and bad input


def test_weights_file(tmp_path):
    """A state dict of the same network loads; of another number of classes it does not."""
    for name in SHAPES:
        path = tmp_path / "weights.pth"
        donor = make(name)
        for tensor in donor.parameters():
            tensor.data.uniform_(-1, 1)
        torch.save({"state_dict": donor.state_dict()}, path)
        model = make(name, weights=str(path))
        assert all(torch.equal(donor.state_dict()[k], v) for k, v in model.state_dict().items())
        with pytest.raises(ConfigError, match=r"classifier\.weight(?s:.)*\[7, \d+\](?s:.)*\[9, "):
            make(name, num_classes=9, weights=str(path))


def test_images_with_wrong_channels_or_type():
    for name in SHAPES:
        for mode in ("loss", "predict", "tensor"):
            model = make(name)
            inputs, labels = batch(name)
            for wrong in (inputs[:, :1].repeat(1, 4, 1, 1), inputs[0], inputs.to(torch.uint8)):
                with pytest.raises(DataError, match=f"inputs: {name} takes float images") as error:
                    model(wrong, labels, mode=mode)
                assert f"{wrong.dtype} {list(wrong.shape)}" in str(error.value)


def test_images_of_the_wrong_size():
    """35x35 would pass every layer of the CNN and lose pixels silently."""
    for size in ((28, 28), (33, 32), (35, 35), (64, 64)):
        with pytest.raises(DataError, match=r"inputs: CNN takes .*\[batch, 3, 32, 32\]"):
            make("CNN")(torch.zeros(2, 3, *size))
        with pytest.raises(DataError, match=r"inputs: MNISTCNN takes .*\[batch, 1, 28, 28\]"):
            make("MNISTCNN")(torch.zeros(2, 1, 32, 32))


def test_wrong_labels():
    model, inputs = make("CNN"), batch("CNN")[0]
    for labels, message in (
        (None, "missing"),
        (torch.tensor([0, 1]), r"torch.int64 \[2\]"),
        (torch.tensor([0, 1, CLASSES]), "model.num_classes"),
        (torch.tensor([0, -1, 2]), "out of bounds"),
        (torch.zeros(3), r"torch.float32 \[3\]"),
    ):
        with pytest.raises(DataError, match=message):
            model(inputs, labels, mode="loss")


WRONG = [
    ("CNN", "num_classes", (0, "ten", 2.5)),
    ("CNN", "projection", ((0,), (256, -1), (2.5,), 256, "ab")),
    ("ResNet18GN", "groups", (0, 3)),
    ("ResNet20GN", "groups", (2.0, 32)),
    ("ResNet56", "groups", (5,)),
    ("ResNet56", "stochastic_depth", (0, -0.5, 1.5, float("nan"))),
    ("MobileNetV2GN", "groups", (16,)),
]


@pytest.mark.parametrize(("name", "field", "values"), WRONG)
def test_wrong_options(name, field, values):
    for value in values:
        with pytest.raises(ConfigError, match=rf"model[.:].*{field}"):
            make(name, **{field: value})


# ---------------------------------------------------------------- projection


WIDTHS = {"CNN": 192, "MNISTCNN": 500, "ResNet18GN": 512, "ResNet20GN": 64, "ResNet56": 256}
WIDTHS |= {"MobileNetV2GN": 1280, "FEMNISTCNN": 128, "ResNet18": 512}


def test_a_projection_comes_between_features_and_classifier():
    """Two linear layers with ReLU in between; the network below them is the same."""
    for name in SHAPES:
        inputs, _ = batch(name)
        plain, projected = make(name).eval(), make(name, projection=[9, 5]).eval()
        state = plain.state_dict()
        added = {k: v for k, v in projected.state_dict().items() if k not in state}
        assert {k: tuple(v.shape) for k, v in added.items()} == {
            "projection.0.weight": (9, WIDTHS[name]),
            "projection.0.bias": (9,),
            "projection.2.weight": (5, 9),
            "projection.2.bias": (5,),
        }
        below = {k: v for k, v in state.items() if "classifier." not in k}
        projected.load_state_dict({**projected.state_dict(), **below})
        first, _, second = projected.projection
        expected = second(first(plain.features(inputs)).relu())
        torch.testing.assert_close(projected.features(inputs), expected)
        torch.testing.assert_close(projected(inputs), projected.classifier(expected))
        assert projected.classifier.weight.shape == (CLASSES, 5)


def test_the_next_character_depends_on_every_one_before():
    model = make("CharLSTM", length=6).eval()
    text = torch.randint(CLASSES, (4, 1, 6, 1), dtype=torch.uint8)
    logits = model(text)
    assert logits.shape == (4, CLASSES) and loss_of(model, text, torch.arange(4)) > 0
    torch.testing.assert_close(model(text.float())[:2], model(text[:2]))
    for place in range(6):
        other = text.clone()
        other[:, 0, place] = (other[:, 0, place] + 1) % CLASSES
        assert (model(other) != logits).any(dim=1).all()
    with pytest.raises(DataError, match=r"CharLSTM takes characters \[batch, 1, 6, 1\]"):
        model(text[:, :, 1:])
