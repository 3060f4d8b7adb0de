"""Pixel losses against an independent NumPy computation, finite differences and autograd."""

from contextlib import nullcontext
from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from mmseg.models.losses import OhemCrossEntropy as MMSegmentationOhem
from torch.overrides import TorchFunctionMode

from fedseg.errors import DataError
from fedseg.models import CrossEntropy, OHEMCrossEntropy
from fedseg.models.losses import (
    Dice,
    DiceCrossEntropy,
    Focal,
    LovaszSoftmax,
    OhemCrossEntropy,
)

IGNORE = 255
LOSSES = (OHEMCrossEntropy(0.25), CrossEntropy())


def random_case(seed, images=3, classes=5, low=(3, 4), size=(13, 17), dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    logits = 4 * torch.randn(images, classes, *low, generator=generator, dtype=dtype)
    labels = torch.randint(0, classes, (images, *size), generator=generator)
    labels[torch.rand(labels.shape, generator=generator) < 0.2] = IGNORE
    return logits, labels


def numpy_pixel_losses(logits, labels):
    """[B, H W]: minus log of the softmax at the label, 0 where ignored, from resized logits."""
    resized = F.interpolate(logits, labels.shape[1:], mode="bilinear").numpy()
    exponentials = np.exp(resized - resized.max(axis=1, keepdims=True))
    softmax = exponentials / exponentials.sum(axis=1, keepdims=True)
    losses = np.zeros(labels.shape)
    for index, label in np.ndenumerate(labels.numpy()):
        if label != IGNORE:
            losses[index] = -np.log(softmax[index[0], label, index[1], index[2]])
    return losses.reshape(len(losses), -1)


def numpy_ohem(logits, labels, ratio):
    losses = np.sort(numpy_pixel_losses(logits, labels), axis=1)
    k = max(1, int(ratio * losses.shape[1]))
    return losses[:, -k:].mean(axis=1).mean()


def gradient_of(function, logits, labels):
    logits = logits.clone().requires_grad_()
    function(logits, labels).backward()
    return logits.grad


def test_ohem_equals_numpy():
    for ratio in (0.01, 0.25, 0.9, 1.0):
        logits, labels = random_case(0)
        expected = numpy_ohem(logits, labels, ratio)
        loss = OHEMCrossEntropy(ratio)
        assert float(loss(logits, labels)) == pytest.approx(expected, rel=1e-12)


def test_the_share_of_hard_pixels_is_exact():
    """0.29 * 100 as a float product is 28.999999999999996."""
    assert OHEMCrossEntropy(0.29).num_hard(100) == 29


def test_ohem_counts_ignored_pixels_as_zeros():
    """With fewer labeled pixels than hard ones, the mean still runs over floor(ratio H W)."""
    logits, labels = random_case(1, images=1, size=(8, 8))
    labels[:] = IGNORE
    labels[0, 0, :3] = 1
    expected = numpy_pixel_losses(logits, labels).sum() / 16
    assert float(OHEMCrossEntropy(0.25)(logits, labels)) == pytest.approx(expected, rel=1e-12)


def test_cross_entropy_averages_over_labeled_pixels_of_the_batch():
    logits, labels = random_case(2)
    labels[0, 2:] = IGNORE  # images of unequal weight
    expected = numpy_pixel_losses(logits, labels).sum() / (labels != IGNORE).sum().item()
    assert float(CrossEntropy()(logits, labels)) == pytest.approx(expected, rel=1e-12)


def test_gradient_equals_finite_differences():
    for loss, size in product(LOSSES, [(13, 17), (3, 4)]):  # resized, or at the labels' size
        logits, labels = random_case(4, size=size)
        leaf = logits.requires_grad_()
        assert torch.autograd.gradcheck(lambda z, f=loss, y=labels: f(z, y), leaf)


def test_extreme_logits_neither_overflow_nor_lose_precision():
    for scale in (1.0, 40.0, 1000.0):
        logits, labels = random_case(5, dtype=torch.float32)
        logits = logits * scale
        loss = OHEMCrossEntropy(0.25)
        expected = float(loss(logits.double(), labels))
        assert float(loss(logits, labels)) == pytest.approx(expected, rel=1e-5)
        gradient = gradient_of(loss, logits, labels)
        reference = gradient_of(loss, logits.double(), labels)
        torch.testing.assert_close(gradient.double(), reference, rtol=1e-3, atol=1e-5)


def test_ties_share_the_weight_and_the_value_is_exact():
    """All pixels alike: every one is at the threshold, so each gets 1 / (H W) of the weight."""
    logits = torch.tensor([1.0, -1.0, 0.5], dtype=torch.float64).view(1, 3, 1, 1)
    labels = torch.zeros(1, 4, 5, dtype=torch.int64)
    loss = OHEMCrossEntropy(0.25)
    expected = F.cross_entropy(logits, labels[:, :1, :1])
    assert float(loss(logits, labels)) == pytest.approx(float(expected), rel=1e-14)
    onehot = torch.tensor([1.0, 0, 0], dtype=torch.float64).view(1, 3, 1, 1)
    torch.testing.assert_close(gradient_of(loss, logits, labels), logits.softmax(1) - onehot)


def test_some_ties():
    """k = 5 of 20: two pixels lie above, six tie for the remaining three places."""
    logits = torch.zeros(1, 2, 4, 5, dtype=torch.float64)
    margins = torch.tensor([3.0] * 2 + [1.0] * 6 + [-2.0] * 12, dtype=torch.float64)
    logits[0, 1] = margins.view(4, 5)  # labels are all 0, so a high margin is a high loss
    labels = torch.zeros(1, 4, 5, dtype=torch.int64)
    loss = OHEMCrossEntropy(0.25)
    high, tied = F.softplus(torch.tensor([3.0, 1.0], dtype=torch.float64))
    weights = torch.tensor([1 / 5] * 2 + [3 / 6 / 5] * 6 + [0.0] * 12, dtype=torch.float64)
    expected = weights.view(4, 5) * torch.sigmoid(logits[0, 1])
    value = float(loss(logits, labels))
    assert value == pytest.approx(float(2 * high + 3 * tied) / 5, rel=1e-14)
    torch.testing.assert_close(gradient_of(loss, logits, labels)[0, 1], expected)


def test_bfloat16_logits_give_a_float32_loss_also_under_autocast():
    logits, labels = random_case(7, dtype=torch.float32)
    logits = logits.bfloat16()
    loss = OHEMCrossEntropy(0.25)
    with torch.autocast("cpu", torch.bfloat16):
        value = loss(logits, labels)
    assert value.dtype == torch.float32
    assert float(value) == pytest.approx(numpy_ohem(logits.float(), labels, 0.25), rel=1e-5)
    assert gradient_of(loss, logits, labels).dtype == torch.bfloat16


def test_second_derivatives_equal_finite_differences():
    logits, labels = random_case(10, images=2, size=(6, 7), low=(2, 3))
    loss = CrossEntropy()
    assert torch.autograd.gradgradcheck(lambda z: loss(z, labels), logits.requires_grad_())


def test_nan_logits_give_a_nan_loss():
    logits, labels = random_case(11)
    logits[0, 0, 0, 0] = float("nan")
    assert OHEMCrossEntropy(0.25)(logits, labels).isnan()


def test_labels_that_are_no_integers_are_refused():
    for loss in (CrossEntropy(), OHEMCrossEntropy()):
        with pytest.raises(DataError, match=r"integers, not torch\.float32"):
            loss(torch.zeros(1, 3, 2, 2), torch.full((1, 2, 2), 0.9))


def test_label_beyond_the_classes_is_named():
    logits, labels = random_case(12, classes=5)
    labels[0, 0, 0] = 5
    with pytest.raises(DataError, match=r"data_samples: label 5 .* 5 classes .*model\.num_classes"):
        CrossEntropy()(logits, labels)


@pytest.mark.parametrize("loss", [CrossEntropy, OHEMCrossEntropy])
def test_a_negative_label_is_refused_unless_it_is_the_ignored_one(loss):
    logits, labels = random_case(12, classes=5)
    expected = loss()(logits, labels)
    labels[labels == IGNORE] = -1
    torch.testing.assert_close(loss(ignore_index=-1)(logits, labels), expected)
    with pytest.raises(DataError, match=r"data_samples: label -1 .*model\.loss\.ignore_index"):
        loss()(logits, labels)
    labels[0, 0, 0] = -2
    with pytest.raises(DataError, match=r"data_samples: label -2 "):
        loss(ignore_index=-1)(logits, labels)


def transcribed(loss, z, y):
    """Dice, Lovasz and focal loss over the labeled pixels, differentiable."""
    if isinstance(loss, DiceCrossEntropy):  # focal loss of gamma 0 is cross-entropy
        return transcribed(Focal(0), z, y) + transcribed(Dice(), z, y)
    p, y = z.softmax(1).movedim(1, -1)[y != IGNORE], y[y != IGNORE]
    own = p[torch.arange(len(y)), y]
    if isinstance(loss, Focal):
        return (-((1 - own) ** loss.gamma) * own.log()).mean()
    of_classes = []
    for c in y.unique():
        truth = (y == c).to(p.dtype)
        if isinstance(loss, Dice):
            of_classes.append(1 - 2 * own[y == c].sum() / (p[:, c] ** 2 + truth).sum())
            continue
        errors, order = (truth - p[:, c]).abs().sort(descending=True)
        total, before = 0.0, 0.0
        for k in range(1, len(y) + 1):  # 1 - IoU if the k largest errors are errors
            wrong = torch.zeros(len(y))
            wrong[order[:k]] = 1
            missed, added = (wrong * truth).sum(), (wrong * (1 - truth)).sum()
            jaccard = 1 - (truth.sum() - missed) / (truth.sum() + added)
            total, before = total + errors[k - 1] * (jaccard - before), jaccard
        of_classes.append(total)
    return sum(of_classes) / len(of_classes)


REGIONS = (Focal(), Focal(0.5), Dice(), DiceCrossEntropy(), LovaszSoftmax())
PIXELS = (*LOSSES, *REGIONS, OhemCrossEntropy(min_kept=20))


@pytest.mark.parametrize("loss", PIXELS, ids=repr)
@pytest.mark.parametrize("labelled", [0, 1])
@pytest.mark.parametrize("scale", [1, 1000])
def test_batches_of_hardly_a_labelled_pixel_have_a_finite_gradient(loss, labelled, scale):
    """Of none at all the loss is 0; a single pixel may be hard, or predicted with certainty."""
    logits, labels = random_case(14, low=(7, 5), size=(7, 5))
    labels[:] = IGNORE
    labels[0, 0, :labelled] = logits[0, :, 0, 0].argmax()
    logits = (scale * logits).requires_grad_()
    value = loss(logits, labels)
    value.backward()
    assert value.isfinite() and logits.grad.isfinite().all()
    if not labelled:
        assert value == 0 and not logits.grad.any()


@pytest.mark.parametrize(("thres", "min_kept"), [(0.7, 100), (0.01, 30), (0.0, 1), (0.5, 100_000)])
def test_ohem_of_mmsegmentation(thres, min_kept):
    logits, labels = random_case(15, low=(13, 17))
    theirs = MMSegmentationOhem(thres=thres, min_kept=min_kept)
    ours = OhemCrossEntropy(thres=thres, min_kept=min_kept)
    assert ours(logits, labels).item() == pytest.approx(theirs(logits, labels).item(), rel=1e-12)
    torch.testing.assert_close(
        gradient_of(ours, logits, labels), gradient_of(theirs, logits, labels)
    )
    assert ours(logits.bfloat16(), labels).dtype == torch.float32


@pytest.mark.parametrize("loss", PIXELS, ids=repr)
def test_losses_have_deterministic_kernels_and_wait_for_no_device(monkeypatch, loss):
    """PyTorch names what has no deterministic kernel on CUDA; meta tensors have no values."""

    class Refused(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            if function is F.cross_entropy:
                assert kwargs["reduction"] == "none"
            result = function(*args, **kwargs)
            if function is torch.Tensor.cumsum:
                assert not result.is_floating_point()
            return result

    monkeypatch.setattr(torch, "autocast", lambda *_, enabled: nullcontext())  # it knows no meta
    logits = torch.randn(2, 5, 8, 8, device="meta", requires_grad=True)
    labels = torch.zeros(2, 8, 8, dtype=torch.int64, device="meta")
    with Refused():
        loss(logits, labels).backward()
    assert logits.grad.shape == logits.shape


@pytest.mark.parametrize("loss", REGIONS, ids=repr)
def test_losses_of_regions_equal_their_transcriptions(loss):
    logits, labels = random_case(3, low=(7, 5), size=(7, 5))
    labels[labels == 3] = 2  # a class that is not there
    found, expected = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    value, other = loss(found, labels), transcribed(loss, expected, labels)
    assert value.item() == pytest.approx(other.item(), rel=1e-10)
    value.backward()
    other.backward()
    torch.testing.assert_close(found.grad, expected.grad, rtol=1e-7, atol=1e-12)
    assert loss(logits.bfloat16(), labels).dtype == torch.float32
    assert loss(logits, torch.full_like(labels, IGNORE)).item() == 0
