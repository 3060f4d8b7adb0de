"""FedSeg and prototypes of pixels: losses against float64 transcriptions, and runs."""

from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import toyseg
from algorithm_table import ENTRIES, PIXEL_LOSSES
from mmengine.config import Config
from toyalgorithms import train_stopped

from fedseg.errors import ConfigError, DataError
from fedseg.local_losses.class_weights import ClassWeights, median_frequency_weights
from fedseg.local_losses.pixel_contrast import choose_anchors, contrast, small_labels
from fedseg.local_losses.self_training import confident
from fedseg.models import CrossEntropy, OHEMCrossEntropy, Segmentor
from fedseg.runner.build import build_trainer

ERASED, IGNORED = 254, 255
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


def transcribed_contrast(a, la, p, lp, t):
    total = []
    for x, y in zip(a, la, strict=True):
        score = [x @ q / t for q in p]
        own = [s for s, c in zip(score, lp, strict=True) if c == y]
        others = sum((torch.exp(s) for s, c in zip(score, lp, strict=True) if c != y), start=0.0)
        if own:
            terms = [-torch.log(torch.exp(s) / (torch.exp(s) + others)) for s in own]
            total.append(sum(terms) / len(terms))
    return sum(total) / max(1, len(total))


@pytest.mark.parametrize("classes", [[0, 0, 1, 2, 2, 2], [1] * 6, [3] * 6])
def test_contrast_equals_its_transcription(classes):
    generator = torch.Generator().manual_seed(0)
    a, p = (torch.randn(n, 3, generator=generator, dtype=torch.float64) for n in (7, 6))
    a, p = F.normalize(a).requires_grad_(), F.normalize(p)
    labels = torch.tensor([0, 0, 1, 1, 2, 4, 1])
    found = contrast(a, labels, p, torch.tensor(classes), 0.07)
    expected = transcribed_contrast(a, labels.tolist(), p, classes, 0.07)
    assert found.item() == pytest.approx(float(expected), rel=1e-12)
    (gradient,) = torch.autograd.grad(found, a)
    if expected:
        torch.testing.assert_close(gradient, torch.autograd.grad(expected, a)[0])
    else:
        assert not gradient.any()


def test_anchors_are_as_many_of_each_class():
    labels = torch.tensor([-1] * 50 + [0] * 3 + [2] * 100 + [5] * 100)
    chosen = choose_anchors(labels, 60)
    assert len(set(chosen.tolist())) == len(chosen) == 43
    assert torch.bincount(labels[chosen]).tolist() == [3, 0, 20, 0, 0, 20]


def test_the_share_of_confident_pixels_is_exact():
    """7 of 100 pixels; 0.07 * 100 as a float product is 7.000000000000001."""
    logits = torch.stack([torch.linspace(1, 2, 100), torch.zeros(100)]).view(1, 2, 10, 10)
    found = confident(logits, torch.ones(1, 10, 10, dtype=torch.bool), 1.0, 0.07)
    assert (found == 0).sum() == 7 and (found == -1).sum() == 93


@pytest.mark.parametrize(("threshold", "share"), [(0.9, 0.66), (0.4, 0.0), (1.0, 0.5)])
def test_confident_pixels_equal_their_transcription(threshold, share):
    generator = torch.Generator().manual_seed(1)
    logits = 2 * torch.randn(2, 3, 6, 7, generator=generator, dtype=torch.float64)
    erased = torch.rand(2, 6, 7, generator=generator) < 0.7
    found = confident(logits, erased, threshold, share)
    probability = logits.softmax(1).numpy()
    for image in range(2):
        best, guess = probability[image].max(0), probability[image].argmax(0)
        for at in np.ndindex(6, 7):
            rivals = best[(guess == guess[at]) & erased[image].numpy()]
            rank = (rivals > best[at]).sum()
            counts = best[at] > threshold or rank < np.ceil(share * len(rivals))
            expected = guess[at] if counts and erased[image][at] else -1
            assert int(found[image][at]) == expected, (image, at)


