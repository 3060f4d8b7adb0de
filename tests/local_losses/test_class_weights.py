"""Median frequency balancing by hand, and a run's weights."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import toyseg
from pixel_runs import ERASED

from fedseg.core.flat import FlatModel
from fedseg.errors import DataError
from fedseg.local_losses.class_weights import ClassWeights, median_frequency_weights
from fedseg.models import Segmentor


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
    client = SimpleNamespace(batch=batch, payloads=pixels, w=pixels["class_pixels"])
    weights, term = torch.tensor([0.5, 1, 2]), ClassWeights()
    term.setup(FlatModel(model))
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
