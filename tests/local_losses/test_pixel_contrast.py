"""The contrast of pixels against its transcription, and which pixels take part."""

import pytest
import torch
import torch.nn.functional as F
from pixel_runs import ERASED, IGNORED, transcribed_contrast

from fedseg.local_losses.pixel_contrast import NONE, choose_anchors, contrast, small_labels


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


LABELS = torch.tensor([NONE] * 50 + [0] * 3 + [2] * 100 + [5] * 100)


def test_anchors_are_as_many_of_each_class():
    pixels, classes = choose_anchors(LABELS, 60, 7)
    assert len(pixels) == len(classes) == 60
    chosen = pixels[classes != NONE]
    assert len(set(chosen.tolist())) == len(chosen) == 43
    assert torch.equal(LABELS[chosen], classes[classes != NONE])
    assert torch.bincount(LABELS[chosen]).tolist() == [3, 0, 20, 0, 0, 20]


def test_every_labelled_pixel_is_an_anchor_within_the_limit():
    pixels, classes = choose_anchors(LABELS, 10**6, 7)
    assert sorted(pixels[classes != NONE].tolist()) == list(range(50, 253))


def test_more_classes_than_anchors_have_one_each():
    labels = torch.arange(9).repeat(4)
    pixels, classes = choose_anchors(labels, 4, 9)
    assert sorted(classes.tolist()) == list(range(9))
    assert torch.equal(labels[pixels], classes)


def test_without_a_label_there_is_no_anchor():
    _, classes = choose_anchors(torch.full((20,), NONE), 5, 4)
    assert (classes == NONE).all()


def test_each_pixel_of_a_class_is_an_anchor_equally_often():
    """20 of 100 pixels: 500 draws make 100 +- 9 of each; chi squared of 99 degrees below 150."""
    torch.manual_seed(0)
    counts = torch.zeros(len(LABELS))
    for _ in range(500):
        pixels, classes = choose_anchors(LABELS, 60, 7)
        counts[pixels[classes != NONE]] += 1
    assert not counts[:50].any()
    assert (counts[50:53] == 500).all()
    variance = 500 * 0.2 * 0.8
    for of_class in (counts[53:153], counts[153:]):
        assert of_class.sum() == 500 * 20
        # draws without replacement: 99 / 100 of the binomial's sum of squares
        assert 60 < ((of_class - 100).square() / variance).sum() < 150


def test_the_contrast_leaves_places_without_an_anchor_out():
    generator = torch.Generator().manual_seed(0)
    vectors = F.normalize(torch.randn(253, 3, generator=generator, dtype=torch.float64))
    prototypes = F.normalize(torch.randn(4, 3, generator=generator, dtype=torch.float64))
    of_classes = torch.tensor([0, 2, 5, 5])
    pixels, classes = choose_anchors(LABELS, 60, 7)
    found = contrast(vectors[pixels], classes, prototypes, of_classes, 0.07)
    chosen = classes != NONE
    expected = transcribed_contrast(
        vectors[pixels[chosen]], classes[chosen].tolist(), prototypes, of_classes.tolist(), 0.07
    )
    assert found.item() == pytest.approx(float(expected), rel=1e-12)


def test_labels_of_features_keep_void_and_erased_apart():
    labels = torch.tensor([[[1, 1, ERASED, ERASED, IGNORED, IGNORED]] * 2])
    assert small_labels(labels, torch.Size([1, 3]), 5).tolist() == [[[1, ERASED, -1]]]