# ---------------------------------------------------------------- runs


@pytest.fixture(autouse=True)
def network(small_config, monkeypatch):
    monkeypatch.syspath_prepend(str(small_config.parent))


def changed(small_config: Path, work_dir: Path, **changes) -> dict:
    """Three clients of a class each: sky, building, road; two of them in a round."""
    config = Config.fromfile(small_config).to_dict()
    base = {
        "work_dir": str(work_dir / "run"),
        "log_level": "ERROR",
        "default_hooks": {"progress": None, "pictures": None, "checkpoint": {"interval": 1}},
        "train_dataloader": {"partition": {"_delete_": True, "type": "ClassHeterogeneous"}},
        "model": {"loss": {"_delete_": True, "type": "CrossEntropy"}, "projection": [6, 4]},
        "train_cfg": {"max_rounds": 2},
        "val_dataloader": None,
        "val_evaluator": None,
    }
    return toyseg.merge(toyseg.merge(config, base), changes)


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

    batches = [*data.sample_batches([data.indices["building_0"][i : i + 2] for i in (0, 2)])]
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


def test_classes_of_the_batch(client):
    client, loss, _ = client
    loss.known = "batch"
    loss.receive(client)
    labels = torch.tensor([[[0, 3, ERASED, IGNORED]]])
    assert torch.nonzero(~loss._unknown(labels)).flatten().tolist() == [0, 3]
    assert loss._unknown(torch.arange(16).view(1, 4, 4)) is None


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


def transcribed_weights(label_maps, classes):
    """Median frequency balancing, Eigen and Fergus, ICCV 2015, section 4.3; 255 is no label."""
    frequencies = []
    for c in range(classes):
        with_it = [labels[labels != 255] for labels in label_maps if (labels == c).any()]
        frequencies.append(np.mean(np.concatenate(with_it) == c))
    return np.median(frequencies) / frequencies


def test_median_frequency_balancing():
    """Of two images with 10, 90, 0, 0 and with 0, 150, 40, 10 pixels of four classes."""
    counts = np.array([[10, 90, 0, 0], [0, 150, 40, 10]])
    label_maps = [np.repeat(np.arange(4), of_image) for of_image in counts]
    np.testing.assert_allclose(transcribed_weights(label_maps, 4), [1.5, 0.1875, 0.75, 3.0])
    pixels, image_pixels = counts.sum(0), ((counts > 0) * counts.sum(1, keepdims=True)).sum(0)
    sums = torch.tensor(pixels / 1e6), torch.tensor(image_pixels / 1e6)
    found = median_frequency_weights(*sums, most=10.0)
    np.testing.assert_allclose(found, [1.5, 0.1875, 0.75, 3.0])
    np.testing.assert_allclose(median_frequency_weights(*sums, 2.0), [1.5, 0.1875, 0.75, 2.0])
    # a fifth class that nobody has, and a first round
    padded = (torch.cat([part, torch.zeros(1)]) for part in sums)
    np.testing.assert_allclose(
        median_frequency_weights(*padded, 10.0), [1.5, 0.1875, 0.75, 3.0, 10.0]
    )
    assert median_frequency_weights(torch.zeros(3), torch.zeros(3), 10.0).tolist() == [1, 1, 1]


