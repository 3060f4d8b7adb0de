"""Synthetic shapes: the same bytes however they are drawn, and as hard as they are meant to be."""

import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fedseg.data_prep import synthetic_shapes
from fedseg.data_prep.synthetic_shapes import CLASSES, labels_of, render_images, write_shapes
from fedseg.datasets import ImageArrays, SyntheticShapesDataset
from fedseg.datasets.arrays import images_checksum, shared_images
from fedseg.models import CNN


@pytest.fixture(scope="module")
def images():
    """Training and test images with their labels, as tensors: float [N, 3, 32, 32], mean 0."""
    found = {}
    for split, count in (("train", 10_000), ("test", 2_000)):
        pixels = torch.from_numpy(render_images(range(count), split)).permute(0, 3, 1, 2)
        found[split] = (
            (pixels.float() / 255 - 0.5) / 0.25,
            torch.from_numpy(labels_of(range(count))),
        )
    return found


def test_an_image_depends_on_seed_split_and_index_alone(monkeypatch):
    indices = [0, 7, 300, 11, 299, 12]
    alone = np.concatenate([render_images([i]) for i in indices])
    np.testing.assert_array_equal(render_images(indices), alone)
    np.testing.assert_array_equal(render_images(range(301))[indices], alone)
    monkeypatch.setattr(synthetic_shapes, "CHUNK", 4)
    np.testing.assert_array_equal(render_images(indices), alone)
    for other in (render_images(indices, "test"), render_images(indices, seed=1)):
        assert (other != alone).any(axis=(1, 2, 3)).all()


def test_form_and_balance():
    images = render_images(range(200))
    assert images.shape == (200, 32, 32, 3) and images.dtype == np.uint8
    assert images.flags.c_contiguous
    labels = labels_of(range(200))
    assert labels.dtype == np.int64
    assert np.bincount(labels).tolist() == [20] * len(CLASSES)
    assert len(set(CLASSES)) == 10
    # no two the same, all with something on them
    assert len({image.tobytes() for image in images}) == 200
    assert images.std(axis=(1, 2, 3)).min() > 5
    assert render_images([]).shape == (0, 32, 32, 3)


def test_a_prepared_folder_that_the_data_sets_read(tmp_path):
    index = write_shapes(tmp_path / "a", train=50, test=20)
    assert index["synthetic"] is True and index["classes"] == list(CLASSES)
    assert json.loads((tmp_path / "a" / "dataset.json").read_text()) == index
    write_shapes(tmp_path / "b", train=50, test=20)
    for path in sorted((tmp_path / "a").iterdir()):
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
    train, test = (SyntheticShapesDataset(tmp_path / "a", split) for split in ("train", "test"))
    assert isinstance(train, ImageArrays)
    np.testing.assert_array_equal(train.images, render_images(range(50)))
    np.testing.assert_array_equal(test.images, render_images(range(20), "test"))
    assert train.split_checksum == images_checksum(train.images, train.labels)
    # a longer set begins with the shorter one
    write_shapes(tmp_path / "long", train=80, test=20)
    longer = SyntheticShapesDataset(tmp_path / "long", "train")
    np.testing.assert_array_equal(longer.images[:50], train.images)


def test_train_and_test_share_no_image(images):
    train, test = (images[split][0].numpy() for split in ("train", "test"))
    assert not shared_images(train, test)


@pytest.mark.figures
def test_a_linear_model_of_the_pixels_stays_far_below_60_percent(images):
    """Multinomial logistic regression by L-BFGS, which needs whitened pixels to get there."""
    (x, labels), (x_test, labels_test) = images["train"], images["test"]
    x, x_test = x.flatten(1), x_test.flatten(1)
    x, x_test = x - x.mean(0), x_test - x.mean(0)
    # The ridge also penalizes directions in which pixels hardly differ: without it test images are
    # classified worse.
    factor = torch.linalg.cholesky(x.T @ x / len(x) + 10 * torch.eye(x.shape[1]))
    x, x_test = (
        torch.linalg.solve_triangular(factor.T, y, upper=True, left=False) for y in (x, x_test)
    )
    w = torch.zeros(x.shape[1], len(CLASSES), requires_grad=True)
    b = torch.zeros(len(CLASSES), requires_grad=True)
    optimizer = torch.optim.LBFGS([w, b], max_iter=12, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        total = F.cross_entropy(x @ w + b, labels) + 0.01 * w.square().sum() / 2
        total.backward()
        return total

    optimizer.step(loss)
    loss()
    assert max(w.grad.abs().max(), b.grad.abs().max()) < 2e-3  # it was fitted
    assert 15 < accuracy(x_test @ w + b, labels_test) < 55


@pytest.mark.figures
def test_the_cnn_passes_90_percent(images):
    """One epoch of small batches, crops and flips; the rate rises for a fifth of it, then falls."""
    (x, labels), (x_test, labels_test) = images["train"], images["test"]
    torch.manual_seed(0)
    model = CNN(len(CLASSES)).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9, nesterov=True)
    batches = torch.randperm(len(x)).view(-1, 16)
    for step, rows in enumerate(batches, start=1):
        share = step / len(batches)
        optimizer.param_groups[0]["lr"] = 0.02 * min(5 * share, 1.25 * (1 - share))
        batch = F.pad(x[rows], (4, 4, 4, 4))
        top, left = torch.randint(0, 9, (2,)).tolist()
        batch = batch[:, :, top : top + 32, left : left + 32]
        batch = batch.flip(3) if torch.rand(()) < 0.5 else batch
        batch = batch.contiguous(memory_format=torch.channels_last)
        loss = model(batch, labels[rows], mode="loss")["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        logits = torch.cat([model(part, mode="tensor") for part in x_test.split(500)])
    assert accuracy(logits, labels_test) > 90


def accuracy(logits, labels):
    """In percent."""
    return 100 * (logits.argmax(dim=1) == labels).float().mean().item()
