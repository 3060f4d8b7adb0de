"""FedSeg's loss, background and prototypes against float64 transcriptions."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import toyseg
from pixel_runs import ERASED, IGNORED, changed, transcribed_contrast

from fedseg.errors import ConfigError
from fedseg.local_losses.fedseg import absent_classes
from fedseg.models import CrossEntropy, OHEMCrossEntropy
from fedseg.runner.build import build_trainer

UNKNOWN = [False, True, True, False, True]


def background_case(scale: float, dtype=torch.float64):
    generator = torch.Generator().manual_seed(int(scale))
    logits = scale * torch.randn(3, 5, 4, 6, generator=generator, dtype=torch.float64)
    labels = torch.tensor([0, 3, ERASED, ERASED, IGNORED])
    return logits.to(dtype), labels[torch.randint(5, (3, 4, 6), generator=generator)]


def transcribed_background(logits, labels, ratio):
    """The mean loss, and its gradient: softmax - onehot, or softmax - softmax over the unknown."""
    z = logits.double().numpy().transpose(0, 2, 3, 1)
    e = np.exp(z - z.max(-1, keepdims=True))
    softmax = e / e.sum(-1, keepdims=True)
    other = np.exp(np.where(UNKNOWN, z - z[..., UNKNOWN].max(-1, keepdims=True), -np.inf))
    losses, gradient = np.zeros(labels.shape), np.zeros(z.shape)
    for at, label in np.ndenumerate(labels.numpy()):
        if label == ERASED:
            lse = [np.logaddexp.reduce(z[at]), np.logaddexp.reduce(z[at][UNKNOWN])]
            losses[at] = lse[0] - lse[1]
            gradient[at] = softmax[at] - other[at] / other[at].sum()
        elif label != IGNORED:
            losses[at] = np.logaddexp.reduce(z[at]) - z[at][label]
            gradient[at] = softmax[at] - np.eye(5)[label]
    if ratio is None:
        counted = (labels != IGNORED).numpy()
        return losses.sum() / counted.sum(), gradient.transpose(0, 3, 1, 2) / counted.sum()
    k = int(ratio * losses[0].size)
    lowest = np.sort(losses.reshape(3, -1), 1)[:, -k].reshape(3, 1, 1)
    hard = losses >= lowest
    weighted = gradient * hard[..., None] / (3 * k)
    return (losses * hard).sum() / (3 * k), weighted.transpose(0, 3, 1, 2)


@pytest.mark.parametrize("ratio", [None, 0.25])
@pytest.mark.parametrize("scale", [3, 300])
def test_background_equals_its_transcription(ratio, scale):
    loss = CrossEntropy() if ratio is None else OHEMCrossEntropy(ratio)
    logits, labels = background_case(scale)
    value, gradient = transcribed_background(logits, labels, ratio)
    unknown = torch.tensor(UNKNOWN)
    found = loss(logits.requires_grad_(), labels, unknown)
    found.backward()
    assert found.item() == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(logits.grad.numpy(), gradient, rtol=1e-9, atol=1e-13)
    half, labels = background_case(scale, torch.bfloat16)
    value, gradient = transcribed_background(half, labels, ratio)
    found = loss(half.requires_grad_(), labels, unknown)
    found.backward()
    assert found.dtype == torch.float32 and found.item() == pytest.approx(value, rel=1e-5)
    np.testing.assert_allclose(half.grad.double().numpy(), gradient, rtol=1e-2, atol=1e-6)


@pytest.fixture
def client(small_config, tmp_path):
    """The received model, its trainer and the message of a first round, in float64."""
    loss = {"type": "FedSeg", "threshold": 0.1}
    with pytest.warns(UserWarning, match="have no image"):
        config = changed(small_config, tmp_path, local_loss=loss, dtype="float64")
        config["model"]["loss"] = {"type": "OHEMCrossEntropy", "ratio": 0.5}
        trainer = build_trainer(config)
    client = SimpleNamespace(
        **{"id": "building_0", "index": 1, "model": trainer.model, "flat": trainer.flat},
        **{"w": trainer.flat.w, "start": trainer.flat.w.clone(), "autocast": trainer.autocast},
        once_per_batch=lambda name, compute: compute(),
    )
    client.prepare = partial(trainer.prepare, client)
    assert trainer.data.clients == ["road_0", "building_0", "sky_0"]
    trainer.model.train()
    return client, trainer.local_loss, trainer.data


def test_fedseg_equals_its_transcription(client):
    """Prototypes, both contrasts and the background together, at another model than received."""
    client, loss, data = client
    model, net = client.model, client.model.network
    loss.receive(client)

    def run(inputs):  # BatchNorm by the batch, as in training
        hidden = net[0](inputs)
        mean, var = hidden.mean((0, 2, 3)), hidden.var((0, 2, 3), unbiased=False)
        scale = [v.view(-1, 1, 1) for v in (mean, (var + net[1].eps).sqrt(), *net[1].parameters())]
        hidden = ((hidden - scale[0]) / scale[1] * scale[2] + scale[3]).relu()
        return net[3](hidden), F.normalize(model.projection(hidden), dim=1)

    batches = [*data.sample_batches([data.indices["building_0"]])]  # three images: 2 + 1 is one
    batches = [model.data_preprocessor(batch) for batch in batches]
    prototypes = []
    guesses = []
    with torch.no_grad():
        for batch in batches:
            logits, vectors = run(batch["inputs"])
            best, guess = logits.softmax(1).max(1)
            erased = batch["data_samples"] == ERASED
            guess = torch.where(erased & (best > 0.1), guess, -1)
            guesses.append(guess)
            labels = torch.where(erased, guess, batch["data_samples"])
            for vector, label in zip(vectors, labels, strict=True):
                for c in range(16):
                    if (label == c).any():
                        prototypes.append((vector[:, label == c].mean(1), c))
    p, classes = torch.stack([v for v, _ in prototypes]), [c for _, c in prototypes]
    torch.testing.assert_close(loss.prototypes, p)
    assert loss.classes.tolist() == classes and len(set(classes)) > 2

    client.w.mul_(0.9)
    client.batch, guess = batches[0], guesses[0]
    loss.anchors = 10**6  # all
    found = loss.loss(client)
    logits, vectors = run(client.batch["inputs"])
    labels = client.batch["data_samples"]
    building, unknown = 2, [c for c in range(16) if c != 2]
    z = logits.movedim(1, -1)
    costs = torch.where(
        labels == building,
        z.logsumexp(-1) - z[..., building],
        z.logsumexp(-1) - z[..., unknown].logsumexp(-1),
    )
    costs = torch.where(labels == IGNORED, 0.0, costs).flatten(1)
    hard = costs.topk(costs.shape[1] // 2, 1).values.mean()
    terms = []
    for target in (torch.where(labels == building, building, -1), guess):
        at = target != -1
        anchors = vectors.movedim(1, -1)[at]
        terms.append(transcribed_contrast(anchors, target[at].tolist(), p, classes, 0.07))
    expected = hard + sum(terms)
    assert found.item() == pytest.approx(float(expected), rel=1e-9)
    parameters = [*model.parameters()]
    for one, other in zip(
        torch.autograd.grad(found, parameters),
        torch.autograd.grad(expected, parameters),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-12)


def test_absent_classes():
    labels = torch.tensor([[[0, 3, ERASED, IGNORED, -1, 300]]])
    assert absent_classes(labels, 5).tolist() == [False, True, True, False, True]


def test_a_batch_with_every_class_leaves_none_for_erased_pixels(client):
    client, loss, _ = client
    loss.known = "batch"
    loss.receive(client)
    labels = torch.arange(16).repeat(2).view(1, 4, 8)
    labels[0, 0, 0] = ERASED
    logits = torch.randn(1, 16, 4, 8, generator=torch.Generator().manual_seed(0)).double()
    logits.requires_grad_()
    found = loss._labels_loss([logits], labels)
    expected = client.model.losses([logits], labels)["loss_main"]
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad(value, logits)[0] for value in (found, expected)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(
    ("loss", "partition"),
    [
        # every client knows every class: nothing is erased
        (
            {"contrast": 0.0, "pseudo": 0.0},
            {"type": "ClassHeterogeneous", "classes_per_client": 16},
        ),
        ({"background": False, "contrast": 0.0, "pseudo": 0.0}, {"type": "ClassHeterogeneous"}),
    ],
)
@pytest.mark.filterwarnings("ignore:partition")
def test_without_weight_or_erased_labels_it_is_the_plain_loss(
    small_config, tmp_path, loss, partition
):
    options = {"train_dataloader": {"partition": {"_delete_": True, **partition}}}
    plain = changed(small_config, tmp_path / "plain", **options)
    other = changed(
        small_config, tmp_path / "other", local_loss={"type": "FedSeg", **loss}, **options
    )
    weights = [toyseg.train(config).server.w for config in (plain, other)]
    assert torch.equal(*weights)


@pytest.mark.filterwarnings("ignore:partition")
def test_losses_that_do_not_fit_are_refused(small_config, tmp_path):
    loss = {"_delete_": True, "type": "FocalLoss"}
    config = changed(small_config, tmp_path, local_loss={"type": "FedSeg"}, model={"loss": loss})
    with pytest.raises(
        ConfigError, match=r"local_loss\.background: needs model\.loss CrossEntropy"
    ):
        build_trainer(config)
    with pytest.raises(ConfigError, match=r"local_loss: FedSeg is for segmentation"):
        build_trainer(toyseg.settings(tmp_path, local_loss={"type": "FedSeg"}))
