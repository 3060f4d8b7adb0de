"""What clients see: the contact sheet has the augmented images that training reads."""

import numpy as np
import pytest
import torch
from drawn_labels import overprinted
from PIL import Image

import fedseg
from fedseg.core.client_data import Job
from fedseg.datasets.arrays import write_images
from fedseg.report.browse import PADDING, ClientImages, draw_classes, draw_maps
from fedseg.report.segmentation import OPACITY, read_classes
from fedseg.runner.build import build_trainer
from fedseg.runner.experiment import load_config


def first_batch(config, client: int) -> tuple[torch.Tensor, torch.Tensor]:
    trainer = build_trainer(config)
    job = Job(1, 0, client)
    trainer.data.start([job])
    batch = next(trainer.data.batches(job))
    return batch["inputs"], batch["data_samples"]


def test_a_setting_with_label_maps(small_config, tmp_path):
    config = load_config(small_config)
    out = fedseg.browse(config, out=tmp_path / "sheet.png", clients=1, images=3)
    with Image.open(out) as picture:
        assert picture.format == "PNG" and picture.width > 1000


def test_images_and_maps_over_them_are_those_of_training(small_config):
    images, labels = first_batch(load_config(small_config), client=1)
    classes = read_classes({"classes": [f"class {number}" for number in range(20)]})
    rows = [ClientImages(title="a", images=images[:2], labels=labels[:2])]
    left, right = draw_maps(rows, classes, "").axes
    height, width = labels.shape[1:]
    inner = (slice(PADDING, PADDING + height), slice(PADDING, PADDING + width))
    pixels = images[0].permute(1, 2, 0).numpy()
    assert (left.images[0].get_array()[inner] == pixels).all()
    mixed = OPACITY * pixels + (1 - OPACITY) * classes.table()[labels[0].numpy()]
    np.testing.assert_allclose(right.images[0].get_array()[inner], mixed, atol=1)
    assert (right.images[0].get_array()[0] == 255).all()  # between images nothing is painted


@pytest.fixture
def shapes(tmp_path):
    """A prepared folder of 120 images in ten classes."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (120, 32, 32, 3), dtype=np.uint8)
    both = images, np.arange(120) % 10
    write_images(tmp_path / "data", "shapes", list("<bcdefghij"), both, both, allow_shared=True)
    return tmp_path / "data"


def test_mixed_images_have_the_shares_of_their_classes(shapes, tmp_path):
    options = [f"data_root={shapes}", "train_dataloader.partition.num_clients=3"]
    out = fedseg.browse("demo_shapes", ["mixup"], out=tmp_path / "mix.pdf", options=options)
    assert out.read_bytes().startswith(b"%PDF")
    images, labels = first_batch(load_config("demo_shapes", ["mixup"], options=options), client=0)
    names = {"classes": list("<bcdefghij")}
    row = ClientImages(title="0: 40 images", images=images[:2], labels=labels[:2])
    (axes,) = draw_classes([row], read_classes(names), "").axes
    assert axes.get_title(loc="left") == "0: 40 images"
    texts = [label.get_text() for label in axes.get_xticklabels()]
    assert len(texts) == 2
    for text, shares in zip(texts, labels[:2], strict=True):
        assert len(text.split("\n")) == int((shares > 0).sum())


def test_long_names_of_classes_do_not_overprint():
    classes = read_classes({"classes": [f"a class with a long name {n}" for n in range(300)]})
    rows = []
    for client in range(10):
        images = torch.zeros(6, 1, 28, 28)
        labels = torch.arange(6) * 59
        rows.append(ClientImages(title=f"client {client}", images=images, labels=labels))
    for axes in draw_classes(rows, classes, "title").axes:
        assert overprinted(axes) == []