@pytest.mark.filterwarnings("ignore:partition")
def test_classes_weigh_by_their_frequency_over_the_participants(tmp_path):
    """In float64, two clients a round: each loss by the weights of the round before."""
    model = {"_delete_": True, "type": "Segmentor", "loss": {"type": "CrossEntropy"}}
    model |= {"network": torch.nn.Conv2d(3, 3, 1), "num_classes": None}
    data = {"dataset": {"test_mode": True}, "batch_size": 100}  # all of a client's images at once
    config = toyseg.settings(
        tmp_path,
        **toyseg.PLAIN,
        model=model,
        dtype="float64",
        local_loss={"type": "ClassWeights", "most": 1.5},
        train_dataloader=data,
        client_sampler={"clients_per_round": 2},
        train_cfg={"max_rounds": 4, "local_epochs": 1},
        default_hooks={"checkpoint": {"keep_last": 4}},
    )
    run = toyseg.train(config)
    dataset, preprocess = run.data.dataset, run.model.data_preprocessor

    def loss_by_hand(client, state_dict, weights):
        own = [dataset.items[i] for i in run.data.indices[client]]
        batch = torch.utils.data.default_collate([toyseg.sample(*item) for item in own])
        x = preprocess(batch, True)["inputs"].double().numpy()
        weight = state_dict["network.weight"].numpy()[:, :, 0, 0]
        z = np.einsum("kc,bchw->bkhw", weight, x)
        z += state_dict["network.bias"].numpy()[:, None, None]
        y = batch["data_samples"].numpy().astype(int)
        safe = np.where(y == 255, 0, y)
        ce = np.logaddexp.reduce(z, 1) - np.take_along_axis(z, safe[:, None], 1)[:, 0]
        each = np.where(y != 255, weights[safe], 0)
        return (each * ce).sum() / each.sum()

    lines = toyseg.history(config)
    for before, line in pairwise(lines):
        names = [part["client"] for part in before["participants"]]
        labels = [dataset.items[i][1] for name in names for i in run.data.indices[name]]
        weights = np.minimum(transcribed_weights(labels, 3), 1.5)
        assert weights.std() > 0.01
        start = toyseg.checkpoint(config, before["round"])["state_dict"]
        for part in line["participants"]:
            expected = loss_by_hand(part["client"], start, weights)
            assert part["loss"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("ignored", [-1, 1, 7, 255, 300])
def test_class_weights_ignore_what_the_models_loss_ignores(ignored):
    torch.manual_seed(0)
    loss = {"type": "CrossEntropy", "ignore_index": ignored}
    model = Segmentor(torch.nn.Conv2d(3, 3, 1), num_classes=None, loss=loss)
    known = [label for label in (0, 1, 2) if label != ignored]
    labels = torch.tensor([*known * 8, ERASED, ignored] * 2)[:32].view(2, 4, 4)
    batch = {"inputs": torch.randn(2, 3, 4, 4), "data_samples": labels}
    pixels = {
        "class_pixels": torch.tensor([4.0, 2, 1]),
        "class_image_pixels": torch.full((3,), 7.0),
    }
    client = SimpleNamespace(model=model, batch=batch, payloads=pixels, w=pixels["class_pixels"])
    weights, term = torch.tensor([0.5, 1, 2]), ClassWeights()
    term.receive(client)
    counts = [int((labels == c).sum()) * (c != ignored) for c in range(3)]
    marked = torch.where((labels == ERASED) | (labels == ignored), -100, labels)
    expected = F.cross_entropy(model.network(batch["inputs"]), marked, weights)
    torch.testing.assert_close(term.loss(client), expected)
    sent = {name: 1e6 * tensor for name, tensor in term.finish(client).items()}
    torch.testing.assert_close(sent["class_pixels"], torch.tensor(counts).float())
    images = torch.tensor([sum(counts) * (count > 0) for count in counts]).float()
    torch.testing.assert_close(sent["class_image_pixels"], images)  # both have all known classes
    for wrong in {-1, 3, 255, 300} - {ignored}:
        labels[0, 0, 0] = wrong
        with pytest.raises(DataError, match=rf"label {wrong} .* ignore_index {ignored}:"):
            term.loss(client)


@pytest.mark.parametrize("name", PIXEL_LOSSES)
def test_resumed_bit_for_bit(small_config, tmp_path, name):
    """With SAM, SWA and SiloBN, stopped within a client."""
    options = {"local_loss": {"type": name, **PIXEL_LOSSES[name]}, "train_cfg": {"max_rounds": 3}}
    whole, stopped = (changed(small_config, tmp_path / f, **options) for f in ("one", "two"))
    toyseg.train(whole)
    assert min(train_stopped(stopped, 7)) > 0
    assert toyseg.run_differences(whole, stopped) == []


@pytest.mark.parametrize("name", PIXEL_LOSSES)
@pytest.mark.parametrize("empty", [ERASED, IGNORED])
def test_batches_without_a_label(small_config, tmp_path, monkeypatch, name, empty):
    """Whether the labels are erased or void: the updates are finite, and so is the loss."""
    monkeypatch.setattr("fedseg.datasets.segmentation.ERASED", empty)
    config = changed(
        small_config,
        tmp_path,
        local_loss={"type": name, **PIXEL_LOSSES[name]},
        train_dataloader={
            "partition": {"_delete_": True, "type": "NaturalPartition", "unlabelled": True}
        },
    )
    toyseg.train(config)
    for line in toyseg.history(config):
        assert line["rejected"] == [] and np.isfinite(line["loss"])


@pytest.mark.filterwarnings("ignore:partition", "ignore:algorithm")
@pytest.mark.parametrize("algorithm", ["SCAFFOLD", "FedGloSS", "FedSMOO", "MIME", "MIMELite"])
def test_with_other_algorithms(small_config, tmp_path, algorithm):
    sgd = {"_delete_": True, "type": "OptimWrapper", "optimizer": {"type": "SGD", "lr": 0.05}}
    for name, options in PIXEL_LOSSES.items():
        config = changed(
            small_config,
            tmp_path / name,
            local_loss={"type": name, **options},
            algorithm={"type": algorithm, **ENTRIES[algorithm].options},
            optim_wrapper=sgd,
            train_cfg={"amp": algorithm == "MIMELite"},
        )
        assert torch.isfinite(toyseg.train(config).server.w).all()
        assert all(line["rejected"] == [] for line in toyseg.history(config))


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


def test_labels_of_features_keep_void_and_erased_apart():
    labels = torch.tensor([[[1, 1, ERASED, ERASED, IGNORED, IGNORED]] * 2])
    assert small_labels(labels, torch.Size([1, 3]), 5).tolist() == [[[1, ERASED, -1]]]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_teacher_is_the_initial_model_then_an_average(small_config, tmp_path, dtype):
    """Clients without labels: nothing of their label maps reaches the loss."""
    loss = {"type": "SelfTraining", "every": 2, "average_from": 4, "share": 0.5}
    partition = {"_delete_": True, "type": "NaturalPartition", "unlabelled": True}
    config = changed(
        small_config,
        tmp_path,
        dtype=dtype,
        local_loss=loss,
        train_dataloader={"partition": partition},
        train_cfg={"max_rounds": 6},
        averaging=None,
        default_hooks={"checkpoint": {"keep_last": 10}},
    )
    trainer = build_trainer(config)
    initial = trainer.flat.w.double()
    (batch,) = trainer.data.sample_batches([[0, 1]])
    assert set(batch["data_samples"].unique().tolist()) == {ERASED}
    toyseg.train(config)
    slots = {slot.name: slot for slot in trainer.flat.slots}
    states = [toyseg.checkpoint(config, r) for r in range(1, 7)]
    teachers = [state["server"]["state"]["teacher"] for state in states]
    assert torch.equal(teachers[0], initial)
    for name, slot in slots.items():
        w = [state["state_dict"][name].double() for state in states]
        kept = [slot.view(teacher) for teacher in teachers]
        assert torch.equal(kept[1], w[1]) and torch.equal(kept[2], w[1])
        assert torch.equal(kept[3], w[3])
        torch.testing.assert_close(kept[5], (w[3] + w[5]) / 2)
    assert all(line["loss"] > 0 for line in toyseg.history(config))
